"""Slow tables in plain Python: every hour and every day of every topic, one after the other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from pyspark.sql import DataFrame

from routebook.system_topics import is_system_topic
from support.generated_routes import DAY, HOUR, Made, Row, at_of, day_of

UNSEEN = ("node_restarted", "lost_track")


def ms_of(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def told(rows: DataFrame) -> list[Row]:
    """Rows in the order of their texts, with instants in UTC."""
    return ordered(
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()
        }
        for row in rows.collect()
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: sorted((name, str(value)) for name, value in row.items()))


# -- what both tables look at


def spans_of(made: Made) -> Iterator[tuple[str, int, int]]:
    """Known time of nodes, its end excluded."""
    for row in made.coverage:
        yield row["node"], ms_of(row["from_at"]), ms_of(row["to_at"]) + 1


def ends_of(row: Row) -> tuple[int, int]:
    begin = ms_of(row["valid_from"])
    if row["valid_to"] is None:
        return begin, 1 << 62
    return begin, ms_of(row["valid_to"]) + (row["end_cause"] in UNSEEN)


def overlap(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int] | None:
    both = max(ours[0], theirs[0]), min(ours[1], theirs[1])
    return both if both[0] < both[1] else None


def units(made: Made, unit: int) -> dict[int, dict[str, list[tuple[int, int]]]]:
    """What each node knew of each hour or day: spans by node by the start of it."""
    known: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for node, begin, end in spans_of(made):
        for start in range(begin // unit * unit, end, unit):
            both = overlap((begin, end), (start, start + unit))
            if both is not None:
                known[start][node].append(both)
    return known


# -- topic_balance


def balance(made: Made) -> list[Row]:
    hours = {start: _teller(nodes) for start, nodes in sorted(units(made, HOUR).items())}
    rows = []
    for cluster, topic in sorted({(v["cluster"], v["topic"]) for v in made.versions}):
        before: tuple[date, Row] | None = None
        for start, (node, spans) in hours.items():
            routes = [
                v
                for v in made.versions
                if (v["node"], v["cluster"], v["topic"]) == (node, cluster, topic)
                and ends_of(v)[0] < ends_of(v)[1]
                and overlap(ends_of(v), (start, start + HOUR))
            ]
            state, alone_ms = _state(routes, max(end for _, end in spans)), _alone(routes, spans)
            usual_ms = _length(spans) if state["writable_brokers"] == 1 else 0
            same_day = before is not None and before[0] == day_of(start)
            if (
                alone_ms != usual_ms
                or (not same_day and routes)
                or (same_day and before is not None and before[1] != state)
            ):
                rows.append(
                    {
                        **{"day": day_of(start), "hour_at": at_of(start)},
                        **{"fleet": "default", "cluster": cluster, "topic": topic},
                        **state,
                        "single_broker": state["writable_brokers"] == 1,
                        "single_broker_s": alone_ms / 1000,
                    }
                )
            before = day_of(start), state
    return rows


def _teller(nodes: dict[str, list[tuple[int, int]]]) -> tuple[str, list[tuple[int, int]]]:
    return min(nodes.items(), key=lambda item: (-_length(item[1]), item[0]))


def _length(spans: list[tuple[int, int]]) -> int:
    points = sorted({point for span in spans for point in span})
    return sum(
        later - earlier
        for earlier, later in pairwise(points)
        if any(begin <= earlier and later <= end for begin, end in spans)
    )


def _queues(row: Row, bit: int, name: str) -> int:
    return int(row[name]) if row["perm"] & bit else 0


def _state(routes: list[Row], until: int) -> Row:
    listed: dict[str, Row] = {}
    for row in sorted(routes, key=lambda row: row["from_seq"]):
        begin, end = ends_of(row)
        if begin < until <= end:
            listed[row["broker"]] = row
    queues = {name: _queues(row, 2, "write_queues") for name, row in listed.items()}
    writable = {name: number for name, number in queues.items() if number > 0}
    total, largest = sum(writable.values()), max(writable.values(), default=None)
    return {
        "brokers": len(listed),
        "writable_brokers": len(writable),
        "write_queues": total,
        "read_queues": sum(_queues(row, 4, "read_queues") for row in listed.values()),
        "min_queues": min(writable.values(), default=None),
        "max_queues": largest,
        "skew": None if largest is None else largest * len(writable) / total,
        "top_broker": min((n for n in writable if writable[n] == largest), default=None),
    }


def _alone(routes: list[Row], spans: list[tuple[int, int]]) -> int:
    writable = [row for row in routes if _queues(row, 2, "write_queues") > 0]
    points = {point for row in writable for point in ends_of(row)}
    ordered = sorted(points | {point for span in spans for point in span})
    total = 0
    for earlier, later in pairwise(ordered):
        known = any(begin <= earlier and later <= end for begin, end in spans)
        brokers = {
            row["broker"]
            for row in writable
            if ends_of(row)[0] <= earlier and later <= ends_of(row)[1]
        }
        total += later - earlier if known and len(brokers) == 1 else 0
    return total


# -- topic_demand


def demand(made: Made) -> list[Row]:
    names = {row[name] for row in made.versions for name in ("cluster", "broker")}
    horizon: dict[str, int] = {}
    for node, _, end in spans_of(made):
        horizon[node] = max(end, horizon.get(node, 0))
    hours: dict[str, set[int]] = defaultdict(set)
    for row in made.versions:
        begin, end = ends_of(row)
        if begin < (end := min(end, horizon[row["node"]])):
            hours[row["topic"]] |= set(range(begin // HOUR * HOUR, end, HOUR))
    asked: dict[str, dict[int, list[tuple[Row, Row]]]] = defaultdict(lambda: defaultdict(list))
    unlisted: dict[date, int] = defaultdict(int)
    for row in made.windows:
        unlisted[row["day"]] += row["data"]["others"]
        for query in row["data"]["queries"]:
            asked[query["topic"]][ms_of(row["at"]) // HOUR * HOUR].append((row, query))
    days = {day_of(start) for start in units(made, DAY)}
    rows: list[Row] = []
    for topic in sorted({*hours, *asked}):
        rows += _topic_demand(
            topic, hours[topic], asked[topic], days, unlisted, is_system_topic(topic, names)
        )
    return rows


def _topic_demand(
    topic: str,
    there: set[int],
    asked: dict[int, list[tuple[Row, Row]]],
    days: set[date],
    unlisted: dict[date, int],
    system: bool,
) -> Iterator[Row]:
    present = {day_of(hour) for hour in there} & days
    unasked, last_asked, last_day = 0, None, None
    for day in sorted(present | {day_of(hour) for hour in asked}):
        common = {"day": day, "fleet": "default", "topic": topic}
        common |= {"unlisted": unlisted[day], "system": system}
        if last_day is not None and day - last_day > timedelta(days=7):
            unasked, last_asked = 0, None
        last_day = day
        todays = sorted(hour for hour in asked if day_of(hour) == day)
        for hour in todays:
            counts = [query for _, query in asked[hour]]
            last_asked = max(row["at"] for row, _ in asked[hour])
            unasked = 0
            yield {
                **common,
                "hour_at": at_of(hour),
                **{n: sum(c[n] for c in counts) for n in ("known", "unknown", "not_ready")},
                "nodes": len({row["node"] for row, _ in asked[hour]}),
                **{"exists": hour in there, "last_asked_at": last_asked},
                **{"unasked_days": 0, "zombie": False},
            }
        if not todays:
            unasked += 1 if unlisted[day] == 0 else 0
            yield {
                **common,
                **{"hour_at": None, "known": 0, "unknown": 0, "not_ready": 0, "nodes": 0},
                **{"exists": True, "last_asked_at": last_asked, "unasked_days": unasked},
                "zombie": unasked > 7 and not system,
            }


# -- capacity_forecast: what each group has at the end of each day


def sizes(made: Made, *, topic_bytes: int, fixed_bytes: int) -> list[Row]:
    rows: dict[tuple[date, str, str], tuple[int, int]] = {}
    for start, nodes in units(made, DAY).items():
        for node, spans in nodes.items():
            until = max(end for _, end in spans)
            groups: dict[tuple[str, str], list[str]] = defaultdict(list)
            for row in made.versions:
                begin, end = ends_of(row)
                if row["node"] == node and begin < until <= end:
                    groups[row["cluster"], row["broker"]].append(row["topic"])
            for (cluster, broker), topics in groups.items():
                size = fixed_bytes + sum(2 * len(t.encode()) + topic_bytes for t in topics)
                key = (day_of(start), cluster, broker)
                rows[key] = max(rows.get(key, (0, 0)), (size, len(topics)))
    return [
        {"day": key[0], "cluster": key[1], "broker": key[2], "topics": n, "registration_bytes": b}
        for key, (b, n) in rows.items()
    ]
