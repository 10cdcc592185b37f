"""RouteTable: brokers, the topics they hold, and when each was last heard.

Rules that keep it honest:

* every live broker process is one member of exactly one group, keyed by cluster and address,
  so nothing can be listed that no deadline watches;
* a registration that is refused changes nothing;
* whoever decides that a broker is gone (a closed connection, a passed deadline, an unregister
  request) names what it saw; a broker that registered again since is left alone.

    A registers on link 1      live A: link 1, generation 1
    A registers on link 2      live A: link 2, generation 2
    link 1 closes              nothing: generation 1 is history
    link 2 closes              A leaves
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypedDict

from routebook.events import (
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    Event,
    MappingsChanged,
    MinBrokerChanged,
    QueueChange,
    RegistrationCompleted,
    RequestRefused,
    TopicsChanged,
)
from routebook.state.deadlines import Deadlines
from routebook.state.model import (
    MASTER,
    Group,
    Link,
    Member,
    QueueShape,
    Registration,
    VersionStamp,
)
from routebook.state.revision import Revision
from routebook.state.topics import TopicTable

TOPICS_A_SLICE = 2000


class _Fact(TypedDict):
    revision: int
    cause: Cause
    peer: str


class _MemberFact(_Fact):
    cluster: str
    broker: str
    broker_id: int
    addr: str
    generation: int


Key = tuple[str, str]  # cluster, address


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


class RouteTable:
    def __init__(
        self, revision: Revision, *, max_topics_per_broker: int, max_route_entries: int
    ) -> None:
        self._revision = revision
        self._max_topics_per_broker = max_topics_per_broker
        self._max_route_entries = max_route_entries
        self._groups: dict[Key, Group] = {}  # cluster, broker name
        self._live: dict[Key, Member] = {}
        self._registered_on: dict[Link, dict[Key, int]] = {}  # with the generation it got
        self._heard_on: dict[Link, set[Key]] = {}
        self._deadlines: Deadlines[Key] = Deadlines()
        self._generation = 0
        self.topics = TopicTable()
        self.version = 0  # raised with every change a route answer could show

    # -- looking up

    def groups(self) -> Iterable[Group]:
        return self._groups.values()

    def find_group(self, cluster: str, name: str) -> Group | None:
        return self._groups.get((cluster, name))

    def groups_named(self, name: str) -> list[Group]:
        """Usually one; a name may be in use in two clusters."""
        return [group for group in self._groups.values() if group.name == name]

    def find_live(self, cluster: str, addr: str) -> Member | None:
        return self._live.get((cluster, addr))

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_at()

    def topics_where(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics whose system flags, as one of its brokers tells them, are ``wanted``."""
        return [
            topic
            for topic in self.topics
            if wanted(next(iter(self.topics.queues(topic).values())).sys_flag)
        ]

    def topics_in(self, cluster: str) -> list[str]:
        """An unknown cluster has no topics, as in the reference."""
        found: dict[str, None] = {}
        for group in self._groups.values():
            if group.cluster == cluster:
                found.update(dict.fromkeys(group.registered))
        return list(found)

    # -- staying alive

    def heartbeat(self, cluster: str, addr: str, *, link: Link, now_ms: int) -> Member | None:
        """Note that a broker is alive; None for one that is not registered.

        Heard on another connection than the one it registered on, it outlives the latter.
        """
        key = (cluster, addr)
        member = self._live.get(key)
        if member is None:
            return None
        self._hear(key, member, now_ms)
        if link != member.link and link != member.other_link:
            member.other_link = link
            self._heard_on.setdefault(link, set()).add(key)
        return member

    def _hear(self, key: Key, member: Member, now_ms: int) -> None:
        member.heard_at_ms = now_ms
        self._deadlines.set(key, now_ms + member.heartbeat_timeout_ms)

    def renew(self, key: Key, repeat_key: tuple[object, ...], now_ms: int) -> RegisterResult | None:
        """Take a registration that repeats the last one to the letter as a sign of life.

        None when it is not a repeat, or when repeating it would change something.
        """
        member = self._live.get(key)
        if member is None or member.repeat_key != (*repeat_key, *self._repeat_context(member)):
            return None
        self._hear(key, member, now_ms)
        return self._with_master(RegisterResult(), member)

    def _repeat_context(self, member: Member) -> tuple[object, ...]:
        # What else decides whether the same words would change the table again.
        return (member.link, member.broker_id == min(member.group.members), member.group.touched)

    # -- registration

    def register(
        self, registration: Registration, *, now_ms: int, delete_absent_topics: bool = False
    ) -> Generator[list[Event], None, RegisterResult]:
        """Apply a registration in slices; yields the events of each slice.

        Refusals are decided before anything changes. While slices remain, the broker's data
        version is unset; it is final with the result. A broker that leaves or registers
        elsewhere meanwhile ends it.
        """
        refusal = self._refusal(registration)
        if refusal is not None:
            return refusal
        member, events, stamp_before, first = self._join(registration, now_ms)
        group, generation = member.group, member.generation
        joined = bool(events)
        yield events

        rewrite = first or stamp_before is None or stamp_before != registration.stamp
        prime = registration.acting_master is not None and member is group.lowest
        publishes = member.broker_id == MASTER or prime
        if publishes:
            if delete_absent_topics and not registration.mappings:
                absent = [topic for topic in group.registered if topic not in registration.topics]
                if absent:
                    yield self._topics_changed(
                        group, self.topics.drop(group, absent), registration, Cause.REGISTER
                    )
            read_only = member.broker_id != MASTER and group.acting_master
            topics = iter(registration.topics.items())
            while chunk := list(islice(topics, TOPICS_A_SLICE)):
                changes = self.topics.write(group, chunk, rewrite=rewrite, read_only=read_only)
                yield self._topics_changed(group, changes, registration, Cause.REGISTER)
                if self._live.get((group.cluster, member.addr)) is not member or (
                    member.generation != generation
                ):
                    return RegisterResult(
                        [self._refused(registration, Cause.STALE, "overtaken", told=True)],
                        refused="overtaken by a newer registration or a lost connection",
                    )
            if rewrite:
                yield self._set_mappings(group, registration)

        member.stamp = registration.stamp
        if registration.fingerprint is not None and registration.stamp is not None:
            member.repeat_key = (registration.fingerprint, *self._repeat_context(member))
        result = RegisterResult()
        if joined or stamp_before != registration.stamp:
            result.events.append(
                RegistrationCompleted(
                    **self._about(member, Cause.REGISTER, registration.peer),
                    topics=len(registration.topics),
                    data_version=registration.stamp,
                )
            )
        return self._with_master(result, member)

    def _refusal(self, registration: Registration) -> RegisterResult | None:
        group = self._groups.get((registration.cluster, registration.name))
        holder = group.members.get(registration.broker_id) if group else None
        if (
            holder is not None
            and holder.addr != registration.addr
            and holder.state_version > registration.state_version
        ):
            reason = (
                f"its epoch {registration.state_version} is older than"
                f" epoch {holder.state_version} of {holder.addr}"
            )
            event = BrokerConflict(
                **self._fact(Cause.CONFLICT, registration.peer),
                cluster=registration.cluster,
                broker=registration.name,
                broker_id=registration.broker_id,
                kept=holder.addr,
                other=registration.addr,
                reason=reason,
            )
            # The reference answers success, and a broker told otherwise would only log it.
            return RegisterResult([event], refused=reason, told=False)
        if holder is None and len(registration.topics) == 1:
            # A topic announced before the first full registration (upstream issue 4522).
            reason = "register broker failed"
            refused = self._refused(registration, Cause.REGISTER, "a single topic", told=True)
            return RegisterResult([refused], refused=reason)
        known = group.registered if group else {}
        total = len(known) + len(registration.topics)
        if total > self._max_topics_per_broker:
            total = len(known.keys() | registration.topics.keys())
            if total > self._max_topics_per_broker:
                return self._full(
                    registration,
                    f"{total} topics exceed the limit of {self._max_topics_per_broker} for one"
                    " broker (maxTopicsPerBroker)",
                )
        if self.topics.entries + len(registration.topics) > self._max_route_entries:
            new = len(registration.topics.keys() - known.keys())
            if self.topics.entries + new > self._max_route_entries:
                return self._full(
                    registration,
                    f"{new} new topics on top of {self.topics.entries} exceed the limit of"
                    f" {self._max_route_entries} (maxRouteEntries)",
                )
        return None

    def _full(self, registration: Registration, reason: str) -> RegisterResult:
        event = self._refused(registration, Cause.REGISTER, reason, told=True)
        return RegisterResult([event], refused=reason)

    def _join(
        self, registration: Registration, now_ms: int
    ) -> tuple[Member, list[Event], VersionStamp | None, bool]:
        """Make the broker a member; also its previous data version and whether its id is new."""
        key = (registration.cluster, registration.addr)
        events: list[Event] = []
        current = self._live.get(key)
        if current is not None and current.group.name != registration.name:
            events += self._remove(current, Cause.MOVED, registration.peer)
            current = None
        group = self._groups.get((registration.cluster, registration.name))
        if group is None:
            group = Group(registration.cluster, registration.name)
            self._groups[registration.cluster, registration.name] = group
            events += self._name_conflicts(group, registration)
        addrs_before = group.addrs
        lowest_before = min(group.members, default=0)
        holder = group.members.get(registration.broker_id)
        if holder is not None and holder is not current:
            events += self._replace(holder, registration)
        stamp_before = current.stamp if current else None
        if current is None:
            member = Member(
                group,
                registration.broker_id,
                registration.addr,
                registration.ha_addr,
                registration.heartbeat_timeout_ms,
                0,
                registration.link,
            )
            self._live[key] = member
        else:
            member = current
        details_before = _details(member)
        joined = (
            current is None
            or member.link != registration.link
            or member.broker_id != registration.broker_id
        )
        if current is not None and member.broker_id != registration.broker_id:
            # Same address, other id: a change of role. Without this one address is listed twice.
            del group.members[member.broker_id]
        group.members[registration.broker_id] = member
        group.acting_master = bool(registration.acting_master)
        group.zone = registration.zone
        member.broker_id = registration.broker_id
        member.ha_addr = registration.ha_addr
        member.heartbeat_timeout_ms = registration.heartbeat_timeout_ms
        member.state_version = registration.state_version
        if registration.filter_servers is not None:
            member.filter_servers = registration.filter_servers
        member.stamp = None
        member.repeat_key = None
        details_after = _details(member)
        if joined:
            self._generation += 1
            member.generation = self._generation
            self._move_to(key, member, registration.link)
        self._hear(key, member, now_ms)
        if joined or details_before != details_after:
            group.rendered = None
            self.version += 1
        if joined:
            events.append(
                BrokerRegistered(
                    **self._about(member, Cause.REGISTER, registration.peer),
                    ha_addr=member.ha_addr,
                    heartbeat_timeout_ms=member.heartbeat_timeout_ms,
                    acting_master=registration.acting_master,
                    zone=registration.zone,
                    addrs_before=addrs_before,
                    addrs_after=group.addrs,
                )
            )
        elif details_before != details_after:
            events.append(
                BrokerUpdated(
                    **self._about(member, Cause.REGISTER, registration.peer),
                    before=details_before,
                    after=details_after,
                )
            )
        if registration.broker_id < lowest_before:
            events.append(
                self._min_changed(
                    group, registration.peer, Cause.REGISTER, ha_addr=registration.ha_addr
                )
            )
        return member, events, stamp_before, holder is None

    def _name_conflicts(self, group: Group, registration: Registration) -> list[Event]:
        return [
            BrokerConflict(
                **self._fact(Cause.CONFLICT, registration.peer),
                cluster=registration.cluster,
                broker=registration.name,
                broker_id=registration.broker_id,
                kept=registration.addr,
                other=", ".join(other.addrs.values()),
                reason=f"cluster {other.cluster} has a broker of this name; clients cannot tell"
                " them apart where they share a topic",
            )
            for other in self.groups_named(group.name)
            if other is not group
        ]

    def _replace(self, holder: Member, registration: Registration) -> list[Event]:
        """Another address takes the id of ``holder``, which is gone with all that watched it."""
        addrs_before = holder.group.addrs
        conflict = BrokerConflict(
            **self._fact(Cause.CONFLICT, registration.peer),
            cluster=registration.cluster,
            broker=registration.name,
            broker_id=registration.broker_id,
            kept=registration.addr,
            other=holder.addr,
            reason="another address registered under the same name and id; the last one counts",
        )
        self._forget(holder)
        del holder.group.members[holder.broker_id]
        left = BrokerLeft(
            **self._about(holder, Cause.REPLACED, registration.peer),
            addrs_before=addrs_before,
            addrs_after=holder.group.addrs,
            topics_lost=0,
        )
        return [conflict, left]

    def _move_to(self, key: Key, member: Member, link: Link) -> None:
        if member.other_link is not None:
            self._heard_on.get(member.other_link, set()).discard(key)
            member.other_link = None
        # The old link keeps its entry: an unregister request that comes late over it is known
        # by the generation it registered.
        member.link = link
        on_link = self._registered_on.setdefault(link, {})
        on_link[key] = member.generation
        if len(on_link) > 2 * len(self._live) + 64:
            live = self._live
            self._registered_on[link] = {k: g for k, g in on_link.items() if k in live}

    def _set_mappings(self, group: Group, registration: Registration) -> list[Event]:
        changed = [
            mapping.topic
            for mapping in registration.mappings
            if self.topics.set_mapping(group, mapping)
        ]
        if not changed:
            return []
        self.version += 1
        return [
            MappingsChanged(
                **self._fact(Cause.REGISTER, registration.peer),
                cluster=group.cluster,
                broker=group.name,
                topics_set=tuple(changed),
                topics_dropped=(),
            )
        ]

    def _with_master(self, result: RegisterResult, member: Member) -> RegisterResult:
        master = member.group.members.get(MASTER)
        if master is not None and master is not member:
            result.master_addr = master.addr
            result.ha_addr = master.ha_addr
        return result

    # -- leaving

    def unregister(
        self, cluster: str, name: str, addr: str, *, link: Link, peer: str
    ) -> list[Event]:
        """Remove a broker by its own wish; nothing for one that is unknown.

        A wish sent over a connection the broker has since left for a newer one is void.
        """
        member = self._live.get((cluster, addr))
        if member is None or member.group.name != name:
            return []
        registered = self._registered_on.get(link, {}).get((cluster, addr))
        if registered is not None and registered != member.generation:
            return [
                RequestRefused(
                    **self._fact(Cause.STALE, peer),
                    request="UNREGISTER_BROKER",
                    subject=f"{cluster}/{name} {addr}",
                    reason="the broker has registered again over a newer connection",
                    answered_success=True,
                )
            ]
        return self._remove(member, Cause.UNREGISTER, peer)

    def close_link(self, link: Link, cause: Cause, peer: str) -> list[Event]:
        """Remove every broker that lived by this connection alone."""
        events: list[Event] = []
        for key in self._heard_on.pop(link, ()):
            heard = self._live.get(key)
            if heard is not None and heard.other_link == link:
                heard.other_link = None
        for key, generation in self._registered_on.pop(link, {}).items():
            member = self._live.get(key)
            if member is None or member.generation != generation:
                continue
            if member.other_link is not None:
                self._heard_on.get(member.other_link, set()).discard(key)
                member.link, member.other_link = member.other_link, None
                member.repeat_key = None
                self._registered_on.setdefault(member.link, {})[key] = generation
            else:
                events += self._remove(member, cause, peer)
        return events

    def expire(self, now_ms: int) -> tuple[list[Event], list[Link]]:
        """Drop every broker silent past its deadline; also the connections to close."""
        events: list[Event] = []
        links: list[Link] = []
        for key in self._deadlines.due(now_ms):
            member = self._live[key]
            links.append(member.link)
            events += self._remove(member, Cause.EXPIRED, "")
        return events, links

    def _forget(self, member: Member) -> None:
        key = (member.group.cluster, member.addr)
        del self._live[key]
        self._deadlines.drop(key)
        self._registered_on.get(member.link, {}).pop(key, None)
        if member.other_link is not None:
            self._heard_on.get(member.other_link, set()).discard(key)

    def _remove(self, member: Member, cause: Cause, peer: str) -> list[Event]:
        group = member.group
        addrs_before = group.addrs
        was_lowest = member is group.lowest
        self._forget(member)
        del group.members[member.broker_id]
        group.rendered = None
        self.version += 1
        topics_lost = 0
        if not group.members:
            topics_lost = self.topics.drop_all(group)
            del self._groups[group.cluster, group.name]
        events: list[Event] = [
            BrokerLeft(
                **self._about(member, cause, peer),
                addrs_before=addrs_before,
                addrs_after=group.addrs,
                topics_lost=topics_lost,
            )
        ]
        if group.members and group.acting_master:
            if MASTER not in group.members:
                changes = self.topics.set_permission(group, writable=False)
                events += self._topics_changed(group, changes, None, cause)
            if was_lowest:
                events.append(self._min_changed(group, peer, cause, offline_addr=member.addr))
        return events

    def _min_changed(
        self,
        group: Group,
        peer: str,
        cause: Cause,
        *,
        ha_addr: str | None = None,
        offline_addr: str | None = None,
    ) -> Event:
        lowest = group.lowest
        members = list(group.addrs.values())
        if offline_addr is None and len(members) > 1:
            members.remove(lowest.addr)
        return MinBrokerChanged(
            **self._fact(cause, peer),
            cluster=group.cluster,
            broker=group.name,
            min_broker_id=lowest.broker_id,
            min_broker_addr=lowest.addr,
            offline_addr=offline_addr,
            ha_addr=ha_addr,
            recipients=tuple(members),
        )

    # -- administration

    def set_writable(self, name: str, *, writable: bool, peer: str) -> tuple[int, list[Event]]:
        """Give or take the write bit of all topics of a broker; also how many topics it has."""
        touched: set[str] = set()
        events: list[Event] = []
        for group in self.groups_named(name):
            touched.update(group.registered)
            changes = self.topics.set_permission(group, writable=writable)
            events += self._topics_changed(group, changes, None, Cause.ADMIN, peer)
        return len(touched), events

    def register_topic(
        self, topic: str, queues: list[tuple[str, QueueShape]], *, peer: str
    ) -> list[Event]:
        """Announce a topic on brokers that are registered; all of it or nothing."""
        unknown = [name for name, _ in queues if not self.groups_named(name)]
        full = self.topics.entries + len(queues) > self._max_route_entries
        if unknown or full:
            reason = (
                f"no broker named {', '.join(unknown)} is registered"
                if unknown
                else f"the limit of {self._max_route_entries} is reached (maxRouteEntries)"
            )
            return [
                RequestRefused(
                    **self._fact(Cause.ADMIN, peer),
                    request="REGISTER_TOPIC_IN_NAMESRV",
                    subject=topic,
                    reason=reason,
                    answered_success=True,
                )
            ]
        events: list[Event] = []
        for name, shape in queues:
            for group in self.groups_named(name):
                changes = self.topics.overwrite(group, topic, shape)
                events += self._topics_changed(group, changes, None, Cause.REGISTER, peer)
        return events

    def delete_topic(self, topic: str, cluster: str | None, *, peer: str) -> list[Event]:
        """Forget a topic, in one cluster or everywhere, until a broker announces it again."""
        events: list[Event] = []
        for group in list(self.topics.queues(topic)):
            if cluster is None or group.cluster == cluster:
                group.touched += 1
                changes = self.topics.drop(group, [topic])
                events += self._topics_changed(group, changes, None, Cause.ADMIN, peer)
        return events

    # -- saying what happened

    def _topics_changed(
        self,
        group: Group,
        changes: list[QueueChange],
        registration: Registration | None,
        cause: Cause,
        peer: str = "",
    ) -> list[Event]:
        if not changes:
            return []
        self.version += 1
        return [
            TopicsChanged(
                **self._fact(cause, registration.peer if registration else peer),
                cluster=group.cluster,
                broker=group.name,
                changes=tuple(changes),
            )
        ]

    def _refused(
        self, registration: Registration, cause: Cause, reason: str, *, told: bool
    ) -> Event:
        return RequestRefused(
            **self._fact(cause, registration.peer),
            request="REGISTER_BROKER",
            subject=f"{registration.cluster}/{registration.name}:{registration.broker_id}"
            f" {registration.addr}",
            reason=reason,
            answered_success=not told,
        )

    def _fact(self, cause: Cause, peer: str) -> _Fact:
        return {"revision": self._revision.next(), "cause": cause, "peer": peer}

    def _about(self, member: Member, cause: Cause, peer: str) -> _MemberFact:
        return {
            "revision": self._revision.next(),
            "cause": cause,
            "peer": peer,
            "cluster": member.group.cluster,
            "broker": member.group.name,
            "broker_id": member.broker_id,
            "addr": member.addr,
            "generation": member.generation,
        }


def _details(member: Member) -> dict[str, object]:
    return {
        "ha_addr": member.ha_addr,
        "heartbeat_timeout_ms": member.heartbeat_timeout_ms,
        "acting_master": member.group.acting_master,
        "zone": member.group.zone,
        "filter_servers": member.filter_servers,
    }
