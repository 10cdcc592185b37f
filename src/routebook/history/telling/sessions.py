"""Sessions of brokers with one node, with their heartbeats, and why each ended.

A session is one address under one id of one broker name. A new connection of a broker that had not
left is the same session, and so is what the node recovered from its journal after a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from routebook.events import (
    BrokerConflict,
    BrokerEvent,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    Event,
    GroupRestated,
    HeartbeatGaps,
    NodeStarted,
    RequestRefused,
    StateRestated,
)
from routebook.heartbeats import is_near_miss
from routebook.history.finding.clocks import Runs, Stamp, elapsed_ms
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import Silence, Silences, apply
from routebook.history.telling.reasons import why_left
from routebook.journal.groups import MemberView
from routebook.journal.record import Record
from routebook.journal.view import View


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Gaps between signs of life; the numbers are None when none was counted."""

    count: int
    median_ms: int | None
    longest_ms: int | None
    near_misses: int


@dataclass(frozen=True, slots=True)
class Session:
    """``ended_ms`` None: it lasts, and ``lasted_ms`` is up to the last record.

    ``began`` and ``ended`` are phrases. ``unseen_ms`` of it the node was no witness.
    """

    node: str
    cluster: str
    broker: str
    broker_id: int
    addr: str
    began_ms: int
    began_seq: int
    began: str
    peer: str
    ended_ms: int | None
    ended_cause: Cause | None
    ended: str
    lasted_ms: int
    connections: int
    unseen_ms: int
    timeout_ms: int
    heartbeats: Heartbeats


@dataclass(frozen=True, slots=True)
class BrokerHistory:
    """Everything about the brokers of one name on one node."""

    sessions: tuple[Session, ...]
    conflicts: tuple[Record, ...]
    refusals: tuple[Record, ...]
    silences: tuple[Silence, ...]


def broker_history(
    records: Iterable[Record],
    broker: str,
    *,
    known: View | None = None,
    until_ms: int | None = None,
) -> BrokerHistory:
    """What ``records`` tell of ``broker``; ``known`` is what was known before them.

    ``until_ms`` is up to when they tell it, if that is after the last of them.
    """
    found = _Sessions(broker, known or View())
    for record in records:
        found.take(record)
    return found.history(until_ms)


@dataclass(slots=True)
class _CurrentSession:
    node: str
    cluster: str
    broker: str
    broker_id: int
    addr: str
    since: Stamp
    seq: int
    began: str
    peer: str
    timeout_ms: int
    connections: int = 1
    unseen_ms: int = 0
    gaps_ms: list[int] = field(default_factory=list)
    near_misses: int = 0

    def session(self, end: Stamp, cause: Cause | None, why: str, *, lasts: bool = False) -> Session:
        return Session(
            node=self.node,
            cluster=self.cluster,
            broker=self.broker,
            broker_id=self.broker_id,
            addr=self.addr,
            began_ms=self.since.wall_ms,
            began_seq=self.seq,
            began=self.began,
            peer=self.peer,
            ended_ms=None if lasts else end.wall_ms,
            ended_cause=cause,
            ended=why,
            lasted_ms=elapsed_ms(self.since, end),
            connections=self.connections,
            unseen_ms=self.unseen_ms,
            timeout_ms=self.timeout_ms,
            heartbeats=Heartbeats(
                count=len(self.gaps_ms),
                median_ms=round(median(self.gaps_ms)) if self.gaps_ms else None,
                longest_ms=max(self.gaps_ms, default=None),
                near_misses=self.near_misses,
            ),
        )


Place = tuple[str, str, int, str]  # cluster, broker name, id, address


