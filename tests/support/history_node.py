"""A node to which things happen, with its real tables and the records it writes of them.

Time is given: ``true_ms`` is what a perfect clock says, on which the node's own may be wrong.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar
from unittest.mock import patch

from routebook import recovery
from routebook.events import (
    Cause,
    ConfigChanged,
    Event,
    HeartbeatGaps,
    JournalRecovered,
    NodeStarted,
    NodeStopped,
    QueryCount,
    RecordsLost,
    RouteQueries,
    StateRestated,
)
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.recovery import restate, restore
from routebook.slices import carried_out
from routebook.state.facts import Changes, Fact
from routebook.state.guard import GuardSettings
from routebook.state.kv import KvChange, KvStore
from routebook.state.model import Registration
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

T = TypeVar("T")

LEAP = 2**20
GUARD = GuardSettings(share_percent=50, min_brokers=3, window_ms=60_000, hold_ms=600_000)


class HistoryNode:
    """``skew_ms`` is how far its wall clock is ahead. Down until it is started."""

    def __init__(self, name: str, *, skew_ms: int, now_ms: int) -> None:
        self.name = name
        self.skew_ms = skew_ms
        self.up = False
        self.records: list[Record] = []
        self.view = View()
        self.revision = Revision()
        self.kv = KvStore(self.revision, 100_000)
        self.cut_off: set[str] = set()  # addresses that cannot reach it
        self._now_ms = now_ms
        self._booted_ms = now_ms - 1_000_000
        self._seq = 0
        self._losing_since_ms: int | None = None
        self._lost = 0
        self._restating: Iterator[Event] = iter(())
        self._links = 0
        self.table = self._empty()

    def _empty(self) -> RouteTable:
        return RouteTable(
            self.revision, max_topics_per_broker=1000, max_route_entries=10_000, guard=GUARD
        )

    # -- time and records

    def at(self, true_ms: int) -> "HistoryNode":
        self._now_ms = max(self._now_ms, true_ms)
        return self

    @property
    def mono_ms(self) -> int:
        return self._now_ms - self._booted_ms

    def write(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._losing_since_ms is not None:
                self._lost += 1
                continue
            self._seq += 1
            wall_ms = self._now_ms + self.skew_ms
            record = Record(self._seq, wall_ms, self.mono_ms, self.name, event)
            self.records.append(record)
            self.view.apply(record)

    def _note(self, cause: Cause) -> Fact:
        return {"revision": self.revision.value, "cause": cause, "peer": ""}

    # -- the node itself

    def start(self, *, warm: bool) -> None:
        self.up = True
        self.revision.value = max(self.revision.value, self.view.revision)
        self.table = self._empty()
        brokers = 0
        if warm:
            unsure = self.view.unsure
            self.view.restart(wall_ms=self._now_ms + self.skew_ms)
            brokers = restore(self.view, self.table, now_ms=self.mono_ms)
            if unsure:
                self._restating = restate(self.table, self.kv.tables, self.revision)
        else:
            self.table.members.skip_generations(self.view.generation)
        topics = len(list(self.table.topics))
        about = {"version": "1.0", "address": "10.0.1.1:9876"}
        self.write(
            [NodeStarted(**self._note(Cause.START), **about, brokers=brokers, topics=topics)]
        )

    def stop(self) -> None:
        self._find_room()
        brokers = sum(len(group.members) for group in self.table.members.groups())
        topics = len(list(self.table.topics))
        self.write([NodeStopped(**self._note(Cause.STOP), brokers=brokers, topics=topics)])
        self._go_down()

    def be_killed(self, *, unwritten: int) -> None:
        """The last ``unwritten`` records never reached the disk."""
        started = max(
            i for i, item in enumerate(self.records) if isinstance(item.event, NodeStarted)
        )
        keep = max(started + 1, len(self.records) - unwritten)
        if keep < len(self.records):
            del self.records[keep:]
            self.view = replayed(self.records)
        self._go_down()

    def recover(self, *, warm: bool) -> None:
        """Start again after having been killed."""
        last_seq = self.records[-1].seq
        self._seq = (self._seq // LEAP + 1) * LEAP - 1
        self.write([JournalRecovered(**self._note(Cause.JOURNAL), last_seq=last_seq, torn_bytes=0)])
        self.start(warm=warm)

    def boot_machine(self) -> None:
        """The monotonic clock begins anew."""
        self._booted_ms = self._now_ms - 20_000

    def _go_down(self) -> None:
        self.up = False
        self._losing_since_ms = None
        self._lost = 0
        self._restating = iter(())

    # -- a journal that cannot keep up

    def begin_to_lose(self) -> None:
        self._losing_since_ms = self._now_ms + self.skew_ms

    @property
    def losing(self) -> bool:
        return self._losing_since_ms is not None

    def _find_room(self) -> None:
        since_ms, self._losing_since_ms = self._losing_since_ms, None
        if self._lost and since_ms is not None:
            self.write(
                [RecordsLost(**self._note(Cause.JOURNAL), count=self._lost, since_ms=since_ms)]
            )
            self._restating = restate(self.table, self.kv.tables, self.revision)
        self._lost = 0

    def catch_up(self) -> None:
        """There is room again."""
        self._find_room()

    def restate_some(self, events: int) -> None:
        if self.losing:
            return
        # A few topics at a time, so that groups are told in parts and things happen in between.
        with patch.object(recovery, "RESTATED_A_SLICE", 3):
            for event in islice(self._restating, events):
                self.write([event])
                if isinstance(event, StateRestated):
                    self._restating = iter(())

    # -- brokers

    def new_link(self) -> int:
        self._links += 1
        return self._links

    def register(self, registration: Registration) -> None:
        slices = self.table.register(registration, now_ms=self.mono_ms, delete_absent_topics=True)
        while True:
            try:
                self.write(next(slices))
            except StopIteration as done:
                self.write(done.value.events)
                return

    def heartbeat(self, cluster: str, addr: str, *, link: int, peer: str) -> bool:
        """Whether it is registered."""
        member, events = self.table.heartbeat(
            cluster, addr, link=link, peer=peer, now_ms=self.mono_ms
        )
        self.write(events)
        return member is not None

    def close(self, link: int, peer: str) -> None:
        self.carry_out(self.table.close_link(link, Cause.CONNECTION_CLOSED, peer))

    def expire(self) -> list[int]:
        """The connections that were closed."""
        return self.carry_out(self.table.expire(self.mono_ms))

    def carry_out(self, changes: Changes[T]) -> T:
        """All slices of a change at once; its result."""
        events, result = carried_out(changes)
        self.write(events)
        return result

    # -- windows and administration

    def sum_up(self, queries: tuple[QueryCount, ...], *, window_ms: int) -> None:
        self.write(
            HeartbeatGaps(
                **self._note(Cause.WINDOW),
                cluster=member.group.cluster,
                broker=member.group.name,
                broker_id=member.broker_id,
                addr=member.addr,
                generation=member.generation,
                window_ms=window_ms,
                gaps_ms=gaps,
            )
            for member, gaps in self.table.members.take_gaps()
        )
        if queries:
            note = self._note(Cause.WINDOW)
            self.write([RouteQueries(**note, window_ms=window_ms, topics=queries, others=1)])

    def change_kv(self, key: str, value: str | None) -> None:
        self.write(self.kv.apply([KvChange("ORDER_TOPIC_CONFIG", key, value, "10.0.9.9:1")]))

    def configure(self, before: str, after: str) -> None:
        name = "needWaitForService"
        note = self._note(Cause.ADMIN)
        self.write([ConfigChanged(**note, before={name: before}, after={name: after})])


def replayed(records: Iterable[Record]) -> View:
    view = View()
    for record in records:
        view.apply(record)
    return view
