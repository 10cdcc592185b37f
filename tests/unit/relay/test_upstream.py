"""How a relay asks NameServers, and what it makes of their silence."""

import asyncio
import logging
import random

import pytest

from routebook.client.errors import BadAnswer
from routebook.relay import upstream
from routebook.relay.cache import Entry, Question, RelayCache
from routebook.relay.upstream import (
    MAX_ASKING,
    MAX_FLIGHTS,
    PROBE,
    QUESTIONS_A_BATCH,
    Overloaded,
    Upstream,
)
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Reply
from support.relays import NODE, OTHER_NODE, Clock, MemoryNodes, route, route_body, spin

POLL_S = 30.0
ROUTE = route_body("10.0.0.1:10911")
OTHER_ROUTE = route_body("10.0.0.2:10911")
CLUSTERS = Question(RequestCode.GET_BROKER_CLUSTER_INFO)
TOPICS = Question(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
GROUP = Question(RequestCode.GET_BROKER_MEMBER_GROUP, cluster="c", broker="b")
CLUSTER_BODY = (
    b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"a:1"},"brokerName":"b"}},"clusterAddrTable":{}}'
)


class World:
    def __init__(self, nodes: MemoryNodes) -> None:
        self.nodes = nodes
        self.clock = Clock()
        self.cache = RelayCache(
            poll_s=POLL_S, forget_after_s=120.0, max_topics=10_000, rng=random.Random(1)
        )
        self.upstream = Upstream(nodes, self.cache, poll_s=POLL_S, timeout_s=2.0, clock=self.clock)

    def entry(self, topic: str) -> Entry:
        entry = self.cache.find(route(topic), self.clock.now)
        assert entry is not None
        return entry

    async def pass_period(self) -> None:
        self.clock.now += POLL_S
        while not await self.upstream.turn():
            pass


# -- first questions


async def test_a_first_question_is_asked_and_its_answer_kept() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    assert await world.upstream.ask(route("orders")) == ROUTE
    assert world.entry("orders").body == ROUTE


async def test_all_who_ask_the_same_at_once_share_one_question() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    outcomes = await asyncio.gather(*(world.upstream.ask(route("orders")) for _ in range(50)))
    assert outcomes == [ROUTE] * 50
    assert world.nodes.subjects() == ["orders"]


async def test_one_who_gives_up_leaves_the_question_to_the_others() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    world.nodes.gate.clear()
    first, second = (asyncio.create_task(world.upstream.ask(route("orders"))) for _ in range(2))
    await spin(lambda: world.nodes.in_flight == 1)
    first.cancel()
    world.nodes.gate.set()
    assert await second == ROUTE


async def test_a_refusal_is_passed_on_in_the_words_of_the_node() -> None:
    world = World(MemoryNodes())
    outcome = await world.upstream.ask(route("nothing"))
    assert outcome == Reply(ResponseCode.TOPIC_NOT_EXIST, "no route")
    assert len(world.cache) == 0
    assert world.upstream.outage is None


