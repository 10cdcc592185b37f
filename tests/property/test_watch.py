"""Watchers under anything: changes, pauses, cuts, restarts, kills, other nodes.

After all of it each has what the table has, and no chain was ever broken. Nodes work in slices of
one or two things, so that everything meets everything.
"""

import itertools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Caller
from routebook.slices import finished
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import Command, Reply
from support.builders import broker_fields, registration_body
from support.watch_model import Follower, WatchDesk

TOPICS = ["orders", "stock", "ledger", "mail", "audit"]
BROKERS = range(3)
SMALL = {
    "routebook.state.registrar.TOPICS_A_SLICE": 2,
    "routebook.watch.hub.FRAME_TOPICS": 2,
    "routebook.watch.hub.GROUPS_A_SLICE": 1,
    "routebook.watch.hub.MARKED_A_SLICE": 2,
    "routebook.watch.hub.TURNS": 1,
    "routebook.watch.touched_topics.LOOKED_AT_A_SLICE": 2,
    "routebook.watch.touched_topics.MAX_WAITING": 1,
}

which_node = st.sampled_from([0, 1])
which_follower = st.sampled_from([0, 1, 2])
topic = st.sampled_from(TOPICS)
some_topics = st.lists(topic, unique=True)
broker = st.sampled_from(BROKERS)


class WatchMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch(name, value) for name, value in SMALL.items()]
        for each in self.patches:
            each.start()
        self.clock = [1_700_000_000_000]
        self.links = itertools.count(10_000)
        self.boots = (f"boot{n}" for n in itertools.count())
        self.nodes = [WatchDesk(self.clock, node=f"n{i}", boot=next(self.boots)) for i in (0, 1)]
        self.registering: list[tuple[WatchDesk, Iterator[Any]]] = []
        self.counters = itertools.count(1)
        self.told_before: dict[str, int] = {}  # the highest revision a node ever told

    @initialize(topics=st.lists(some_topics, min_size=3, max_size=3))
    def begin(self, topics: list[list[str]]) -> None:
        self.followers = [Follower(f"f{i}", chosen) for i, chosen in enumerate(topics)]

    # -- brokers

    @rule(node=which_node, which=broker, topics=some_topics, queues=st.integers(1, 3))
    def register(self, node: int, which: int, topics: list[str], queues: int) -> None:
        answer = self.registration(self.nodes[node], which, topics, queues)
        if not isinstance(answer, Reply):
            finished(answer)

    @rule(node=which_node, which=broker, topics=some_topics, queues=st.integers(1, 3))
    def begin_to_register(self, node: int, which: int, topics: list[str], queues: int) -> None:
        answer = self.registration(self.nodes[node], which, topics, queues)
        if not isinstance(answer, Reply):
            self.registering.append((self.nodes[node], answer))

    @rule()
    def go_on_registering(self) -> None:
        if self.registering:
            node, answer = self.registering.pop(0)
            if next(answer, self) is not self:
                self.registering.append((node, answer))

    def registration(self, node: WatchDesk, which: int, topics: list[str], queues: int) -> Any:
        fields = broker_fields(f"broker-{which}", addr=f"10.0.0.{which}:10911")
        shapes = {t: {"readQueueNums": queues, "writeQueueNums": queues} for t in topics}
        body = registration_body(shapes, counter=next(self.counters))
        code = RequestCode.REGISTER_BROKER
        request = Command(code, 0, 7, Version.V5_5_0, None, fields, body)
        return dispatch(request, node.services, Caller(which, f"10.0.0.{which}:1"))

    @rule(node=which_node, which=broker)
    def hang_up(self, node: int, which: int) -> None:
        self.nodes[node].leave(which)

    @rule(node=which_node, which=broker, code=st.sampled_from([205, 327]))
    def set_permission(self, node: int, which: int, code: int) -> None:
        self.nodes[node].ask(code, {"brokerName": f"broker-{which}"})

    @rule(node=which_node, topic=topic)
    def delete_topic(self, node: int, topic: str) -> None:
        self.nodes[node].ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})

    @rule(node=which_node, topic=topic, value=st.sampled_from(["broker-0:4", "broker-1:2", None]))
    def set_order(self, node: int, topic: str, value: str | None) -> None:
        self.nodes[node].order(topic, value)

    # -- time, and the work of nodes

    @rule(ms=st.sampled_from([1, 20, 60, 250, 16_000, 31_000]))
    def wait(self, ms: int) -> None:
        self.clock[0] += ms

    @rule(node=which_node, count=st.sampled_from([1, 2, 5, 1000]))
    def work(self, node: int, count: int) -> None:
        self.pump(self.nodes[node], count)

    def pump(self, node: WatchDesk, count: int = 100_000) -> None:
        for _ in range(count):
            frames = node.step(1)
            for frame in frames:
                for follower in self.followers:
                    if follower.node is node and follower.link == frame.link:
                        follower.take(frame)
                        if frame.last and follower.node is not None:
                            follower.cut()  # the node closes the connection
            if not frames and node._work is None:
                break

    # -- those who watch

    @rule(which=which_follower, node=which_node)
    def connect(self, which: int, node: int) -> None:
        follower = self.followers[which]
        if follower.node is not None:
            follower.cut()
        follower.connect(self.nodes[node], next(self.links))

    @rule(which=which_follower)
    def cut(self, which: int) -> None:
        if self.followers[which].node is not None:
            self.followers[which].cut()

    @rule(which=which_follower)
    def stop_reading(self, which: int) -> None:
        self.followers[which].reads = False

    @rule(which=which_follower)
    def read(self, which: int) -> None:
        self.followers[which].read()

    @rule(which=which_follower, topic=topic)
    def watch_one_more(self, which: int, topic: str) -> None:
        self.followers[which].add(topic)

    @rule(which=which_follower, topic=topic)
    def watch_one_less(self, which: int, topic: str) -> None:
        self.followers[which].drop(topic)

    # -- the end of nodes, and their beginning

    @rule(node=which_node)
    def journal(self, node: int) -> None:
        self.nodes[node].journal()

    @rule(node=which_node)
    def stop(self, node: int) -> None:
        self.end(node)
        self.nodes[node] = self.nodes[node].after_stop(next(self.boots))

    @rule(node=which_node)
    def kill(self, node: int) -> None:
        self.end(node)
        before = self.nodes[node]
        killed = self.nodes[node] = before.after_kill(next(self.boots))
        told = [rev for f in self.followers for boot, rev in f.told if boot == before.watchers.boot]
        assert killed.revision.value > max(told, default=-1), "a revision could come twice"

    def end(self, node: int) -> None:
        ended = self.nodes[node]
        self.registering = [(n, answer) for n, answer in self.registering if n is not ended]
        for follower in self.followers:
            if follower.node is ended:
                follower.node = None

    # -- what always holds

    @invariant()
    def nobody_has_more_to_be_told_than_it_watches(self) -> None:
        for node in self.nodes:
            for watcher in node.watchers._watchers.values():
                assert watcher.dirty <= len(watcher.has)

    def teardown(self) -> None:
        try:
            for _, answer in self.registering:
                finished(answer)  # type: ignore[arg-type]
            for follower in self.followers:
                follower.read()
                if follower.node is None:
                    follower.connect(self.nodes[0], next(self.links))
            for _ in range(3):
                self.clock[0] += 250
                for node in self.nodes:
                    self.pump(node)
            for follower in self.followers:
                assert follower.node is not None
                assert follower.synced
                follower.check()
            for node in self.nodes:
                for link in list(node.watchers._watchers):
                    node.hang_up(link)
                assert node.watchers._by_topic == {}
                assert node.watchers._account.tables == 0
        finally:
            for each in self.patches:
                each.stop()


TestWatch = WatchMachine.TestCase
TestWatch.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
