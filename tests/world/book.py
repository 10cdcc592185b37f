"""What a simulated node has in its tables, and what it says of them."""

from dataclasses import dataclass, field, replace
from typing import Any

from routebook.events import (
    GroupRestated,
    HeartbeatGaps,
    MemberFact,
    MinBrokerChanged,
    QueueChange,
    Shape,
)
from world.plan import LEASE
from world.truth import Belief, Key, Listed


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself, over connection ``link``."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    link: int
    stamp: tuple[int, int, int]
    topics: dict[str, Shape]

    @property
    def key(self) -> Key:
        return self.cluster, self.broker

    @property
    def peer(self) -> str:
        return f"{self.addr.split(':')[0]}:{30_000 + self.link % 30_000}"


@dataclass(slots=True)
class Member:
    broker_id: int
    addr: str
    generation: int
    stamp: tuple[int, int, int] | None
    link: int | None
    heard_ms: float = 0  # 0: not since it was confirmed
    deadline_ms: float = 0  # by the time it listened
    confirmed: bool = True
    gaps_ms: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    cluster: str
    broker: str
    members: dict[int, Member] = field(default_factory=dict)
    queues: dict[str, Shape] = field(default_factory=dict)

    @property
    def addrs(self) -> dict[int, str]:
        return {broker_id: member.addr for broker_id, member in sorted(self.members.items())}

    def copy(self) -> "Group":
        members = {
            broker_id: replace(member, gaps_ms=[]) for broker_id, member in self.members.items()
        }
        return Group(self.cluster, self.broker, members, dict(self.queues))


Groups = dict[Key, Group]


def belief_of(groups: Groups) -> Belief:
    return {
        key: Listed(tuple(group.addrs.items()), dict(group.queues))
        for key, group in sorted(groups.items())
        if group.members
    }


def members_in(groups: Groups) -> int:
    return sum(len(group.members) for group in groups.values())


def entries_in(groups: Groups) -> int:
    """Topics, each as often as a group has it."""
    return sum(len(group.queues) for group in groups.values())


def about(said: Registration, member: Member, change: dict[str, Any]) -> dict[str, Any]:
    """What all events about a broker begin with."""
    return {
        **change,
        "cluster": said.cluster,
        "broker": said.broker,
        "broker_id": said.broker_id,
        "addr": said.addr,
        "generation": member.generation,
    }


def heartbeat_gaps(
    group: Group, member: Member, window_ms: int, gaps_ms: tuple[int, ...], note: dict[str, Any]
) -> HeartbeatGaps:
    return HeartbeatGaps(
        **note,
        cluster=group.cluster,
        broker=group.broker,
        broker_id=member.broker_id,
        addr=member.addr,
        generation=member.generation,
        window_ms=window_ms,
        gaps_ms=gaps_ms,
    )


def restated(group: Group, note: dict[str, Any]) -> GroupRestated:
    return GroupRestated(
        **note,
        cluster=group.cluster,
        broker=group.broker,
        acting_master=False,
        zone=None,
        members=tuple(_fact(member) for _, member in sorted(group.members.items())),
        queues=tuple(QueueChange(t, None, s) for t, s in group.queues.items()),
        mappings=(),
    )


def _fact(member: Member) -> MemberFact:
    return MemberFact(
        member.broker_id,
        member.addr,
        None,
        LEASE,
        member.generation,
        0,
        member.stamp,
        (),
        member.confirmed,
    )


def min_changed(fact: dict[str, Any], group: Group, said: Registration) -> MinBrokerChanged:
    others = tuple(addr for broker_id, addr in group.addrs.items() if broker_id != said.broker_id)
    return MinBrokerChanged(
        **fact,
        cluster=group.cluster,
        broker=group.broker,
        min_broker_id=said.broker_id,
        min_broker_addr=said.addr,
        offline_addr=None,
        ha_addr=None,
        recipients=others or (said.addr,),
    )
