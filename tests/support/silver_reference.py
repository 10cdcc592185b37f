"""The tables of silver, slowly: a view is replayed record by record, and every change is noted.

Rows are plain dicts with the columns of the tables. ``believe`` replays one node as readers of a
journal do, losing track where records are missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import ceil
from typing import Any

from routebook.events import (
    BrokerConfirmed,
    BrokerEvent,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    RecordsLost,
    RegistrationCompleted,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record
from routebook.journal.view import View
from support.spark_histories import is_leap

OPEN = date(9999, 12, 31)
Row = dict[str, Any]
Place = tuple[str, str, int, str]  # cluster, broker, id, address
Topic = tuple[str, str, str]  # cluster, broker, topic


@dataclass(frozen=True, slots=True)
class End:
    """``at_ms`` is when it ended, as the record ``told`` said."""

    told: Record
    at_ms: int
    cause: str = ""


@dataclass(slots=True)
class Span:
    begin: Record
    facts: Row
    end: End | None = None
    gaps_ms: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """A record and what its node believed after it."""

    record: Record
    view: View
    running: bool


def believe(records: Sequence[Record]) -> Iterator[Moment]:
    """The same view every time, as it goes on."""
    view, last, running = View(), None, True
    if records[0].seq > 1:
        view.lose_track()
    for record in records:
        if last is not None and record.seq != last.seq + 1 and not is_leap(record, last.seq):
            view.lose_track()
            running = True
        view.apply(record)
        if isinstance(record.event, NodeStarted):
            running = True
        elif isinstance(record.event, NodeStopped | JournalRecovered):
            running = False
        yield Moment(record, view, running)
        last = record


def members(view: View) -> set[Place]:
    return {(b.cluster, b.broker, b.broker_id, b.member.known.addr) for b in view.brokers()}


def unconfirmed(view: View) -> set[Place]:
    return {
        (b.cluster, b.broker, b.broker_id, b.member.known.addr)
        for b in view.brokers()
        if not b.member.known.confirmed
    }


def queues(view: View) -> dict[Topic, tuple[Any, Any]]:
    """The shape clients are told, and the one that was registered where that is another."""
    return {
        (group.cluster, group.broker, topic): (shape, group.registered.get(topic))
        for group in view.groups.listed()
        for topic, shape in group.queues.items()
    }


class Reference:
    """All rows of one node."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.node = records[0].node
        self.last = records[-1]
        self._coverage: list[Span] = []
        self._sessions: list[Span] = []
        self._suspects: list[Span] = []
        self._versions: list[Span] = []
        self._open: dict[Place, Span] = {}
        self._doubted: dict[tuple[str, Place], Span] = {}
        self._routes: dict[Topic, Span] = {}
        self._covered: Span | None = None
        self._doubt_ms: int | None = None
        self._windows_ms: list[int] = []
        self._window_at_ms = 0
        self._epoch = 0
        self._before: list[Record] = []  # the two records before
        for moment in believe(records):
            self._take(moment)
            self._before = [*self._before[-1:], moment.record]

    # -- record by record

    def _take(self, moment: Moment) -> None:
        record, view = moment.record, moment.view
        missing = self._missing_before(record)
        if view.unsure and self._doubt_ms is None:
            lost, last = record.event, self._before[-1] if self._before else record
            since_ms = lost.since_ms if isinstance(lost, RecordsLost) else last.wall_ms
            self._doubt_ms = last.wall_ms if missing else since_ms
        self._cover(moment, missing=missing)
        self._stay(record, members(view), view)
        self._suspect(record, members(view))
        self._route(record, queues(view))
        if not view.unsure:
            self._doubt_ms = None

    def _missing_before(self, record: Record) -> bool:
        if not self._before:
            return False
        last = self._before[-1]
        return record.seq != last.seq + 1 and not is_leap(record, last.seq)

    def _down_ms(self, record: Record) -> int:
        """When a node that starts had gone down."""
        if not self._before:
            return record.wall_ms
        last = self._before[-1]
        if isinstance(last.event, JournalRecovered) and last.seq + 1 == record.seq:
            return self._killed_ms(last)
        return last.wall_ms

    def _killed_ms(self, recovered: Record) -> int:
        """When the node was last known to be alive that ``recovered`` tells of."""
        assert isinstance(recovered.event, JournalRecovered)
        before = [one for one in self._before if one is not recovered]
        last_ms = before[-1].wall_ms if before else recovered.wall_ms
        alive_ms = recovered.event.alive_ms
        return max(last_ms, alive_ms or 0) if (alive_ms or 0) <= recovered.wall_ms else last_ms

    def _cover(self, moment: Moment, *, missing: bool) -> None:
        record, event = moment.record, moment.record.event
        covered = moment.running and not moment.view.unsure
        for cause, until_ms, from_ms, begins in self._breaks(record):
            if self._covered is not None and not missing:
                self._end_cover(End(record, until_ms, cause))
                facts = {"begins": begins, "from_ms": from_ms, "epoch": self._epoch}
                self._covered = Span(record, facts)
                self._coverage.append(self._covered)
        if self._covered is not None and (missing or not covered or isinstance(event, NodeStarted)):
            self._end_cover(self._uncovered(record, missing=missing))
            self._covered = None
        if covered and self._covered is None:
            begins = "restated" if isinstance(event, StateRestated) else "first_record"
            if isinstance(event, NodeStarted):
                begins = "started_warm" if event.brokers else "started_cold"
            facts = {"begins": begins, "from_ms": record.wall_ms, "epoch": self._epoch}
            self._covered = Span(record, facts)
            self._coverage.append(self._covered)

    def _end_cover(self, end: End) -> None:
        assert self._covered is not None
        self._covered.end = end
        if self._covered.begin is end.told:
            self._coverage.pop()

    def _breaks(self, record: Record) -> Iterator[tuple[str, int, int, str]]:
        """Why the node was no witness before ``record``, until and from when, and how it began."""
        event, last = record.event, self._before[-1] if self._before else None
        if isinstance(event, HeartbeatGaps | RouteQueries):
            if abs(record.wall_ms - self._window_at_ms) >= 1000:
                self._windows_ms = [*self._windows_ms[-3:], event.window_ms]
            self._window_at_ms = record.wall_ms
        elif isinstance(event, NodeStalled):
            self._window_at_ms = record.wall_ms
        elif isinstance(event, NodeStarted):
            self._windows_ms = [*self._windows_ms[-3:], 60_000]
        boots = isinstance(event, NodeStarted | JournalRecovered)
        if last is not None:
            passed_ms = record.mono_ms - last.mono_ms
            apart_ms = record.wall_ms - last.wall_ms - passed_ms
            longest_ms = max(2 * max(self._windows_ms, default=60_000), 10_000)
            since_ms = None
            if isinstance(event, NodeStalled):
                since_ms = event.from_ms
            elif isinstance(event, RecordsLost):
                since_ms = event.since_ms
            told = since_ms is not None and since_ms - last.wall_ms <= longest_ms
            if abs(apart_ms) > 1000 + abs(passed_ms) / 1000:
                self._epoch = record.seq
                if not boots and not isinstance(event, NodeStalled):
                    yield "clock", last.wall_ms, record.wall_ms, "clock_set"
            elif passed_ms > longest_ms and self._open and not boots and not told:
                yield "silent", last.wall_ms, record.wall_ms, "heard_again"
        if isinstance(event, NodeStalled):
            if event.longest_ms < 1000 and event.clock_ms:
                yield "clock", event.from_ms, event.to_ms, "clock_set"
            else:
                yield "stalled", event.from_ms, event.to_ms, "woke"

    def _uncovered(self, record: Record, *, missing: bool) -> End:
        if missing:
            return End(record, self._before[-1].wall_ms, "records_missing")
        match record.event:
            case NodeStopped():
                return End(record, record.wall_ms, "stopped")
            case RecordsLost(since_ms=since_ms):
                return End(record, since_ms, "records_lost")
            case JournalRecovered():
                return End(record, self._killed_ms(record), "killed")
        return End(record, self._down_ms(record), "killed")

    # -- brokers

    def _stay(self, record: Record, after: set[Place], view: View) -> None:
        event = record.event
        for place in sorted(self._open.keys() - after):
            stay = self._open.pop(place)
            stay.end = self._gone(record, place, stay)
            for kind in ("unconfirmed", "held"):
                self._settle(kind, place, stay.end)
        for place in sorted(after - self._open.keys()):
            began = "restated" if isinstance(event, GroupRestated) else "known"
            about = _about(event) == place
            if isinstance(event, BrokerRegistered) and about:
                began = "registered"
            facts = {"began": began, "peer": event.peer if about else "", "connections": 0}
            group = view.groups.find(place[0], place[1])
            assert group is not None
            timeout_ms = group.members[place[2]].known.heartbeat_timeout_ms
            facts |= {**_named(place), "timeout_ms": timeout_ms, "topics": None, "restarts": 0}
            self._open[place] = Span(record, facts)
            self._sessions.append(self._open[place])
            if not (isinstance(event, BrokerRegistered) and about):
                facts["connections"] = 1
        known = self._open.get(_about(event) or ("", "", 0, ""))
        if known is not None:
            if isinstance(event, BrokerRegistered):
                known.facts["connections"] += 1
            elif isinstance(event, RegistrationCompleted):
                known.facts["topics"] = known.facts["topics"] or 0
            elif isinstance(event, HeartbeatGaps):
                known.gaps_ms += event.gaps_ms

        for place, stay in self._open.items():
            group = view.groups.find(place[0], place[1])
            topics = 0 if group is None else len(group.queues)
            if topics or stay.facts["topics"] is not None:
                stay.facts["topics"] = topics

    def _gone(self, record: Record, place: Place, stay: Span) -> End:
        event = record.event
        if isinstance(event, BrokerLeft) and _about(event) == place:
            return End(record, record.wall_ms, str(event.cause))
        if isinstance(event, BrokerRegistered) and event.addr == place[3]:
            return End(record, record.wall_ms, "moved")
        return self._vanished(record, stay)

    def _vanished(self, record: Record, span: Span) -> End:
        """Nobody saw it go."""
        began_ms = span.begin.wall_ms
        if isinstance(record.event, NodeStarted):
            return End(record, max(began_ms, self._down_ms(record)), "node_restarted")
        since_ms = record.wall_ms if self._doubt_ms is None else self._doubt_ms
        return End(record, max(began_ms, since_ms), "lost_track")

    # -- doubts

    def _suspect(self, record: Record, present: set[Place]) -> None:
        event = record.event
        here = End(record, record.wall_ms)
        match event:
            case NodeStarted():
                down = End(record, self._down_ms(record))
                for kind, place in list(self._doubted):
                    self._settle(kind, place, down)
                if event.brokers:
                    for place in present:
                        self._doubt("unconfirmed", place, record)
            case GroupRestated(continued=False):
                for fact in event.members:
                    place = (event.cluster, event.broker, fact.broker_id, fact.addr)
                    if fact.confirmed:
                        self._settle("unconfirmed", place, here)
                    elif ("unconfirmed", place) not in self._doubted:
                        self._doubt("unconfirmed", place, record)
            case GuardEngaged():
                for suspect in event.suspects:
                    place = (suspect.cluster, suspect.broker, suspect.broker_id, suspect.addr)
                    if place in present:
                        self._settle("held", place, here)
                        self._doubt("held", place, record, silent_ms=suspect.silent_ms)
            case GuardReleased():
                for kind, place in list(self._doubted):
                    if kind == "held":
                        self._settle(kind, place, here)
            case BrokerRegistered() | BrokerConfirmed():
                for kind in ("unconfirmed", "held"):
                    self._settle(kind, _about(event), here)
            case BrokerUpdated() | RegistrationCompleted():
                self._settle("held", _about(event), here)
            case HeartbeatGaps():
                held = self._doubted.get(("held", _about(event) or ("", "", 0, "")))
                if held is not None and max(event.gaps_ms) >= held.facts["silent_ms"]:
                    self._settle("held", _about(event), here)

    def _doubt(self, kind: str, place: Place, record: Record, silent_ms: int | None = None) -> None:
        span = Span(record, {**_named(place), "kind": kind, "silent_ms": silent_ms})
        self._doubted[kind, place] = span
        self._suspects.append(span)
        if kind == "unconfirmed":
            self._open[place].facts["restarts"] += 1
            self._open[place].facts.setdefault("doubts", []).append(span)

    def _settle(self, kind: str, place: Place | None, end: End) -> None:
        span = None if place is None else self._doubted.pop((kind, place), None)
        if span is not None:
            span.end = End(end.told, max(end.at_ms, span.begin.wall_ms))

    # -- routes

    def _route(self, record: Record, after: dict[Topic, tuple[Any, Any]]) -> None:
        event = record.event
        for topic in sorted(self._routes.keys()):
            span = self._routes[topic]
            if after.get(topic) == span.facts["value"]:
                continue
            del self._routes[topic]
            named = isinstance(event, TopicsChanged) or (
                isinstance(event, GroupRestated) and topic in after
            )
            if named or isinstance(event, BrokerLeft):
                span.end = End(record, record.wall_ms, str(event.cause))
            else:
                span.end = self._vanished(record, span)
        for topic in sorted(after.keys() - self._routes.keys()):
            facts = {"topic": topic, "value": after[topic], "cause": str(event.cause)}
            self._routes[topic] = Span(record, facts)
            self._versions.append(self._routes[topic])

    # -- as rows

    def coverage(self) -> list[Row]:
        rows = []
        for span in self._coverage:
            end = span.end
            from_ms: int = span.facts["from_ms"]
            to_ms = max(from_ms, self.last.wall_ms if end is None else end.at_ms)
            told = {
                "from_at": _at(from_ms),
                "begins": span.facts["begins"],
                "ends": None if end is None else end.cause,
                "clock_epoch": span.facts["epoch"],
            }
            rows.append(self._interval(span, "from_at", "to_at", to_ms) | told)
        return rows

    def suspects(self) -> list[Row]:
        return [self._interval(span, "from_at", "to_at") | span.facts for span in self._suspects]

    def versions(self) -> list[Row]:
        rows = []
        for span in self._versions:
            shape, registered = span.facts["value"]
            row = self._interval(span, "valid_from", "valid_to")
            row |= dict(zip(("cluster", "broker", "topic"), span.facts["topic"], strict=True))
            row |= dict(zip(("read_queues", "write_queues", "perm", "flags"), shape, strict=True))
            row |= {"registered": None if registered is None else list(registered)}
            row |= {"cause": span.facts["cause"], "end_cause": span.end and span.end.cause}
            rows.append(row)
        return rows

    def sessions(self) -> list[Row]:
        rows = []
        for span in self._sessions:
            facts = dict(span.facts)
            doubts: list[Span] = facts.pop("doubts", [])
            facts["heartbeat_timeout_ms"] = facts.pop("timeout_ms")
            ends_ms = [self.last.wall_ms if d.end is None else d.end.at_ms for d in doubts]
            facts["unconfirmed_s"] = sum(
                max(0, end_ms - doubt.begin.wall_ms) / 1000
                for doubt, end_ms in zip(doubts, ends_ms, strict=True)
            )
            facts |= {"cause": span.end and span.end.cause, **_heard(span.gaps_ms)}
            row = self._interval(span, "began_at", "ended_at")
            facts["seen_seq"] = self.last.seq if row["to_seq"] is None else row["to_seq"]
            rows.append(row | facts)
        return rows

    def _interval(self, span: Span, since: str, until: str, open_ms: int | None = None) -> Row:
        end = span.end
        until_ms = open_ms if end is None else end.at_ms
        if end is not None and open_ms is not None:
            until_ms = open_ms
        day = OPEN
        if end is not None:
            day = max(_at(end.at_ms).date(), _at(end.told.wall_ms).date())
        return {
            "fleet": "default",
            "node": self.node,
            "incarnation": "",
            "from_seq": span.begin.seq,
            "to_seq": None if end is None else end.told.seq,
            since: _at(span.begin.wall_ms),
            until: None if until_ms is None else _at(until_ms),
            "until_day": day,
        }


def _about(event: object) -> Place | None:
    if not isinstance(event, BrokerEvent):
        return None
    return (event.cluster, event.broker, event.broker_id, event.addr)


def _named(place: Place) -> Row:
    return dict(zip(("cluster", "broker", "broker_id", "addr"), place, strict=True))


def _heard(gaps_ms: list[int]) -> Row:
    rounded = sorted((gap + 50) // 100 * 100 for gap in gaps_ms)
    count = len(rounded)
    counts = [{"gap_ms": gap, "count": rounded.count(gap)} for gap in sorted(set(rounded))]
    return {
        "heartbeats": count,
        "gap_p50_ms": rounded[ceil(count * 0.5) - 1] if count else None,
        "gap_p99_ms": rounded[ceil(count * 0.99) - 1] if count else None,
        "gap_max_ms": max(gaps_ms, default=None),
        "gap_counts": counts or None,
    }


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
