"""One node that lives through a plan, and the journal it writes.

The tables are those of a real node, so that records never contradict each other. Heartbeats are not
played to it one by one (``Beats``): the deadline of a broker is far away until it falls silent.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from pathlib import Path

import numpy as np
from benchmarks.generate_beats import Beats, Numbers
from benchmarks.generate_fleet import TIMEOUT_MS, PlannedFleet
from benchmarks.generate_plan import MINUTE_MS, ZONES, Ending, Kind, Scale
from benchmarks.generate_segments import Segments, gaps_opening

from routebook.events import (
    Cause,
    Event,
    NodeStarted,
    NodeStopped,
    QueryCount,
    RecordsLost,
    RouteQueries,
)
from routebook.recovery import restate
from routebook.slices import carried_out
from routebook.state.facts import Fact
from routebook.state.model import Member, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

SKEW_MS = 400  # at most, either way
UPTIME_MS = 1_000_000  # of the machines, before the first node started
TOPICS_A_RECORD = 1000
ADMIN = "10.255.0.9:50312"
_FAR_MS = 1 << 60


@dataclass(frozen=True, slots=True)
class Happening:
    """A row of the plan."""

    kind: Kind
    happened_ms: int
    at_ms: int
    broker: int
    value: int
    values: Numbers


class GeneratedNode:
    """``number`` is that of the node among all nodes of ``scale``."""

    def __init__(self, scale: Scale, number: int, folder: Path) -> None:
        count = scale.brokers
        self._scale = scale
        self._midnight_ms = int(datetime.combine(scale.first_day, time(), UTC).timestamp() * 1000)
        self._skew_ms = (number * 2_654_435_761 + scale.seed * 7919) % (2 * SKEW_MS) - SKEW_MS
        self.journal = Segments(folder / f"ns-{number + 1}", f"ns-{number + 1}")
        self._now_ms = 0
        self._up = False
        self._revision = Revision()
        self._table = self._empty_table()
        self._fleet = PlannedFleet(scale, began_ms=self._midnight_ms)
        self._brokers = self._fleet.brokers
        self._running = np.zeros(count, bool)
        self._hung = np.zeros(count, bool)
        self._cut = np.zeros(count, bool)

        self._beats = Beats(count)
        self._links = [0] * count  # 0: none
        self._last_link = 0
        self._told: list[VersionStamp | None] = [None] * count
        self._to_speak: list[tuple[int, int]] = []  # time and broker, the next one first
        self._losing_since_ms: int | None = None
        self._lost = 0

    def take(self, happening: Happening) -> None:
        self._let_pass(happening.at_ms)
        self._now_ms = max(self._now_ms, happening.at_ms)
        _TAKE[happening.kind](self, happening)

    def close(self) -> None:
        self.journal.close()

    # -- time

    def _let_pass(self, until_ms: int) -> None:
        """What the plan does not say: brokers that are due to be heard of, or to expire."""
        while True:
            speaks_ms = self._to_speak[0][0] if self._to_speak else _FAR_MS
            deadline_ms = self._table.members.next_deadline_ms() if self._up else None
            expires_ms = _FAR_MS if deadline_ms is None else deadline_ms + 1
            if min(speaks_ms, expires_ms) > until_ms:
                return
            self._now_ms = max(self._now_ms, min(speaks_ms, expires_ms))
            if expires_ms <= speaks_ms:
                self._expire()
            else:
                self._speak(heapq.heappop(self._to_speak)[1])

    def _expire(self) -> None:
        events, _ = carried_out(self._table.expire(self._now_ms))
        self._write(events)
        if events:
            for number in np.flatnonzero(self._beats.listed).tolist():
                self._note_whether_left(number)

    # -- records

    def _write(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._losing_since_ms is not None:
                self._lost += 1
            else:
                self.journal.write(event, wall_ms=self._wall_ms, mono_ms=self._mono_ms)

    @property
    def _wall_ms(self) -> int:
        return self._midnight_ms + self._now_ms + self._skew_ms

    @property
    def _mono_ms(self) -> int:
        return UPTIME_MS + self._now_ms

    def _note(self, cause: Cause) -> Fact:
        return {"revision": self._revision.value, "cause": cause, "peer": ""}

    # -- the node

    def _empty_table(self) -> RouteTable:
        return RouteTable(
            self._revision,
            max_topics_per_broker=300_000,
            max_route_entries=10_000_000,
            max_brokers_per_group=64,
        )

    def _start(self, happening: Happening) -> None:
        if self._up:
            return
        self._up = True
        members = self._table.members
        if happening.value:
            self._table.recovered(self._now_ms)
            for member in members.live():
                member.link = member.other_link = None
                member.known = member.known._replace(confirmed=False)
                members.hear(member, self._now_ms)
        else:
            self._table = self._empty_table()
            self._table.members.skip_generations(members.last_generation)
            self._told = [None] * len(self._told)
        self._write(
            [
                NodeStarted(
                    **self._note(Cause.START),
                    version="1.0",
                    address="0.0.0.0:9876",
                    brokers=len(self._table.members.live()),
                    topics=self._topic_count(),
                )
            ]
        )
        for number in np.flatnonzero(self._running & ~self._hung & ~self._cut).tolist():
            self._speak_soon(number)

    def _stop(self, _: Happening) -> None:
        if not self._up:
            return
        self._find_room()
        brokers = len(self._table.members.live())
        note = self._note(Cause.STOP)
        self._write([NodeStopped(**note, brokers=brokers, topics=self._topic_count())])
        self._up = False
        self._beats.unlist_all()
        self._links = [0] * len(self._links)
        self._to_speak.clear()

    def _topic_count(self) -> int:
        return sum(1 for _ in self._table.topics)

    def _lose(self, _: Happening) -> None:
        if self._up:
            self._losing_since_ms = self._wall_ms

    def _room(self, _: Happening) -> None:
        self._find_room()

    def _find_room(self) -> None:
        since_ms, self._losing_since_ms = self._losing_since_ms, None
        lost, self._lost = self._lost, 0
        if since_ms is not None and lost:
            note = self._note(Cause.JOURNAL)
            self._write([RecordsLost(**note, count=lost, since_ms=since_ms)])
            self._write(restate(self._table, {}, self._revision))

    # -- brokers

    def _find(self, number: int) -> Member | None:
        broker = self._brokers[number]
        return self._table.members.find_live(broker.cluster, broker.addr)

    def _reaches(self, number: int) -> bool:
        """Whether the broker, if it runs, can talk to the node."""
        return self._up and not self._cut[number] and not self._hung[number]

    def _register(self, number: int, *, anew: bool) -> None:
        """``anew``: on a new connection."""
        if anew or not self._links[number]:
            self._connect(number)
        registration = self._fleet.registration(number, link=self._links[number])
        for events in _slices(self._table, registration, now_ms=self._now_ms):
            self._write(events)
        self._told[number] = registration.stamp
        self._hear(number)

    def _connect(self, number: int) -> None:
        self._last_link += 1
        self._links[number] = self._last_link

    def _hear(self, number: int) -> None:
        """The node has just heard of a broker it knows."""
        member = self._find(number)
        assert member is not None
        self._table.members.hold(member, _FAR_MS)
        self._beats.hear(number, self._now_ms)
        broker = self._brokers[number]
        opening = gaps_opening(broker.cluster, broker.name, 0, broker.addr, member.known.generation)
        self._beats.name(number, opening)

    def _speak(self, number: int) -> None:
        """A sign of life of a broker that the node may have forgotten, or not yet heard of."""
        if not self._running[number] or not self._reaches(number):
            return
        member = self._find(number)
        if member is None or self._told[number] != self._brokers[number].version:
            self._register(number, anew=member is None)
        else:
            if not self._links[number]:
                self._connect(number)
            broker, link = self._brokers[number], self._links[number]
            _, events = self._table.heartbeat(
                broker.cluster, broker.addr, link=link, peer=broker.peer(link), now_ms=self._now_ms
            )
            self._write(events)
            self._hear(number)

    def _speak_soon(self, number: int) -> None:
        heapq.heappush(self._to_speak, (self._beats.next_ms(number, self._now_ms), number))

    def _note_whether_left(self, number: int) -> None:
        if self._find(number) is None:
            self._beats.unlist(number)
            self._links[number] = 0

    def _fall_silent(self, number: int) -> None:
        """From now on nothing is heard of it; the node finds out when its time is up."""
        if self._beats.is_mute(number):
            return
        member = self._find(number)
        if member is not None and self._beats.listed[number]:
            last_ms = self._beats.last_ms(number, self._now_ms)
            self._table.members.hold(member, last_ms + TIMEOUT_MS)
        self._beats.mute(number, self._now_ms)

    def _unmute(self, number: int) -> None:
        if self._running[number] and not self._hung[number] and not self._cut[number]:
            self._beats.unmute(number, self._now_ms)

    def _down(self, happening: Happening) -> None:
        number = happening.broker
        if not self._running[number]:
            return
        self._running[number] = False
        if self._beats.listed[number] and self._reaches(number):
            broker, link = self._brokers[number], self._links[number]
            peer = broker.peer(link)
            match Ending(happening.value):
                case Ending.ORDERLY:
                    names = broker.cluster, broker.name, broker.addr
                    leaving = self._table.unregister(*names, link=link, peer=peer)
                    self._write(carried_out(leaving)[0])
                case Ending.KILLED:
                    closing = self._table.close_link(link, Cause.CONNECTION_CLOSED, peer)
                    self._write(carried_out(closing)[0])
                case Ending.SILENT:
                    self._fall_silent(number)
            self._note_whether_left(number)
        self._hung[number] = False
        self._beats.mute(number, self._now_ms)

    def _come_up(self, happening: Happening) -> None:
        number = happening.broker
        if self._running[number]:
            return
        self._running[number] = True
        self._unmute(number)
        if self._reaches(number):
            self._register(number, anew=True)

    def _hang(self, happening: Happening) -> None:
        number = happening.broker
        if self._running[number] and not self._hung[number]:
            self._hung[number] = True
            self._fall_silent(number)

    def _wake(self, happening: Happening) -> None:
        number = happening.broker
        if self._hung[number]:
            self._hung[number] = False
            self._unmute(number)
            self._speak(number)

    def _cut_off(self, happening: Happening) -> None:
        for number in range(happening.value, len(self._brokers), ZONES):
            self._cut[number] = True
            self._fall_silent(number)

    def _heal(self, happening: Happening) -> None:
        for number in range(happening.value, len(self._brokers), ZONES):
            self._cut[number] = False
            self._unmute(number)
            self._speak_soon(number)

    # -- topics

    def _create(self, happening: Happening) -> None:
        number = happening.broker
        if not self._running[number] or self._hung[number]:
            return
        broker = self._brokers[number]
        made = f"made-{number:04d}-{happening.happened_ms // MINUTE_MS}"
        broker.created += [f"{made}-{n}" for n in range(happening.value)]
        self._change(number, happening)

    def _delete(self, happening: Happening) -> None:
        broker = self._brokers[happening.broker]
        if not broker.created:
            return
        topic = broker.created.pop(happening.value % len(broker.created))
        if self._up:
            self._write(carried_out(self._table.delete_topic(topic, None, peer=ADMIN))[0])
        self._change(happening.broker, happening)

    def _change(self, number: int, happening: Happening) -> None:
        """The broker has other topics than before, and says so if it can."""
        self._brokers[number].change(self._midnight_ms + happening.happened_ms)
        if self._running[number] and self._beats.listed[number] and self._reaches(number):
            self._register(number, anew=False)

    def _set_writable(self, happening: Happening) -> None:
        if self._up:
            name = self._brokers[happening.broker].name
            writable = happening.kind is Kind.UNDRAIN
            changes = self._table.set_writable(name, writable=writable, peer=ADMIN)
            self._write(carried_out(changes)[0])

    # -- what is counted

    def _window(self, happening: Happening) -> None:
        if not self._up:
            return
        while self._table.topics.clear_some():
            pass
        gaps = self._beats.count(happening.happened_ms, happening.values)
        if self._losing_since_ms is not None:
            self._lost += len(gaps)
            return
        self.journal.write_gaps(
            gaps, wall_ms=self._wall_ms, mono_ms=self._mono_ms, revision=self._revision.value
        )

    def _queries(self, happening: Happening) -> None:
        if not self._up:
            return
        asked: Counter[int] = Counter()
        for topic, count in happening.values.reshape(-1, 2).tolist():
            asked[topic] += count
        counts = [self._count(topic, count) for topic, count in sorted(asked.items())]
        for start in range(0, len(counts), TOPICS_A_RECORD):
            part = tuple(counts[start : start + TOPICS_A_RECORD])
            note = self._note(Cause.WINDOW)
            self._write([RouteQueries(**note, window_ms=MINUTE_MS, topics=part, others=0)])

    def _count(self, topic: int, count: int) -> QueryCount:
        name = self._fleet.topics[topic] if topic >= 0 else f"typo-{-topic:02d}"
        known = bool(self._table.topics.queues(name))
        return QueryCount(name, count if known else 0, 0 if known else count, 0)


_TAKE = {
    Kind.START: GeneratedNode._start,
    Kind.STOP: GeneratedNode._stop,
    Kind.CUT: GeneratedNode._cut_off,
    Kind.HEAL: GeneratedNode._heal,
    Kind.LOSE: GeneratedNode._lose,
    Kind.ROOM: GeneratedNode._room,
    Kind.DOWN: GeneratedNode._down,
    Kind.UP: GeneratedNode._come_up,
    Kind.HANG: GeneratedNode._hang,
    Kind.WAKE: GeneratedNode._wake,
    Kind.CREATE: GeneratedNode._create,
    Kind.DELETE: GeneratedNode._delete,
    Kind.DRAIN: GeneratedNode._set_writable,
    Kind.UNDRAIN: GeneratedNode._set_writable,
    Kind.WINDOW: GeneratedNode._window,
    Kind.QUERIES: GeneratedNode._queries,
}


def _slices(table: RouteTable, registration: Registration, *, now_ms: int) -> Iterator[list[Event]]:
    slices = table.register(registration, now_ms=now_ms)
    while True:
        try:
            yield next(slices)
        except StopIteration as done:
            yield done.value.events
            return
