"""Availability, flaps and heartbeats once more, in plain Python and by the words of their pages.

Slow and simple: whatever is asked of a moment is looked up in all rows. Rows are mappings with the
columns of the tables; results are keyed by what one row is about.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import log2
from typing import Any, NamedTuple

HOUR, DAY = 3_600_000, 86_400_000
STATES = ("up", "suspect", "down", "planned", "unknown")

Row = Mapping[str, Any]
Key = tuple[Any, ...]


class Span(NamedTuple):
    """``until`` None: it lasts."""

    since: int
    until: int | None
    row: Row

    def holds(self, t: int) -> bool:
        return self.since <= t and (self.until is None or t < self.until)


def spans(rows: Iterable[Row], skew: Sequence[Row], since: str, until: str) -> list[Span]:
    found = []
    for row in rows:
        start = _true_ms(row[since], row["node"], skew)
        end = None if row[until] is None else _true_ms(row[until], row["node"], skew)
        found.append(Span(start, None if end is None else max(start, end), row))
    return found


def _true_ms(at: datetime, node: str, skew: Sequence[Row]) -> int:
    ahead = [
        row["offset_ms"] or 0 for row in skew if (row["node"], row["day"]) == (node, at.date())
    ]
    return round(at.timestamp() * 1000) - int(sum(ahead))


def fleet_of(row: Row) -> str:
    return str(row.get("fleet", "default"))


def _witness(row: Row) -> Key:
    return fleet_of(row), row["node"], row.get("incarnation", "")


def _broker(row: Row) -> Key:
    return fleet_of(row), row["cluster"], row["broker"], row["broker_id"]


def witnessed(rows: Iterable[Row], coverage: Sequence[Row], since: str, until: str) -> list[Row]:
    """Rows cut to the stretches of coverage they are in, by the numbers of their records."""
    parts: list[Row] = []
    for row in rows:
        for cover in coverage:
            if _witness(cover) != _witness(row):
                continue
            first, last = cover["from_seq"], cover.get("to_seq")
            if last is not None and row["from_seq"] >= last:
                continue
            if row["to_seq"] is not None and row["to_seq"] <= first:
                continue
            inside = row["to_seq"] is not None and (last is None or row["to_seq"] < last)
            begin = row[since] if row["from_seq"] >= first else cover["from_at"]
            parts.append({**row, since: begin, until: row[until] if inside else cover["to_at"]})
    return parts


def _hour(ms: float) -> int:
    return int(ms // HOUR * HOUR)


def day_of(ms: int) -> Any:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


# -- availability


@dataclass(slots=True)
class Totals:
    ms: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    repairs: int = 0

    def columns(self, slo: float) -> dict[str, float | None]:
        there, down = (self.ms["up"] + self.ms["suspect"]) / 1000, self.ms["down"] / 1000
        budget = (there + down) * (1 - slo)
        return {
            **{f"{state}_s": self.ms[state] / 1000 for state in STATES},
            "failures": self.failures,
            "repairs": self.repairs,
            "mtbf_s": there / self.failures if self.failures else None,
            "mttr_s": down / self.repairs if self.repairs else None,
            "availability": there / (there + down) if there + down else None,
            "budget_s": budget,
            "budget_left_s": budget - down,
        }


def availability(
    sessions: Sequence[Row], suspects: Sequence[Row], coverage: Sequence[Row], skew: Sequence[Row]
) -> dict[Key, Totals]:
    """By (fleet, cluster, broker, id, grain, ms)."""
    covers = spans(coverage, skew, "from_at", "to_at")
    stays = spans(sessions, skew, "began_at", "ended_at")
    listings = spans(
        witnessed(sessions, coverage, "began_at", "ended_at"), skew, "began_at", "ended_at"
    )
    doubts = spans(witnessed(suspects, coverage, "from_at", "to_at"), skew, "from_at", "to_at")
    totals: dict[Key, Totals] = defaultdict(Totals)
    for broker in sorted({_broker(stay.row) for stay in stays}):
        own = [cover for cover in covers if fleet_of(cover.row) == broker[0]]
        awake = {
            hour
            for cover in own
            for hour in range(_hour(cover.since), max(cover.until or 0, cover.since + 1), HOUR)
        }
        watch = _Watch(
            own,
            [stay for stay in stays if _broker(stay.row) == broker],
            [part for part in listings if _broker(part.row) == broker],
            [doubt for doubt in doubts if _broker(doubt.row) == broker],
        )
        for since, until, state, event in watch.spells():
            for start in sorted(awake & set(range(_hour(since), until, HOUR))):
                lasted = min(until, start + HOUR) - max(since, start)
                for place in (("hour", start), ("day", start // DAY * DAY)):
                    total = totals[*broker, *place]
                    total.ms[state] += lasted
                    if start <= since:
                        total.failures += event == "failure"
                        total.repairs += event == "repair"
    return totals


class _Watch:
    """One broker, and all that is known of it."""

    def __init__(
        self, covers: list[Span], stays: list[Span], listings: list[Span], doubts: list[Span]
    ) -> None:
        self.covers, self.stays, self.listings, self.doubts = covers, stays, listings, doubts
        self.nodes = {cover.row["node"] for cover in covers}

    def spells(self) -> Iterable[tuple[int, int, str, str]]:
        horizon = max((cover.until or 0 for cover in self.covers), default=0)
        moments = {cover.since + 120_000 for cover in self.covers}
        for span in (*self.covers, *self.stays, *self.listings, *self.doubts):
            moments |= {span.since} if span.until is None else {span.since, span.until}
        left: int | None = None
        listed, known = False, ""
        times = sorted(moments)
        for t, after in zip(times, [*times[1:], horizon], strict=True):
            if listed and not self._listing(t):
                left = t
            listed = bool(self._listing(t))
            if not listed and left is None:
                continue
            state = self._state(t, left or 0)
            until, event = min(after, horizon), ""
            retired = left + 7 * DAY if left is not None else None
            if not listed and retired is not None:
                until = min(until, retired)
            if state == "down" and known != "down":
                event = "failure"
            if listed and known == "down" and retired is not None and t < retired:
                event = "repair"
            if state != "unknown":
                known = state
            if t < until:
                yield t, until, state, event

    def _state(self, t: int, left: int) -> str:
        if self._listing(t):
            sure = any(
                not any(doubt.row["node"] == node and doubt.holds(t) for doubt in self.doubts)
                for node in self._listing(t)
            )
            return "up" if sure else "suspect"
        if not any(self._aware(node, t) for node in self.nodes):
            return "unknown"
        began = max(stay.since for stay in self.stays if stay.since <= t)
        goodbyes = [
            stay.until
            for stay in self.stays
            if stay.until is not None
            and stay.until <= t
            and stay.row["cause"] in ("unregister", "admin", "moved")
        ]
        said_so = bool(goodbyes) and max(goodbyes) >= began and max(goodbyes) >= left - 900_000
        return "planned" if said_so else "down"

    def _listing(self, t: int) -> set[str]:
        return {
            part.row["node"]
            for part in self.listings
            if part.holds(t) and self._covered(part.row["node"], t)
        }

    def _covered(self, node: str, t: int) -> bool:
        return any(cover.row["node"] == node and cover.holds(t) for cover in self.covers)

    def _aware(self, node: str, t: int) -> bool:
        if not self._covered(node, t):
            return False
        own = [cover for cover in self.covers if cover.row["node"] == node and cover.since <= t]
        blind = any(
            cover.holds(t)
            and cover.row["begins"] in ("started_cold", "first_record")
            and t < cover.since + 120_000
            for cover in own
        )
        looked_up = max(cover.since for cover in own)
        heard = any(
            stay.row["node"] == node and looked_up <= stay.since <= t for stay in self.stays
        )
        return not blind or heard


# -- flaps


@dataclass(slots=True)
class Flap:
    transitions: int = 0
    peak: float = 0.0
    end: float = 0.0
    suppressed_ms: float = 0.0
    causes: Counter[str] = field(default_factory=Counter)
    times: list[int] = field(default_factory=list)
    culprit: str | None = None


class _Move(NamedTuple):
    t: int
    seq: int
    cause: str


def flap_rows(
    sessions: Sequence[Row], coverage: Sequence[Row], skew: Sequence[Row]
) -> dict[Key, Flap]:
    """By (fleet, cluster, broker, id, node, hour in ms)."""
    covers = spans(coverage, skew, "from_at", "to_at")
    by_place: dict[Key, list[Span]] = defaultdict(list)
    for row in sessions:
        since = _true_ms(row["began_at"], row["node"], skew)
        until = None if row["ended_at"] is None else _true_ms(row["ended_at"], row["node"], skew)
        by_place[*_broker(row), row["node"]].append(Span(since, until, row))
    rows: dict[Key, Flap] = {}
    for place, stays in by_place.items():
        horizon = max(c.until or 0 for c in covers if c.row["node"] == place[-1])
        moves = sorted(_moves(stays))
        for day in sorted({move.t // DAY * DAY + more for move in moves for more in (0, DAY)}):
            recent = [move for move in moves if day - DAY <= move.t < day + DAY]
            rows |= {(*place, hour): flap for hour, flap in _day(recent, day, horizon).items()}
    flaps = {k: flap for k, flap in rows.items() if flap.transitions or flap.suppressed_ms >= 0.5}
    listings: dict[Key, list[Span]] = defaultdict(list)
    parts = witnessed(sessions, coverage, "began_at", "ended_at")
    for part in spans(parts, skew, "began_at", "ended_at"):
        listings[*_broker(part.row), part.row["node"]].append(part)
    for key, flap in flaps.items():
        flap.culprit = _culprit(key, flaps, covers, listings)
    return flaps


def _moves(stays: list[Span]) -> Iterable[_Move]:
    before: Span | None = None
    for stay in sorted(stays, key=lambda each: each.row["from_seq"]):
        if before is not None and before.until is not None:
            unseen = before.row["cause"] in ("node_restarted", "lost_track")
            if not unseen and stay.since - before.until <= DAY:
                yield _Move(stay.since, stay.row["from_seq"], stay.row["began"])
        calm = ("unregister", "admin", "node_restarted", "lost_track")
        if stay.until is not None and stay.row["cause"] not in calm:
            yield _Move(stay.until, stay.row["to_seq"], stay.row["cause"])
        before = stay


def _day(moves: list[_Move], day: int, horizon: int) -> dict[int, Flap]:
    """Hours of one day, by playing through it and the day before."""
    flaps: dict[int, Flap] = defaultdict(Flap)
    penalty, last, suppressed = 0.0, day - DAY, False
    for move, after in zip(moves, [*moves[1:], None], strict=True):
        penalty *= 2 ** (-(move.t - last) / 900_000)
        if penalty < 750:
            suppressed = False
        penalty, last = min(16_000.0, penalty + 1000), move.t
        suppressed = suppressed or penalty > 2000
        calm = last + 900_000 * log2(penalty / 750) if suppressed else last
        until = min(day + DAY, horizon, after.t if after else horizon)
        if move.t >= day:
            flap = flaps[_hour(move.t)]
            flap.transitions += 1
            flap.causes[move.cause] += 1
            flap.times.append(move.t)
            flap.peak = max(flap.peak, penalty)
        for hour in range(max(_hour(move.t), day), max(until, move.t + 1), HOUR):
            start = max(move.t, hour)
            stop = max(start, min(until, hour + HOUR))
            if hour + HOUR > move.t:
                flap = flaps[hour]
                flap.peak = max(flap.peak, penalty * 2 ** (-(start - last) / 900_000))
                flap.end = penalty * 2 ** (-(stop - last) / 900_000)
                flap.suppressed_ms += max(0, min(stop, calm) - start)
    return flaps


def _blind_ms(cover: Row) -> int:
    starts = ("started_cold", "started_warm", "first_record")
    return 120_000 if cover["begins"] in starts else 0


def _culprit(
    key: Key, flaps: Mapping[Key, Flap], covers: list[Span], listings: Mapping[Key, list[Span]]
) -> str | None:
    *broker, node, hour = key
    if not flaps[key].transitions:
        return None
    same = {k[-2]: f for k, f in flaps.items() if [*k[:4]] == broker and k[-1] == hour}
    seen = {name for name, flap in same.items() if flap.transitions}
    times = [t for flap in same.values() for t in flap.times]
    knowing = seen | {
        cover.row["node"]
        for cover in covers
        if fleet_of(cover.row) == key[0]
        and cover.since + _blind_ms(cover.row) <= min(times)
        and (cover.until or 0) >= max(times)
    }
    if len(knowing) == 1:
        return "unknown"
    listed = {
        place[:4]
        for place, parts in listings.items()
        if (place[0], place[-1]) == (key[0], node)
        and any(_hour(part.since) <= hour <= _hour(part.until or 0) for part in parts)
    }
    moved = {
        k[:4]
        for k, f in flaps.items()
        if (k[0], k[-2], k[-1]) == (key[0], node, hour) and f.transitions
    }
    listed |= moved
    if len(listed) >= 3 and 2 * len(moved) > len(listed) and seen == {node}:
        return "node"
    return "broker" if seen == knowing else "network"


# -- heartbeats


def heartbeat_rows(
    events: Iterable[Row], sessions: Sequence[Row], coverage: Sequence[Row]
) -> dict[Key, dict[str, int]]:
    """By (node, fleet, cluster, broker, id, address, hour in ms)."""
    found: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)  # seq, gap, timeout
    for event in events:
        if event["type"] == "HeartbeatGaps" and _listened(event, coverage):
            process = (event["node"], *_broker(event), event["addr"])
            timeout = _timeout(event, process, sessions)
            hour = _hour(event["at"].timestamp() * 1000)
            gaps = event["data"]["gaps_ms"]
            found[*process, hour] += [(event["seq"], gap, timeout) for gap in gaps]
    return {key: _health(gaps) for key, gaps in found.items() if gaps}


def _listened(event: Row, coverage: Sequence[Row]) -> bool:
    """Whether the node did so all the while that the gaps of ``event`` are of."""
    own = sorted(
        (row for row in coverage if _witness(row) == _witness(event)),
        key=lambda row: int(row["from_seq"]),
    )
    data = event["data"]
    gaps = data["gaps_ms"] or [0]
    begun = event["at"].timestamp() * 1000 - (data["window_ms"] or 0) - gaps[0]
    for place, cover in enumerate(own):
        following = own[place + 1] if place + 1 < len(own) else None
        if cover["to_seq"] is not None and cover["to_seq"] <= event["seq"]:
            again = cover["to_at"] if following is None else following["from_at"]
            if again.timestamp() * 1000 > begun:
                return False
    return True


def _timeout(event: Row, process: Key, sessions: Sequence[Row]) -> int:
    own = [
        row
        for row in sessions
        if (row["node"], *_broker(row), row["addr"]) == process
        and row["from_seq"] <= event["seq"]
        and row["heartbeat_timeout_ms"]
    ]
    last = max(own, key=lambda row: int(row["from_seq"]), default=None)
    if last is None:
        return 120_000
    ended = last["ended_at"]
    fresh = ended is None or (event["at"] - ended).total_seconds() <= 86_400
    return int(last["heartbeat_timeout_ms"]) if fresh else 120_000


def _health(gaps: list[tuple[int, int, int]]) -> dict[str, int]:
    longest: dict[int, int] = defaultdict(int)
    for _, gap, _ in gaps:
        longest[gap // 100] = max(longest[gap // 100], gap)
    ordered = sorted(longest[gap // 100] for _, gap, _ in gaps)
    in_time = [gap for _, gap, timeout in gaps if gap <= timeout]
    return {
        "heartbeats": len(gaps),
        "under_10s": sum(gap < 10_000 for gap in in_time),
        "under_35s": sum(10_000 <= gap < 35_000 for gap in in_time),
        "under_65s": sum(35_000 <= gap < 65_000 for gap in in_time),
        "under_timeout": sum(gap >= 65_000 for gap in in_time),
        "over_timeout": len(gaps) - len(in_time),
        "gap_p50_ms": _percentile(ordered, 0.5),
        "gap_p99_ms": _percentile(ordered, 0.99),
        "gap_max_ms": ordered[-1],
        "heartbeat_timeout_ms": max(gaps)[2],
        "near_misses": sum(timeout * 0.75 <= gap <= timeout for _, gap, timeout in gaps),
    }


def _percentile(ordered: list[int], share: float) -> int:
    place = share * (len(ordered) - 1)
    low, rest = int(place), place - int(place)
    high = min(low + 1, len(ordered) - 1)
    return int(ordered[low] * (1 - rest) + ordered[high] * rest + 0.5)
