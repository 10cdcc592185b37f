"""Stories: what happens on a node, told to its own tables, as the records a journal would hold.

story = Story()
story.at("03:12:04").register("broker-a", topics=["orders"])
story.at("03:40:11").lose("broker-a")
assert len(story.records) == 5
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from routebook.events import (
    BrokerConfirmed,
    Cause,
    Event,
    HeartbeatGaps,
    JournalRecovered,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    QueryCount,
    RecordsLost,
    RouteQueries,
    StaticMapping,
)
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.slices import carried_out
from routebook.state.model import QueueShape, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

DAY = "2026-11-15"
SHAPE = QueueShape(8, 8, 6, 0)
TIMEOUT_MS = 120_000
WINDOW_MS = 60_000


class _Note(TypedDict):
    revision: int
    cause: Cause
    peer: str


def ms(time: str) -> int:
    """``03:12:04`` of the day of all stories, or any ISO time."""
    text = time if "T" in time else f"{DAY}T{time}+00:00"
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@dataclass(slots=True)
class Story:
    """One node. Brokers live at 10.0.0.<number>:10911 and call from port 40112 of that host.

    ``awake``: it says so once a minute when there is nothing else to say, as nodes do. Without that
    a story that waits for long is one of a node that may have been frozen meanwhile.
    """

    node: str = "ns-1-0a1b2c3d"
    now_ms: int = ms("03:00:00")
    clock_ahead_ms: int = 0
    awake: bool = False
    records: list[Record] = field(default_factory=list)
    _revision: Revision = field(default_factory=Revision)
    _links: dict[tuple[str, int], int] = field(default_factory=dict)
    _peers: dict[int, str] = field(default_factory=dict)
    _connections: int = 0
    _versions: int = 0
    _started_ms: int = 0
    _booted_ms: int = ms("00:00:00")
    _seq: int = 0
    _table: RouteTable = field(init=False)

    def __post_init__(self) -> None:
        self._table = self._new_table()

    def _new_table(self) -> RouteTable:
        return RouteTable(
            self._revision,
            max_topics_per_broker=300_000,
            max_route_entries=10_000_000,
            max_brokers_per_group=64,
        )

    # -- time

    def at(self, time: str) -> "Story":
        return self._go_on(ms(time))

    def wait(self, seconds: float) -> "Story":
        return self._go_on(self.now_ms + round(seconds * 1000))

    def _go_on(self, now_ms: int) -> "Story":
        if self.awake and self.records and not isinstance(self.records[-1].event, NodeStopped):
            while self.now_ms + WINDOW_MS < now_ms:
                self.now_ms += WINDOW_MS
                self.add(
                    RouteQueries(
                        **self._note(Cause.WINDOW), window_ms=WINDOW_MS, topics=(), others=0
                    )
                )
        self.now_ms = now_ms
        return self

    # -- what is recorded

    def add(self, *events: Event) -> "Story":
        for event in events:
            self._seq += 1
            wall_ms = self.now_ms + self.clock_ahead_ms
            mono_ms = self.now_ms - self._booted_ms
            self.records.append(Record(self._seq, wall_ms, mono_ms, self.node, event))
        return self

    def view(self) -> View:
        """All that was recorded, replayed."""
        view = View()
        for record in self.records:
            view.apply(record)
        return view

    # -- brokers

    def register(
        self,
        broker: str = "broker-a",
        broker_id: int = 0,
        *,
        topics: Sequence[str] | Mapping[str, QueueShape] = ("orders", "payments"),
        host: int | None = None,
        peer: str | None = None,
        cluster: str = "c",
        acting_master: bool | None = None,
        version: int | None = None,
        same_connection: bool = False,
        mappings: tuple[StaticMapping, ...] = (),
    ) -> "Story":
        number = (ord(broker[-1]) - ord("a") + 1 + 100 * broker_id) if host is None else host
        if not same_connection or (broker, broker_id) not in self._links:
            self._connections += 1
            self._links[broker, broker_id] = self._connections
        link = self._links[broker, broker_id]
        self._peers[link] = peer or f"10.0.0.{number}:40112"
        self._versions += 1
        shapes = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, SHAPE)
        registration = Registration(
            cluster=cluster,
            name=broker,
            broker_id=broker_id,
            addr=f"10.0.0.{number}:10911",
            ha_addr=f"10.0.0.{number}:10912",
            heartbeat_timeout_ms=TIMEOUT_MS,
            acting_master=acting_master,
            zone=None,
            state_version=0,
            stamp=VersionStamp(0, 1, self._versions if version is None else version),
            topics=shapes,
            mappings=mappings,
            filter_servers=None,
            fingerprint=None,
            link=link,
            peer=self._peers[link],
        )
        slices = self._table.register(registration, now_ms=self.now_ms)
        while True:
            try:
                self.add(*next(slices))
            except StopIteration as done:
                return self.add(*done.value.events)

    def lose(
        self,
        broker: str = "broker-a",
        broker_id: int = 0,
        *,
        cause: Cause = Cause.CONNECTION_CLOSED,
    ) -> "Story":
        """Its connection is closed."""
        link = self._links[broker, broker_id]
        return self.add(*carried_out(self._table.close_link(link, cause, self._peers[link]))[0])

    def unregister(self, broker: str = "broker-a", *, host: int = 1, cluster: str = "c") -> "Story":
        peer, link = f"10.0.0.{host}:40112", self._links[broker, 0]
        return self.add(
            *carried_out(
                self._table.unregister(
                    cluster, broker, f"10.0.0.{host}:10911", link=link, peer=peer
                )
            )[0]
        )

    def expire(self) -> "Story":
        """Brokers not heard of for their timeout are gone."""
        return self.add(*carried_out(self._table.expire(self.now_ms))[0])

    def heartbeats(
        self,
        broker: str = "broker-a",
        gaps_s: Iterable[float] = (30, 30),
        *,
        host: int = 1,
        broker_id: int = 0,
        cluster: str = "c",
    ) -> "Story":
        return self.add(
            HeartbeatGaps(
                **self._note(Cause.WINDOW),
                cluster=cluster,
                broker=broker,
                broker_id=broker_id,
                addr=f"10.0.0.{host}:10911",
                generation=1,
                window_ms=WINDOW_MS,
                gaps_ms=tuple(round(gap * 1000) for gap in gaps_s),
            )
        )

    # -- administrators and clients

    def set_writable(self, broker: str, *, writable: bool, peer: str) -> "Story":
        return self.add(
            *carried_out(self._table.set_writable(broker, writable=writable, peer=peer))[0]
        )

    def delete_topic(self, topic: str, *, peer: str) -> "Story":
        return self.add(*carried_out(self._table.delete_topic(topic, None, peer=peer))[0])

    def queries(
        self, topic: str, *, known: int = 0, unknown: int = 0, not_ready: int = 0
    ) -> "Story":
        return self.add(
            RouteQueries(
                **self._note(Cause.WINDOW),
                window_ms=WINDOW_MS,
                topics=(QueryCount(topic, known, unknown, not_ready),),
                others=0,
            )
        )

    # -- the node

    def start(self, *, recovering: bool = False) -> "Story":
        self._started_ms = self.now_ms
        if not recovering:
            self._table = self._new_table()
        brokers = sum(len(group.members) for group in self._table.members.groups())
        return self.add(
            NodeStarted(
                **self._note(Cause.START),
                version="1.0",
                address="10.0.1.1:9876",
                brokers=brokers,
                topics=len(list(self._table.topics)),
            )
        )

    def stop(self) -> "Story":
        brokers = sum(len(group.members) for group in self._table.members.groups())
        topics = len(list(self._table.topics))
        return self.add(NodeStopped(**self._note(Cause.STOP), brokers=brokers, topics=topics))

    def be_killed(
        self,
        *,
        down_s: float,
        torn_bytes: int = 0,
        recovering: bool = True,
        alive: str | None = None,
    ) -> "Story":
        """Killed now, and started again after ``down_s``; last known ``alive`` then."""
        self.now_ms += round(down_s * 1000)
        last_seq, self._seq = self._seq, (self._seq // 2**20 + 1) * 2**20 - 1
        self.add(
            JournalRecovered(
                **self._note(Cause.JOURNAL),
                last_seq=last_seq,
                torn_bytes=torn_bytes,
                alive_ms=None if alive is None else ms(alive),
            )
        )
        return self.start(recovering=recovering)

    def stall(
        self, *, since: str, until: str | None = None, longest_ms: int | None = None
    ) -> "Story":
        """It wakes now, or then, and had listened to nobody."""
        self.now_ms = self.now_ms if until is None else ms(until)
        from_ms, to_ms = ms(since) + self.clock_ahead_ms, self.now_ms + self.clock_ahead_ms
        return self.add(
            NodeStalled(
                **self._note(Cause.STALL),
                from_ms=from_ms,
                to_ms=to_ms,
                longest_ms=to_ms - from_ms if longest_ms is None else longest_ms,
                clock_ms=0,
            )
        )

    def set_clock(self, by_ms: int) -> "Story":
        """The node notices it at once, and has listened all the time."""
        from_ms = self.now_ms + self.clock_ahead_ms
        self.clock_ahead_ms += by_ms
        return self.add(
            NodeStalled(
                **self._note(Cause.STALL),
                from_ms=from_ms,
                to_ms=from_ms + by_ms,
                longest_ms=0,
                clock_ms=by_ms,
            )
        )

    def boot_machine(self) -> "Story":
        """The monotonic clock begins anew."""
        self._booted_ms = self.now_ms - 20_000
        return self

    def confirm(self, broker: str = "broker-a", *, host: int = 1, cluster: str = "c") -> "Story":
        return self.add(
            BrokerConfirmed(
                **self._note(Cause.RECOVERED),
                cluster=cluster,
                broker=broker,
                broker_id=0,
                addr=f"10.0.0.{host}:10911",
                generation=1,
                after_ms=self.now_ms - self._started_ms,
            )
        )

    def lose_records(self, count: int, *, since: str) -> "Story":
        return self.add(RecordsLost(**self._note(Cause.JOURNAL), count=count, since_ms=ms(since)))

    def _note(self, cause: Cause) -> _Note:
        return {"revision": self._revision.value, "cause": cause, "peer": ""}
