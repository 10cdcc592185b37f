"""The route cache against nodes of ours, brokers that come and go, and nodes that do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.client.cache import CacheClosed, RouteCache
from routebook.client.changes import (
    BrokerAppeared,
    BrokerDisappeared,
    MappingsChanged,
    OrderChanged,
    QueuesChanged,
    RouteChange,
)
from routebook.client.client import NameServerClient
from routebook.client.entries import CachedRoute
from routebook.client.errors import AllNodesFailed, BadAnswer, TopicNotFound
from routebook.client.queues import MessageQueue
from support import raw
from support.brokers import Broker
from support.builders import mapping_info, registration_body
from support.leaks import client_tasks, nothing_left_behind
from support.misbehaving import ROUTE_BODY, Caller, Server, answer, routes
from support.nodes import local_node
from support.raw import Peer
from support.waiting import soon

A = Broker("broker-a", addr="10.0.0.1:10911")
A_SLAVE = Broker("broker-a", 1, addr="10.0.0.2:10911")
B = Broker("broker-b", addr="10.0.1.1:10911")
TOPICS = ("orders", "payments")
FAST_S = 0.05  # a period that makes polls come by themselves while a test looks
NEVER_S = 3600.0  # a period in which no poll falls


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as node:
        yield node


@pytest.fixture
async def peers(node: NameServer) -> AsyncIterator[tuple[Peer, Peer]]:
    """Connections for the two brokers: a node drops a broker whose connection closes."""
    async with Peer(node.port) as a, Peer(node.port) as b:
        yield a, b


@pytest.fixture
async def client(node: NameServer) -> AsyncIterator[NameServerClient]:
    async with NameServerClient(node.address) as client:
        yield client
    assert client_tasks() == []


def on(broker: str, *ids: int, topic: str = "orders") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, queue_id) for queue_id in ids]


def entry_of(cache: RouteCache, topic: str = "orders") -> CachedRoute:
    entry = cache.entry(topic)
    assert entry is not None
    return entry


# -- what brokers do


async def test_a_poll_delivers_that_a_broker_left(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    await B.register(peers[1], TOPICS)
    async with RouteCache(client, poll_s=FAST_S) as cache:
        stream = cache.changes()
        await cache.route("orders")
        first = await anext(stream)
        assert [type(change) for change in first.changes] == [
            BrokerAppeared,
            BrokerAppeared,
            QueuesChanged,
            QueuesChanged,
        ]
        await B.unregister(peers[1])
        left = await anext(stream)
        assert left.changes[0] == BrokerDisappeared("broker-b", {0: "10.0.1.1:10911"})
        assert list(cache.publish_queues("orders")) == on("broker-a", *range(8))
        assert set(cache.brokers()) == {"broker-a"}


async def test_a_refresh_delivers_that_a_broker_came(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    async with RouteCache(client, poll_s=NEVER_S) as cache:
        changes: list[RouteChange] = []
        cache.listen(changes.append)
        await cache.route("orders")
        await B.register(peers[1], {"orders": {"writeQueueNums": 2}, "payments": {}})
        await cache.refresh("orders")
        assert str(changes[1]) == (
            "orders: broker-b joined; broker-b: 8 read and 2 write queues, read and write"
        )


async def test_a_failed_send_finds_out_that_the_broker_is_gone(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    await B.register(peers[1], TOPICS)
    async with RouteCache(client, poll_s=NEVER_S, latency_faults=True) as cache:
        await cache.route("orders")
        stream = cache.changes()
        peers[1].abort()
        queue = on("broker-b", 0)[0]
        await soon("the failures to have an effect", lambda: _failed(cache, queue))
        change = await anext(stream)
        assert BrokerDisappeared("broker-b", {0: B.addr}) in change.changes
        picked = cache.pick("orders", avoiding=queue)
        assert picked is not None
        assert cache.address_of(picked) == A.addr


def _failed(cache: RouteCache, queue: MessageQueue) -> bool:
    cache.failed(queue)
    return len(cache.brokers()) == 1


async def test_a_master_that_leaves_a_slave_behind_is_read_from_but_not_written_to(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    await A_SLAVE.register(peers[1], TOPICS)
    async with RouteCache(client, poll_s=NEVER_S) as cache:
        await cache.route("orders")
        (queue,) = on("broker-a", 3)
        assert cache.address_of(queue) == A.addr
        assert cache.address_of(queue, broker_id=1, reading=True) == A_SLAVE.addr
        await A.unregister(peers[0])
        await cache.refresh("orders")
        assert cache.publish_queues("orders") == ()
        assert cache.pick("orders") is None
        assert queue in cache.subscribe_queues("orders")
        assert cache.address_of(queue) is None
        assert cache.address_of(queue, reading=True) == A_SLAVE.addr


async def test_write_permission_taken_by_an_administrator_empties_the_publish_list(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    async with RouteCache(client, poll_s=NEVER_S) as cache:
        changes: list[RouteChange] = []
        cache.listen(changes.append)
        await cache.route("orders")
        await client.wipe_write_permission("broker-a")
        await cache.refresh("orders")
        assert str(changes[1]) == "orders: broker-a: read only, was read and write"
        assert cache.publish_queues("orders") == ()
        assert list(cache.subscribe_queues("orders")) == on("broker-a", *range(8))


async def test_an_order_config_is_followed_unless_it_is_broken(tmp_path: Path) -> None:
    async with (
        nothing_left_behind(),
        local_node(tmp_path, order_message_enable=True) as node,
        Peer(node.port) as peer,
        NameServerClient(node.address) as client,
        RouteCache(client, poll_s=NEVER_S) as cache,
    ):
        await A.register(peer, TOPICS)
        changes: list[RouteChange] = []
        cache.listen(changes.append)
        await cache.route("orders")
        await client.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-b:1;broker-a:2")
        await cache.refresh("orders")
        assert changes[1].changes == (OrderChanged(None, "broker-b:1;broker-a:2"),)
        ordered = on("broker-b", 0) + on("broker-a", 0, 1)
        assert list(cache.publish_queues("orders")) == ordered

        await client.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-b")
        with pytest.raises(BadAnswer, match="'broker-b' in the order config is not broker:count"):
            await cache.refresh("orders")
        assert list(cache.publish_queues("orders")) == ordered


async def test_logical_queues_of_a_static_topic_are_where_their_holder_is(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    body = registration_body(TOPICS, mappings={"orders": mapping_info("orders", "broker-a", 3)})
    reply = await peers[0].ask(raw.REGISTER, A.fields, body, version=A.version)
    assert reply.code == raw.SUCCESS
    async with RouteCache(client, poll_s=NEVER_S) as cache:
        stream = cache.changes()
        await cache.route("orders")
        assert any(isinstance(c, MappingsChanged) for c in (await anext(stream)).changes)
        logical = on("__syslo__global__", 0, 1, 2)
        assert list(cache.publish_queues("orders")) == logical
        assert [cache.address_of(queue) for queue in logical] == [A.addr, A.addr, None]


# -- what nodes do


async def test_a_topic_that_vanishes_keeps_its_route_and_is_said_to_be_missing(
    peers: tuple[Peer, Peer], client: NameServerClient
) -> None:
    await A.register(peers[0], TOPICS)
    async with RouteCache(client, poll_s=FAST_S) as cache:
        route = await cache.route("orders")
        await A.unregister(peers[0])
        await soon("the topic to be missing", lambda: entry_of(cache).missing_since is not None)
        entry = entry_of(cache)
        assert isinstance(entry.last_error, TopicNotFound)
        assert entry.route is route
        assert await cache.route("orders") is route
        assert len(cache.publish_queues("orders")) == 8

        await A.register(peers[0], TOPICS, counter=2)
        await soon("the topic to be back", lambda: entry_of(cache).missing_since is None)
        assert entry_of(cache).last_error is None


async def test_a_route_outlives_its_node_and_is_confirmed_when_the_node_is_back(
    tmp_path: Path,
) -> None:
    async with nothing_left_behind(), AsyncExitStack() as stack:
        async with local_node(tmp_path / "first") as node, Peer(node.port) as peer:
            await A.register(peer, TOPICS)
            client = NameServerClient(node.address)
            await stack.enter_async_context(client)
            cache = await stack.enter_async_context(RouteCache(client, poll_s=FAST_S))
            route = await cache.route("orders")
            port = node.port

        await soon("a failed poll", lambda: isinstance(cache.last_error("orders"), AllNodesFailed))
        ages = [entry_of(cache).age_s]
        await soon("the route to age", lambda: entry_of(cache).age_s > ages[0] + 0.5)
        assert await cache.route("orders") is route
        assert cache.pick("orders") is not None
        with pytest.raises(AllNodesFailed):
            await cache.route("refunds")

        async with local_node(tmp_path / "second", listen_port=port), Peer(port) as peer:
            await A.register(peer, TOPICS)
            healed = await soon(
                "the route to be confirmed",
                lambda: entry_of(cache),
                until=lambda entry: entry.last_error is None and entry.age_s < ages[0] + 0.5,
            )
            assert healed.route == route


async def test_another_node_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    async with nothing_left_behind(), AsyncExitStack() as stack:
        stops: dict[int, AsyncExitStack] = {}
        for name in ("a", "b"):
            own = await stack.enter_async_context(AsyncExitStack())
            node = await own.enter_async_context(local_node(tmp_path / name))
            await A.register(await own.enter_async_context(Peer(node.port)), TOPICS)
            stops[node.port] = own
        client = NameServerClient([f"127.0.0.1:{port}" for port in stops])
        await stack.enter_async_context(client)
        cache = await stack.enter_async_context(RouteCache(client, poll_s=NEVER_S))
        changes: list[RouteChange] = []
        cache.listen(changes.append)

        first = await cache.route("orders")
        assert first.node is not None
        await stops[first.node.port].aclose()
        again = await cache.refresh("orders")

        assert again == first
        assert again.node is not None
        assert {first.node.port, again.node.port} == set(stops)
        assert len(changes) == 1


class Saying:
    """The behaviour of a server that answers every request with ``body``, once ``gate`` is open."""

    def __init__(self, body: bytes = ROUTE_BODY) -> None:
        self.body = body
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, caller: Caller) -> None:
        while True:
            request = await caller.request()
            await self.gate.wait()
            await caller.send(answer(request.opaque, body=self.body))


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b'{"brokerDatas":7}', b'{"queueDatas":[{"brokerName":"b"}'], ids=repr
)
async def test_nonsense_of_a_node_is_an_error_and_the_route_stays(body: bytes) -> None:
    saying = Saying()
    async with (
        nothing_left_behind(),
        Server(saying) as server,
        NameServerClient(server.address) as client,
        RouteCache(client, poll_s=FAST_S) as cache,
    ):
        route = await cache.route("orders")
        saying.body = body
        error = await soon("a bad poll", lambda: cache.last_error("orders"), until=bool)
        assert isinstance(error, BadAnswer)
        assert error.address.port == server.port
        assert await cache.route("orders") is route
        with pytest.raises(BadAnswer):
            await cache.route("payments")


# -- how nodes are asked


async def test_fifty_callers_are_one_request_to_the_node() -> None:
    saying = Saying()
    saying.gate.clear()
    async with (
        nothing_left_behind(),
        Server(saying) as server,
        NameServerClient(server.address) as client,
        RouteCache(client, poll_s=NEVER_S) as cache,
    ):
        callers = [asyncio.create_task(cache.route("orders")) for _ in range(50)]
        await soon("the request", lambda: server.requests)
        callers[0].cancel()
        saying.gate.set()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert outcomes[1:] == [await cache.route("orders")] * 49
        assert asked(server) == ["orders"]
        assert server.accepted == 1


async def test_a_thousand_topics_are_polled_over_one_connection() -> None:
    topics = {f"topic-{number}" for number in range(1_000)}
    async with (
        nothing_left_behind(),
        Server(routes) as server,
        NameServerClient(server.address) as client,
        RouteCache(client, poll_s=1.0) as cache,
    ):
        for topic in topics:
            cache.use(topic)
        await soon("all routes", lambda: all(map(cache.entry, topics)))
        first = len(asked(server))
        await soon("all to be polled again", lambda: set(asked(server)[first:]) == topics)
        assert all(cache.last_error(topic) is None for topic in topics)
        assert server.accepted == 1


async def test_nothing_is_left_when_a_cache_is_closed_in_the_midst_of_things() -> None:
    saying = Saying()
    async with (
        nothing_left_behind(),
        Server(saying) as server,
        NameServerClient(server.address) as client,
    ):
        await client.route("orders")
        before = asyncio.all_tasks()
        async with RouteCache(client, poll_s=FAST_S, watch=False) as cache:
            await cache.route("orders")
            stream = cache.changes()
            saying.gate.clear()
            callers = [asyncio.create_task(cache.route(topic)) for topic in ("refunds", "returns")]
            reader = asyncio.create_task(anext(stream, None))
            cache.use("payments")
            await soon("the questions", lambda: TOPICS[1] in asked(server))
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [CacheClosed, CacheClosed]
        assert await reader is None
        assert asyncio.all_tasks() == before


def asked(server: Server) -> list[str]:
    """Topics in the order they were asked for."""
    questions = [request for request in server.requests if request.code == raw.ROUTE]
    return [(question.ext_fields or {})["topic"] for question in questions]