@pytest.mark.parametrize(
    ("question", "body"),
    [
        pytest.param(CLUSTERS, b'{"brokerAddrTable":{},"clusterAddrTable":{}}', id="clusters"),
        pytest.param(TOPICS, b'{"topicList":[]}', id="topics"),
        pytest.param(GROUP, b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b"}}', id="901"),
        pytest.param(route("t"), b'{"brokerDatas":[],"queueDatas":[]}', id="route"),
    ],
)
async def test_an_answer_that_says_nothing_is_given_but_not_kept(
    question: Question, body: bytes
) -> None:
    world = World(MemoryNodes())
    world.nodes.bodies[question.topic or question.broker or question.code] = body
    assert await world.upstream.ask(question) == Reply(body=body)
    assert len(world.cache) == 0


async def test_an_answer_that_is_none_is_an_error_and_no_outage() -> None:
    world = World(MemoryNodes(orders=b"<html>"))
    outcome = await world.upstream.ask(route("orders"))
    assert isinstance(outcome, BadAnswer)
    assert outcome.address == NODE
    assert world.upstream.outage is None
    assert len(world.cache) == 0


async def test_a_storm_of_first_questions_is_asked_a_few_at_a_time() -> None:
    world = World(MemoryNodes())
    world.nodes.gate.clear()
    storm = [
        asyncio.create_task(world.upstream.ask(route(f"nothing-{i}"))) for i in range(MAX_FLIGHTS)
    ]
    await spin(lambda: world.upstream.full and world.nodes.in_flight == MAX_ASKING)
    world.nodes.gate.set()
    outcomes = await asyncio.gather(*storm)
    assert set(outcomes) == {Reply(ResponseCode.TOPIC_NOT_EXIST, "no route")}
    assert world.nodes.most_in_flight == MAX_ASKING
    assert not world.upstream.full


async def test_a_first_question_that_waits_too_long_for_its_turn_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "QUEUE_S", 0.0)
    world = World(MemoryNodes())
    world.nodes.gate.clear()
    asked = [asyncio.create_task(world.upstream.ask(route(f"slow-{i}"))) for i in range(MAX_ASKING)]
    await spin(lambda: world.nodes.in_flight == MAX_ASKING)
    assert isinstance(await world.upstream.ask(route("orders")), Overloaded)
    world.nodes.gate.set()
    await asyncio.gather(*asked)
    world.nodes.bodies["orders"] = ROUTE
    assert await world.upstream.ask(route("orders")) == ROUTE


async def test_closing_ends_what_is_under_way() -> None:
    world = World(MemoryNodes())
    world.nodes.gate.clear()
    waiting = asyncio.create_task(world.upstream.ask(route("orders")))
    await spin(lambda: world.nodes.in_flight == 1)
    await world.upstream.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


# -- refreshing


async def test_known_answers_are_asked_again_in_batches() -> None:
    world = World(MemoryNodes())
    topics = [f"t{i}" for i in range(QUESTIONS_A_BATCH + 1)]
    for topic in topics:
        world.nodes.bodies[topic] = ROUTE
        world.cache.confirm(route(topic), ROUTE, now_s=world.clock.now)
    await world.pass_period()
    assert sorted(map(str, world.nodes.subjects())) == sorted(topics)
    assert world.nodes.most_in_flight == QUESTIONS_A_BATCH
    assert world.cache.oldest_age_s(world.clock.now) == 0.0
    assert world.upstream.nodes == (NODE, OTHER_NODE)


async def test_a_changed_answer_replaces_the_old_one() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    world.nodes.bodies["orders"] = OTHER_ROUTE
    await world.pass_period()
    assert world.entry("orders").body == OTHER_ROUTE


async def test_nonsense_in_place_of_an_answer_leaves_the_good_one() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    world.nodes.bodies["orders"] = b"nonsense"
    await world.pass_period()
    entry = world.entry("orders")
    assert (entry.body, entry.confirmed_at) == (ROUTE, world.clock.now - POLL_S)
    assert entry.doubt is not None
    assert entry.doubt.startswith("10.0.0.1:9876: the body is not a topic route")


async def test_a_topic_that_is_denied_stays_for_the_time_set_and_then_goes() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    del world.nodes.bodies["orders"]
    for _ in range(4):
        await world.pass_period()
        assert world.entry("orders").doubt == "10.0.0.1:9876 answers with code 17"
    await world.pass_period()
    await world.pass_period()
    assert world.cache.find(route("orders"), world.clock.now) is None


async def test_a_cluster_view_outlives_the_empty_one_of_a_node_that_has_just_started() -> None:
    world = World(MemoryNodes())
    world.nodes.bodies[CLUSTERS.code] = CLUSTER_BODY
    assert await world.upstream.ask(CLUSTERS) == CLUSTER_BODY
    world.nodes.bodies[CLUSTERS.code] = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    await world.pass_period()
    entry = world.cache.find(CLUSTERS, world.clock.now)
    assert entry is not None
    assert (entry.body, entry.doubt) == (CLUSTER_BODY, "10.0.0.1:9876 knows nothing of it")


