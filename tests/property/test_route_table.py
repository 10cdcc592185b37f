"""The route table against two slow things that must be right.

A model that knows only facts (who registered what, on which link, heard when), and a replay of
the events the table returned: whatever happened, both tell the same story as the table.
"""

from collections.abc import Generator, Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routebook.events import BrokerLeft, BrokerRegistered, Cause, Event, TopicsChanged
from routebook.state.model import QueueShape, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RegisterResult, RouteTable

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
TIMEOUT_MS = 100
GroupKey = tuple[str, str]


class Story:
    """What the events alone say."""

    def __init__(self) -> None:
        self.addrs: dict[GroupKey, dict[int, str]] = {}
        self.queues: dict[tuple[GroupKey, str], tuple[int, ...]] = {}
        self.revision = 0

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            assert event.revision == self.revision + 1, "one revision for each event"
            self.revision = event.revision
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


class RouteTableMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.table = RouteTable(Revision(), max_topics_per_broker=1000, max_route_entries=1000)
        self.story = Story()
        self.now_ms = 0
        # cluster, addr -> name, id, link, other link, heard at
        self.live: dict[tuple[str, str], tuple[str, int, int, int | None, int]] = {}

    def heard(self, steps: Generator[list[Event], None, RegisterResult]) -> RegisterResult:
        while True:
            try:
                self.story.hear(next(steps))
            except StopIteration as done:
                result: RegisterResult = done.value
                self.story.hear(result.events)
                return result

    def forget(self, key: tuple[str, str]) -> None:
        del self.live[key]

    @rule(
        cluster=CLUSTERS,
        name=NAMES,
        broker_id=IDS,
        addr=ADDRS,
        link=LINKS,
        topics=st.dictionaries(TOPICS, SHAPES, max_size=4),
        counter=st.integers(1, 3),
        epoch=st.sampled_from([0, 0, 0, 1]),
        acting=st.sampled_from([None, False, True]),
        delete_absent=st.booleans(),
    )
    def register(
        self,
        cluster: str,
        name: str,
        broker_id: int,
        addr: str,
        link: int,
        topics: dict[str, QueueShape],
        counter: int,
        epoch: int,
        acting: bool | None,
        delete_absent: bool,
    ) -> None:
        before = self.facts()
        steps = self.table.register(
            Registration(
                cluster=cluster,
                name=name,
                broker_id=broker_id,
                addr=addr,
                ha_addr=None,
                heartbeat_timeout_ms=TIMEOUT_MS,
                acting_master=acting,
                zone=None,
                state_version=epoch,
                stamp=VersionStamp(epoch, 1, counter),
                topics=topics,
                mappings=(),
                filter_servers=(),
                fingerprint=hash((cluster, name, addr, tuple(topics.items()), counter)),
                link=link,
                peer="p",
            ),
            now_ms=self.now_ms,
            delete_absent_topics=delete_absent,
        )
        result = self.heard(steps)
        if result.refused is not None:
            assert self.facts() == before, "a refused registration leaves no trace"
            return
        for key, (other, its_id, *_) in list(self.live.items()):
            if key[0] == cluster and key[1] != addr and (other, its_id) == (name, broker_id):
                self.forget(key)
        self.live[cluster, addr] = (name, broker_id, link, None, self.now_ms)
        if broker_id == 0:
            for topic, shape in topics.items():
                group = self.table.members.find_group(cluster, name)
                assert group is not None
                assert group.registered[topic] == shape

    @rule(cluster=CLUSTERS, addr=ADDRS, link=LINKS)
    def heartbeat(self, cluster: str, addr: str, link: int) -> None:
        self.table.heartbeat(cluster, addr, link=link, now_ms=self.now_ms)
        if (cluster, addr) in self.live:
            name, broker_id, own, other, _ = self.live[cluster, addr]
            if link not in (own, other):
                other = link
            self.live[cluster, addr] = (name, broker_id, own, other, self.now_ms)

    @rule(link=LINKS)
    def close_link(self, link: int) -> None:
        self.story.hear(self.table.close_link(link, Cause.CONNECTION_CLOSED, "p"))
        for key, (name, broker_id, own, other, heard) in list(self.live.items()):
            if other == link:
                self.live[key] = (name, broker_id, own, None, heard)
            elif own == link and other is not None:
                self.live[key] = (name, broker_id, other, None, heard)
            elif own == link:
                self.forget(key)

    @rule(cluster=CLUSTERS, name=NAMES, addr=ADDRS)
    def unregister(self, cluster: str, name: str, addr: str) -> None:
        self.story.hear(self.table.unregister(cluster, name, addr, link=99, peer="p"))
        if (cluster, addr) in self.live and self.live[cluster, addr][0] == name:
            self.forget((cluster, addr))

    @rule(ms=st.integers(1, 150))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        events, _ = self.table.expire(self.now_ms)
        self.story.hear(events)
        for key, (*_, heard) in list(self.live.items()):
            if heard + TIMEOUT_MS < self.now_ms:
                self.forget(key)

    @rule(name=NAMES, writable=st.booleans())
    def set_writable(self, name: str, writable: bool) -> None:
        _, events = self.table.set_writable(name, writable=writable, peer="p")
        self.story.hear(events)

    @rule(topic=TOPICS, cluster=CLUSTERS | st.none())
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.story.hear(self.table.delete_topic(topic, cluster, peer="p"))
        for group in self.table.topics.queues(topic):
            assert cluster is not None
            assert group.cluster != cluster

    @rule(topic=TOPICS, name=NAMES, shape=SHAPES)
    def register_topic(self, topic: str, name: str, shape: QueueShape) -> None:
        self.story.hear(self.table.register_topic(topic, [(name, shape)], peer="p"))

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
        for (cluster, addr), (name, broker_id, *_) in self.live.items():
            expected.setdefault((cluster, name), {})[broker_id] = addr
        assert self.facts()[0] == expected

    @invariant()
    def nothing_is_listed_that_nobody_watches(self) -> None:
        for group in self.table.members.groups():
            assert group.members, "no empty group"
            for broker_id, member in group.members.items():
                assert member.broker_id == broker_id
                assert self.table.members.find_live(group.cluster, member.addr) is member
            for topic in group.registered:
                assert group in self.table.topics.queues(topic)
        entries = sum(len(self.table.topics.queues(topic)) for topic in ALL_TOPICS)
        assert self.table.topics.entries == entries

    @rule()
    def listing_everything_shows_what_is_held_and_nothing_else(self) -> None:
        held = {topic for topic in ALL_TOPICS if self.table.topics.queues(topic)}
        assert set(self.table.topics) == held


TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
