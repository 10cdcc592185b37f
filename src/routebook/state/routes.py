"""RouteTable: brokers, the topics they hold, and when each was last heard.

Rules that keep it honest:

* every live broker process is one member of exactly one group, keyed by cluster and address,
  so nothing can be listed that no deadline watches;
* a registration that is refused changes nothing (``Registrar``);
* whoever decides that a broker is gone (a closed connection, a passed deadline, an unregister
  request) names what it saw; a broker that registered again since is left alone (``Departures``).

    A registers on link 1      live A: link 1, generation 1
    A registers on link 2      live A: link 2, generation 2
    link 1 closes              nothing: generation 1 is history
    link 2 closes              A leaves

After a restart brokers are known without a connection; the first sign of life confirms one, and
its next registration ties it to a connection again.

Whatever could touch many brokers or topics is done in slices: a generator that yields the events
of each. What meets on the way ends as if one had come after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from routebook.events import Cause, Event, QueueChange, Subject
from routebook.slices import Slices, in_order
from routebook.state import costs
from routebook.state.account import Account, host_of
from routebook.state.departures import Departures
from routebook.state.facts import Changes, Facts
from routebook.state.guard import NO_GUARD, GuardSettings, LossGuard
from routebook.state.members import Members
from routebook.state.model import MASTER, Group, Link, Member, QueueShape, Registration
from routebook.state.registrar import RegisterResult, Registrar, TableLimits
from routebook.state.revision import Revision
from routebook.state.topics import NAMES_A_SLICE, TOPICS_A_SLICE, TopicTable
from routebook.words import listed

GROUPS_A_SLICE = 200
NAMED_IN_A_REFUSAL = 3


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
        max_brokers_per_group: int,
        guard: GuardSettings = NO_GUARD,
        account: Account | None = None,
    ) -> None:
        self.account = account or Account()
        self._facts = Facts(revision)
        self.guard = LossGuard(guard, self._facts)
        self.members = Members(self.account)
        self.topics = TopicTable(self.account)
        self._limits = TableLimits(max_topics_per_broker, max_route_entries, max_brokers_per_group)
        self._departures = Departures(self.members, self.topics, self.guard, self._facts)
        self._registrar = Registrar(
            self.members, self.topics, self._departures, self._facts, self._limits, self.account
        )

    def recovered(self, now_ms: int) -> None:
        """The members without a connection were taken over now."""
        self._registrar.recovered_ms = now_ms

    # -- looking up

    def topics_in(self, cluster: str) -> Slices[Mapping[str, None]]:
        """An unknown cluster has no topics, as in the reference."""
        found: dict[str, None] = {}
        room = NAMES_A_SLICE
        for number, group in enumerate(list(self.members.groups()), start=1):
            if group.cluster == cluster and group.members:
                topics = iter(list(group.registered))
                while some := list(islice(topics, NAMES_A_SLICE)):
                    found.update(dict.fromkeys(some))
                    room -= len(some)
                    if room <= 0:
                        room = NAMES_A_SLICE
                        yield
            if number % (10 * GROUPS_A_SLICE) == 0:
                yield
        return found

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
        if not member.known.confirmed:
            events = [self._registrar.confirm(member, peer=peer, now_ms=now_ms)]
        self.members.hear(member, now_ms)
        self.members.hear_on(member, link)
        return member, events

    # -- coming and going

    def renew(
        self, cluster: str, addr: str, *, fingerprint: int, link: Link, now_ms: int
    ) -> RegisterResult | None:
        """See ``Registrar.renew``."""
        return self._registrar.renew(
            cluster, addr, fingerprint=fingerprint, link=link, now_ms=now_ms
        )

    def register(
        self, registration: Registration, *, now_ms: int, delete_absent_topics: bool = False
    ) -> Changes[RegisterResult]:
        """See ``Registrar.register``."""
        return self._registrar.register(
            registration, now_ms=now_ms, delete_absent_topics=delete_absent_topics
        )

    def unregister(
        self, cluster: str, name: str, addr: str, *, link: Link, peer: str
    ) -> Changes[None]:
        """See ``Departures.unregister``."""
        return self._departures.unregister(cluster, name, addr, link=link, peer=peer)

    def close_link(self, link: Link, cause: Cause, peer: str) -> Changes[None]:
        """Remove every broker that lived by this connection alone."""
        return self._departures.close_link(link, cause, peer)

    def close_links(
        self, closed: Mapping[Link, str], *, lease_from_ms: int | None = None
    ) -> Changes[None]:
        """See ``Departures.close_links``."""
        return self._departures.close_links(closed, lease_from_ms=lease_from_ms)

    def idle_links(self, idle: Mapping[Link, str], *, now_ms: int) -> Changes[list[Link]]:
        """See ``Departures.idle_links``."""
        return self._departures.idle_links(idle, now_ms=now_ms)

    def expire(self, now_ms: int) -> Changes[list[Link]]:
        """Drop every broker silent past its deadline; returns the connections to close."""
        return self._departures.expire(now_ms)

    def release_guard(self, peer: str, *, now_ms: int) -> tuple[int, Changes[list[Link]]]:
        """See ``Departures.release_guard``."""
        return self._departures.release_guard(peer, now_ms=now_ms)

    def refuse(self, request: str, subject: str, reason: str, *, peer: str) -> list[Event]:
        """Note a request that was turned away before it reached the table."""
        cause = Cause.REFUSED
        return [self._facts.refused(request, subject, reason, cause=cause, peer=peer, told=True)]

    # -- administration

    def set_writable(self, name: str, *, writable: bool, peer: str) -> Changes[int]:
        """Give or take the write bit of all topics of a broker; returns how many topics it has."""
        touched: set[str] = set()
        for group in list(self.members.groups_named(name)):
            topics = list(group.registered)
            for start in range(0, len(topics), NAMES_A_SLICE):
                if start:
                    yield []
                touched.update(topics[start : start + NAMES_A_SLICE])
            group.taken += not writable
            changing = self.topics.set_permission(group, writable=writable)
            yield from self._changed(group, changing, peer)
        return len(touched)

    def restore_writable(self, name: str, *, peer: str) -> Changes[int]:
        """Give the write bit back to what a broker registered with it; returns to how many topics.

        Not while a slave stands in for the master: what takes no messages is not called writable.
        """
        restored: set[str] = set()
        for group in list(self.members.groups_named(name)):
            if MASTER in group.members or not group.acting_master:
                changing = self.topics.set_permission(group, writable=True, as_registered=True)
                yield from self._changed(group, changing, peer, restored)
        return len(restored)

    def _changed(
        self,
        group: Group,
        changing: Iterator[list[QueueChange]],
        peer: str,
        topics: set[str] | None = None,
    ) -> Changes[None]:
        """Carry out an administrator's change of a group's topics.

        It ends when the group is gone, or says itself anew what may be written. The names of
        topics that changed are added to ``topics``.
        """
        rewritten = group.rewritten
        for changes in changing:
            if topics is not None:
                topics.update(change.topic for change in changes)
            yield self._facts.topics_changed(group, changes, None, Cause.ADMIN, peer)
            if not group.members or group.rewritten != rewritten:
                return

    def write_state(self, name: str) -> Slices[WriteState]:
        """Of all groups of that name; a topic taken from one of them is taken. In slices."""
        topics: set[str] = set()
        taken: set[str] = set()
        kept: set[str] = set()
        for group in list(self.members.groups_named(name)):
            held = iter(list(group.registered))
            while group.members and (chunk := list(islice(held, TOPICS_A_SLICE))):
                topics.update(chunk)
                for topic, registered_so in self.topics.unwritable(group, chunk):
                    (kept if registered_so else taken).add(topic)
                yield
        return WriteState(
            len(topics),
            tuple((yield from in_order(taken))),
            tuple((yield from in_order(kept - taken))),
        )

    def register_topic(
        self, topic: str, queues: Mapping[str, QueueShape], *, peer: str
    ) -> Changes[None]:
        """Announce a topic on brokers, by name, that are registered; all of it or nothing."""
        unknown = [name for name in queues if not self.members.groups_named(name)]
        full = self.topics.entries + len(queues) > self._limits.route_entries
        amount = (costs.ENTRY + costs.SHAPE) * len(queues) + costs.TOPIC + costs.text(topic)
        no_room = self.account.refusal(host_of(peer), amount)
        if unknown or full or no_room:
            if unknown:
                named = listed(unknown, most=NAMED_IN_A_REFUSAL)
                reason = f"no broker named {named} is registered"
            elif full:
                limit = self._limits.route_entries
                reason = f"the limit of {limit} is reached (maxRouteEntries)"
            else:
                reason = no_room or ""
            yield [
                self._facts.refused(
                    "REGISTER_TOPIC_IN_NAMESRV",
                    str(Subject(topic=topic)),
                    reason,
                    cause=Cause.ADMIN,
                    peer=peer,
                    told=False,
                )
            ]
            return
        for number, (group, shape) in enumerate(
            [(g, shape) for name, shape in queues.items() for g in self.members.groups_named(name)]
        ):
            if number % GROUPS_A_SLICE == GROUPS_A_SLICE - 1:
                yield []
            if group.members:
                group.touched += 1
                changes = self.topics.overwrite(group, topic, shape)
                if changes:
                    yield self._facts.topics_changed(group, changes, None, Cause.REGISTER, peer)

    def delete_topic(self, topic: str, cluster: str | None, *, peer: str) -> Changes[None]:
        """Forget a topic, in one cluster or everywhere, until a broker announces it again."""
        for group in list(self.topics.queues(topic)):
            if (cluster is None or group.cluster == cluster) and group.members:
                group.touched += 1
                changes = self.topics.drop(group, [topic])
                yield self._facts.topics_changed(group, changes, None, Cause.ADMIN, peer)
