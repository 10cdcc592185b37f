"""BucketState: what one bucket knows of all nodes of a fleet, and of the brokers it watches.

Each node has a clock, which is the time of its last record: what a node would have written down by
then, and has not, did not happen there. Of a node that is down, or whose records are lost, nothing
is known, and so it is not ``sure``. Of the time in which it slept nothing is known either
(waking.py). It is known ``whole`` from a start without brokers, or a
restatement, on: then it does not have what it has not named.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from routebook_spark.alerts.ledger import Hold, Ledger
from routebook_spark.alerts.limits import Limits

Group = tuple[str, str]  # cluster and broker name


@dataclass(slots=True)
class Node:
    """``live`` is how many broker processes it lists; None as long as nobody said."""

    name: str
    seq: int
    clock_ms: int
    running: bool = True
    lost: bool = False  # records, and its tables are not restated yet
    whole: bool = False
    live: int | None = None
    restated: int = 0  # groups, since records were lost
    restated_live: int = 0
    window_at_ms: int = 0  # end of the last window it counted
    window_ms: int = 60_000
    window_before_ms: int = 0
    beats: int = 0  # brokers heard of in that window
    beats_before: int = 0
    unknown: int = 0  # queries for topics nobody holds in that window
    leaves: list[int] = field(default_factory=list)  # when brokers left, unwanted, of late
    gone: list[int] = field(default_factory=list)  # which ones; 0 for one that is back
    life: str = ""  # of its data folder
    life_ms: int = 0  # when that began
    former: list[str] = field(default_factory=list)  # lives
    rival: str = ""  # another life that wrote meanwhile, since this one last did
    rival_ms: int = 0
    wall_ms: int = 0  # of the last record, as it says
    mono_ms: int | None = None  # of the last record; None if the next may be of another boot
    off_ms: int = 0  # by how much the clock was set in all: so far it may be off
    contents: list[int] = field(default_factory=list)  # of registrations, since the clock was set
    contents_ms: list[int] = field(default_factory=list)  # and when each came first
    contents_late: list[int] = field(default_factory=list)  # 1: just after a start
    started_ms: int = 0
    slept_ms: int = 0  # when it last was not awake: from
    awake_ms: int = 0  # and to
    honest: bool = True  # it says itself when it sleeps, and holds that against nobody
    waking_ms: int = 0  # until then what brokers seem to do may only be how it woke up
    settled_ms: int = 0  # from then on it has had time to find out what it had slept through
    whole_ms: int = 0  # since when it is known whole

    @property
    def silence_ms(self) -> int:
        """After so long without a record it was not awake: more than two windows.

        A window that the end of the node cut short does not count.
        """
        return max(2 * max(self.window_ms, self.window_before_ms), 10_000)

    @property
    def sure(self) -> bool:
        return self.running and not self.lost


@dataclass(slots=True)
class Claim:
    """What a node says of a group; ``addrs`` is None as long as nobody said.

    ``topics`` and what follows count from the beginning of the group, and say nothing unless that
    was ``told``. ``said_ms`` is since when it says this: of what it said before nothing is kept.
    """

    cluster: str
    broker: str
    node: str
    said_ms: int
    present: bool = True
    arriving: bool = False  # its first registration is not complete
    told: bool = False
    stated: bool = True  # since records were last lost
    addrs: str | None = None
    topics: int = 0
    digest: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Member:
    """A broker process at a node."""

    cluster: str
    broker: str
    broker_id: int
    node: str
    addr: str
    timeout_ms: int
    heard_ms: int
    listed: bool = True
    left_ms: int = 0
    penalty: float = 0.0
    penalty_ms: int = 0  # when it was that
    transitions: int = 0  # since it was last steady
    since_ms: int = 0  # the first of them


@dataclass(slots=True)
class Dispute:
    """Two nodes, by name, say different things of a group."""

    cluster: str
    broker: str
    node_a: str
    node_b: str
    began_ms: int


class BucketState:
    def __init__(
        self,
        limits: Limits,
        *,
        fleet: str = "default",
        nodes: Iterable[Node] = (),
        claims: Iterable[Claim] = (),
        members: Iterable[Member] = (),
        disputes: Iterable[Dispute] = (),
        holds: Iterable[Hold] = (),
    ) -> None:
        self.limits = limits
        self.ledger = Ledger(holds, fleet=fleet)
        self.nodes = {node.name: node for node in nodes}
        self.claims: dict[Group, dict[str, Claim]] = {}
        self.members: dict[Group, dict[tuple[int, str], Member]] = {}
        self.disputes: dict[Group, dict[tuple[str, str], Dispute]] = {}
        for claim in claims:
            self.claims.setdefault((claim.cluster, claim.broker), {})[claim.node] = claim
        for member in members:
            self.put(member)
        for dispute in disputes:
            pair = (dispute.node_a, dispute.node_b)
            self.disputes.setdefault((dispute.cluster, dispute.broker), {})[pair] = dispute

    @property
    def now_ms(self) -> int:
        """The latest clock of all."""
        return max((node.clock_ms for node in self.nodes.values()), default=0)

    def put(self, member: Member) -> None:
        group = self.members.setdefault((member.cluster, member.broker), {})
        group[member.broker_id, member.node] = member

    def each_claim(self, node: str | None = None) -> Iterator[Claim]:
        """Of one node, or all; the state may be changed meanwhile."""
        found = [claim for by_node in self.claims.values() for claim in by_node.values()]
        return (claim for claim in found if node is None or claim.node == node)

    def each_member(self, node: str | None = None) -> Iterator[Member]:
        found = [member for group in self.members.values() for member in group.values()]
        return (member for member in found if node is None or member.node == node)

    def each_dispute(self) -> Iterator[Dispute]:
        return iter([dispute for pairs in self.disputes.values() for dispute in pairs.values()])

    def drop_claim(self, claim: Claim) -> None:
        group = (claim.cluster, claim.broker)
        del self.claims[group][claim.node]
        if not self.claims[group]:
            del self.claims[group]

    def drop_member(self, member: Member) -> None:
        group = (member.cluster, member.broker)
        del self.members[group][member.broker_id, member.node]
        if not self.members[group]:
            del self.members[group]

    def drop_dispute(self, dispute: Dispute) -> None:
        group = (dispute.cluster, dispute.broker)
        del self.disputes[group][dispute.node_a, dispute.node_b]
        if not self.disputes[group]:
            del self.disputes[group]
