"""A simulated node: what a real one believes and writes down, in plain Python.

It is told the true time. Whatever reaches it while it is stalled waits; when it wakes it says so,
hears who is gone, then who is there, and only then looks at its deadlines, which do not run while
it does not listen.
"""

from collections.abc import Callable
from random import Random

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    JournalRecovered,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    QueryCount,
    QueueChange,
    RegistrationCompleted,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from world.book import (
    Group,
    Groups,
    Member,
    Registration,
    about,
    belief_of,
    entries_in,
    heartbeat_gaps,
    members_in,
    min_changed,
    restated,
)
from world.diary import WRITTEN_AFTER_MS, Diary
from world.plan import LEASE, TOPICS
from world.truth import Life, Span

TICK_MS = 250
LEAP = 2**20
SETTLE_MS = 1000
RESTATED_AFTER_MS = 500


class Node:
    """``later(delay_ms, do)`` has something done; ``closed(link)`` tells a broker of a hang-up."""

    def __init__(
        self,
        life: Life,
        rng: Random,
        *,
        now_ms: Callable[[], float],
        later: Callable[[float, Callable[[], None]], None],
        closed: Callable[[int], None],
    ) -> None:
        self.life = life
        self._rng = rng
        self._now_ms = now_ms
        self._later = later
        self._closed = closed
        self._groups: Groups = {}
        self._diary = Diary(
            life, rng, now_ms, lambda: self._timer(RESTATED_AFTER_MS, self._restate)
        )
        self._boot = 0
        self._generation = 0
        self._deaf_ms = 0.0
        self._asleep_since: float | None = None
        self._ticked_ms, self._ticked = 0.0, (0, 0)
        self._look_ms = -1.0
        self._settled_ms = -1.0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._window_began = 0.0
        self._alive_ms: float | None = None
        self.up = False

    # -- being there

    def start(self) -> None:
        """From nothing, or with what its journal says."""
        now_ms = self._now_ms()
        self._boot += 1
        self.up = True
        self._asleep_since = None
        self._waiting.clear()
        self._look_ms = -1.0
        self._diary.mend()
        if not self.life.phases or self.life.phases[-1][1] == "stopped":
            self.life.boots.append(self._diary.seq + 1)
        self._phase("awake")
        self._groups = {key: group.copy() for key, group in self._diary.remembered.items()}
        for group in self._groups.values():
            for member in group.members.values():
                member.link, member.confirmed = None, False
                member.heard_ms = now_ms
                member.deadline_ms = self._listened_ms() + LEASE
                if self._diary.unsure:
                    member.stamp = None
        self._remember()
        self._diary.write(
            NodeStarted(
                **self._diary.note(Cause.START),
                version="0.1.0",
                address="127.0.0.1:9876",
                brokers=members_in(self._groups),
                topics=entries_in(self._groups),
                fleet=self.life.fleet,
                incarnation=self.life.incarnation,
            )
        )
        self._believe()
        if self._diary.unsure:
            self._timer(RESTATED_AFTER_MS, self._restate)
        self._window_began = self._listened_ms()
        self._diary.in_window = 1
        self._timer(self.life.window_ms, self._sum_up_window)
        self._look_at_deadlines()

    def stop(self) -> None:
        """In order."""
        if not self.up or self._asleep_since is not None or self._diary.is_failing:
            return self.kill(alive_known=True)
        self._sum_up()
        self._diary.write(
            NodeStopped(
                **self._diary.note(Cause.STOP),
                brokers=members_in(self._groups),
                topics=entries_in(self._groups),
            )
        )
        self._diary.flush(self._now_ms() + 1000)
        self._down("stopped")
        return None

    def kill(self, *, alive_known: bool) -> None:
        if not self.up:
            return
        now_ms = self._now_ms()
        awake_ms = now_ms if self._asleep_since is None else self._asleep_since
        self._diary.flush(awake_ms - self._rng.randint(0, WRITTEN_AFTER_MS))
        self._alive_ms = None
        sign_ms = awake_ms - self._rng.randint(0, 1000)
        boot_ms = next(each for each, what in reversed(self.life.phases) if what == "awake")
        lost_ms = self._diary.drop() or now_ms
        if alive_known and boot_ms < sign_ms < lost_ms and not self._diary.lost:
            self._alive_ms = sign_ms
        self._down("killed")

    def back(self) -> None:
        """Up again after it was stopped or killed."""
        if self.up:
            return
        was = self.life.phases[-1][1]
        since = self.life.written[-1].true_ms
        if was == "killed":
            last_seq = self.life.written[-1].record.seq
            self._diary.seq = (last_seq // LEAP + 2) * LEAP - 1
            self._boot += 1
            alive = None if self._alive_ms is None else self.life.wall_ms(self._alive_ms)
            recovered = JournalRecovered(
                **self._diary.note(Cause.JOURNAL), last_seq=last_seq, torn_bytes=0, alive_ms=alive
            )
            self.up = True
            self._diary.mend()
            self._diary.write(recovered)
            self.life.boots.append(self._diary.seq)
            self.life.signs.append(
                Span(max(since, self._alive_ms or since), self._now_ms(), "killed")
            )
        self.start()

    def stall(self) -> None:
        if self.up and self._asleep_since is None:
            now_ms = self._now_ms()
            self._asleep_since = now_ms
            self._ticked_ms = max(now_ms - self._rng.randint(0, TICK_MS), self.life.phases[-1][0])
            self._ticked = (
                self.life.wall_ms(self._ticked_ms),
                self._diary.mono_ms(self._ticked_ms),
            )
            self._phase("stalled")

    def wake(self, *, suspended: bool) -> None:
        if not self.up or self._asleep_since is None:
            return
        now_ms, since = self._now_ms(), self._asleep_since
        self._asleep_since = None
        self._deaf_ms += now_ms - since
        if suspended:
            self._diary.suspend(now_ms - since)
        wall_ms, mono_ms = self._ticked
        slept_ms = self.life.wall_ms(now_ms) - wall_ms
        self._phase("awake")
        stall = NodeStalled(
            **self._diary.note(Cause.STALL),
            from_ms=wall_ms,
            to_ms=wall_ms + slept_ms,
            longest_ms=self._diary.mono_ms(now_ms) - mono_ms,
            clock_ms=slept_ms - (self._diary.mono_ms(now_ms) - mono_ms),
        )
        self._tell_stall(stall, self._ticked_ms)

    def _tell_stall(self, stall: NodeStalled, from_ms: float) -> None:
        """What waits in sockets may be heard just before the tick that notices it, or after.

        Who has hung up is let go only when he had the time to dial again.
        """
        self.life.stalls.append(Span(from_ms, self._now_ms(), "stalled"))
        self._settled_ms = self._now_ms() + SETTLE_MS
        waiting, self._waiting = sorted(self._waiting, key=lambda each: each[0]), []
        closes = [do for order, do in waiting if order == 0]
        words = [do for order, do in waiting if order == 1]
        told_first = bool(closes) or self._rng.random() < 0.5
        if told_first:
            self._diary.write(stall)
        for do in words:
            do()
        if not told_first:
            self._diary.write(stall)
        for order, do in waiting:
            if order == 2:
                do()
        for do in closes:
            self._timer(SETTLE_MS, do)
        self._look_later(SETTLE_MS)

    def set_clock(self, by_ms: int) -> None:
        """Noticed at the next tick, as a stall in which no time passed."""
        now_ms = self._now_ms()
        ticked_ms = max(now_ms - self._rng.randint(1, TICK_MS), self.life.phases[-1][0])
        before_ms = self.life.wall_ms(ticked_ms)
        self.life.clock.append((now_ms, self.life.clock[-1][1] + by_ms))
        if self.up and self._asleep_since is None:
            self._timer(
                TICK_MS - (now_ms - ticked_ms),
                lambda: self._notice_jump(ticked_ms, before_ms, by_ms),
            )

    def _notice_jump(self, ticked_ms: float, before_ms: int, by_ms: int) -> None:
        if self._now_ms() - ticked_ms > 2 * TICK_MS:
            return  # it slept meanwhile, and that has told it
        stall = NodeStalled(
            **self._diary.note(Cause.STALL),
            from_ms=before_ms,
            to_ms=self.life.wall_ms(self._now_ms()),
            longest_ms=0,
            clock_ms=by_ms,
        )
        self._tell_stall(stall, ticked_ms)

    def fail_disk(self, for_ms: int) -> None:
        self._diary.fail(for_ms)

    def _down(self, how: str) -> None:
        self.up = False
        for group in self._groups.values():
            for member in group.members.values():
                if member.link is not None:
                    self._closed(member.link)
        self._phase(how)

    def _phase(self, what: str) -> None:
        self.life.phases.append((self._now_ms(), what))

    # -- what reaches it

    def hear_close(self, link: int, peer: str) -> None:
        self._when_awake(0, lambda: self._lose_link(link, peer))

    def hear_goodbye(self, said: Registration) -> None:
        self._when_awake(1, lambda: self._leave_of(said, Cause.UNREGISTER, said.peer))

    def hear(self, said: Registration, *, registers: bool) -> None:
        self._when_awake(1, lambda: self._register(said) if registers else self._beat(said))

    def _when_awake(self, order: int, do: Callable[[], None]) -> None:
        if not self.up:
            return
        if self._asleep_since is not None:
            self._waiting.append((order, do))
        else:
            do()

    def _beat(self, said: Registration) -> None:
        member = self._find(said)
        if member is None or member.link != said.link:
            self._closed(said.link)
            return
        self._sign_of_life(member)

    def _sign_of_life(self, member: Member) -> None:
        now_ms = self._now_ms()
        if member.heard_ms:
            member.gaps_ms.append(int(now_ms - member.heard_ms))
        member.heard_ms = now_ms
        member.deadline_ms = self._listened_ms() + LEASE
        self._look_later(LEASE)

    def _find(self, said: Registration) -> Member | None:
        group = self._groups.get(said.key)
        member = group.members.get(said.broker_id) if group else None
        return member if member and member.addr == said.addr else None

    def _register(self, said: Registration) -> None:
        member = self._find(said)
        group = self._groups.get(said.key) or Group(*said.key)
        self._groups[said.key] = group
        before, lowest = group.addrs, min(group.members, default=0)
        stamp_before = member.stamp if member else None
        joined = member is None or (member.confirmed and member.link != said.link)
        if member is None:
            member = Member(said.broker_id, said.addr, 0, None, said.link)
        elif not member.confirmed:
            stamp_before = None  # what it says is complete once more
            member.link, member.confirmed, member.heard_ms = said.link, True, 0
            started = self.life.phases[-1][0]
            self._diary.write(
                BrokerConfirmed(
                    **about(said, member, self._diary.change(Cause.RECOVERED, said.peer)),
                    after_ms=int(self._now_ms() - started),
                )
            )
        group.members[said.broker_id] = member
        if joined:
            self._generation += 1
            member.generation, member.link = self._generation, said.link
            self._remember()
            self._diary.write(
                BrokerRegistered(
                    **about(said, member, self._diary.change(Cause.REGISTER, said.peer)),
                    ha_addr=None,
                    heartbeat_timeout_ms=LEASE,
                    acting_master=None,
                    zone=None,
                    epoch=0,
                    filter_servers=(),
                    addrs_before=before,
                    addrs_after=group.addrs,
                )
            )
        self._sign_of_life(member)
        if said.broker_id < lowest:
            self._diary.write(
                min_changed(self._diary.change(Cause.REGISTER, said.peer), group, said)
            )
        if said.broker_id == 0:
            self._take_topics(group, said)
        member.stamp = said.stamp
        self._remember()
        if joined or stamp_before != said.stamp:
            self._diary.write(
                RegistrationCompleted(
                    **about(said, member, self._diary.change(Cause.REGISTER, said.peer)),
                    topics=len(said.topics),
                    data_version=said.stamp,
                )
            )
        self._believe()

    def _take_topics(self, group: Group, said: Registration) -> None:
        changes = tuple(
            QueueChange(topic, group.queues.get(topic), shape)
            for topic, shape in said.topics.items()
            if group.queues.get(topic) != shape
        )
        group.queues.update(said.topics)
        self._remember()
        if changes:
            self._diary.write(
                TopicsChanged(
                    **self._diary.change(Cause.REGISTER, said.peer),
                    cluster=group.cluster,
                    broker=group.broker,
                    changes=changes,
                )
            )

    def _leave_of(self, said: Registration, cause: Cause, peer: str) -> None:
        member = self._find(said)
        if member is not None:
            self._leave(self._groups[said.key], member, cause, peer)

    def _lose_link(self, link: int, peer: str) -> None:
        for group in list(self._groups.values()):
            for member in list(group.members.values()):
                if member.link == link:
                    self._leave(group, member, Cause.CONNECTION_CLOSED, peer)

    def _leave(self, group: Group, member: Member, cause: Cause, peer: str) -> None:
        before = group.addrs
        del group.members[member.broker_id]
        lost = 0
        if not group.members:
            lost = len(group.queues)
            del self._groups[group.cluster, group.broker]
        self._remember()
        self._diary.write(
            BrokerLeft(
                **self._diary.change(cause, peer),
                cluster=group.cluster,
                broker=group.broker,
                broker_id=member.broker_id,
                addr=member.addr,
                generation=member.generation,
                addrs_before=before,
                addrs_after=group.addrs,
                topics_lost=lost,
            )
        )
        self._believe()

    # -- time

    def _timer(self, delay_ms: float, do: Callable[[], None]) -> None:
        boot = self._boot

        def due() -> None:
            if self.up and self._boot == boot:
                self._when_awake(2, do)

        self._later(delay_ms, due)

    def _listened_ms(self) -> float:
        return self._now_ms() - self._deaf_ms

    def _look_at_deadlines(self) -> None:
        now_ms = self._listened_ms()
        if self._now_ms() < self._settled_ms:
            self._look_later(self._settled_ms - self._now_ms())
            return
        for group in list(self._groups.values()):
            for member in list(group.members.values()):
                if member.deadline_ms < now_ms:
                    if member.link is not None:
                        self._closed(member.link)
                    cause = Cause.EXPIRED if member.confirmed else Cause.NOT_CONFIRMED
                    self._leave(group, member, cause, "")
                else:
                    self._look_later(member.deadline_ms - now_ms)

    def _look_later(self, wait_ms: float) -> None:
        due_ms = self._now_ms() + wait_ms + 2
        if not self._now_ms() < self._look_ms <= due_ms:
            self._look_ms = due_ms
            self._timer(wait_ms + 2, self._look_at_deadlines)

    def _sum_up_window(self) -> None:
        self._sum_up()
        self._timer(self.life.window_ms, self._sum_up_window)

    def _sum_up(self) -> None:
        now_ms = self._listened_ms()
        window_ms, self._window_began = int(now_ms - self._window_began), now_ms
        for group in self._groups.values():
            for member in group.members.values():
                if member.gaps_ms:
                    gaps, member.gaps_ms = tuple(member.gaps_ms), []
                    note = self._diary.note(Cause.WINDOW)
                    self._diary.write(heartbeat_gaps(group, member, window_ms, gaps, note))
        if self._rng.random() < 0.3:
            topic = self._rng.choice(TOPICS)
            known = any(topic in group.queues for group in self._groups.values())
            count = QueryCount(topic, 3 * known, 3 * (not known), 0)
            self._diary.write(self._queries(window_ms, (count,)))
        if not self._diary.in_window:
            self._diary.write(self._queries(window_ms, ()))
        self._diary.in_window = 0

    def _queries(self, window_ms: int, topics: tuple[QueryCount, ...]) -> RouteQueries:
        return RouteQueries(
            **self._diary.note(Cause.WINDOW), window_ms=window_ms, topics=topics, others=0
        )

    # -- writing down

    def _restate(self) -> None:
        if self._diary.is_failing:
            self._timer(RESTATED_AFTER_MS, self._restate)
            return
        for group in list(self._groups.values()):
            self._diary.write(restated(group, self._diary.note(Cause.JOURNAL)))
        self._diary.write(
            StateRestated(
                **self._diary.note(Cause.JOURNAL),
                groups=len(self._groups),
                kv={},
                generation=self._generation,
            )
        )
        now_ms = self._now_ms()
        self.life.losses = [
            Span(span.from_ms, min(span.to_ms, now_ms), span.why) for span in self.life.losses
        ]

    def finish(self) -> None:
        """The world ends here."""
        self._diary.flush(self._now_ms() + 1000)
        self.life.ends_ms = self._now_ms() + 1

    def _remember(self) -> None:
        self._diary.remember(self._groups)

    def _believe(self) -> None:
        self.life.beliefs.append((self._now_ms(), belief_of(self._groups)))
