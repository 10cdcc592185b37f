"""Which events become records: so much of each kind and of each peer, by the room there is.

A journal keeps so many megabytes. Whoever can fill it can empty it, because the oldest goes when
there is no room. So each kind of record has a share of the room, paid for in bytes:

    noise      refusals and conflicts: an eighth of it in the time a journal is kept. Beyond that
               they are counted, and ``NoiseCounted`` says how many
    windows    heartbeat gaps and route queries: a quarter of it in that time; counted likewise
    changes    routes, pairs, settings: a half of it in a day; of one peer, an eighth in a day.
               Beyond that they are lost: counted at once, and the tables stated anew later

What a node says of itself is always written, and paid for as a change.

A peer is an address without its port, of IPv6 the network. Told the time; no I/O.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from routebook.events import (
    BrokerConflict,
    Cause,
    Event,
    Kind,
    NoiseCounted,
    PeerNoise,
    RequestRefused,
)

DAY_MS = 86_400_000
MAX_PEERS = 4096  # known at a time, whoever was heard of last
NAMED_PEERS = 5
TELL_FIRST_MS = 10_000  # after the first that was counted
TELL_LAST_MS = 600_000  # and while there is no end to it, up to this
PACKING = 0.25  # what is left of a line when it is sealed, until it is known


class Verdict(Enum):
    WRITE = "write"
    COUNT = "count"
    LOSE = "lose"


class Bucket:
    """``burst`` at once, and ``burst`` again in each ``fill_ms`` after that."""

    __slots__ = ("_burst", "_level", "_per_ms", "_seen_ms")

    def __init__(self, burst: float, *, fill_ms: float, now_ms: int) -> None:
        self._burst = self._level = burst
        self._per_ms = burst / fill_ms
        self._seen_ms = now_ms

    def level(self, now_ms: int) -> float:
        if now_ms > self._seen_ms:
            grown = self._level + (now_ms - self._seen_ms) * self._per_ms
            self._level = min(self._burst, grown)
            self._seen_ms = now_ms
        return self._level

    def is_half_full(self, now_ms: int) -> bool:
        return self.level(now_ms) >= self._burst / 2

    def has(self, amount: float, now_ms: int) -> bool:
        """Something larger than all of it fits when it is full."""
        return self.level(now_ms) >= min(amount, self._burst)

    def take(self, amount: float) -> None:
        self._level -= amount


class PeerBuckets:
    """A bucket for each peer. Who has been quiet for long is forgotten: its bucket is full."""

    def __init__(self, make: Callable[[int], Bucket]) -> None:
        self._make = make
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def of(self, host: str, now_ms: int) -> Bucket:
        bucket = self._buckets.get(host)
        if bucket is None:
            bucket = self._buckets[host] = self._make(now_ms)
            if len(self._buckets) > MAX_PEERS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(host)
        return bucket

    def __len__(self) -> int:
        return len(self._buckets)


class Admission:
    """``room`` is what the journal keeps, in bytes as sealed, for ``kept_ms``.

    ``packing`` is what sealing leaves of a byte of a record; whoever knows better sets it.
    """

    def __init__(self, *, room: int, kept_ms: int, now_ms: int) -> None:
        noise, self.packing = room / 8, PACKING
        burst = min(4 * 1024 * 1024, noise / 4)
        # A quarter of the share at once, and the rest over the time.
        self._noise = Bucket(burst, fill_ms=kept_ms * burst / (noise - burst), now_ms=now_ms)
        self._noise_of = PeerBuckets(
            lambda now_ms: Bucket(burst / 64, fill_ms=DAY_MS / 24, now_ms=now_ms)
        )
        windows = room / 16
        self._windows = Bucket(windows, fill_ms=kept_ms / 3, now_ms=now_ms)
        self._changes = Bucket(room / 2, fill_ms=DAY_MS, now_ms=now_ms)
        self._changes_of = PeerBuckets(
            lambda now_ms: Bucket(room / 8, fill_ms=DAY_MS, now_ms=now_ms)
        )
        self._counted: dict[type[Event], int] = {}
        self._peers: dict[str, int] = {}
        self._since_ms = 0
        self._tell_ms = 0
        self._patience_ms = TELL_FIRST_MS
        self._last_told_ms = now_ms
        self.counted = 0  # ever
        self.lost = 0  # ever

    def judge(self, event: Event, size: int, *, now_ms: int, wall_ms: int) -> Verdict:
        """What becomes of ``event``, whose record takes about ``size`` bytes."""
        cost = size * self.packing
        if event.kind is Kind.REFUSAL:
            mine = self._noise_of.of(host_of(event.peer), now_ms)
            if mine.has(cost, now_ms) and self._noise.has(cost, now_ms):
                mine.take(cost)
                self._noise.take(cost)
                return Verdict.WRITE
        elif event.kind is Kind.WINDOW:
            if self._windows.has(cost, now_ms):
                self._windows.take(cost)
                return Verdict.WRITE
        else:
            return self._judge_change(event, cost, now_ms)
        self._count(event, now_ms, wall_ms)
        return Verdict.COUNT

    def _judge_change(self, event: Event, cost: float, now_ms: int) -> Verdict:
        if event.kind is Kind.NODE:
            self._changes.take(cost)
            return Verdict.WRITE
        mine = self._changes_of.of(host_of(event.peer), now_ms) if event.peer else None
        if not self._changes.has(cost, now_ms) or not (mine is None or mine.has(cost, now_ms)):
            self.lost += 1
            return Verdict.LOSE
        self._changes.take(cost)
        if mine is not None:
            mine.take(cost)
        return Verdict.WRITE

    def has_room_to_restate(self, now_ms: int) -> bool:
        """Whether all the tables may be written anew: half of what there is in a day is left."""
        return self._changes.is_half_full(now_ms)

    @property
    def peers(self) -> int:
        """How many are remembered for their refusals and conflicts."""
        return len(self._noise_of)

    def _count(self, event: Event, now_ms: int, wall_ms: int) -> None:
        if not self._counted:
            self._since_ms = wall_ms
            quiet = now_ms - self._last_told_ms > 2 * self._patience_ms
            self._patience_ms = TELL_FIRST_MS if quiet else self._patience_ms
            self._tell_ms = now_ms + self._patience_ms
        kind = type(event)
        self._counted[kind] = self._counted.get(kind, 0) + 1
        self.counted += 1
        if event.peer:
            host = host_of(event.peer)
            if host in self._peers or len(self._peers) < MAX_PEERS:
                self._peers[host] = self._peers.get(host, 0) + 1

    def rest(self, *, revision: int, now_ms: int, last: bool = False) -> NoiseCounted | None:
        """What was counted and not told yet, when it is time to tell; ``last``: at once."""
        if not self._counted or (now_ms < self._tell_ms and not last):
            return None
        refused = self._counted.get(RequestRefused, 0)
        conflicts = self._counted.get(BrokerConflict, 0)
        count = sum(self._counted.values())
        loudest = sorted(self._peers.items(), key=lambda item: (-item[1], item[0]))
        self._counted, self._peers = {}, {}
        self._last_told_ms = now_ms
        self._patience_ms = min(2 * self._patience_ms, TELL_LAST_MS)
        return NoiseCounted(
            revision=revision,
            cause=Cause.WINDOW,
            peer="",
            since_ms=self._since_ms,
            count=count,
            refused=refused,
            conflicts=conflicts,
            windows=count - refused - conflicts,
            peers=tuple(PeerNoise(*each) for each in loudest[:NAMED_PEERS]),
        )


def host_of(peer: str) -> str:
    """The address of ``peer`` without its port; of IPv6 the first 64 bits, which are one site."""
    host = peer.rpartition(":")[0]
    if not host.startswith("["):
        return host
    try:
        address = ipaddress.IPv6Address(host[1:-1].partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))
