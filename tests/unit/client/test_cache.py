"""The route cache: asking, polling, and what a route survives."""

import asyncio
import logging
import pickle
from collections import Counter
from collections.abc import Sequence

import pytest

from routebook.client.cache import CacheClosed, RouteCache, RouteTimeout
from routebook.client.changes import BrokerDisappeared
from routebook.client.entries import NotCached
from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    NameServerError,
    NotReady,
    TopicNotFound,
)
from routebook.client.node import Answer
from routebook.client.queues import MAX_QUEUES, MessageQueue
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from support.askers import MemoryAsker, World, all_failed, not_found, tasks_besides_this_one
from support.topic_routes import NODE, group, queues, route, route_body

A_AND_B = route_body()
ONLY_A = route_body([group("broker-a")], [queues("broker-a")])


# -- asking once


async def test_a_route_is_asked_for_once() -> None:
    world = World(orders=A_AND_B)
    first = await world.cache.route("orders")
    assert first == route()
    assert first.node == NODE
    assert await world.cache.route("orders") is first
    assert world.asker.asked == [["orders"]]


async def test_an_answer_that_repeats_the_last_one_is_not_decoded() -> None:
    world = World(orders=A_AND_B)
    first = await world.cache.route("orders")
    assert await world.cache.refresh("orders") is first
    assert world.asker.asked == [["orders"], ["orders"]]


async def test_callers_at_the_same_time_share_one_question() -> None:
    world = World(orders=A_AND_B)
    routes = await asyncio.gather(*(world.cache.route("orders") for _ in range(50)))
    assert routes == [route()] * 50
    assert world.asker.asked == [["orders"]]


