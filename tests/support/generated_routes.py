"""Routes and questions of several nodes, such as silver and bronze would have them.

    made = joined(make(1), recorded(7))

``make`` draws them at random: nodes restart, lose records and have their clocks set back, often at
a full hour. ``recorded`` takes them from records of nodes, of which some segments got lost.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from routebook.events import RouteQueries
from support.plain_silver import plain_silver
from support.spark_histories import histories, lost_spans, without
from support.spark_rows import T0_MS

Row = dict[str, Any]
HOUR, DAY = 3_600_000, 86_400_000
SHAPES = [(8, 8, 6), (4, 4, 6), (16, 16, 6), (8, 8, 4), (8, 8, 2), (8, 0, 6), (0, 8, 6)]
TOPICS = ["orders", "refunds", "payments", "TBW102", "c-1", "broker-1", "%RETRY%g", "Ünïcode"]


def at_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def day_of(ms: int) -> date:
    return at_of(ms).date()


@dataclass
class Made:
    versions: list[Row] = field(default_factory=list)
    coverage: list[Row] = field(default_factory=list)
    windows: list[Row] = field(default_factory=list)

    def until(self, cut: datetime) -> "Made":
        """What would be there if nothing after ``cut`` had been written yet."""
        versions = [dict(row) for row in self.versions if row["valid_from"] < cut]
        for row in versions:
            if row["valid_to"] is not None and row["valid_to"] >= cut:
                row |= {"valid_to": None, "to_seq": None, "end_cause": None}
        windows = [row for row in self.windows if row["at"] < cut]
        last: dict[str, datetime] = {}
        for row in (*versions, *windows):
            for name in ("valid_from", "valid_to", "at"):
                at = row.get(name)
                if at is not None:
                    last[row["node"]] = max(at, last.get(row["node"], at))
        coverage = [dict(row) for row in self.coverage if row["from_at"] < cut]
        for row in coverage:
            if row["to_at"] >= cut:
                row["to_at"] = max(last.get(row["node"], row["from_at"]), row["from_at"])
                row |= {"to_seq": None, "ends": None}
        return Made(versions, coverage, windows)

    def horizon(self) -> datetime:
        """The last record of the node whose records end first."""
        last: dict[str, datetime] = {}
        for row in self.coverage:
            last[row["node"]] = max(row["to_at"], last.get(row["node"], row["to_at"]))
        return min(last.values())


def make(seed: int, *, days: int = 4, nodes: int = 3) -> Made:
    made = Made()
    for number in range(1, nodes + 1):
        _Node(f"ns-{number}", random.Random(f"{seed}/{number}"), made).live(days * DAY)
    return made


class _Node:
    def __init__(self, name: str, rng: random.Random, made: Made) -> None:
        self.name, self.rng, self.made = name, rng, made
        self.now = T0_MS + rng.randrange(HOUR)
        self.seq = 1
        self.there: dict[tuple[str, str, str], Row] = {}
        self.covered_since: int | None = self.now
        self.last = self.now

    def live(self, lasts_ms: int) -> None:
        ends = T0_MS + lasts_ms
        while self.now < ends:
            step = self.rng.choices(
                [self._change, self._ask, self._leave, self._restart, self._lose, self._set_back],
                [60, 25, 8, 2, 1, 1],
            )[0]
            self._pass(self.rng.randrange(1, 25 * 60_000))
            if self.now < ends:
                step()
                self.last = self.now
        self._cover(None)

    def _pass(self, ms: int) -> None:
        self.now += ms
        self.seq += 1
        if self.rng.random() < 0.1:  # a full hour is where mistakes are made
            self.now = -(-self.now // HOUR) * HOUR

    def _key(self) -> tuple[str, str, str]:
        number = self.rng.randint(1, 4)
        cluster = "c-1" if number < 4 else "c-2"
        return cluster, f"broker-{number}", self.rng.choice(TOPICS)

    def _change(self) -> None:
        key = self._key()
        gone = self._end(key, self.now, "register")
        if not gone or self.rng.random() < 0.6:
            self._begin(key)

    def _begin(self, key: tuple[str, str, str]) -> None:
        read, write, perm = self.rng.choice(SHAPES)
        self.there[key] = {
            "node": self.name,
            **dict(zip(("cluster", "broker", "topic"), key, strict=True)),
            **{"read_queues": read, "write_queues": write, "perm": perm, "flags": 0},
            **{"from_seq": self.seq, "to_seq": None, "valid_from": at_of(self.now)},
            **{"valid_to": None, "cause": "register", "end_cause": None},
        }
        self.made.versions.append(self.there[key])

    def _end(self, key: tuple[str, str, str], at_ms: int, cause: str) -> bool:
        row = self.there.pop(key, None)
        if row is None:
            return False
        row |= {"valid_to": at_of(at_ms), "to_seq": self.seq, "end_cause": cause}
        return True

    def _leave(self) -> None:
        broker = self._key()[1]
        for key in [key for key in self.there if key[1] == broker]:
            self._end(key, self.now, "expired")

    def _cover(self, ends: str | None) -> None:
        if self.covered_since is not None:
            self.made.coverage.append(
                {
                    "node": self.name,
                    **{"from_at": at_of(self.covered_since), "to_at": at_of(self.last)},
                    **{"from_seq": 0, "to_seq": None if ends is None else self.seq},
                    **{"begins": "started_cold", "ends": ends},
                }
            )

    def _restart(self) -> None:
        """Stopped at its last record, back after a while, with or without its tables."""
        self._cover("killed")
        if self.rng.random() < 0.5:
            for key in list(self.there):
                self._end(key, self.last, "node_restarted")
        self._pass(self.rng.choice([20_000, HOUR // 2, 5 * HOUR]))
        self.covered_since = self.now

    def _lose(self) -> None:
        self._cover("records_lost")
        for key in list(self.there):
            if self.rng.random() < 0.5:
                self._end(key, self.last, "lost_track")
        self._pass(self.rng.choice([60_000, 2 * HOUR]))
        self.covered_since = self.now

    def _set_back(self) -> None:
        self._pass(1)
        self.now -= self.rng.randrange(20 * 60_000)

    def _ask(self) -> None:
        names = [*TOPICS, "typo"]
        asked = self.rng.sample(names, self.rng.randint(0, 3))
        counts = [(t, self.rng.randrange(9), self.rng.randrange(3), 0) for t in sorted(asked)]
        others = 5 if self.rng.random() < 0.02 else 0
        self.made.windows.append(window(self.name, self.now, counts, seq=self.seq, others=others))


def window(
    node: str,
    at_ms: int,
    counts: Iterable[tuple[str, int, int, int]],
    *,
    seq: int = 1,
    others: int = 0,
) -> Row:
    """A row of ``events`` for a window of route queries."""
    names = ("topic", "known", "unknown", "not_ready")
    queries = [dict(zip(names, count, strict=True)) for count in counts]
    return {
        **{"day": day_of(at_ms), "node": node, "seq": seq, "at": at_of(at_ms), "wall_ms": at_ms},
        "type": "RouteQueries",
        "data": {"queries": queries, "others": others},
    }


# -- from records


def recorded(seed: int, *, hours: float = 30) -> Made:
    by_node = {
        node: without(records, lost_spans(records, seed=seed))
        for node, records in histories(seed, hours=hours).items()
    }
    silver = plain_silver(by_node)
    windows = [
        window(
            node,
            record.wall_ms,
            record.event.topics,
            seq=record.seq,
            others=record.event.others,
        )
        for node, records in by_node.items()
        for record in records
        if isinstance(record.event, RouteQueries)
    ]
    return Made(_dated(silver.versions), _dated(silver.coverage), windows)


def _dated(rows: Iterable[Row]) -> list[Row]:
    """Without the day of the end, which follows from the rest, also when that is cut off."""
    return [{name: row[name] for name in row if name != "until_day"} for row in rows]


def joined(*parts: Made) -> Made:
    """All of them together, each with nodes of its own."""
    whole = Made()
    for number, part in enumerate(parts):
        for name in ("versions", "coverage", "windows"):
            rows = [{**row, "node": f"{row['node']}-{number}"} for row in getattr(part, name)]
            getattr(whole, name).extend(rows)
    return whole
