"""Discovery while things break: three node processes, brokers by the agent, callers that go on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from routebook.agent import BrokerAgent, BrokerSettings, Topic
from routebook.client import AllNodesFailed, NameServerClient, NameServerError
from routebook.client.cache import RouteCache
from routebook.client.changes import BrokerDisappeared, RouteChange
from support.nodes import NodeProcess
from support.waiting import soon

TOPICS = ("orders", "payments", "refunds")


class Nodes:
    """Three nodes that keep their ports when they are started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.running: dict[int, NodeProcess] = {}
        for number in range(3):
            node = self._stack.enter_context(NodeProcess(folder / str(number)))
            self.running[node.port] = node

    @property
    def addresses(self) -> str:
        return ";".join(f"127.0.0.1:{port}" for port in self.running)

    def kill(self, port: int) -> None:
        self.running[port].kill()

    def start_again(self, port: int) -> None:
        folder = self._folder / f"again-{port}"
        node = NodeProcess(folder, "--listen-port", str(port))
        self.running[port] = self._stack.enter_context(node)

    def close(self) -> None:
        for node in self.running.values():
            if node.process.poll() is None:
                node.signal(signal.SIGCONT)
        self._stack.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


@asynccontextmanager
async def brokers(nodes: Nodes, *addrs: str) -> AsyncIterator[list[BrokerAgent]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                BrokerAgent(
                    BrokerSettings(name=f"broker-{number}", addr=addr),
                    nodes.addresses,
                    topics=[Topic(name) for name in TOPICS],
                )
            )
            for number, addr in enumerate(addrs)
        ]


class Callers:
    """Ask for routes without a pause and keep what failed."""

    def __init__(self, client: NameServerClient) -> None:
        self._client = client
        self.answered = 0
        self.failures: list[NameServerError] = []
        self._tasks = [asyncio.create_task(self._call(topic)) for topic in TOPICS]

    async def _call(self, topic: str) -> None:
        while True:
            try:
                route = await self._client.route(topic)
                assert route.queues
                self.answered += 1
            except NameServerError as error:
                self.failures.append(error)
            await asyncio.sleep(0.005)

    async def some_more(self, count: int = 50) -> None:
        goal = self.answered + count
        await soon(f"{count} more answers", lambda: self.answered, until=lambda n: n >= goal)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes


def killed(node: NodeProcess) -> None:
    node.kill()


def frozen(node: NodeProcess) -> None:
    node.signal(signal.SIGSTOP)


@pytest.mark.parametrize("fault", [killed, frozen])
async def test_no_call_fails_when_the_chosen_one_of_three_nodes_goes(
    nodes: Nodes, fault: Callable[[NodeProcess], None]
) -> None:
    async with (
        brokers(nodes, "10.0.0.1:10911"),
        NameServerClient(nodes.addresses) as client,
        RouteCache(client, poll_s=0.2) as cache,
    ):
        await cache.route("orders")
        callers = Callers(client)
        await callers.some_more()
        chosen = client.chosen
        assert chosen is not None

        fault(nodes.running[chosen.port])
        await callers.some_more()
        await soon(
            "polls go on", lambda: cache.age_s("orders"), until=lambda a: a is not None and a < 0.2
        )
        await callers.stop()

        assert client.chosen != chosen
        assert callers.failures == []
        assert cache.last_error("orders") is None


async def test_routes_outlive_all_nodes_and_are_confirmed_when_they_return(nodes: Nodes) -> None:
    async with (
        brokers(nodes, "10.0.0.1:10911", "10.0.0.2:10911"),
        NameServerClient(nodes.addresses, timeout_s=1.0) as client,
        RouteCache(client, poll_s=0.2) as cache,
    ):
        before = await cache.route("orders")
        for port in nodes.running:
            nodes.kill(port)
        error = await soon("a failed poll", lambda: cache.last_error("orders"), until=bool)
        assert isinstance(error, AllNodesFailed)
        assert {failure.address.port for failure in error.failures} == set(nodes.running)

        with pytest.raises(AllNodesFailed):
            await client.route("orders")
        queue = cache.pick("orders")
        assert queue is not None
        assert cache.address_of(queue) in ("10.0.0.1:10911", "10.0.0.2:10911")

        for port in list(nodes.running):
            nodes.start_again(port)
        # The nodes come back knowing nothing; the agents tell them without being asked, one
        # after the other: for a moment a node knows one of the two brokers.
        confirmed = await soon(
            "the route is confirmed by a node that was told anew by both brokers",
            lambda: cache.entry("orders"),
            until=lambda e: (
                e is not None and e.last_error is None and e.age_s < 0.3 and e.route == before
            ),
        )
        assert confirmed is not None
        assert confirmed.route == before
        assert await client.route("orders") == before


async def test_a_caller_gets_through_while_a_broker_vanishes(nodes: Nodes) -> None:
    """Each message is tried on the next broker until one takes it, as a producer does."""
    servers = [await asyncio.start_server(_hang_up, "127.0.0.1", 0) for _ in range(2)]
    addrs = [f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers]
    changes: list[RouteChange] = []
    async with (
        brokers(nodes, *addrs) as agents,
        NameServerClient(nodes.addresses) as client,
        RouteCache(client, poll_s=30.0) as cache,
    ):
        cache.listen(changes.append)
        await cache.route("orders")
        assert {await _send(cache) for _ in range(20)} == set(addrs)

        servers[0].close()
        await servers[0].wait_closed()
        await agents[0].close()  # a process that is killed closes its connections without a word
        delivered = {await _send(cache) for _ in range(50)}
        assert delivered == {addrs[1]}
        # The first failure had the route asked for; no poll was due yet.
        await soon("the change is told", lambda: changes, until=lambda seen: len(seen) > 1)
        assert BrokerDisappeared("broker-0", {0: addrs[0]}) in changes[-1].changes
        assert {queue.broker for queue in cache.publish_queues("orders")} == {"broker-1"}
    servers[1].close()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _send(cache: RouteCache) -> str:
    """The address of the broker that took the message; at most three attempts."""
    queue = None
    for _ in range(3):
        queue = cache.pick("orders", avoiding=queue)
        assert queue is not None
        address = cache.address_of(queue)
        assert address is not None
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            cache.failed(queue)
            continue
        writer.close()
        cache.sent(queue, 1.0)
        return address
    raise AssertionError("three attempts failed")