async def test_callers_at_the_same_time_share_one_failure() -> None:
    world = World(orders=all_failed())
    outcomes = await asyncio.gather(
        *(world.cache.route("orders") for _ in range(5)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [AllNodesFailed] * 5
    assert world.asker.asked == [["orders"]]


async def test_each_caller_gets_an_error_of_its_own() -> None:
    world = World(orders=b"nonsense")
    world.cache.use("orders")
    errors = []
    for _ in range(2):
        with pytest.raises(BadAnswer) as caught:
            await world.cache.route("orders")
        errors.append(caught.value)
    kept = world.cache.last_error("orders")
    assert kept is not None
    assert str(kept) == str(errors[0]) == str(errors[1])
    assert kept.__traceback__ is None, "it would keep the answer alive"
    assert kept.__cause__ is kept.__context__ is None


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others() -> None:
    world = World(orders=A_AND_B)
    world.asker.gate.clear()
    first, second = (asyncio.create_task(world.cache.route("orders")) for _ in range(2))
    await world.asker.called.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    world.asker.gate.set()
    assert await second == route()
    assert world.asker.asked == [["orders"]]


async def test_a_caller_whose_time_is_over_leaves_the_question_asked() -> None:
    world = World(orders=A_AND_B)
    world.asker.gate.clear()
    with pytest.raises(RouteTimeout, match=r"'orders' within 0\.001 s"):
        await world.cache.route("orders", timeout_s=0.001)
    patient = asyncio.create_task(world.cache.route("orders"))
    world.asker.gate.set()
    assert await patient == route()
    assert world.asker.asked == [["orders"]]


async def test_a_refresh_asks_again_and_delivers_what_changed() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    world.asker.answers["orders"] = ONLY_A
    assert await world.cache.refresh("orders") == route([group("broker-a")], [queues("broker-a")])
    assert isinstance(world.changes[-1].changes[0], BrokerDisappeared)


async def test_refreshes_and_a_poll_at_the_same_time_share_one_question() -> None:
    world = World(orders=A_AND_B)
    world.cache.use("orders")
    world.asker.gate.clear()
    poll = asyncio.create_task(world.cache.poll_due())
    await world.asker.called.wait()
    refreshes = [asyncio.create_task(world.cache.refresh("orders")) for _ in range(3)]
    world.asker.gate.set()
    assert await asyncio.gather(*refreshes) == [route()] * 3
    await poll
    assert world.asker.asked == [["orders"]]


async def test_a_poll_does_not_ask_for_what_is_being_asked_for() -> None:
    world = World(orders=A_AND_B, payments=A_AND_B)
    world.asker.gate.clear()
    first = asyncio.create_task(world.cache.route("orders"))
    await world.asker.called.wait()
    world.cache.use("orders")
    world.cache.use("payments")
    poll = asyncio.create_task(world.cache.poll_due())
    world.asker.gate.set()
    await asyncio.gather(first, poll)
    assert world.asker.asked == [["orders"], ["payments"]]


# -- which topics are polled


async def test_a_topic_in_use_is_polled() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    assert world.cache.topics == ("orders",)
    await world.pass_period(10)
    assert 9 <= len(world.asker.asked) <= 14


async def test_a_topic_that_does_not_exist_is_not_polled() -> None:
    world = World()
    with pytest.raises(TopicNotFound):
        await world.cache.route("typo")
    await world.pass_period()
    assert world.asker.asked == [["typo"]]
    assert world.cache.topics == ()
    assert world.cache.entry("typo") is None


async def test_a_topic_that_is_kept_is_polled_until_it_exists() -> None:
    world = World()
    world.cache.use("orders")
    await world.pass_period(0.1)
    assert world.cache.entry("orders") is None
    assert isinstance(world.cache.last_error("orders"), TopicNotFound)
    with pytest.raises(TopicNotFound):
        await world.cache.route("orders")
    world.asker.answers["orders"] = A_AND_B
    await world.pass_period()
    assert await world.cache.route("orders") == route()
    assert [change.before for change in world.changes] == [None]
    assert world.cache.last_error("orders") is None


async def test_a_forgotten_topic_is_not_polled_and_its_route_is_gone() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    world.cache.use("orders")
    world.cache.forget("orders")
    await world.pass_period()
    assert world.asker.asked == [["orders"]]
    assert world.cache.entry("orders") is None
    assert world.cache.brokers() == {}
    with pytest.raises(NotCached):
        world.cache.publish_queues("orders")


async def test_a_topic_forgotten_while_it_is_asked_for_stays_forgotten() -> None:
    world = World(orders=A_AND_B)
    world.asker.gate.clear()
    caller = asyncio.create_task(world.cache.route("orders"))
    await world.asker.called.wait()
    world.cache.forget("orders")
    world.asker.gate.set()
    assert await caller == route()
    assert world.cache.topics == ()
    assert world.changes == []


async def test_all_topics_are_polled_in_every_period_in_small_groups() -> None:
    topics = [f"topic-{number}" for number in range(1_000)]
    world = World()
    world.asker.answers.update(dict.fromkeys(topics, A_AND_B))
    for topic in topics:
        world.cache.use(topic)
    await world.pass_period(0.01)
    assert Counter(world.asker.topics_asked) == Counter(topics)
    assert max(map(len, world.asker.asked)) <= 100

    world.asker.asked.clear()
    await world.pass_period()
    assert set(world.asker.topics_asked) == set(topics)
    assert len(world.asker.asked) > 50, "spread over the period"
    assert max(map(len, world.asker.asked)) < 60, "no bursts"


async def test_the_error_of_one_topic_does_not_stop_the_others() -> None:
    world = World(broken=b"{", gone=not_found(), down=all_failed(), orders=A_AND_B)
    for topic in ("broken", "gone", "down", "orders"):
        world.cache.use(topic)
    await world.pass_period(0.01)
    assert await world.cache.route("orders") == route()
    errors = [type(world.cache.last_error(topic)) for topic in ("broken", "gone", "down")]
    assert errors == [BadAnswer, TopicNotFound, AllNodesFailed]


async def test_entering_starts_polling_and_leaving_ends_it() -> None:
    asker = MemoryAsker(orders=A_AND_B)
    before = tasks_besides_this_one()
    async with RouteCache(asker) as cache:
        stream = cache.changes()
        cache.use("orders")
        change = await anext(stream)
        assert change.after == route()
    assert tasks_besides_this_one() == before


async def test_polling_survives_a_client_that_breaks_its_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(MemoryAsker):
        async def ask_many(
            self, requests: Sequence[Command], *, timeout_s: float | None = None
        ) -> list[Answer | NameServerError]:
            self.called.set()
            raise RuntimeError("a bug")

    asker = Broken()
    with caplog.at_level(logging.ERROR):
        async with RouteCache(asker, poll_s=0.1) as cache:
            for topic in ("orders", "payments"):
                asker.called.clear()
                cache.use(topic)
                await asker.called.wait()
    assert "polling failed" in caplog.text


# -- a good route stays

REFUSED = RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "name server not ready"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(not_found(), TopicNotFound, id="topic-gone"),
        pytest.param(NotReady(NODE, *REFUSED), NotReady, id="not-ready"),
        pytest.param(all_failed(), AllNodesFailed, id="outage"),
        pytest.param(b"", BadAnswer, id="no-body"),
        pytest.param(b"\xff\xfe", BadAnswer, id="not-text"),
        pytest.param(b'{"brokerDatas":[{"brokerAddrs":{}}]}', BadAnswer, id="no-name"),
        pytest.param(b"[" * 100_000, BadAnswer, id="deep"),
        pytest.param(route_body(order="broker-a"), BadAnswer, id="bad-order-config"),
        pytest.param(
            route_body(topic_queues=[queues("broker-a", write=MAX_QUEUES + 1)]),
            BadAnswer,
            id="too-many-queues",
        ),
    ],
)
async def test_nothing_but_a_better_route_replaces_a_route(
    answer: bytes | NameServerError, kind: type[NameServerError]
) -> None:
    world = World(orders=A_AND_B)
    good = await world.cache.route("orders")
    written = world.cache.publish_queues("orders")
    world.clock.now += 10
    world.asker.answers["orders"] = answer
    with pytest.raises(kind):
        await world.cache.refresh("orders")
    assert await world.cache.route("orders") is good
    entry = world.cache.entry("orders")
    assert entry is not None
    assert entry.route is good
    assert entry.age_s == world.cache.age_s("orders") == 10
    assert isinstance(entry.last_error, kind)
    assert (entry.missing_since == world.clock.now) is (kind is TopicNotFound)
    assert world.cache.publish_queues("orders") is written
    assert len(world.changes) == 1

    world.asker.answers["orders"] = A_AND_B
    await world.cache.refresh("orders")
    healed = world.cache.entry("orders")
    assert healed is not None
    assert (healed.age_s, healed.last_error, healed.missing_since) == (0, None, None)
    assert len(world.changes) == 1


