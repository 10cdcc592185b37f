"""Registrar: how a broker becomes a member, and its topics those of the table.

* a registration that is refused changes nothing;
* one that is accepted is applied in slices; until the last one the broker has no data version;
* a broker that leaves or registers elsewhere in between ends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    Cause,
    Event,
    MappingsChanged,
    MemberFact,
    RegistrationCompleted,
)
from routebook.state.account import Account, host_of
from routebook.state.departures import Departures
from routebook.state.facts import Changes, Facts
from routebook.state.members import Members
from routebook.state.model import MASTER, Group, Link, Member, Registration
from routebook.state.room import no_room_for
from routebook.state.topics import TOPICS_A_SLICE, TopicTable
from routebook.words import listed

MAPPINGS_A_SLICE = 200
NAMED_IN_A_CONFLICT = 3


@dataclass(frozen=True, slots=True)
class TableLimits:
    """What a registration may make of the table."""

    topics_per_broker: int
    route_entries: int
    brokers_per_group: int


@dataclass(slots=True)
class RegisterResult:
    """``refused`` is the reason nothing was applied; ``told`` whether the broker may know it.

    ``master_addr`` and ``ha_addr`` are for slaves of a live master.
    """

    events: list[Event] = field(default_factory=list)
    refused: str | None = None
    told: bool = True
    master_addr: str | None = None
    ha_addr: str | None = None


class _Arrival(NamedTuple):
    """A broker that is a member now, and what it was before.

    ``events`` is empty if nothing about it is new. ``first``: nobody had its id.
    """

    member: Member
    events: list[Event]
    version_before: tuple[int, int, int] | None
    first: bool


class Registrar:
    def __init__(
        self,
        members: Members,
        topics: TopicTable,
        departures: Departures,
        facts: Facts,
        limits: TableLimits,
        account: Account,
    ) -> None:
        self._members = members
        self._topics = topics
        self._departures = departures
        self._facts = facts
        self._limits = limits
        self._account = account
        self.recovered_ms = 0  # when the members without a connection were taken over

    def confirm(self, member: Member, *, peer: str, now_ms: int) -> Event:
        """A member known from before a restart is heard of."""
        self._members.confirm(member)
        return BrokerConfirmed(
            **self._facts.about(member, Cause.RECOVERED, peer),
            after_ms=now_ms - self.recovered_ms,
        )

    def renew(
        self, cluster: str, addr: str, *, fingerprint: int, link: Link, now_ms: int
    ) -> RegisterResult | None:
        """Take a registration that repeats the last one to the letter as a sign of life.

        None when it is not a repeat, or when repeating it would change something.
        """
        member = self._members.find_live(cluster, addr)
        if member is None or member.link != link:
            return None
        if member.repeat_key != (fingerprint, *self._repeat_context(member)):
            return None
        self._members.hear(member, now_ms)
        return self._with_master(RegisterResult(), member)

    def _repeat_context(self, member: Member) -> tuple[object, ...]:
        # What else decides whether the same words would change the table again.
        group = member.group
        return (member is group.lowest, group.touched, group.acting_master, group.zone)

    def register(
        self, registration: Registration, *, now_ms: int, delete_absent_topics: bool = False
    ) -> Changes[RegisterResult]:
        """Apply a registration in slices; yields the events of each slice.

        Refusals are decided before anything changes. While slices remain, the broker's data
        version is unset; it is final with the result. A broker that leaves or registers
        elsewhere meanwhile ends it.
        """
        refusal = self._refusal(registration)
        if refusal is not None:
            return refusal
        moved = self._moved_from(registration)
        events = next(moved, [])
        arrival = self._join(registration, now_ms)
        events += arrival.events
        member, generation = arrival.member, arrival.member.known.generation
        joined = bool(events)
        yield events
        yield from moved
        for changes in self._publish(registration, arrival, delete_absent_topics):
            yield changes
            alive = self._members.find_live(registration.cluster, registration.addr)
            if alive is not member or member.known.generation != generation:
                return RegisterResult(
                    [self._facts.not_registered(registration, Cause.STALE, "overtaken", told=True)],
                    refused="overtaken by a newer registration or a lost connection",
                )
        member.known = member.known._replace(data_version=registration.stamp)
        if registration.fingerprint is not None and registration.stamp is not None:
            member.repeat_key = (registration.fingerprint, *self._repeat_context(member))
        result = RegisterResult()
        if joined or arrival.version_before != registration.stamp:
            result.events.append(
                RegistrationCompleted(
                    **self._facts.about(member, Cause.REGISTER, registration.peer),
                    topics=len(registration.topics),
                    data_version=registration.stamp,
                )
            )
        return self._with_master(result, member)

    def _publish(
        self, registration: Registration, arrival: _Arrival, delete_absent_topics: bool
    ) -> Changes[None]:
        """Take over the topics of a registration, if its sender speaks for the group.

        Yields before each slice too, since the broker may be gone by the time one begins.
        """
        member, group = arrival.member, arrival.member.group
        prime = registration.acting_master is not None and member is group.lowest
        if member.known.broker_id != MASTER and not prime:
            return
        group.touched += 1  # what other members said may no longer be what stands
        yield []
        if delete_absent_topics and not registration.mappings:
            yield from self._drop_absent(group, registration)
        version = arrival.version_before
        rewrite = arrival.first or version is None or version != registration.stamp
        group.rewritten += rewrite
        read_only = member.known.broker_id != MASTER and group.acting_master
        taken = group.taken
        topics = iter(registration.topics.items())
        while chunk := list(islice(topics, TOPICS_A_SLICE)):
            # What an administrator took in the meantime stays taken, as if it came afterwards.
            closed = read_only or group.taken != taken
            changes = self._topics.write(group, chunk, rewrite=rewrite, read_only=closed)
            yield self._facts.topics_changed(group, changes, registration, Cause.REGISTER)
        self._topics.count_shapes(group, len(registration.topics), registration.shapes)
        yield from self._set_mappings(group, registration)

    def _drop_absent(self, group: Group, registration: Registration) -> Changes[None]:
        """Forget what the group has and the registration does not name."""
        known = iter(list(group.registered))
        while some := list(islice(known, TOPICS_A_SLICE)):
            absent = [topic for topic in some if topic not in registration.topics]
            dropped = self._topics.drop(group, absent)
            yield self._facts.topics_changed(group, dropped, registration, Cause.REGISTER)

    def _refusal(self, registration: Registration) -> RegisterResult | None:
        group = self._members.find_group(registration.cluster, registration.name)
        holder = group.members.get(registration.broker_id) if group else None
        if (
            holder is not None
            and holder.known.addr != registration.addr
            and holder.known.epoch > registration.state_version
        ):
            reason = (
                f"its epoch {registration.state_version} is older than"
                f" epoch {holder.known.epoch} of {holder.known.addr}"
            )
            event = self._facts.conflict(
                registration, kept=holder.known.addr, other=registration.addr, reason=reason
            )
            # The reference answers success, and a broker told otherwise would only log it.
            return RegisterResult([event], refused=reason, told=False)
        if holder is None and len(registration.topics) == 1:
            # A topic announced before the first full registration (upstream issue 4522).
            reason = "register broker failed"
            refused = self._facts.not_registered(
                registration, Cause.REGISTER, "a single topic", told=True
            )
            return RegisterResult([refused], refused=reason)
        if group and holder is None and len(group.members) >= self._limits.brokers_per_group:
            mine = self._members.find_live(registration.cluster, registration.addr)
            if mine is None or mine.group is not group:  # else it only changes its id
                return self._full(
                    registration,
                    f"group {registration.name} has {len(group.members)} brokers, as many as one"
                    " may have (maxBrokersPerGroup)",
                )
        known = group.registered if group else {}
        total = len(known) + len(registration.topics)
        if total > self._limits.topics_per_broker:
            total = len(known) + _count_new(registration.topics, known)
            if total > self._limits.topics_per_broker:
                return self._full(
                    registration,
                    f"{total} topics exceed the limit of {self._limits.topics_per_broker} for one"
                    " broker (maxTopicsPerBroker)",
                )
        if self._topics.entries + len(registration.topics) > self._limits.route_entries:
            new = _count_new(registration.topics, known)
            if self._topics.entries + new > self._limits.route_entries:
                return self._full(
                    registration,
                    f"{new} new topics on top of {self._topics.entries} exceed the limit of"
                    f" {self._limits.route_entries} (maxRouteEntries)",
                )
        no_room = no_room_for(registration, group, self._topics, self._account)
        return None if no_room is None else self._full(registration, no_room)

    def _full(self, registration: Registration, reason: str) -> RegisterResult:
        event = self._facts.not_registered(registration, Cause.REGISTER, reason, told=True)
        return RegisterResult([event], refused=reason)

    def _join(self, registration: Registration, now_ms: int) -> _Arrival:
        """Make the broker a member."""
        current = self._members.find_live(registration.cluster, registration.addr)
        group, made = self._members.group_for(registration.cluster, registration.name)
        events = self._shared_name(registration) if made else []
        addrs_before, lowest_before = group.addrs, min(group.members, default=0)
        holder = group.members.get(registration.broker_id)
        if holder is not None and holder is not current:
            events += self._replace(holder, registration)
        member = current or Member(group, _known(registration), registration.link)
        version_before = member.known.data_version
        events += self._tie(member, registration, now_ms)
        joined = (
            current is None
            or member.link != registration.link
            or member.known.broker_id != registration.broker_id
        )
        if joined:
            self._take_over(registration, member, self._members.new_generation())
            self._members.settle(member, registration.link)
            group.version += 1
            events.append(self._facts.registered(member, registration, addrs_before))
        else:
            details_before = member.details
            self._take_over(registration, member, member.known.generation)
            if member.details != details_before:
                group.version += 1
                events.append(self._facts.updated(member, details_before, registration.peer))
        self._members.hear(member, now_ms)
        if registration.broker_id < lowest_before:
            events.append(
                self._facts.min_changed(
                    group, registration.peer, Cause.REGISTER, ha_addr=registration.ha_addr
                )
            )
        return _Arrival(member, events, version_before, first=holder is None)

    def _tie(self, member: Member, registration: Registration, now_ms: int) -> list[Event]:
        """Let a member without a connection live by that of its registration."""
        known = member.known
        if member.link is not None or known.broker_id != registration.broker_id:
            return []
        events: list[Event] = []
        if not known.confirmed:
            events.append(self.confirm(member, peer=registration.peer, now_ms=now_ms))
        self._members.tie(member, registration.link)
        return events

    def _take_over(self, registration: Registration, member: Member, generation: int) -> None:
        """Believe what a registration says of its broker and its group."""
        group, id_before = member.group, member.known.broker_id
        if id_before != registration.broker_id:
            # Same address, other id: a change of role. Without this one address is listed twice.
            del group.members[id_before]
        group.members[registration.broker_id] = member
        self._account.pay(group, host_of(registration.peer))
        group.acting_master = bool(registration.acting_master)
        group.zone = registration.zone
        member.known = _known(registration, generation, member.known.filter_servers)
        member.peer = registration.peer
        member.repeat_key = None
        self._members.weigh(member)

    def _moved_from(self, registration: Registration) -> Changes[None]:
        """The address is known under another name: there it leaves."""
        current = self._members.find_live(registration.cluster, registration.addr)
        if current is not None and current.group.name != registration.name:
            yield from self._departures.leave(current, Cause.MOVED, registration.peer)

    def _shared_name(self, registration: Registration) -> list[Event]:
        """A new group has the name of others: one event, however many they are."""
        named = self._members.groups_named(registration.name)
        others = len(named) - 1
        if not others:
            return []
        some = list(islice(named, min(others, NAMED_IN_A_CONFLICT)))  # the new one is the last
        clusters = listed([other.cluster for other in some], most=len(some), of=others)
        which = f"cluster {clusters} has" if others == 1 else f"clusters {clusters} have"
        return [
            self._facts.conflict(
                registration,
                kept=registration.addr,
                other=", ".join(addr for other in some for addr in other.addrs.values()),
                reason=f"{which} a broker of this name; clients cannot tell them apart where they"
                " share a topic",
            )
        ]

    def _replace(self, holder: Member, registration: Registration) -> list[Event]:
        """Another address takes the id of ``holder``, which is gone with all that watched it."""
        addrs_before = holder.group.addrs
        conflict = self._facts.conflict(
            registration,
            kept=registration.addr,
            other=holder.known.addr,
            reason="another address registered under the same name and id; the last one counts",
        )
        self._members.forget(holder)
        left = BrokerLeft(
            **self._facts.about(holder, Cause.REPLACED, registration.peer),
            addrs_before=addrs_before,
            addrs_after=holder.group.addrs,
            topics_lost=0,
        )
        return [conflict, left]

    def _set_mappings(self, group: Group, registration: Registration) -> Changes[None]:
        for start in range(0, len(registration.mappings), MAPPINGS_A_SLICE):
            some = registration.mappings[start : start + MAPPINGS_A_SLICE]
            changed = [mapping for mapping in some if self._topics.set_mapping(group, mapping)]
            if not changed:
                yield []
                continue
            yield [
                MappingsChanged(
                    **self._facts.fact(Cause.REGISTER, registration.peer),
                    cluster=group.cluster,
                    broker=group.name,
                    mappings=tuple(changed),
                )
            ]

    def _with_master(self, result: RegisterResult, member: Member) -> RegisterResult:
        master = member.group.members.get(MASTER)
        if master is not None and master is not member:
            result.master_addr = master.known.addr
            result.ha_addr = master.known.ha_addr
        return result


def _known(
    registration: Registration, generation: int = 0, filter_servers: tuple[str, ...] = ()
) -> MemberFact:
    """What is known of a broker that registers, with the filter servers it had.

    Its data version is known when all is applied.
    """
    said = registration.filter_servers
    return MemberFact(
        registration.broker_id,
        registration.addr,
        registration.ha_addr,
        registration.heartbeat_timeout_ms,
        generation,
        registration.state_version,
        None,
        filter_servers if said is None else said,
    )


def _count_new(topics: Mapping[str, object], known: Mapping[str, object]) -> int:
    return sum(topic not in known for topic in topics)
