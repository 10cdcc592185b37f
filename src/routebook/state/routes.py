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

After a restart brokers are known without a connection; the first sign of life confirms one, and
its next registration ties it to a connection again.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    Event,
    MappingsChanged,
    RegistrationCompleted,
    RequestRefused,
)
from routebook.slices import Slices
from routebook.state.facts import Facts, details
from routebook.state.guard import NO_GUARD, GuardSettings, LossGuard
from routebook.state.members import Members
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

TOPICS_A_SLICE = 1000


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


@dataclass(frozen=True, slots=True)
class WriteState:
    """Topics of a broker that clients may not write, sorted.

    ``taken``: the broker registered them writable, and an administrator took it, or its master is
    away. ``kept``: it registered them so. ``topics`` is how many it has in all.
    """

    topics: int
    taken: tuple[str, ...]
    kept: tuple[str, ...]


class RouteTable:
    def __init__(
        self,
        revision: Revision,
        *,
        max_topics_per_broker: int,
        max_route_entries: int,
        guard: GuardSettings = NO_GUARD,
    ) -> None:
        self._facts = Facts(revision)
        self.guard = LossGuard(guard, self._facts)
        self._max_topics_per_broker = max_topics_per_broker
        self._max_route_entries = max_route_entries
        self.members = Members()
        self.topics = TopicTable()
        self.recovered_ms = 0  # when the members without a connection were taken over

    # -- looking up

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
        for group in self.members.groups():
            if group.cluster == cluster:
                found.update(dict.fromkeys(group.registered))
        return list(found)

    # -- staying alive

    def heartbeat(
        self, cluster: str, addr: str, *, link: Link, peer: str, now_ms: int
    ) -> tuple[Member | None, Sequence[Event]]:
        """Note that a broker is alive; None for one that is not registered.

        Heard on another connection than the one it registered on, it outlives the latter. One that
        has not registered since a restart is tied to none.
        """
        member = self.members.find_live(cluster, addr)
        if member is None:
            return None, ()
        events: Sequence[Event] = ()
        if not member.confirmed:
            events = [self._confirm(member, peer=peer, now_ms=now_ms)]
        self.members.hear(member, now_ms)
        self.members.hear_on(member, link)
        return member, events

    def _confirm(self, member: Member, *, peer: str, now_ms: int) -> Event:
        self.members.confirm(member)
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
        member = self.members.find_live(cluster, addr)
        if member is None or member.link != link:
            return None
        if member.repeat_key != (fingerprint, *self._repeat_context(member)):
            return None
        self.members.hear(member, now_ms)
        return self._with_master(RegisterResult(), member)

    def _repeat_context(self, member: Member) -> tuple[object, ...]:
        # What else decides whether the same words would change the table again.
        group = member.group
        return (member is group.lowest, group.touched, group.acting_master, group.zone)

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
        generation = member.generation
        joined = bool(events)
        yield events
        for changes in self._publish(
            registration, member, first, stamp_before, delete_absent_topics
        ):
            yield changes
            alive = self.members.find_live(registration.cluster, registration.addr)
            if alive is not member or member.generation != generation:
                return RegisterResult(
                    [self._facts.refused(registration, Cause.STALE, "overtaken", told=True)],
                    refused="overtaken by a newer registration or a lost connection",
                )
        member.stamp = registration.stamp
        if registration.fingerprint is not None and registration.stamp is not None:
            member.repeat_key = (registration.fingerprint, *self._repeat_context(member))
        result = RegisterResult()
        if joined or stamp_before != registration.stamp:
            result.events.append(
                RegistrationCompleted(
                    **self._facts.about(member, Cause.REGISTER, registration.peer),
                    topics=len(registration.topics),
                    data_version=registration.stamp,
                )
            )
        return self._with_master(result, member)

    def _publish(
        self,
        registration: Registration,
        member: Member,
        first: bool,
        stamp_before: VersionStamp | None,
        delete_absent_topics: bool,
    ) -> Iterator[list[Event]]:
        """Take over the topics of a registration, if its sender speaks for the group.

        Yields before each slice too, since the broker may be gone by the time one begins.
        """
        group = member.group
        prime = registration.acting_master is not None and member is group.lowest
        if member.broker_id != MASTER and not prime:
            return
        group.touched += 1  # what other members said may no longer be what stands
        yield []
        if delete_absent_topics and not registration.mappings:
            absent = [topic for topic in group.registered if topic not in registration.topics]
            dropped = self.topics.drop(group, absent)
            yield self._facts.topics_changed(group, dropped, registration, Cause.REGISTER)
        rewrite = first or stamp_before is None or stamp_before != registration.stamp
        read_only = member.broker_id != MASTER and group.acting_master
        topics = iter(registration.topics.items())
        while chunk := list(islice(topics, TOPICS_A_SLICE)):
            changes = self.topics.write(group, chunk, rewrite=rewrite, read_only=read_only)
            yield self._facts.topics_changed(group, changes, registration, Cause.REGISTER)
        yield self._set_mappings(group, registration)

    def _refusal(self, registration: Registration) -> RegisterResult | None:
        group = self.members.find_group(registration.cluster, registration.name)
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
            event = self._facts.conflict(
                registration, kept=holder.addr, other=registration.addr, reason=reason
            )
            # The reference answers success, and a broker told otherwise would only log it.
            return RegisterResult([event], refused=reason, told=False)
        if holder is None and len(registration.topics) == 1:
            # A topic announced before the first full registration (upstream issue 4522).
            reason = "register broker failed"
            refused = self._facts.refused(registration, Cause.REGISTER, "a single topic", told=True)
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
        event = self._facts.refused(registration, Cause.REGISTER, reason, told=True)
        return RegisterResult([event], refused=reason)

    def _join(
        self, registration: Registration, now_ms: int
    ) -> tuple[Member, list[Event], VersionStamp | None, bool]:
        """Make the broker a member; also its previous data version and whether its id is new."""
        events: list[Event] = []
        current = self.members.find_live(registration.cluster, registration.addr)
        if current is not None and current.group.name != registration.name:
            events += self._remove(current, Cause.MOVED, registration.peer)
            current = None
        group, made = self.members.group_for(registration.cluster, registration.name)
        if made:
            events += [
                self._facts.conflict(
                    registration,
                    kept=registration.addr,
                    other=", ".join(other.addrs.values()),
                    reason=f"cluster {other.cluster} has a broker of this name; clients cannot"
                    " tell them apart where they share a topic",
                )
                for other in self.members.groups_named(group.name)
                if other is not group
            ]
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
        else:
            member = current
        details_before = details(member)
        if member.link is None and member.broker_id == registration.broker_id:
            if not member.confirmed:
                events.append(self._confirm(member, peer=registration.peer, now_ms=now_ms))
            self.members.tie(member, registration.link)
        member.peer = registration.peer
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
        details_after = details(member)
        if joined:
            self.members.settle(member, registration.link)
        self.members.hear(member, now_ms)
        if joined or details_before != details_after:
            group.rendered = None
        if joined:
            events.append(
                BrokerRegistered(
                    **self._facts.about(member, Cause.REGISTER, registration.peer),
                    ha_addr=member.ha_addr,
                    heartbeat_timeout_ms=member.heartbeat_timeout_ms,
                    acting_master=registration.acting_master,
                    zone=registration.zone,
                    epoch=member.state_version,
                    filter_servers=member.filter_servers,
                    addrs_before=addrs_before,
                    addrs_after=group.addrs,
                )
            )
        elif details_before != details_after:
            events.append(
                BrokerUpdated(
                    **self._facts.about(member, Cause.REGISTER, registration.peer),
                    before=details_before,
                    after=details_after,
                )
            )
        if registration.broker_id < lowest_before:
            events.append(
                self._facts.min_changed(
                    group, registration.peer, Cause.REGISTER, ha_addr=registration.ha_addr
                )
            )
        return member, events, stamp_before, holder is None

    def _replace(self, holder: Member, registration: Registration) -> list[Event]:
        """Another address takes the id of ``holder``, which is gone with all that watched it."""
        addrs_before = holder.group.addrs
        conflict = self._facts.conflict(
            registration,
            kept=registration.addr,
            other=holder.addr,
            reason="another address registered under the same name and id; the last one counts",
        )
        self.members.forget(holder)
        left = BrokerLeft(
            **self._facts.about(holder, Cause.REPLACED, registration.peer),
            addrs_before=addrs_before,
            addrs_after=holder.group.addrs,
            topics_lost=0,
        )
        return [conflict, left]

    def _set_mappings(self, group: Group, registration: Registration) -> list[Event]:
        changed = [
            mapping for mapping in registration.mappings if self.topics.set_mapping(group, mapping)
        ]
        if not changed:
            return []
        return [
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
        member = self.members.find_live(cluster, addr)
        if member is None or member.group.name != name:
            return []
        if self.members.is_late(member, link):
            return [
                RequestRefused(
                    **self._facts.fact(Cause.STALE, peer),
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
        for member in self.members.lost_with(link):
            events += self._remove(member, cause, peer)
        return events

    def close_links(
        self, closed: Mapping[Link, str], *, lease_from_ms: int | None = None
    ) -> list[Event]:
        """Connections, by their peers, that were closed while nobody listened.

        With ``lease_from_ms`` their brokers may be well, and have a lease from then on to be heard
        of.
        """
        self.members.prefer_others(closed)
        if lease_from_ms is None:
            links = closed.items()
            return [
                e for k, peer in links for e in self.close_link(k, Cause.CONNECTION_CLOSED, peer)
            ]
        for link in closed:
            for member in self.members.lost_with(link):
                self.members.hold(member, lease_from_ms + member.heartbeat_timeout_ms)
        return []

    def idle_links(
        self, idle: Mapping[Link, str], *, now_ms: int
    ) -> tuple[list[Event], list[Link]]:
        """Connections, by their peers, closed because nothing came over them: no goodbye, silence.

        Also the connections to close.
        """
        events, links = self._review_held(now_ms)
        peers = {
            member: peer for link, peer in idle.items() for member in self.members.lost_with(link)
        }
        gone, judged = self._judge(list(peers), now_ms)
        events += judged
        for member in gone:
            events += self._remove(member, Cause.IDLE, peers[member])
        return events, links

    def expire(self, now_ms: int) -> tuple[list[Event], list[Link]]:
        """Drop every broker silent past its deadline; also the connections to close."""
        events, links = self._review_held(now_ms)
        gone, judged = self._judge(self.members.due(now_ms), now_ms)
        expired, more_links = self._drop(gone)
        return [*events, *judged, *expired], [*links, *more_links]

    def release_guard(self, peer: str, *, now_ms: int) -> tuple[list[Event], list[Link]]:
        """Let go whom the guard holds; also the connections to close."""
        gone, events = self.guard.release(self.members.live(), now_ms, peer=peer)
        dropped, links = self._drop(gone, peer)
        return [*events, *dropped], links

    def _review_held(self, now_ms: int) -> tuple[list[Event], list[Link]]:
        gone, events = self.guard.review(self.members.live(), now_ms)
        dropped, links = self._drop(gone)
        return [*events, *dropped], links

    def _judge(self, silent: list[Member], now_ms: int) -> tuple[list[Member], list[Event]]:
        """Whom to let go of those who fell silent; the others are held."""
        if not silent:
            return [], []
        gone, events = self.guard.judge(silent, self.members.live(), now_ms)
        for member in silent:
            if member in self.guard.held:
                self.members.hold(member, self.guard.until_ms)
        return gone, events

    def _drop(self, gone: Iterable[Member], peer: str = "") -> tuple[list[Event], list[Link]]:
        """Remove the silent; also the connections they leave behind."""
        events: list[Event] = []
        links: list[Link] = []
        for member in gone:
            if member.link is not None:
                links.append(member.link)
            cause = Cause.EXPIRED if member.confirmed else Cause.NOT_CONFIRMED
            events += self._remove(member, cause, peer)
        return events, links

    def _remove(self, member: Member, cause: Cause, peer: str) -> list[Event]:
        group = member.group
        addrs_before = group.addrs
        was_lowest = member is group.lowest
        self.members.forget(member)
        topics_lost = 0
        if not group.members:
            topics_lost = self.topics.abandon(group)
            self.members.drop_group(group)
        events: list[Event] = [
            BrokerLeft(
                **self._facts.about(member, cause, peer),
                addrs_before=addrs_before,
                addrs_after=group.addrs,
                topics_lost=topics_lost,
            )
        ]
        if group.members and group.acting_master:
            if MASTER not in group.members:
                changes = self.topics.set_permission(group, writable=False)
                events += self._facts.topics_changed(group, changes, None, cause)
            if was_lowest:
                events.append(self._facts.min_changed(group, peer, cause, offline_addr=member.addr))
        return events

    def refuse(self, request: str, subject: str, reason: str, *, peer: str) -> list[Event]:
        """Note a request that was turned away before it reached the table."""
        return [
            RequestRefused(
                **self._facts.fact(Cause.REFUSED, peer),
                request=request,
                subject=subject,
                reason=reason,
                answered_success=False,
            )
        ]

    # -- administration

    def set_writable(self, name: str, *, writable: bool, peer: str) -> tuple[int, list[Event]]:
        """Give or take the write bit of all topics of a broker; also how many topics it has."""
        touched: set[str] = set()
        events: list[Event] = []
        for group in self.members.groups_named(name):
            touched.update(group.registered)
            changes = self.topics.set_permission(group, writable=writable)
            events += self._facts.topics_changed(group, changes, None, Cause.ADMIN, peer)
        return len(touched), events

    def restore_writable(self, name: str, *, peer: str) -> tuple[int, list[Event]]:
        """Give the write bit back to what a broker registered with it; also to how many topics.

        Not while a slave stands in for the master: what takes no messages is not called writable.
        """
        restored: set[str] = set()
        events: list[Event] = []
        for group in self.members.groups_named(name):
            if MASTER in group.members or not group.acting_master:
                changes = self.topics.restore_permission(group)
                restored.update(change.topic for change in changes)
                events += self._facts.topics_changed(group, changes, None, Cause.ADMIN, peer)
        return len(restored), events

    def write_state(self, name: str) -> Slices[WriteState]:
        """Of all groups of that name; a topic taken from one of them is taken. In slices."""
        topics: set[str] = set()
        taken: set[str] = set()
        kept: set[str] = set()
        for group in list(self.members.groups_named(name)):
            held = iter(list(group.registered))
            while chunk := list(islice(held, TOPICS_A_SLICE)):
                topics.update(chunk)
                for topic, registered_so in self.topics.unwritable(group, chunk):
                    (kept if registered_so else taken).add(topic)
                yield
        return WriteState(len(topics), tuple(sorted(taken)), tuple(sorted(kept - taken)))

    def register_topic(
        self, topic: str, queues: list[tuple[str, QueueShape]], *, peer: str
    ) -> list[Event]:
        """Announce a topic on brokers that are registered; all of it or nothing."""
        unknown = [name for name, _ in queues if not self.members.groups_named(name)]
        full = self.topics.entries + len(queues) > self._max_route_entries
        if unknown or full:
            reason = (
                f"no broker named {', '.join(unknown)} is registered"
                if unknown
                else f"the limit of {self._max_route_entries} is reached (maxRouteEntries)"
            )
            return [
                RequestRefused(
                    **self._facts.fact(Cause.ADMIN, peer),
                    request="REGISTER_TOPIC_IN_NAMESRV",
                    subject=topic,
                    reason=reason,
                    answered_success=True,
                )
            ]
        events: list[Event] = []
        for name, shape in queues:
            for group in self.members.groups_named(name):
                group.touched += 1
                changes = self.topics.overwrite(group, topic, shape)
                events += self._facts.topics_changed(group, changes, None, Cause.REGISTER, peer)
        return events

    def delete_topic(self, topic: str, cluster: str | None, *, peer: str) -> list[Event]:
        """Forget a topic, in one cluster or everywhere, until a broker announces it again."""
        events: list[Event] = []
        for group in list(self.topics.queues(topic)):
            if cluster is None or group.cluster == cluster:
                group.touched += 1
                changes = self.topics.drop(group, [topic])
                events += self._facts.topics_changed(group, changes, None, Cause.ADMIN, peer)
        return events
