"""Journals of nodes that are watched, written by hand: who does what, and when.

ns = Journal("ns-1")
ns.starts()
ns.joins("broker-a", topics=["orders"])
ns.after(30).beats("broker-a")
ns.after(30).leaves("broker-a", Cause.EXPIRED)
ns.records
"""

from collections.abc import Mapping, Sequence
from typing import Any

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    Event,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    MemberFact,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    QueryCount,
    QueueChange,
    RecordsLost,
    RegistrationCompleted,
    RouteQueries,
    Shape,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record

T0_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
WINDOW_MS = 60_000
EIGHT: Shape = (8, 8, 6, 0)
_KILLED_LEAP = 1 << 20


class Journal:
    """Records of one node, each at the time the one before it left; ``after`` moves on."""

    def __init__(self, node: str, *, at_s: float = 0.0) -> None:
        self.node = node
        self.records: list[Record] = []
        self.lives: dict[int, str] = {}  # from which record on its folder is another one
        self._now_ms = T0_MS + round(at_s * 1000)
        self._runs = False
        self._set_ms = 0  # how far the clock was set forward
        self._seq = 0
        self._addrs: dict[str, dict[int, str]] = {}
        self._queues: dict[str, dict[str, Shape]] = {}

    def after(self, seconds: float) -> "Journal":
        """That much later; meanwhile a node that runs writes down its windows."""
        self._live_until(self._now_ms + round(seconds * 1000))
        return self

    def at(self, seconds: float) -> "Journal":
        """Seconds from the beginning."""
        self._live_until(T0_MS + round(seconds * 1000))
        return self

    def silently(self, seconds: float) -> "Journal":
        """That much later, without a record."""
        self._now_ms += round(seconds * 1000)
        return self

    def sets_clock(self, seconds: float) -> "Journal":
        """Forward by so much, or back."""
        self._now_ms += round(seconds * 1000)
        self._set_ms += round(seconds * 1000)
        return self

    def sleeps(self, seconds: float) -> None:
        """And says so."""
        from_ms = self._now_ms
        self._now_ms += round(seconds * 1000)
        self.write(
            NodeStalled(
                **_note(Cause.STALL),
                from_ms=from_ms,
                to_ms=self._now_ms,
                longest_ms=round(seconds * 1000),
                clock_ms=0,
            )
        )

    def _live_until(self, now_ms: int) -> None:
        if self._runs and now_ms - self._now_ms > 2 * WINDOW_MS:
            for at_ms in range(self._now_ms + WINDOW_MS, now_ms, WINDOW_MS):
                self._now_ms = at_ms
                self.beats(*self._addrs)
                self.is_asked({})
        self._now_ms = now_ms

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def write(self, event: Event) -> None:
        self._seq += 1
        mono_ms = self._now_ms - T0_MS - self._set_ms
        self.records.append(Record(self._seq, self._now_ms, mono_ms, self.node, event))

    def skip(self, records: int) -> None:
        """These are lost on the way."""
        self._seq += records

    # -- the node

    def starts(self, brokers: int = 0) -> None:
        self._runs = True
        if not brokers:
            self._addrs.clear()
            self._queues.clear()
        self.write(
            NodeStarted(
                **_note(Cause.START), version="1", address="n:9876", brokers=brokers, topics=0
            )
        )

    def begins(self, *brokers: str) -> "Journal":
        """Starts with nobody, and these join at once."""
        self.starts()
        for broker in brokers:
            self.joins(broker)
        return self

    def stops(self) -> None:
        self._runs = False
        self.write(NodeStopped(**_note(Cause.STOP), brokers=0, topics=0))

    def is_killed(self, *, back_s: float, alive_s: float | None = None) -> None:
        """And writes again ``back_s`` later; it is known to have answered for ``alive_s``."""
        alive_ms = None if alive_s is None else self._now_ms + round(alive_s * 1000)
        self.silently(back_s)
        last_seq, self._seq = self._seq, self._seq + _KILLED_LEAP
        self.write(
            JournalRecovered(
                **_note(Cause.JOURNAL), last_seq=last_seq, torn_bytes=0, alive_ms=alive_ms
            )
        )

    def loses(self, count: int, *, since_s: float) -> None:
        since_ms = T0_MS + round(since_s * 1000)
        self.write(RecordsLost(**_note(Cause.JOURNAL), count=count, since_ms=since_ms))

    def restates(self) -> None:
        for broker, addrs in self._addrs.items():
            self.write(
                GroupRestated(
                    **_note(Cause.JOURNAL),
                    cluster="c",
                    broker=broker,
                    acting_master=False,
                    zone=None,
                    members=tuple(
                        MemberFact(broker_id, addr, None, 120_000, 1, 0, None, ())
                        for broker_id, addr in addrs.items()
                    ),
                    queues=tuple(
                        QueueChange(topic, None, shape)
                        for topic, shape in self._queues[broker].items()
                    ),
                    mappings=(),
                )
            )
        self.write(StateRestated(**_note(Cause.JOURNAL), groups=len(self._addrs), kv={}))

    def engages_guard(self, *, silent: int, live: int) -> None:
        self.write(
            GuardEngaged(
                **_note(Cause.GUARD),
                suspects=(),
                silent=silent,
                live=live,
                limit=live // 2,
                window_ms=60_000,
                hold_ms=600_000,
            )
        )

    def releases_guard(self) -> None:
        self.write(
            GuardReleased(**_note(Cause.GUARD), reason="evidence", returned=6, left=0, dropped=0)
        )

    # -- brokers

    def joins(
        self,
        broker: str,
        *,
        broker_id: int = 0,
        addr: str | None = None,
        topics: Sequence[str] = ("orders",),
        timeout_ms: int = 120_000,
    ) -> None:
        before = dict(self._addrs.get(broker, {}))
        addr = addr or f"{broker}:{10911 + broker_id}"
        self._addrs.setdefault(broker, {})[broker_id] = addr
        self.write(
            BrokerRegistered(
                **_note(Cause.REGISTER),
                **_broker(broker, broker_id, addr),
                ha_addr=None,
                heartbeat_timeout_ms=timeout_ms,
                acting_master=None,
                zone=None,
                epoch=0,
                filter_servers=(),
                addrs_before=before,
                addrs_after=dict(self._addrs[broker]),
            )
        )
        self._registers(broker, broker_id, topics, version=1)

    def registers_part(self, broker: str, topics: Sequence[str]) -> None:
        """These topics only, beside those it has."""
        self._registers(broker, 0, topics, version=2)

    def _registers(
        self, broker: str, broker_id: int, topics: Sequence[str], *, version: int
    ) -> None:
        self.changes(broker, dict.fromkeys(topics, EIGHT))
        self.write(
            RegistrationCompleted(
                **_note(Cause.REGISTER),
                **_broker(broker, broker_id, self._addrs[broker][broker_id]),
                topics=len(topics),
                data_version=(0, 1, version),
            )
        )

    def changes(self, broker: str, queues: Mapping[str, Shape | None]) -> None:
        """Queues of topics; None for those that go."""
        table = self._queues.setdefault(broker, {})
        changes = tuple(
            QueueChange(topic, table.get(topic), shape)
            for topic, shape in queues.items()
            if table.get(topic) != shape
        )
        for topic, shape in queues.items():
            if shape is None:
                table.pop(topic, None)
            else:
                table[topic] = shape
        if changes:
            self.write(
                TopicsChanged(**_note(Cause.REGISTER), cluster="c", broker=broker, changes=changes)
            )

    def leaves(self, broker: str, cause: Cause = Cause.EXPIRED, *, broker_id: int = 0) -> None:
        before = dict(self._addrs[broker])
        addr = self._addrs[broker].pop(broker_id)
        lost = 0 if self._addrs[broker] else len(self._queues.get(broker, {}))
        self.write(
            BrokerLeft(
                **_note(cause),
                **_broker(broker, broker_id, addr),
                addrs_before=before,
                addrs_after=dict(self._addrs[broker]),
                topics_lost=lost,
            )
        )
        if not self._addrs[broker]:
            del self._addrs[broker]
            self._queues.pop(broker, None)

    def confirms(self, broker: str) -> None:
        self.write(
            BrokerConfirmed(
                **_note(Cause.RECOVERED), **_broker(broker, 0, f"{broker}:10911"), after_ms=1
            )
        )

    def updates(self, broker: str, *, timeout_ms: int) -> None:
        self.write(
            BrokerUpdated(
                **_note(Cause.REGISTER),
                **_broker(broker, 0, f"{broker}:10911"),
                before={"heartbeat_timeout_ms": 120_000},
                after={"heartbeat_timeout_ms": timeout_ms},
            )
        )

    # -- windows

    def beats(self, *brokers: str, gaps_s: Sequence[float] = (30.0, 30.0)) -> None:
        for broker in brokers:
            self.write(
                HeartbeatGaps(
                    **_note(Cause.WINDOW),
                    **_broker(broker, 0, f"{broker}:10911"),
                    window_ms=60_000,
                    gaps_ms=tuple(round(gap * 1000) for gap in gaps_s),
                )
            )

    def is_asked(self, unknown: Mapping[str, int], *, window_s: float = 60.0) -> None:
        self.write(
            RouteQueries(
                **_note(Cause.WINDOW),
                window_ms=round(window_s * 1000),
                topics=tuple(QueryCount(topic, 5, count, 0) for topic, count in unknown.items()),
                others=0,
            )
        )


def witnessed(journal: "Journal") -> list[tuple[str, Record]]:
    """Each record with the life of the folder it is in."""
    found, life = [], "first" if journal.lives else ""
    for place, record in enumerate(journal.records):
        life = journal.lives.get(place, life)
        found.append((life, record))
    return found


def _note(cause: Cause) -> dict[str, Any]:
    return {"revision": 1, "cause": cause, "peer": ""}


def _broker(broker: str, broker_id: int, addr: str) -> dict[str, Any]:
    return {
        "cluster": "c",
        "broker": broker,
        "broker_id": broker_id,
        "addr": addr,
        "generation": 1,
    }
