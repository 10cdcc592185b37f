"""View: what one node believed at one time, told by its records.

    view = View()
    for record in records:
        view.apply(record)
    view.route("orders")

A record that contradicts those before it is noted and applied: history does not stop at damage.
After records were lost a view is unsure, and notes nothing, until the state has been restated.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict, cast

from routebook.events import (
    BrokerConfirmed,
    BrokerEvent,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    Event,
    GroupRestated,
    KvChanged,
    MappingsChanged,
    NodeStarted,
    RecordsLost,
    RegistrationCompleted,
    Shape,
    StateRestated,
    StaticMapping,
    TopicsChanged,
)
from routebook.journal.difference import Difference, difference
from routebook.journal.groups import Groups, GroupView, MemberView
from routebook.journal.pairs import in_journal
from routebook.journal.record import QueueGroup, Record

MAX_CONTRADICTIONS = 100
_UNKNOWN_TIMEOUT_MS = 120_000  # of brokers that say nothing


class Contradiction(NamedTuple):
    """What a record says of the time before it, against what the records before it said."""

    seq: int
    reason: str


class Broker(NamedTuple):
    """One broker process and where it belongs."""

    cluster: str
    broker: str
    broker_id: int
    member: MemberView


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """One broker group in the route of a topic; ``queues`` is what clients are told."""

    cluster: str
    broker: str
    zone: str | None
    acting_master: bool
    addrs: dict[int, str]
    queues: Shape
    registered: Shape
    confirmed: bool  # whether any member is


@dataclass(slots=True)
class View:
    """``seq`` and ``wall_ms`` are those of the last record; ``generation`` is the highest ever."""

    node: str = ""
    seq: int = 0
    wall_ms: int = 0
    revision: int = 0
    generation: int = 0
    started_ms: int = 0
    unsure: bool = False
    restated: int = field(default=0, compare=False)  # groups, since records were lost
    groups: Groups = field(default_factory=Groups)
    kv: dict[str, dict[str, str]] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list, compare=False)
    contradicted: int = field(default=0, compare=False)  # how often, listed or not

    # -- asking

    def route(self, topic: str) -> list[RouteEntry]:
        """Where clients are sent, by cluster and broker name; empty when nobody holds it."""
        return [
            RouteEntry(
                cluster=group.cluster,
                broker=group.broker,
                zone=group.zone,
                acting_master=group.acting_master,
                addrs=group.addrs,
                queues=group.queues[topic],
                registered=group.registered.get(topic, group.queues[topic]),
                confirmed=any(member.confirmed for member in group.members.values()),
            )
            for group in self.groups.listed()
            if topic in group.queues and group.members
        ]

    def static_mappings(self, topic: str) -> list[StaticMapping]:
        return [mapping for mapping, _ in self.groups.mappings.get(topic, {}).values()]

    def topics(self) -> set[str]:
        return set().union(*(group.queues for group in self.groups.listed() if group.members))

    def brokers(self) -> Iterator[Broker]:
        """Every member, by cluster, broker name and id."""
        for group in self.groups.listed():
            for broker_id, member in sorted(group.members.items()):
                yield Broker(group.cluster, group.broker, broker_id, member)

    def diff(self, later: "View") -> Difference:
        """What ``later``, of this node or another, tells brokers and clients differently."""
        return difference(self.groups, later.groups, kv=(self.kv, later.kv))

    def copy(self) -> "View":
        """A view that stays as it is while this one goes on."""
        return replace(
            self,
            groups=self.groups.copy(),
            kv={namespace: table.copy() for namespace, table in self.kv.items()},
            contradictions=self.contradictions.copy(),
        )

    # -- going on

    def apply(self, record: Record) -> None:
        self.node = record.node
        self.seq = record.seq
        self.tell(record.event, wall_ms=record.wall_ms)

    def tell(self, event: Event, *, wall_ms: int) -> None:
        """Go on by one event; one that says nothing about the tables moves only the clock."""
        self.wall_ms = wall_ms
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(self, event)
        self.revision = max(event.revision, self.revision)

    def change_alike(self, cluster: str, broker: str, alike: QueueGroup) -> None:
        """Go on by a part of ``TopicsChanged``, in the form it is stored in."""
        group = self._group(cluster, broker)
        for topic, before in self.groups.set_alike(
            group, alike.topics, alike.before, alike.after, alike.registered
        ):
            self._contradict(f"{topic} on {group.name} was {alike.before}, not {before}")

    def restart(self, *, wall_ms: int) -> None:
        """Believe all there is, and none of it firmly: the node was down and is back."""
        self.started_ms = wall_ms
        for group in self.groups.listed():
            if not group.members:
                self.groups.drop(group)
            for member in group.members.values():
                member.confirmed = False
                if self.unsure:
                    # What is known of its topics may be half the truth: let it say all again.
                    member.data_version = None

    def lose_track(self) -> None:
        """Records are missing here: be unsure until the state is restated."""
        self.unsure = True
        self.restated = 0
        for group in self.groups.listed():
            group.stated = False

    # -- one method for each event that says something about the tables

    def _registered(self, event: BrokerRegistered) -> None:
        if event.addrs_before:
            group = self._group(*event.group)
        else:
            group = GroupView(*event.group)
            known = self.groups.find(*group.key)
            if known is not None:
                self._contradict(f"{group.name} is new, and had {_listed(known.addrs)}")
            self.groups.put(group)
        for broker_id, member in list(group.members.items()):
            if member.addr == event.addr:
                del group.members[broker_id]  # a change of role
        group.members[event.broker_id] = MemberView(
            addr=event.addr,
            ha_addr=event.ha_addr,
            heartbeat_timeout_ms=event.heartbeat_timeout_ms,
            generation=event.generation,
            epoch=event.epoch,
            data_version=None,
            filter_servers=event.filter_servers,
            confirmed=True,
            since_ms=self.wall_ms,
        )
        group.acting_master = bool(event.acting_master)
        group.zone = event.zone
        self.generation = max(self.generation, event.generation)
        self._agree(group, event.addrs_after)

    def _updated(self, event: BrokerUpdated) -> None:
        group, member = self._member(event)
        known = _details(member, group)
        if any(known.get(name, value) != value for name, value in event.before.items()):
            self._contradict(f"{group.name}:{event.broker_id} was {event.before}, not {known}")
        after = cast(_Details, {**known, **event.after})
        member.ha_addr = after["ha_addr"]
        member.heartbeat_timeout_ms = after["heartbeat_timeout_ms"]
        member.filter_servers = after["filter_servers"]
        member.epoch = after["epoch"]
        group.acting_master = after["acting_master"]
        group.zone = after["zone"]

    def _left(self, event: BrokerLeft) -> None:
        group, _ = self._member(event)
        del group.members[event.broker_id]
        self._agree(group, event.addrs_after)
        # One that is replaced leaves its topics to its successor, which is told of next.
        if not event.addrs_after and event.cause is not Cause.REPLACED:
            if len(group.queues) != event.topics_lost:
                self._contradict(
                    f"{group.name} had {event.topics_lost} topics, not {len(group.queues)}"
                )
            self.groups.drop(group)

    def _topics_changed(self, event: TopicsChanged) -> None:
        group = self._group(*event.group)
        for change, before in self.groups.set_queues(group, event.changes):
            self._contradict(f"{change.topic} on {group.name} was {change.before}, not {before}")

    def _mappings_changed(self, event: MappingsChanged) -> None:
        self.groups.set_mappings(self._group(*event.group), event.mappings)

    def _completed(self, event: RegistrationCompleted) -> None:
        version = event.data_version
        _, member = self._member(event)
        member.data_version = None if version is None else (*version,)

    def _confirmed(self, event: BrokerConfirmed) -> None:
        _, member = self._member(event)
        if member.confirmed:
            self._contradict(f"{event.addr} was confirmed already")
        member.confirmed = True

    def _kv_changed(self, event: KvChanged) -> None:
        table = self.kv.setdefault(event.namespace, {})
        known = table.get(event.key)
        if known != event.before and (
            known is None or event.before is None or in_journal(known) != in_journal(event.before)
        ):
            self._contradict(f"{event.namespace}/{event.key} had another value before")
        if event.after is None:
            table.pop(event.key, None)
        else:
            table[event.key] = event.after

    def _started(self, event: NodeStarted) -> None:
        if event.brokers == 0:
            self.groups.clear()
            self.unsure = False
        self.restart(wall_ms=self.wall_ms)
        if event.brokers != self.groups.members():
            self._contradict(
                f"the node started with {event.brokers} brokers, not {self.groups.members()}"
            )

    def _records_lost(self, event: RecordsLost) -> None:
        self.lose_track()

    def _group_restated(self, event: GroupRestated) -> None:
        known = self.groups.find(*event.group)
        if event.continued and known is not None:
            self.groups.set_queues(known, event.queues)
            return
        group = GroupView(*event.group, event.acting_master, event.zone)
        for fact in event.members:
            before = known.members.get(fact.broker_id) if known else None
            same = before is not None and before.generation == fact.generation
            group.members[fact.broker_id] = MemberView(
                *fact[1:], since_ms=before.since_ms if before and same else self.wall_ms
            )
            self.generation = max(self.generation, fact.generation)
        self.restated += 1
        self.groups.put(group)
        self.groups.set_queues(group, event.queues)
        self.groups.set_mappings(group, event.mappings)

    def _state_restated(self, event: StateRestated) -> None:
        if self.unsure and self.restated < event.groups:
            return  # records were lost again while it was being restated
        for group in self.groups.listed():
            if not group.stated:
                self.groups.drop(group)
        self.generation = max(self.generation, event.generation)
        self.kv = {namespace: dict(table) for namespace, table in event.kv.items()}
        self.unsure = False

    # -- what an event speaks of, made up where the records before it do not know it

    def _group(self, cluster: str, broker: str) -> GroupView:
        group = self.groups.find(cluster, broker)
        if group is None:
            group = GroupView(cluster, broker)
            self._contradict(f"{group.name} was not known")
            self.groups.put(group)
        return group

    def _member(self, event: BrokerEvent) -> tuple[GroupView, MemberView]:
        group = self._group(*event.group)
        member = group.members.get(event.broker_id)
        if member is None or member.addr != event.addr:
            known = member.addr if member else "nobody"
            self._contradict(f"{group.name}:{event.broker_id} was {event.addr}, not {known}")
            member = group.members[event.broker_id] = self._stranger(event.addr)
            member.generation = event.generation
            self.generation = max(self.generation, event.generation)
        return group, member

    def _agree(self, group: GroupView, addrs: Mapping[int, str]) -> None:
        """Make the members of ``group`` those of ``addrs``."""
        if group.addrs == addrs:
            return
        self._contradict(f"{group.name} has {_listed(addrs)}, not {_listed(group.addrs)}")
        members = group.members
        group.members = {}
        for broker_id, addr in addrs.items():
            known = members.get(broker_id)
            same = known is not None and known.addr == addr
            group.members[broker_id] = known if known and same else self._stranger(addr)

    def _stranger(self, addr: str) -> MemberView:
        """A member of which only the address is known."""
        return MemberView(
            addr, None, _UNKNOWN_TIMEOUT_MS, 0, 0, None, (), confirmed=True, since_ms=self.wall_ms
        )

    def _contradict(self, reason: str) -> None:
        if self.unsure:
            return
        self.contradicted += 1
        if len(self.contradictions) < MAX_CONTRADICTIONS:
            self.contradictions.append(Contradiction(self.seq, reason))


_APPLY: dict[type[Event], Callable[[View, Any], None]] = {
    BrokerRegistered: View._registered,
    BrokerUpdated: View._updated,
    BrokerLeft: View._left,
    TopicsChanged: View._topics_changed,
    MappingsChanged: View._mappings_changed,
    RegistrationCompleted: View._completed,
    BrokerConfirmed: View._confirmed,
    KvChanged: View._kv_changed,
    NodeStarted: View._started,
    RecordsLost: View._records_lost,
    GroupRestated: View._group_restated,
    StateRestated: View._state_restated,
}


class _Details(TypedDict):
    ha_addr: str | None
    heartbeat_timeout_ms: int
    acting_master: bool
    zone: str | None
    filter_servers: tuple[str, ...]
    epoch: int


def _details(member: MemberView, group: GroupView) -> dict[str, object]:
    return {
        "ha_addr": member.ha_addr,
        "heartbeat_timeout_ms": member.heartbeat_timeout_ms,
        "acting_master": group.acting_master,
        "zone": group.zone,
        "filter_servers": member.filter_servers,
        "epoch": member.epoch,
    }


def _listed(addrs: Mapping[int, str]) -> str:
    return ", ".join(f"{broker_id}={addr}" for broker_id, addr in addrs.items()) or "no members"