async def test_an_answer_of_another_relay_keeps_its_age_and_doubt() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    world.nodes.fields = {"routebookAgeMillis": "7500", "routebookStale": "true"}
    await world.upstream.ask(route("orders"))
    entry = world.entry("orders")
    assert entry.confirmed_at == world.clock.now - 7.5
    assert entry.doubt is not None


# -- outages


async def test_an_outage_is_noticed_and_nothing_but_probes_are_sent_until_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="routebook.relay.upstream")
    world = World(MemoryNodes(orders=ROUTE, payments=ROUTE))
    for topic in ("orders", "payments"):
        await world.upstream.ask(route(topic))
    world.nodes.down = True
    await world.pass_period()
    assert world.upstream.outage is not None
    assert world.upstream.outage.reason == ("no NameServer answered: 10.0.0.1:9876: nobody listens")
    world.nodes.asked.clear()
    await world.pass_period()
    await world.pass_period()
    assert sorted(map(str, world.nodes.subjects())) == [
        "orders",
        "payments",
        PROBE.topic,
        PROBE.topic,
    ]
    assert world.entry("orders").confirmed_at == 1_000.0

    world.nodes.down = False
    await world.upstream.turn()
    assert world.upstream.outage is None
    await world.upstream.turn()
    for topic in ("orders", "payments"):
        assert world.entry(topic).confirmed_at == world.clock.now

    assert [record.getMessage() for record in caplog.records] == [
        "no NameServer answered: 10.0.0.1:9876: nobody listens;"
        " 2 answers are remembered, the oldest is 30.0 s old",
        "10.0.0.1:9876 answers after 60.0 s without NameServers;"
        " 2 answers are remembered, the oldest is 90.0 s old",
    ]


async def test_nothing_is_dropped_for_want_of_questions_during_an_outage() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    world.nodes.down = True
    for _ in range(100):
        await world.pass_period()
    assert world.entry("orders").body == ROUTE


async def test_a_question_without_answer_is_no_outage_while_others_are_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(MemoryNodes(slow=ROUTE, orders=ROUTE))
    for topic in ("slow", "orders"):
        await world.upstream.ask(route(topic))
    world.nodes.mute = {"slow"}
    await world.pass_period()
    assert world.upstream.outage is None
    assert world.entry("orders").doubt is None
    assert world.entry("slow").doubt == "no NameServer answered: 10.0.0.1:9876: nobody listens"
    assert caplog.records == []


async def test_an_address_service_that_gives_no_address_is_an_outage() -> None:
    world = World(MemoryNodes())
    world.nodes.listed = False
    await world.upstream.turn()
    assert world.upstream.outage is not None
    assert world.upstream.outage.reason == "the address service does not answer"
    world.nodes.listed = True
    await world.upstream.turn()
    assert world.upstream.outage is None
    assert world.upstream.nodes == (NODE, OTHER_NODE)


async def test_what_failed_at_the_beginning_of_an_outage_is_asked_first_at_its_end() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    world.nodes.down = True
    await world.pass_period()
    world.nodes.down = False
    world.nodes.asked.clear()
    await world.upstream.turn()
    assert world.nodes.subjects() == [PROBE.topic, "orders"]


async def test_an_outage_ends_when_only_known_topics_are_answered() -> None:
    world = World(MemoryNodes(orders=ROUTE))
    await world.upstream.ask(route("orders"))
    world.nodes.down = True
    await world.pass_period()
    world.nodes.down = False
    world.nodes.mute = {"routebook-relay-probe"}
    await world.upstream.turn()
    assert world.upstream.outage is None


async def test_first_questions_that_wait_when_an_outage_begins_are_not_asked() -> None:
    world = World(MemoryNodes())
    world.nodes.gate.clear()
    asked = [asyncio.create_task(world.upstream.ask(route(f"t{i}"))) for i in range(2 * MAX_ASKING)]
    await spin(lambda: world.nodes.in_flight == MAX_ASKING)
    world.nodes.down = True
    world.nodes.gate.set()
    outcomes = await asyncio.gather(*asked)
    assert {str(outcome) for outcome in outcomes} == {
        "no NameServer answered: 10.0.0.1:9876: nobody listens"
    }
    assert len(world.nodes.asked) == MAX_ASKING
