"""Brokers, queues and mappings as the route table holds them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from routebook.events import MemberFact, StaticMapping

PERM_WRITE = 2
FLAG_UNIT = 1
FLAG_UNIT_SUB = 2
MASTER = 0

Link = int  # names one connection for as long as the node lives


class QueueShape(NamedTuple):
    """Queues of one topic on one broker group; shared by all topics of the same shape."""

    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)

    def without_write(self) -> "QueueShape":
        return self._replace(perm=self.perm & ~PERM_WRITE)

    def with_write(self) -> "QueueShape":
        return self._replace(perm=self.perm | PERM_WRITE)


class ShapeByNumbers(dict[tuple[int, int, int, int], QueueShape]):
    """Each distinct shape once."""

    def __missing__(self, numbers: tuple[int, int, int, int]) -> QueueShape:
        shape = self[numbers] = QueueShape(*numbers)
        return shape


class VersionStamp(NamedTuple):
    """A broker's claim about its topic table; equal stamps mean "nothing new", never proof."""

    state_version: int
    timestamp: int
    counter: int


@dataclass(frozen=True, slots=True)
class Registration:
    """One REGISTER_BROKER, decoded.

    ``filter_servers`` None leaves what is known. ``fingerprint`` None: never treat a
    later registration as a repeat of this one.
    """

    cluster: str
    name: str
    broker_id: int
    addr: str
    ha_addr: str | None
    heartbeat_timeout_ms: int
    acting_master: bool | None
    zone: str | None
    state_version: int
    stamp: VersionStamp | None
    topics: dict[str, QueueShape]
    mappings: tuple[StaticMapping, ...]
    filter_servers: tuple[str, ...] | None
    fingerprint: int | None
    link: Link
    peer: str
    shapes: int = 1  # different ones among the topics
    mappings_cost: int | None = None  # bytes, where somebody has counted them


@dataclass(slots=True, eq=False)
class Member:
    """One broker process of a group, alive until its deadline.

    One known from before a restart has no connection until it registers, and is not confirmed until
    it is heard of. ``peer`` is who registered it.
    """

    group: "Group"
    known: MemberFact
    link: Link | None
    other_link: Link | None = None  # an open connection it was heard on after it registered
    repeat_key: tuple[object, ...] | None = None
    heard_ms: int = 0
    cost: int = 0  # bytes, in those of its group
    gaps_ms: list[int] = field(default_factory=list)  # between signs of life, since last taken
    peer: str = ""

    @property
    def details(self) -> dict[str, object]:
        """What its next registration may change."""
        group = self.group
        return self.known.details(acting_master=group.acting_master, zone=group.zone)


class Unheard(NamedTuple):
    """A member as it was when it was found silent."""

    member: Member
    generation: int
    heard_ms: int

    @classmethod
    def of(cls, member: Member) -> "Unheard":
        return cls(member, member.known.generation, member.heard_ms)

    @property
    def there(self) -> bool:
        """Whether it has not left."""
        member = self.member
        return member.group.members.get(member.known.broker_id) is member

    @property
    def still(self) -> bool:
        """Whether it is there, and nobody has heard of it since."""
        member = self.member
        seen = (member.known.generation, member.heard_ms) == (self.generation, self.heard_ms)
        return seen and self.there


@dataclass(slots=True, eq=False, weakref_slot=True)
class Group:
    """Broker processes that share a name: a master and its slaves.

    ``registered`` is what members last said of each topic; the queues clients are told are in
    the table and may differ, by an administrator's hand or for an acting master.
    """

    cluster: str
    name: str
    acting_master: bool = False
    zone: str | None = None
    members: dict[int, Member] = field(default_factory=dict)
    registered: dict[str, QueueShape] = field(default_factory=dict)
    mapped_topics: set[str] = field(default_factory=set)
    cost: int = 0  # bytes of memory, and the host that pays for them (account.py)
    payer: str = ""
    shapes: int = 0  # different ones it may have, as far as anybody counted
    touched: int = 0  # raised when a registration may no longer be a repeat of the last one
    version: int = 0  # raised when its members change, or what they say of themselves
    taken: int = 0  # raised when an administrator begins to take the write bit of all topics
    rewritten: int = 0  # raised when a registration begins to write all topics anew

    @property
    def addrs(self) -> dict[int, str]:
        return {broker_id: member.known.addr for broker_id, member in sorted(self.members.items())}

    @property
    def lowest(self) -> Member:
        return self.members[min(self.members)]