class _Sessions:
    def __init__(self, broker: str, known: View) -> None:
        self._broker = broker
        self._view = narrow_view(known, None)
        self._silences = Silences(known.wall_ms if known.seq else None)
        self._runs = Runs()
        self._open: dict[Place, _CurrentSession] = {}
        self._sessions: list[Session] = []
        self._conflicts: list[Record] = []
        self._refusals: list[Record] = []
        self._found: list[Silence] = []
        self._last = Stamp(0, known.wall_ms, 0)
        for place, member in self._members().items():
            since = Stamp(None, member.since_ms, 0)
            current = _begun(None, place, since, member, "registered before")
            current.node = known.node
            self._open[place] = current

    def take(self, whole: Record) -> None:
        record = narrow_record(whole, None)
        event = record.event
        silence = self._silences.next(record, listed=bool(self._open))
        self._last = stamp = self._runs.stamp(record)
        apply(self._view, record)
        if silence is not None:
            self._fall_silent(silence)
        match event:
            case HeartbeatGaps() if event.broker == self._broker:
                self._count(event)
            case BrokerConflict() if event.broker == self._broker:
                self._conflicts.append(record)
            case RequestRefused() if event.is_about_broker(self._broker):
                self._refusals.append(record)
            case BrokerEvent() if event.broker == self._broker:
                self._settle(record, stamp)
            case NodeStarted() | GroupRestated() | StateRestated():
                self._settle(record, stamp)

    def history(self, until_ms: int | None) -> BrokerHistory:
        end = self._last if until_ms is None else Stamp(None, until_ms, 0)
        lasting = [current.session(end, None, "", lasts=True) for current in self._open.values()]
        return BrokerHistory(
            tuple(sorted([*self._sessions, *lasting], key=lambda s: s.began_seq)),
            tuple(self._conflicts),
            tuple(self._refusals),
            tuple(self._found),
        )

    def _members(self) -> dict[Place, MemberView]:
        return {
            (group.cluster, group.broker, broker_id, member.known.addr): member
            for group in self._view.groups.by_key.values()
            if group.broker == self._broker
            for broker_id, member in group.members.items()
        }

    def _settle(self, record: Record, stamp: Stamp) -> None:
        """End the sessions of those that are gone, and begin those of the new."""
        event, members = record.event, self._members()
        for place in self._open.keys() - members.keys():
            current = self._open.pop(place)
            end, why = self._ending(record, current, stamp)
            self._sessions.append(current.session(end, event.cause, why))
        for place, member in members.items():
            known = self._open.get(place)
            if known is None:
                began = _began(event, place)
                self._open[place] = _begun(record, place, stamp, member, began)
                continue
            known.timeout_ms = member.known.heartbeat_timeout_ms
            if isinstance(event, BrokerRegistered) and event.addr == known.addr:
                known.connections += 1

    def _ending(self, record: Record, current: _CurrentSession, stamp: Stamp) -> tuple[Stamp, str]:
        event = record.event
        if isinstance(event, BrokerLeft):
            return stamp, why_left(event.cause)
        if isinstance(event, BrokerRegistered) and event.addr == current.addr:
            return stamp, f"its id changed to {event.broker_id}"
        why = (
            "the node restarted without it"
            if isinstance(event, NodeStarted)
            else "it was gone when the tables were written down after records were lost"
        )
        # Nobody saw it leave. What is sure is how long it was there.
        since_ms = self._found[-1].since_ms if self._found else stamp.wall_ms
        return Stamp(None, max(since_ms, current.since.wall_ms), 0), why

    def _count(self, event: HeartbeatGaps) -> None:
        current = self._open.get((event.cluster, event.broker, event.broker_id, event.addr))
        if current is not None:
            current.gaps_ms += event.gaps_ms
            current.near_misses += sum(
                is_near_miss(gap, current.timeout_ms) for gap in event.gaps_ms
            )

    def _fall_silent(self, silence: Silence) -> None:
        self._found.append(silence)
        for current in self._open.values():
            current.unseen_ms += max(
                0, silence.until_ms - max(silence.since_ms, current.since.wall_ms)
            )


def _begun(
    record: Record | None, place: Place, since: Stamp, member: MemberView, began: str
) -> _CurrentSession:
    cluster, broker, broker_id, addr = place
    return _CurrentSession(
        node=record.node if record else "",
        cluster=cluster,
        broker=broker,
        broker_id=broker_id,
        addr=addr,
        since=since,
        seq=record.seq if record else 0,
        began=began,
        peer=record.event.peer if record else "",
        timeout_ms=member.known.heartbeat_timeout_ms,
    )


def _began(event: Event, place: Place) -> str:
    if not isinstance(event, BrokerRegistered):
        return "was written down after records were lost"
    was_id = next((i for i, addr in event.addrs_before.items() if addr == event.addr), None)
    if was_id is not None and was_id != place[2]:
        return f"changed its id from {was_id}"
    return "registered"
