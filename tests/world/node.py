"""A simulated node: what a real one believes and writes down, in plain Python.

It is told the true time. Whatever reaches it while it is stalled waits; when it wakes it says so,
hears who is gone, then who is there, and only then looks at its deadlines, which do not run while
it does not listen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    Event,
    GroupRestated,
    HeartbeatGaps,
    JournalRecovered,
    MemberFact,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    QueryCount,
    QueueChange,
    RecordsLost,
    RegistrationCompleted,
    RouteQueries,
    Shape,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record
from world.plan import LEASE, TOPICS
from world.truth import Belief, Key, Life, Listed, Span, Written

TICK_MS = 250
LEAP = 2**20
SETTLE_MS = 1000
RESTATED_AFTER_MS = 500
WRITTEN_AFTER_MS = 8  # by then a record is in the file


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


@dataclass(slots=True)
class _Unwritten:
    written: Written
    remembered: Groups


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
        self._snapshot: Groups = {}  # what the next record leaves behind
        self._remembered: Groups = {}  # what its journal says
        self._unsure = False  # so is its journal
        self._queue: list[_Unwritten] = []
        self._seq = 0
        self._boot = 0
        self._revision = 0
        self._generation = 0
        self._mono_base_ms = -float(rng.randint(10_000, 90_000_000))
        self._deaf_ms = 0.0
        self._asleep_since: float | None = None
        self._ticked_ms, self._ticked = 0.0, (0, 0)
        self._look_ms = -1.0
        self._settled_ms = -1.0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._window_began = 0.0
        self._in_window = 0
        self._failing_until = -1.0
        self._lost, self._lost_since = 0, 0.0
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
        self._failing_until = -1.0
        self._lost = 0
        if not self.life.phases or self.life.phases[-1][1] == "stopped":
            self.life.boots.append(self._seq + 1)
        self._phase("awake")
        self._groups = {key: group.copy() for key, group in self._remembered.items()}
        for group in self._groups.values():
            for member in group.members.values():
                member.link, member.confirmed = None, False
                member.heard_ms = now_ms
                member.deadline_ms = self._listened_ms() + LEASE
                if self._unsure:
                    member.stamp = None
        self._remember()
        recovered = sum(len(group.members) for group in self._groups.values())
        self._write(
            NodeStarted(
                **self._note(Cause.START),
                version="0.1.0",
                address="127.0.0.1:9876",
                brokers=recovered,
                topics=self._entries(),
                fleet=self.life.fleet,
                incarnation=self.life.incarnation,
            )
        )
        self._believe()
        if self._unsure:
            self._timer(RESTATED_AFTER_MS, self._restate)
        self._window_began = self._listened_ms()
        self._in_window = 1
        self._timer(self.life.window_ms, self._sum_up_window)
        self._look_at_deadlines()

    def stop(self) -> None:
        """In order."""
        if not self.up or self._asleep_since is not None or self._is_failing():
            return self.kill(alive_known=True)
        self._sum_up()
        members = sum(len(group.members) for group in self._groups.values())
        self._write(NodeStopped(**self._note(Cause.STOP), brokers=members, topics=self._entries()))
        self._flush(self._now_ms() + 1000)
        self._down("stopped")
        return None

    def kill(self, *, alive_known: bool) -> None:
        if not self.up:
            return
        now_ms = self._now_ms()
        awake_ms = now_ms if self._asleep_since is None else self._asleep_since
        self._flush(awake_ms - self._rng.randint(0, WRITTEN_AFTER_MS))
        self._alive_ms = None
        sign_ms = awake_ms - self._rng.randint(0, 1000)
        boot_ms = next(each for each, what in reversed(self.life.phases) if what == "awake")
        lost_ms = self._queue[0].written.true_ms if self._queue else now_ms
        if alive_known and boot_ms < sign_ms < lost_ms and not self._lost:
            self._alive_ms = sign_ms
        self._queue.clear()
        self._down("killed")

    def back(self) -> None:
        """Up again after it was stopped or killed."""
        if self.up:
            return
        was = self.life.phases[-1][1]
        since = self.life.written[-1].true_ms
        if was == "killed":
            last_seq = self._seq = self.life.written[-1].record.seq
            self._seq = (last_seq // LEAP + 2) * LEAP - 1
            self._boot += 1
            alive = None if self._alive_ms is None else self.life.wall_ms(self._alive_ms)
            recovered = JournalRecovered(
                **self._note(Cause.JOURNAL), last_seq=last_seq, torn_bytes=0, alive_ms=alive
            )
            self.up = True
            self._failing_until = -1.0
            self._lost = 0
            self._write(recovered)
            self.life.boots.append(self._seq)
            self.life.signs.append(
                Span(max(since, self._alive_ms or since), self._now_ms(), "killed")
            )
        self.start()

    def stall(self) -> None:
        if self.up and self._asleep_since is None:
            now_ms = self._now_ms()
            self._asleep_since = now_ms
            self._ticked_ms = max(now_ms - self._rng.randint(0, TICK_MS), self.life.phases[-1][0])
            self._ticked = (self.life.wall_ms(self._ticked_ms), self._mono_ms(self._ticked_ms))
            self._phase("stalled")

    def wake(self, *, suspended: bool) -> None:
        if not self.up or self._asleep_since is None:
            return
        now_ms, since = self._now_ms(), self._asleep_since
        self._asleep_since = None
        self._deaf_ms += now_ms - since
        if suspended:
            self._mono_base_ms += now_ms - since
        wall_ms, mono_ms = self._ticked
        slept_ms = self.life.wall_ms(now_ms) - wall_ms
        self._phase("awake")
        stall = NodeStalled(
            **self._note(Cause.STALL),
            from_ms=wall_ms,
            to_ms=wall_ms + slept_ms,
            longest_ms=self._mono_ms(now_ms) - mono_ms,
            clock_ms=slept_ms - (self._mono_ms(now_ms) - mono_ms),
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
            self._write(stall)
        for do in words:
            do()
        if not told_first:
            self._write(stall)
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
            **self._note(Cause.STALL),
            from_ms=before_ms,
            to_ms=self.life.wall_ms(self._now_ms()),
            longest_ms=0,
            clock_ms=by_ms,
        )
        self._tell_stall(stall, ticked_ms)

    def fail_disk(self, for_ms: int) -> None:
        self._failing_until = self._now_ms() + for_ms

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
            self._write(
                BrokerConfirmed(
                    **self._about(said, member, Cause.RECOVERED),
                    after_ms=int(self._now_ms() - started),
                )
            )
        group.members[said.broker_id] = member
        if joined:
            self._generation += 1
            member.generation, member.link = self._generation, said.link
            self._remember()
            self._write(
                BrokerRegistered(
                    **self._about(said, member, Cause.REGISTER),
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
            self._write(_min_changed(self._change(Cause.REGISTER, said.peer), group, said))
        if said.broker_id == 0:
            self._take_topics(group, said)
        member.stamp = said.stamp
        self._remember()
        if joined or stamp_before != said.stamp:
            self._write(
                RegistrationCompleted(
                    **self._about(said, member, Cause.REGISTER),
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
            self._write(
                TopicsChanged(
                    **self._change(Cause.REGISTER, said.peer),
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
        self._write(
            BrokerLeft(
                **self._change(cause, peer),
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
                    self._write(
                        HeartbeatGaps(
                            **self._note(Cause.WINDOW),
                            cluster=group.cluster,
                            broker=group.broker,
                            broker_id=member.broker_id,
                            addr=member.addr,
                            generation=member.generation,
                            window_ms=window_ms,
                            gaps_ms=gaps,
                        )
                    )
        if self._rng.random() < 0.3:
            topic = self._rng.choice(TOPICS)
            known = any(topic in group.queues for group in self._groups.values())
            count = QueryCount(topic, 3 * known, 3 * (not known), 0)
            self._write(self._queries(window_ms, (count,)))
        if not self._in_window:
            self._write(self._queries(window_ms, ()))
        self._in_window = 0

    def _queries(self, window_ms: int, topics: tuple[QueryCount, ...]) -> RouteQueries:
        return RouteQueries(
            **self._note(Cause.WINDOW), window_ms=window_ms, topics=topics, others=0
        )

    # -- writing down

    def _is_failing(self) -> bool:
        return self._now_ms() < self._failing_until

    def _write(self, event: Event) -> None:
        now_ms = self._now_ms()
        self._in_window += 1
        if self._is_failing():
            if not self._lost:
                self._lost_since = now_ms
            self._lost += 1
            return
        if self._lost:
            count, self._lost = self._lost, 0
            self._unsure = True
            self._put(
                RecordsLost(
                    **self._note(Cause.JOURNAL),
                    count=count,
                    since_ms=self.life.wall_ms(self._lost_since),
                )
            )
            self.life.losses.append(Span(self._lost_since, float("inf"), "records lost"))
            self._timer(RESTATED_AFTER_MS, self._restate)
        self._put(event)

    def _put(self, event: Event) -> None:
        now_ms = self._now_ms()
        self._seq += 1
        mono_ms = self._mono_ms(now_ms)
        record = Record(self._seq, self.life.wall_ms(now_ms), mono_ms, self.life.node, event)
        self._queue.append(_Unwritten(Written(now_ms, record), self._snapshot))
        self._flush(now_ms - WRITTEN_AFTER_MS)

    def _flush(self, until_ms: float) -> None:
        while self._queue and self._queue[0].written.true_ms <= until_ms:
            first = self._queue.pop(0)
            self.life.written.append(first.written)
            self._remembered = first.remembered
            if isinstance(first.written.record.event, StateRestated):
                self._unsure = False

    def _mono_ms(self, true_ms: float) -> int:
        return int(true_ms - self._mono_base_ms)

    def _restate(self) -> None:
        if self._is_failing():
            self._timer(RESTATED_AFTER_MS, self._restate)
            return
        for group in list(self._groups.values()):
            self._write(
                GroupRestated(
                    **self._note(Cause.JOURNAL),
                    cluster=group.cluster,
                    broker=group.broker,
                    acting_master=False,
                    zone=None,
                    members=tuple(_fact(member) for _, member in sorted(group.members.items())),
                    queues=tuple(QueueChange(t, None, s) for t, s in group.queues.items()),
                    mappings=(),
                )
            )
        self._write(
            StateRestated(
                **self._note(Cause.JOURNAL),
                groups=len(self._groups),
                kv={},
                generation=self._generation,
            )
        )
        now_ms = self._now_ms()
        self.life.losses = [
            Span(span.from_ms, min(span.to_ms, now_ms), span.why) for span in self.life.losses
        ]

    def _remember(self) -> None:
        """What the next record leaves in the journal, should it be the last one."""
        self._snapshot = {key: group.copy() for key, group in self._groups.items() if group.members}

    def finish(self) -> None:
        """The world ends here."""
        self._flush(self._now_ms() + 1000)
        self.life.ends_ms = self._now_ms() + 1

    # -- words

    def _note(self, cause: Cause) -> dict[str, Any]:
        return {"revision": self._revision, "cause": cause, "peer": ""}

    def _change(self, cause: Cause, peer: str) -> dict[str, Any]:
        self._revision += 1
        return {"revision": self._revision, "cause": cause, "peer": peer}

    def _about(self, said: Registration, member: Member, cause: Cause) -> dict[str, Any]:
        return {
            **self._change(cause, said.peer),
            "cluster": said.cluster,
            "broker": said.broker,
            "broker_id": said.broker_id,
            "addr": said.addr,
            "generation": member.generation,
        }

    def _entries(self) -> int:
        return sum(len(group.queues) for group in self._groups.values())

    def _believe(self) -> None:
        belief: Belief = {
            key: Listed(tuple(group.addrs.items()), dict(group.queues))
            for key, group in sorted(self._groups.items())
            if group.members
        }
        self.life.beliefs.append((self._now_ms(), belief))


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


def _min_changed(fact: dict[str, Any], group: Group, said: Registration) -> MinBrokerChanged:
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
