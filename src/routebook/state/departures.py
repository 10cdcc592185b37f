"""Departures: brokers leave, one by one or thousands at once.

Whoever decides that a broker is gone names what it saw. Leaving is done in slices, and a broker
that has registered again, or was heard of, by the time its turn comes is left alone.

    link 1 closes, 5,000 brokers lived by it      the first 100 leave
    one of the others is heard of on link 2       the next 100 leave, ...
                                                  that one stays, by link 2
"""

from collections.abc import Iterable, Iterator, Mapping

from routebook.events import BrokerLeft, Cause, Event, QueueChange, Subject
from routebook.state.facts import Changes, Facts, quietly
from routebook.state.guard import LossGuard
from routebook.state.members import Members
from routebook.state.model import MASTER, Link, Member, Unheard
from routebook.state.topics import TopicTable

LEFT_A_SLICE = 25
LOOKED_AT_A_SLICE = 500


class Departures:
    def __init__(
        self, members: Members, topics: TopicTable, guard: LossGuard, facts: Facts
    ) -> None:
        self._members = members
        self._topics = topics
        self._guard = guard
        self._facts = facts

    def leave(self, member: Member, cause: Cause, peer: str) -> Changes[None]:
        """Remove one broker. It is gone with the first slice; what follows are its topics.

        Those of a group that goes on without a master become read-only.
        """
        group = member.group
        addrs_before = group.addrs
        was_lowest = member is group.lowest
        self._members.forget(member)
        topics_lost = 0
        if not group.members:
            topics_lost = self._topics.abandon(group)
            self._members.drop_group(group)
        events: list[Event] = [
            BrokerLeft(
                **self._facts.about(member, cause, peer),
                addrs_before=addrs_before,
                addrs_after=group.addrs,
                topics_lost=topics_lost,
            )
        ]
        if not group.members or not group.acting_master:
            yield events
            return
        closing: Iterator[list[QueueChange]] = iter(())
        if MASTER not in group.members:
            closing = self._topics.set_permission(group, writable=False)
            events += self._facts.topics_changed(group, next(closing, []), None, cause)
        if was_lowest:
            events.append(self._facts.min_changed(group, peer, cause, offline_addr=member.addr))
        yield events
        for changes in closing:
            yield self._facts.topics_changed(group, changes, None, cause)
            if MASTER in group.members or not group.members:
                return  # it is back, and says itself what may be written; or all are gone

    def unregister(
        self, cluster: str, name: str, addr: str, *, link: Link, peer: str
    ) -> Changes[None]:
        """Remove a broker by its own wish; nothing for one that is unknown.

        A wish sent over a connection the broker has since left for a newer one is void.
        """
        member = self._members.find_live(cluster, addr)
        if member is None or member.group.name != name:
            return
        if self._members.is_late(member, link):
            subject = Subject(cluster, name, addr, broker_id=member.broker_id)
            yield [
                self._facts.refused(
                    "UNREGISTER_BROKER",
                    str(subject),
                    "the broker has registered again over a newer connection",
                    cause=Cause.STALE,
                    peer=peer,
                    told=False,
                )
            ]
            return
        yield from self.leave(member, Cause.UNREGISTER, peer)

    def close_link(self, link: Link, cause: Cause, peer: str) -> Changes[None]:
        """Remove every broker that lived by this connection alone."""
        yield from self._leave_all(
            (member, cause, peer) for member in self._members.lost_with(link)
        )

    def close_links(
        self, closed: Mapping[Link, str], *, lease_from_ms: int | None = None
    ) -> Changes[None]:
        """Connections, by their peers, that were closed while nobody listened.

        With ``lease_from_ms`` their brokers may be well, and have a lease from then on to be heard
        of.
        """
        yield from quietly(self._members.prefer_others(closed))
        if lease_from_ms is None:
            for link, peer in closed.items():
                yield from self.close_link(link, Cause.CONNECTION_CLOSED, peer)
            return
        lost = (member for link in closed for member in self._members.lost_with(link))
        for number, member in enumerate(lost, start=1):
            self._members.hold(member, lease_from_ms + member.heartbeat_timeout_ms)
            if number % LOOKED_AT_A_SLICE == 0:
                yield []

    def idle_links(self, idle: Mapping[Link, str], *, now_ms: int) -> Changes[list[Link]]:
        """Connections, by their peers, closed because nothing came over them: no goodbye, silence.

        Returns the connections to close.
        """
        links = yield from self._review(now_ms)
        peers: dict[Member, str] = {}
        silent: list[Unheard] = []
        lost = (
            (member, peer)
            for link, peer in idle.items()
            for member in self._members.lost_with(link)
        )
        for number, (member, peer) in enumerate(lost, start=1):
            peers[member] = peer
            silent.append(Unheard.of(member))
            if number % LOOKED_AT_A_SLICE == 0:
                yield []
        gone = yield from self._judge(silent, now_ms)
        yield from self._leave_all(
            (each.member, Cause.IDLE, peers[each.member]) for each in gone if each.still
        )
        return links

    def expire(self, now_ms: int) -> Changes[list[Link]]:
        """Drop every broker silent past its deadline; returns the connections to close."""
        released = yield from self._review(now_ms)
        silent = yield from quietly(self._members.due(now_ms))
        gone = yield from self._judge(silent, now_ms)
        links = yield from self._leave_unheard(gone)
        return [*released, *links]

    def release_guard(self, peer: str, *, now_ms: int) -> tuple[int, Changes[list[Link]]]:
        """Let go whom the guard holds, and how many that is; returns the connections to close."""
        gone, events = self._guard.release(now_ms, peer=peer)

        def released() -> Changes[list[Link]]:
            yield events
            return (yield from self._leave_unheard(gone, peer))

        return len(gone), released()

    def _review(self, now_ms: int) -> Changes[list[Link]]:
        """See who is held no longer; they leave before anybody else is judged."""
        gone = yield from self._guard.review(now_ms)
        return (yield from self._leave_unheard(gone))

    def _judge(self, silent: list[Unheard], now_ms: int) -> Changes[list[Unheard]]:
        """Whom to let go of those who fell silent; the others are held."""
        if not silent:
            return []
        gone = yield from self._guard.judge(silent, self._members, now_ms)
        held = self._guard.held
        if held:
            for number, each in enumerate(silent, start=1):
                if each.member in held and each.still:
                    self._members.hold(each.member, self._guard.until_ms)
                if number % LOOKED_AT_A_SLICE == 0:
                    yield []
        return gone

    def _leave_unheard(self, gone: Iterable[Unheard], peer: str = "") -> Changes[list[Link]]:
        """Remove brokers that fell silent, but for those heard of before their turn came.

        Returns the connections they leave behind.
        """
        links: list[Link] = []

        def leaving() -> Iterator[tuple[Member, Cause, str]]:
            for each in gone:
                if each.still:
                    member = each.member
                    if member.link is not None:
                        links.append(member.link)
                    cause = Cause.EXPIRED if member.confirmed else Cause.NOT_CONFIRMED
                    yield member, cause, peer

        yield from self._leave_all(leaving())
        return links

    def _leave_all(self, leaving: Iterable[tuple[Member, Cause, str]]) -> Changes[None]:
        """Many a slice, since most leave nothing behind; a large group has slices of its own."""
        events: list[Event] = []
        for left, (member, cause, peer) in enumerate(leaving, start=1):
            steps = self.leave(member, cause, peer)
            events += next(steps)
            if left % LEFT_A_SLICE == 0:
                yield events
                events = []
            for changes in steps:
                if events:
                    yield events
                    events = []
                yield changes
        if events:
            yield events
