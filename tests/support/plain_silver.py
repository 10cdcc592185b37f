"""Silver in plain Python: the intervals that records of nodes tell, by replaying them one by one.

silver = plain_silver(histories(7))
silver.sessions                 # rows, as dicts with the columns of broker_sessions
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Event,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    NodeStarted,
    NodeStopped,
    RecordsLost,
    RegistrationCompleted,
)
from routebook.history.comparing.skew import (
    OWN_CLOCK,
    Sightings,
    Skew,
    samples_of,
    sightings,
    skew_of,
)
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook_spark.tables import OPEN

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(slots=True)
class PlainSilver:
    sessions: list[Row] = field(default_factory=list)
    suspects: list[Row] = field(default_factory=list)
    versions: list[Row] = field(default_factory=list)
    coverage: list[Row] = field(default_factory=list)
    skew: list[Row] = field(default_factory=list)


def plain_silver(by_node: Mapping[str, Sequence[Record]]) -> PlainSilver:
    silver = PlainSilver()
    for node, records in by_node.items():
        if records:
            _Replay(node, silver).play(records)
    silver.skew = list(_skew(by_node))
    return silver


def instant(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1000, UTC)


@dataclass(slots=True)
class _Begun:
    seq: int
    at_ms: int
    row: Row


class _Replay:
    """One node."""

    def __init__(self, node: str, silver: PlainSilver) -> None:
        self._node = node
        self._silver = silver
        self._view = View()
        self._stays: dict[Key, _Begun] = {}
        self._routes: dict[Key, _Begun] = {}
        self._held: dict[Key, _Begun] = {}
        self._cover: _Begun | None = None
        self._last_ms = 0
        self._lost_ms: int | None = None

    def play(self, records: Sequence[Record]) -> None:
        for record in records:
            self._take(record)
            self._last_ms = record.wall_ms
        last = records[-1]
        for key in list(self._stays):
            self._end_stay(key, None, 0, "")
        for key in list(self._routes):
            self._end_route(key, None, 0, "")
        for key in list(self._held):
            self._end_hold(key, None)
        self._end_cover(None, last.wall_ms, None)

    def _take(self, record: Record) -> None:
        event = record.event
        if isinstance(event, JournalRecovered):
            self._end_cover(record, self._last_ms, "killed")
        elif isinstance(event, RecordsLost):
            self._lost_ms = event.since_ms if self._lost_ms is None else self._lost_ms
            self._end_cover(record, event.since_ms, "records_lost")
        elif isinstance(event, NodeStarted):
            self._end_cover(record, self._last_ms, "killed")
            self._end_holds(record, self._held)
        self._note_holds(record)
        self._view.apply(record)
        self._settle(record)
        if isinstance(event, NodeStopped):
            self._end_cover(record, record.wall_ms, "stopped")
        elif not self._view.unsure and not isinstance(event, JournalRecovered):
            self._lost_ms = None
            if self._cover is None:
                begins = "started_warm" if getattr(event, "brokers", 0) else "started_cold"
                begins = begins if isinstance(event, NodeStarted) else "restated"
                self._cover = _Begun(record.seq, record.wall_ms, {"begins": begins})

    # -- coverage

    def _end_cover(self, record: Record | None, at_ms: int, ends: str | None) -> None:
        begun, self._cover = self._cover, None
        if begun is not None:
            self._silver.coverage.append(
                {
                    "node": self._node,
                    **begun.row,
                    "from_seq": begun.seq,
                    "to_seq": record.seq if record else None,
                    "from_at": instant(begun.at_ms),
                    "to_at": instant(max(begun.at_ms, at_ms)),
                    "ends": ends,
                    "until_day": _until(record, at_ms),
                }
            )

    # -- sessions and versions

    def _settle(self, record: Record) -> None:
        members = {
            (group.cluster, group.broker, broker_id, member.addr): member.heartbeat_timeout_ms
            for group in self._view.groups.by_key.values()
            for broker_id, member in group.members.items()
        }
        routes = {
            (group.cluster, group.broker, topic): shape
            for group in self._view.groups.by_key.values()
            for topic, shape in group.queues.items()
        }
        at_ms, cause = self._ending(record)
        for key in [key for key in self._stays if key not in members]:
            self._end_stay(key, record, at_ms, cause)
        for key in [
            key for key, route in self._routes.items() if routes.get(key) != route.row["shape"]
        ]:
            changed = key in routes
            self._end_route(
                key,
                record,
                record.wall_ms if changed else at_ms,
                record.event.cause.value if changed else cause,
            )
        began = "registered" if isinstance(record.event, BrokerRegistered) else "restated"
        for key, timeout_ms in members.items():
            row = {"began": began, "heartbeat_timeout_ms": timeout_ms}
            self._stays.setdefault(key, _Begun(record.seq, record.wall_ms, row))
        for key, shape in routes.items():
            row = {"shape": shape, "cause": record.event.cause.value}
            self._routes.setdefault(key, _Begun(record.seq, record.wall_ms, row))

    def _ending(self, record: Record) -> tuple[int, str]:
        """When and why what is no longer there after ``record`` ended."""
        event = record.event
        if isinstance(event, NodeStarted):
            return self._last_ms, "node_restarted"
        if isinstance(event, BrokerLeft):
            return record.wall_ms, event.cause.value
        if isinstance(event, BrokerRegistered):
            return record.wall_ms, "moved"
        if self._lost_ms is not None:
            return self._lost_ms, "lost_track"
        return record.wall_ms, event.cause.value

    def _end_stay(self, key: Key, record: Record | None, at_ms: int, cause: str) -> None:
        begun = self._stays.pop(key)
        self._end_holds(record, [held for held in self._held if held == key] if record else ())
        if cause in ("node_restarted", "lost_track"):
            at_ms = max(at_ms, begun.at_ms)
        self._silver.sessions.append(
            {
                "node": self._node,
                **dict(zip(("cluster", "broker", "broker_id", "addr"), key, strict=True)),
                **begun.row,
                "from_seq": begun.seq,
                "to_seq": record.seq if record else None,
                "began_at": instant(begun.at_ms),
                "ended_at": instant(at_ms) if record else None,
                "cause": cause if record else None,
                "until_day": _until(record, at_ms),
            }
        )

    def _end_route(self, key: Key, record: Record | None, at_ms: int, cause: str) -> None:
        begun = self._routes.pop(key)
        if cause in ("node_restarted", "lost_track"):
            at_ms = max(at_ms, begun.at_ms)
        shape = begun.row.pop("shape")
        self._silver.versions.append(
            {
                "node": self._node,
                **dict(zip(("cluster", "broker", "topic"), key, strict=True)),
                **dict(zip(("read_queues", "write_queues", "perm", "flags"), shape, strict=True)),
                **begun.row,
                "from_seq": begun.seq,
                "to_seq": record.seq if record else None,
                "valid_from": instant(begun.at_ms),
                "valid_to": instant(at_ms) if record else None,
                "end_cause": cause if record else None,
                "until_day": _until(record, at_ms),
            }
        )

    # -- the guard

    def _note_holds(self, record: Record) -> None:
        event = record.event
        if isinstance(event, GuardReleased):
            self._end_holds(record, self._held)
        elif isinstance(event, GuardEngaged):
            for who in event.suspects:
                key = (who.cluster, who.broker, who.broker_id, who.addr)
                self._end_holds(record, [held for held in self._held if held == key])
                self._held[key] = _Begun(record.seq, record.wall_ms, {"silent_ms": who.silent_ms})
        elif (key := _heard(event)) in self._held:
            silent_ms = self._held[key].row["silent_ms"]
            if not isinstance(event, HeartbeatGaps) or max(event.gaps_ms) >= silent_ms:
                self._end_hold(key, record)

    def _end_holds(self, record: Record | None, keys: Iterable[Key]) -> None:
        for key in list(keys):
            self._end_hold(key, record)

    def _end_hold(self, key: Key, record: Record | None) -> None:
        begun = self._held.pop(key)
        self._silver.suspects.append(
            {
                "node": self._node,
                **dict(zip(("cluster", "broker", "broker_id", "addr"), key, strict=True)),
                **begun.row,
                "kind": "held",
                "from_seq": begun.seq,
                "to_seq": record.seq if record else None,
                "from_at": instant(begun.at_ms),
                "to_at": instant(record.wall_ms) if record else None,
                "until_day": _until(record, record.wall_ms if record else 0),
            }
        )


def _heard(event: Event) -> Key:
    if isinstance(event, BrokerRegistered | RegistrationCompleted | HeartbeatGaps):
        return event.cluster, event.broker, event.broker_id, event.addr
    return ()


def _until(record: Record | None, at_ms: int) -> date:
    if record is None:
        return OPEN
    return max(instant(at_ms).date(), instant(record.wall_ms).date())


def _skew(by_node: Mapping[str, Sequence[Record]]) -> Iterator[Row]:
    days = sorted(
        {(instant(one.wall_ms).date(), one.node) for each in by_node.values() for one in each}
    )
    for day, node in days:
        against = min(other for of_day, other in days if of_day == day)
        today = [_taken(by_node[name], day, day) for name in (against, node)]
        skew = _estimate(*today) if node != against else OWN_CLOCK
        if node != against and skew.samples < 3:
            so_far = [_taken(by_node[name], date.min, day) for name in (against, node)]
            skew = _estimate(*so_far)
        yield {
            "day": day,
            "node": node,
            "against": against,
            "offset_ms": skew.offset_ms,
            "uncertainty_ms": skew.uncertainty_ms,
            "samples": skew.samples,
        }


def _estimate(here: Sightings, there: Sightings) -> Skew:
    found = samples_of(here, there, lambda _: True, lambda _: True)
    return skew_of(sample.measured for sample in found)


def _taken(records: Sequence[Record], first: date, last: date) -> Sightings:
    return sightings((one, 0) for one in records if first <= instant(one.wall_ms).date() <= last)
