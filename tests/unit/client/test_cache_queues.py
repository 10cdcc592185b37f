"""The route cache: queues, addresses, and picking a queue to send to."""

import asyncio
from collections import Counter

import pytest

from routebook.client.entries import NotCached
from routebook.client.queues import MessageQueue
from support.askers import World, tasks_besides_this_one
from support.topic_routes import group, mapping, queues, route, route_body

A_AND_B = route_body()
ONLY_A = route_body([group("broker-a")], [queues("broker-a")])


# -- queues and addresses


async def test_queues_are_derived_once_a_route() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    written, read = world.cache.publish_queues("orders"), world.cache.subscribe_queues("orders")
    await world.cache.refresh("orders")
    assert world.cache.publish_queues("orders") is written
    assert world.cache.subscribe_queues("orders") is read
    world.asker.answers["orders"] = ONLY_A
    await world.cache.refresh("orders")
    expected = tuple(MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
    assert world.cache.publish_queues("orders") == expected
    assert world.cache.subscribe_queues("orders") == expected


async def test_addresses_are_those_of_the_topics_route() -> None:
    members = {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    world = World(orders=route_body([group("broker-a", members)], [queues("broker-a")]))
    await world.cache.route("orders")
    queue = MessageQueue("orders", "broker-a", 0)
    assert world.cache.address_of(queue) == "10.0.0.1:10911"
    assert world.cache.address_of(queue, broker_id=1, reading=True) == "10.0.0.2:10911"


async def test_a_topic_without_route_has_no_queues() -> None:
    world = World()
    world.cache.use("orders")
    queue = MessageQueue("orders", "broker-a", 0)
    for look in (
        lambda: world.cache.publish_queues("orders"),
        lambda: world.cache.subscribe_queues("orders"),
        lambda: world.cache.pick("orders"),
        lambda: world.cache.address_of(queue),
        lambda: world.cache.address_of(MessageQueue("other", "broker-a", 0)),
    ):
        with pytest.raises(NotCached, match=r"no route of '(orders|other)' is known yet"):
            look()


async def test_the_brokers_are_those_of_all_routes_and_no_others() -> None:
    world = World(orders=A_AND_B, payments=ONLY_A)
    await world.cache.route("orders")
    await world.cache.route("payments")
    assert world.cache.brokers() == {
        "broker-a": {0: "broker-a:10911"},
        "broker-b": {0: "broker-b:10911"},
    }
    world.asker.answers["orders"] = ONLY_A
    await world.cache.refresh("orders")
    assert world.cache.brokers() == {"broker-a": {0: "broker-a:10911"}}


async def test_of_two_routes_the_one_that_changed_last_knows_the_address() -> None:
    world = World(orders=ONLY_A, payments=ONLY_A)
    await world.cache.route("orders")
    await world.cache.route("payments")
    world.clock.now += 1
    moved = route_body([group("broker-a", {0: "10.0.0.9:10911"})], [queues("broker-a")])
    world.asker.answers["orders"] = moved
    await world.cache.refresh("orders")
    await world.cache.refresh("payments")
    assert world.cache.brokers() == {"broker-a": {0: "10.0.0.9:10911"}}


# -- picking


async def test_queues_are_picked_in_turn() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    picked = [world.cache.pick("orders") for _ in range(8)]
    assert Counter(picked) == dict.fromkeys(world.cache.publish_queues("orders"), 2)


@pytest.mark.parametrize(
    "avoiding", ["broker-a", MessageQueue("orders", "broker-a", 1)], ids=["broker", "queue"]
)
async def test_the_broker_that_failed_is_avoided(avoiding: str | MessageQueue) -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    picked = [world.cache.pick("orders", avoiding=avoiding) for _ in range(4)]
    assert {queue.broker for queue in picked if queue is not None} == {"broker-b"}


async def test_a_logical_queue_that_failed_is_avoided_by_its_holder() -> None:
    mappings = {name: mapping(name, ids) for name, ids in (("a", [0, 1, 2]), ("b", [3]))}
    world = World(orders=route_body(mappings=mappings))
    await world.cache.route("orders")
    failed = MessageQueue("orders", "__syslo__global__", 0)
    assert world.cache.pick("orders", avoiding=failed) == MessageQueue(
        "orders", "__syslo__global__", 3
    )


async def test_a_topic_that_cannot_be_written_has_no_queue_to_pick() -> None:
    world = World(orders=route_body(topic_queues=[queues("broker-a", perm=4)]))
    await world.cache.route("orders")
    assert world.cache.pick("orders") is None


async def test_slow_brokers_are_passed_over_when_that_is_wanted() -> None:
    world = World(latency_faults=True, orders=A_AND_B)
    await world.cache.route("orders")
    queue = MessageQueue("orders", "broker-a", 0)
    world.cache.sent(queue, 700)

    def brokers_picked() -> set[str]:
        picked = [world.cache.pick("orders") for _ in range(4)]
        return {queue.broker for queue in picked if queue is not None}

    assert brokers_picked() == {"broker-b"}
    world.clock.now += 2
    assert brokers_picked() == {"broker-a", "broker-b"}
    world.cache.failed(queue)
    assert brokers_picked() == {"broker-b"}
    world.clock.now += 10
    assert brokers_picked() == {"broker-a", "broker-b"}
    await world.cache.close()


async def test_an_unreachable_broker_is_the_last_choice() -> None:
    world = World(latency_faults=True, orders=A_AND_B)
    await world.cache.route("orders")
    world.cache.failed(MessageQueue("orders", "broker-a", 0))
    world.cache.failed(MessageQueue("orders", "broker-b", 0), reachable=False)
    picked = [world.cache.pick("orders") for _ in range(4)]
    assert {queue.broker for queue in picked if queue is not None} == {"broker-a"}
    await world.cache.close()


async def test_slow_brokers_are_not_passed_over_by_default() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    world.cache.sent(MessageQueue("orders", "broker-a", 0), 60_000)
    picked = [world.cache.pick("orders") for _ in range(4)]
    assert {queue.broker for queue in picked if queue is not None} == {"broker-a", "broker-b"}


async def test_faults_of_brokers_that_left_are_forgotten() -> None:
    world = World(latency_faults=True, orders=A_AND_B)
    await world.cache.route("orders")
    for broker in ("broker-a", "broker-b"):
        world.cache.sent(MessageQueue("orders", broker, 0), 15_000)
    for body in (ONLY_A, A_AND_B):
        world.asker.answers["orders"] = body
        await world.cache.refresh("orders")
        await world.cache.poll_due()
    picked = [world.cache.pick("orders") for _ in range(4)]
    assert {queue.broker for queue in picked if queue is not None} == {"broker-b"}


async def test_a_failure_has_the_topic_asked_for_in_the_background() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    world.clock.now += 1
    world.asker.answers["orders"] = ONLY_A
    world.asker.gate.clear()
    world.asker.called.clear()
    for _ in range(20):
        world.cache.failed(MessageQueue("orders", "broker-b", 0))
    await world.asker.called.wait()
    world.asker.gate.set()
    assert await world.cache.refresh("orders") == route([group("broker-a")], [queues("broker-a")])
    assert world.asker.asked == [["orders"], ["orders"]]


async def test_failures_do_not_become_a_storm_of_questions() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    queue = MessageQueue("orders", "broker-b", 0)
    for _ in range(100):
        world.clock.now += 0.01
        world.cache.failed(queue)
        while tasks := tasks_besides_this_one():
            await asyncio.gather(*tasks)
    assert 5 <= len(world.asker.asked) <= 11


async def test_a_failure_on_a_topic_not_in_use_asks_nobody() -> None:
    world = World(orders=A_AND_B)
    world.cache.failed(MessageQueue("orders", "broker-b", 0))
    world.cache.sent(MessageQueue("orders", "broker-b", 0), 1)
    assert tasks_besides_this_one() == set()
    assert world.cache.topics == ()