async def test_a_bad_first_answer_is_raised_and_the_topic_forgotten() -> None:
    world = World(orders=b"nonsense")
    with pytest.raises(BadAnswer, match=r"10\.9\.9\.9:9876: the body is not a topic route"):
        await world.cache.route("orders")
    assert world.cache.topics == ()


async def test_a_topic_is_missing_since_it_was_first_said() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    seen = []
    for answer in (not_found(), all_failed(), not_found()):
        world.clock.now += 100
        world.asker.answers["orders"] = answer
        with pytest.raises(NameServerError):
            await world.cache.refresh("orders")
        entry = world.cache.entry("orders")
        assert entry is not None
        seen.append((entry.age_s, entry.missing_since))
    assert seen == [(100, 1_100), (200, 1_100), (300, 1_100)]


async def test_an_unknown_topic_has_no_age_and_no_error() -> None:
    world = World()
    assert world.cache.age_s("orders") is None
    assert world.cache.last_error("orders") is None


# -- the end


@pytest.mark.parametrize("begun", [True, False], ids=["asked", "not-asked-yet"])
async def test_whoever_waits_when_the_cache_closes_is_told(begun: bool) -> None:
    world = World(orders=A_AND_B)
    world.asker.gate.clear()
    before = tasks_besides_this_one()
    caller = asyncio.create_task(world.cache.route("orders"))
    if begun:
        await world.asker.called.wait()
    else:
        await asyncio.sleep(0)
    await world.cache.close()
    with pytest.raises(CacheClosed):
        await caller
    assert tasks_besides_this_one() == before


async def test_a_closed_cache_answers_from_what_it_has_and_asks_nobody() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    await world.cache.close()
    assert await world.cache.route("orders") == route()
    with pytest.raises(CacheClosed):
        await world.cache.route("payments")
    with pytest.raises(CacheClosed):
        await world.cache.refresh("orders")
    world.clock.now += 5
    world.cache.failed(MessageQueue("orders", "broker-a", 0))
    assert world.asker.asked == [["orders"]]
    assert tasks_besides_this_one() == set()


@pytest.mark.parametrize("error", [CacheClosed(), RouteTimeout("orders", 0.5)], ids=str)
def test_errors_survive_the_way_from_another_process(error: NameServerError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))
