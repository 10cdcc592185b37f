"""The route cache: who hears of changes."""

import asyncio
import gc
import logging
import weakref

import pytest

from routebook.client.changes import RouteChange
from routebook.client.queues import MessageQueue
from routebook.wire.address import Address
from support.askers import World
from support.topic_routes import group, queues, route, route_body

A_AND_B = route_body()
ONLY_A = route_body([group("broker-a")], [queues("broker-a")])


async def test_an_answer_in_other_words_is_no_change() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    written = world.cache.publish_queues("orders")
    world.asker.answers["orders"] = route_body(
        [group("broker-b", cluster="c2"), group("broker-a", cluster="c2")]
    )
    found = await world.cache.refresh("orders")
    assert [broker.cluster for broker in found.brokers] == ["c2", "c2"]
    assert world.cache.publish_queues("orders") is written
    assert len(world.changes) == 1


async def test_a_route_names_the_node_that_gave_it_last() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    world.asker.node = Address("10.9.9.8", 9876)
    assert (await world.cache.refresh("orders")).node == world.asker.node
    assert (await world.cache.route("orders")).node == world.asker.node


async def test_a_listener_hears_until_it_unsubscribes() -> None:
    world = World(orders=A_AND_B)
    heard: list[str] = []
    stop = world.cache.listen(lambda change: heard.append(str(change)))
    await world.cache.route("orders")
    world.asker.answers["orders"] = ONLY_A
    await world.cache.refresh("orders")
    stop()
    stop()
    world.asker.answers["orders"] = A_AND_B
    await world.cache.refresh("orders")
    assert [text.split(";")[0] for text in heard] == [
        "orders: broker-a joined",
        "orders: broker-b left",
    ]


async def test_a_listener_that_fails_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(orders=A_AND_B)
    heard: list[RouteChange] = []

    def fail(change: RouteChange) -> None:
        raise RuntimeError("the listener's own bug")

    world.cache.listen(fail)
    world.cache.listen(heard.append)
    with caplog.at_level(logging.ERROR):
        assert await world.cache.route("orders") == route()
    assert len(heard) == 1
    assert "the listener's own bug" in caplog.text


async def test_a_listener_may_use_the_cache() -> None:
    world = World(orders=A_AND_B)
    written: list[tuple[MessageQueue, ...]] = []

    def look(change: RouteChange) -> None:
        written.append(world.cache.publish_queues(change.topic))
        world.cache.failed(written[0][0])
        world.cache.forget(change.topic)

    world.cache.listen(look)
    assert await world.cache.route("orders") == route()
    assert len(written[0]) == 4
    assert world.cache.topics == ()


async def test_a_slow_reader_of_changes_loses_the_oldest_and_can_tell() -> None:
    world = World(orders=A_AND_B)
    stream = world.cache.changes(limit=2)
    await world.cache.route("orders")
    for body in (ONLY_A, A_AND_B, ONLY_A):
        world.asker.answers["orders"] = body
        await world.cache.refresh("orders")
    await world.cache.close()
    heard = [str(change.changes[0]) async for change in stream]
    assert heard == ["broker-b joined", "broker-b left"]
    assert stream.dropped == 2


async def test_a_stream_begins_when_it_is_asked_for_and_ends_with_the_cache() -> None:
    world = World(orders=A_AND_B)
    await world.cache.route("orders")
    stream = world.cache.changes()
    reader = asyncio.create_task(anext(stream, None))
    await world.cache.refresh("orders")
    await world.cache.close()
    assert await reader is None
    assert [change async for change in world.cache.changes()] == []


async def test_a_stream_nobody_reads_any_more_costs_nothing() -> None:
    world = World(orders=A_AND_B)
    stream = world.cache.changes()
    await world.cache.route("orders")
    kept = weakref.ref(stream)
    del stream
    gc.collect()
    assert kept() is None
