"""Account: the bytes a node holds for others, by kind, by peer and in all.

What is held for long (the tables) is charged when it is taken in and given back when it goes; the
bytes are estimates of ``costs``, a little more than what is really taken. What passes through
(frames, answers, the latest records) is noted by whoever holds it.

A limit of 768 MiB is shared out as

    96 MiB  the program itself       40 % of the rest  tables: routes, brokers, mappings, pairs
                                     20 %              decoding: two registrations at once
                                     12 %              answers nobody reads yet, and connections
                                     10 %              frames that are not complete
                                     10 %              records: the latest, and those to be written
                                      6 %              answers kept for whoever asks again

and what is left is for the allocator's holes. A second process that reads the journal for a
snapshot, or the start after a stop, takes as much as the tables; both find room in the shares of
others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MIB = 1024 * 1024
PROGRAM = 96 * MIB
LEAST = 192 * MIB  # with less a node cannot serve at all
_WORK_AT_MOST = 256 * MIB
_ANSWERS_AT_MOST = 512 * MIB
_RECORDS_AT_MOST = 256 * MIB
_CACHES_AT_MOST = 160 * MIB


class Kind(StrEnum):
    TOPICS = "topics"
    MAPPINGS = "mappings"
    BROKERS = "brokers"  # with their names, addresses and filter servers
    PAIRS = "pairs"  # of the key-value configuration
    RECORDS = "records"
    DECODING = "decoding"  # registrations at work, as far as they are decoded
    FRAMES = "frames"
    PENDING = "pending"  # changes that wait for the disk
    ANSWERS = "answers"  # that are not read
    CONNECTIONS = "connections"
    WATCHES = "watches"  # who watches what


@dataclass(frozen=True, slots=True)
class Budgets:
    limit: int
    tables: int
    work: int
    answers: int
    frames: int
    records: int
    caches: int
    peer_percent: int = 100  # of what is shared out by peer, for one of them

    def of_one_peer(self, amount: int) -> int:
        return amount * self.peer_percent // 100


def shared_out(limit: int, *, peer_percent: int = 100) -> Budgets:
    rest = max(limit, LEAST) - PROGRAM
    return Budgets(
        limit=limit,
        tables=rest * 40 // 100,
        work=min(_WORK_AT_MOST, rest * 20 // 100),
        answers=min(_ANSWERS_AT_MOST, rest * 12 // 100),
        frames=rest * 10 // 100,
        records=min(_RECORDS_AT_MOST, rest * 10 // 100),
        caches=min(_CACHES_AT_MOST, rest * 6 // 100),
        peer_percent=peer_percent,
    )


UNBOUNDED = shared_out(2**60)


class Holder(Protocol):
    """A broker group: what it holds in all, and which host pays for it."""

    cost: int
    payer: str


class Account:
    """Peers are known by their host: a new connection is no new purse.

    ``pressed`` is a sentence while the process itself is seen to be too large; then nothing more
    is taken in.
    """

    def __init__(self, budgets: Budgets = UNBOUNDED, *, broker_percent: int = 100) -> None:
        self.budgets = budgets
        self.peer_limit = budgets.of_one_peer(budgets.tables)
        self.broker_limit = budgets.tables * broker_percent // 100
        self.used = dict.fromkeys(Kind, 0)
        self.tables = 0
        self.most = 0  # of it; whoever gives memory back to the system begins anew
        self.pressed: str | None = None
        self._by_peer: dict[str, int] = {}

    def charge(self, kind: Kind, payer: str, amount: int) -> None:
        """Note that the tables hold ``amount`` more for ``payer``, or less."""
        self.used[kind] += amount
        self.tables += amount
        if self.tables > self.most:
            self.most = self.tables
        self._add(payer, amount)

    def bill(self, kind: Kind, holder: Holder, amount: int) -> None:
        """Note that a broker group holds ``amount`` more, or less."""
        holder.cost += amount
        self.charge(kind, holder.payer, amount)

    def pay(self, holder: Holder, payer: str) -> None:
        """Let ``payer`` pay for a broker group from now on."""
        if holder.payer != payer:
            self._add(holder.payer, -holder.cost)
            self._add(payer, holder.cost)
            holder.payer = payer

    def held_by(self, payer: str) -> int:
        return self._by_peer.get(payer, 0)

    @property
    def by_peer(self) -> Mapping[str, int]:
        """What the tables hold for each; "" is for what nobody pays."""
        return self._by_peer

    def note(self, passing: Mapping[Kind, Mapping[str, int]]) -> None:
        """Take over what others hold for each peer, of what passes through."""
        for kind, by_peer in passing.items():
            self.used[kind] = sum(by_peer.values())

    def room(self, payer: str, held_by_broker: int = 0) -> int:
        """How much more may be held for ``payer`` by a broker that holds so much."""
        if self.pressed is not None:
            return 0
        room = min(self.budgets.tables - self.tables, self.broker_limit - held_by_broker)
        return min(room, self.peer_limit - self.held_by(payer)) if payer else room

    def refusal(
        self, payer: str, amount: int, held_by_broker: int = 0, moved: int = 0
    ) -> str | None:
        """Why ``amount`` more cannot be held, in one sentence; None when it can.

        ``moved`` is what ``payer`` takes over from another. Who asks for nothing more is always
        welcome.
        """
        if amount <= 0:
            return None
        if self.pressed is not None:
            return self.pressed
        more = f"this takes {amount} bytes more"
        if self.tables + amount > self.budgets.tables:
            return f"{more}, and {self.tables} of {self.budgets.tables} are used (memoryLimit)"
        if held_by_broker + amount > self.broker_limit:
            limit = self.broker_limit
            return f"{more}, and one broker may hold {limit} (memoryLimit, memoryBrokerPercent)"
        held = self.held_by(payer) + moved
        if payer and held + amount > self.peer_limit:
            return (
                f"{more}, and {payer} holds {held} of {self.peer_limit}"
                " (memoryLimit, memoryPeerPercent)"
            )
        return None

    def _add(self, payer: str, amount: int) -> None:
        held = self._by_peer.get(payer, 0) + amount
        if held:
            self._by_peer[payer] = held
        else:
            self._by_peer.pop(payer, None)


def host_of(peer: str) -> str:
    """The part of a peer's address that stays the same with its next connection."""
    return peer.rpartition(":")[0] or peer
