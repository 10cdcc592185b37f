"""A route table that everything happens to, against two slow things that must be right.

A model that knows only facts (who registered what, on which link, heard when), and a replay of
the events the table returned: whatever happened, both tell the same story as the table.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Cause,
    Event,
    StaticMapping,
    TopicsChanged,
)
from routebook.slices import carried_out
from routebook.state.facts import Changes
from routebook.state.model import QueueShape, Registration, VersionStamp
from routebook.state.registrar import RegisterResult
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from support.accounts import check_account

CLUSTERS = st.sampled_from(["c1", "c2"])
NAMES = st.sampled_from(["a", "b"])
ADDRS = st.sampled_from(["x:1", "y:1", "z:1"])
IDS = st.integers(0, 2)
LINKS = st.integers(1, 4)
ALL_TOPICS = ["t1", "t2", "t3", "t4"]
TOPICS = st.sampled_from(ALL_TOPICS)
SHAPES = st.builds(
    QueueShape, st.sampled_from([4, 8]), st.just(8), st.sampled_from([4, 6]), st.just(0)
)
MAPPINGS = st.builds(
    StaticMapping,
    topic=TOPICS,
    bname=NAMES,
    total_queues=st.just(4),
    epoch=st.integers(1, 2),
    scope=st.sampled_from([None, "global"]),
    dirty=st.just(False),
    curr_id_map=st.just(((0, 0), (1, 3))),
)
TIMEOUT_MS = 100
GroupKey = tuple[str, str]
Steps = Generator[list[Event], None, RegisterResult]


@dataclass(frozen=True, slots=True)
class Saying:
    """What a broker says when it registers, but for who it is; counter 0: no data version."""

    topics: dict[str, QueueShape]
    counter: int = 1
    epoch: int = 0
    acting_master: bool | None = None
    zone: str | None = None
    ha_addr: str | None = None
    filter_servers: tuple[str, ...] | None = None
    mappings: tuple[StaticMapping, ...] = ()


SAYINGS = st.builds(
    Saying,
    topics=st.dictionaries(TOPICS, SHAPES, max_size=4),
    counter=st.integers(0, 3),
    epoch=st.sampled_from([0, 0, 0, 1]),
    acting_master=st.sampled_from([None, False, True]),
    zone=st.sampled_from([None, None, "east"]),
    ha_addr=st.sampled_from([None, None, "h:1"]),
    filter_servers=st.sampled_from([None, (), ("f:1", "f:2")]),
    mappings=st.just(()) | st.lists(MAPPINGS, max_size=2).map(tuple),
)


@dataclass(slots=True)
class Live:
    """A broker that must be there. One known from before a restart has no link at first."""

    name: str
    broker_id: int
    link: int | None
    other_link: int | None
    heard_ms: int
    confirmed: bool = True


class Story:
    """What the events alone say."""

    def __init__(self) -> None:
        self.addrs: dict[GroupKey, dict[int, str]] = {}
        self.queues: dict[tuple[GroupKey, str], tuple[int, ...]] = {}
        self.revision = 0
        self.generation = 0

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            assert event.revision == self.revision + 1, "one revision for each event"
            self.revision = event.revision
            if isinstance(event, BrokerRegistered):
                assert event.generation > self.generation, "no generation is given away twice"
                self.generation = event.generation
            if isinstance(event, BrokerRegistered | BrokerLeft):
                key = (event.cluster, event.broker)
                assert self.addrs.get(key, {}) == event.addrs_before or isinstance(
                    event, BrokerRegistered
                )
                self.addrs[key] = dict(event.addrs_after)
                if not event.addrs_after and event.cause is not Cause.REPLACED:
                    del self.addrs[key]
                    self.queues = {k: v for k, v in self.queues.items() if k[0] != key}
            elif isinstance(event, TopicsChanged):
                key = (event.cluster, event.broker)
                for change in event.changes:
                    assert self.queues.get((key, change.topic)) == change.before
                    if change.after is None:
                        del self.queues[key, change.topic]
                    else:
                        self.queues[key, change.topic] = change.after


def _step(steps: Steps) -> tuple[list[Event], RegisterResult | None]:
    """The next events, and the result with the last of them."""
    try:
        return next(steps), None
    except StopIteration as done:
        result: RegisterResult = done.value
        return result.events, result


class RouteTableMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.revision = Revision()
        self.table = self.empty_table()
        self.story = Story()
        self.now_ms = 0
        self.live: dict[tuple[str, str], Live] = {}  # by cluster and address
        self.registering: tuple[str, str] | None = None

    def empty_table(self) -> RouteTable:
        return RouteTable(self.revision, max_topics_per_broker=1000, max_route_entries=1000)

    def hear(self, events: Iterable[Event]) -> None:
        self.story.hear(events)

    def carry_out(self, changes: Changes[None]) -> None:
        self.hear(carried_out(changes)[0])

    def heard(self, steps: Steps, *, closing: int, after: int | None) -> RegisterResult:
        """Take all steps; link ``closing`` is closed after so many of them."""
        taken, result = 0, None
        while result is None:
            if taken == after:
                self.close_link(closing)
            events, result = _step(steps)
            if result is not None:
                self.registering = None
            self.hear(events)
            taken += 1
        return result

    @rule(
        cluster=CLUSTERS,
        name=NAMES,
        broker_id=IDS,
        addr=ADDRS,
        link=LINKS,
        saying=SAYINGS,
        delete_absent=st.booleans(),
        cut_after=st.sampled_from([None, None, None, 1, 2, 3]),
    )
    def register(
        self,
        cluster: str,
        name: str,
        broker_id: int,
        addr: str,
        link: int,
        saying: Saying,
        delete_absent: bool,
        cut_after: int | None,
    ) -> None:
        before = self.facts()
        epoch, counter, topics = saying.epoch, saying.counter, saying.topics
        steps = self.table.register(
            Registration(
                cluster=cluster,
                name=name,
                broker_id=broker_id,
                addr=addr,
                ha_addr=saying.ha_addr,
                heartbeat_timeout_ms=TIMEOUT_MS,
                acting_master=saying.acting_master,
                zone=saying.zone,
                state_version=epoch,
                stamp=VersionStamp(epoch, 1, counter) if counter else None,
                topics=topics,
                mappings=saying.mappings,
                filter_servers=saying.filter_servers,
                fingerprint=hash((cluster, name, addr, tuple(topics.items()), counter)),
                link=link,
                peer=f"10.0.0.{link}:5000",
                shapes=len(set(topics.values())),
            ),
            now_ms=self.now_ms,
            delete_absent_topics=delete_absent,
        )
        joining, refusal = _step(steps)
        if refusal is not None:
            self.hear(joining)
            assert self.facts() == before, "a refused registration leaves no trace"
            return
        for key, other in list(self.live.items()):
            same_place = (other.name, other.broker_id) == (name, broker_id)
            if key[0] == cluster and key[1] != addr and same_place:
                del self.live[key]
        known = self.live.get((cluster, addr))
        stayed = known is not None and (known.name, known.broker_id) == (name, broker_id)
        other_link = known.other_link if known and stayed and known.link == link else None
        self.live[cluster, addr] = Live(name, broker_id, link, other_link, self.now_ms)
        self.registering = (cluster, addr)
        self.hear(joining)
        result = self.heard(steps, closing=link, after=cut_after)
        if result.refused is not None:
            assert cut_after is not None
            assert (cluster, addr) not in self.live
        elif broker_id == 0:
            group = self.table.members.find_group(cluster, name)
            assert group is not None
            assert {topic: group.registered[topic] for topic in topics} == topics

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 5), new_id=st.none() | IDS, saying=SAYINGS)
    def register_again(self, which: int, new_id: int | None, saying: Saying) -> None:
        """A broker that is there says something else, over the connection it has."""
        (cluster, addr), live = sorted(self.live.items())[which % len(self.live)]
        self.register(
            cluster,
            live.name,
            live.broker_id if new_id is None else new_id,
            addr,
            live.link or 1,
            saying,
            delete_absent=False,
            cut_after=None,
        )

    @rule(cluster=CLUSTERS, addr=ADDRS, link=LINKS)
    def heartbeat(self, cluster: str, addr: str, link: int) -> None:
        member, events = self.table.heartbeat(
            cluster, addr, link=link, peer="p", now_ms=self.now_ms
        )
        self.hear(events)
        live = self.live.get((cluster, addr))
        assert (member is None) == (live is None)
        if live is None:
            return
        live.heard_ms = self.now_ms
        assert bool(events) == (not live.confirmed), "the first sign of life confirms, and no other"
        live.confirmed = True  # but anybody can have said so
        if link not in (live.link, live.other_link):
            live.other_link = link

    @rule(link=LINKS)
    def close_link(self, link: int) -> None:
        self.carry_out(self.table.close_link(link, Cause.CONNECTION_CLOSED, "p"))
        for key, live in list(self.live.items()):
            if live.other_link == link:
                live.other_link = None
            elif live.link == link and live.other_link is not None:
                live.link, live.other_link = live.other_link, None
            elif live.link == link:
                del self.live[key]

    @rule(cluster=CLUSTERS, name=NAMES, addr=ADDRS)
    def unregister(self, cluster: str, name: str, addr: str) -> None:
        self.carry_out(self.table.unregister(cluster, name, addr, link=99, peer="p"))
        if (cluster, addr) in self.live and self.live[cluster, addr].name == name:
            del self.live[cluster, addr]

    @rule(ms=st.integers(1, 150))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        events, links = carried_out(self.table.expire(self.now_ms))
        left = {(e.cluster, e.addr): e.cause for e in events if isinstance(e, BrokerLeft)}
        self.hear(events)
        due = [key for key, b in self.live.items() if b.heard_ms + TIMEOUT_MS < self.now_ms]
        assert set(links) == {self.live[key].link for key in due} - {None}
        for key in due:
            confirmed = self.live.pop(key).confirmed
            assert left.pop(key) is (Cause.EXPIRED if confirmed else Cause.NOT_CONFIRMED)
        assert not left

    @rule(name=NAMES, writable=st.booleans())
    def set_writable(self, name: str, writable: bool) -> None:
        events, _ = carried_out(self.table.set_writable(name, writable=writable, peer="p"))
        self.hear(events)

    @rule(name=NAMES)
    def restore_writable(self, name: str) -> None:
        before = self.facts()[1]
        assert isinstance(before, dict)
        events, _ = carried_out(self.table.restore_writable(name, peer="p"))
        self.hear(events)
        for group in self.table.members.groups_named(name):
            stands_in = group.acting_master and 0 not in group.members
            for topic, said in group.registered.items():
                told = self.table.topics.queues(topic)[group]
                was = QueueShape(*before[(group.cluster, name), topic])
                given = said.writable and not stands_in
                assert told == (was.with_write() if given else was)

    @rule(topic=TOPICS, cluster=CLUSTERS | st.none())
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.carry_out(self.table.delete_topic(topic, cluster, peer="p"))
        for group in self.table.topics.queues(topic):
            assert cluster is not None
            assert group.cluster != cluster

    @rule(topic=TOPICS, name=NAMES, shape=SHAPES)
    def register_topic(self, topic: str, name: str, shape: QueueShape) -> None:
        self.carry_out(self.table.register_topic(topic, {name: shape}, peer="p"))

    @rule()
    def clear_some(self) -> None:
        self.table.topics.clear_some()

    def facts(self) -> tuple[object, object]:
        groups = {(g.cluster, g.name): g.addrs for g in self.table.members.groups()}
        queues = {
            ((group.cluster, group.name), topic): tuple(shape)
            for topic in ALL_TOPICS
            for group, shape in self.table.topics.queues(topic).items()
        }
        return groups, queues

    @invariant()
    def the_events_tell_the_whole_story(self) -> None:
        groups, queues = self.facts()
        assert groups == self.story.addrs
        assert queues == self.story.queues

    @invariant()
    def the_members_are_those_the_facts_say(self) -> None:
        expected: dict[GroupKey, dict[int, str]] = {}
        for (cluster, addr), live in self.live.items():
            expected.setdefault((cluster, live.name), {})[live.broker_id] = addr
        assert self.facts()[0] == expected

    @rule()
    def the_account_is_right_to_the_byte(self) -> None:
        check_account(self.table)

    @invariant()
    def nothing_is_listed_that_nobody_watches(self) -> None:
        for group in self.table.members.groups():
            assert group.members, "no empty group"
            for broker_id, member in group.members.items():
                assert member.broker_id == broker_id
                assert self.table.members.find_live(group.cluster, member.addr) is member
                assert member.link == self.live[group.cluster, member.addr].link
            for topic in group.registered:
                assert group in self.table.topics.queues(topic)
        entries = sum(len(self.table.topics.queues(topic)) for topic in ALL_TOPICS)
        assert self.table.topics.entries == entries

    @rule()
    def listing_everything_shows_what_is_held_and_nothing_else(self) -> None:
        held = {topic for topic in ALL_TOPICS if self.table.topics.queues(topic)}
        assert set(self.table.topics) == held
