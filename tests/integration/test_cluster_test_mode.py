"""Cluster-test mode: topics unknown here are looked up at the production NameServers."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from routebook.app import NameServer
from support import raw
from support.brokers import Broker
from support.nodes import local_node
from support.raw import Peer
from support.waiting import eventually

HERE, THERE = Broker("broker-test"), Broker("broker-prod", addr="10.0.0.9:10911")


@pytest.fixture
async def production(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A NameServer that knows the topics ``prod-1`` and ``prod-2``."""
    async with local_node(tmp_path / "production") as node, Peer(node.port) as broker:
        await THERE.register(broker, ["prod-1", "prod-2"])
        yield node


@asynccontextmanager
async def in_test_cluster(folder: Path, **settings: object) -> AsyncIterator[Peer]:
    """A connection to a node in cluster-test mode that knows ``test-1`` and ``test-2``."""
    async with (
        local_node(folder / "test", cluster_test=True, **settings) as node,
        Peer(node.port) as broker,
        Peer(node.port) as client,
    ):
        await HERE.register(broker, ["test-1", "test-2"])
        yield client


async def brokers_of(peer: Peer, topic: str, *, version: int = raw.V5_5_0) -> list[str] | None:
    """Names in the route, None when there is no route."""
    answer = await peer.call(raw.ROUTE, topic=topic, version=version)
    if answer.code == raw.TOPIC_NOT_EXIST:
        assert f"No topic route info in name server for the topic: {topic}" in (answer.remark or "")
        return None
    assert answer.code == raw.SUCCESS
    return [data["brokerName"] for data in answer.value["brokerDatas"]]


def unused_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def test_unknown_topics_are_found_in_production(
    tmp_path: Path, production: NameServer
) -> None:
    async with in_test_cluster(tmp_path, namesrv_addr=production.address) as client:
        assert await brokers_of(client, "prod-1") == ["broker-prod"]
        assert await brokers_of(client, "test-1") == ["broker-test"]
        assert await brokers_of(client, "nowhere") is None


async def test_the_route_has_the_form_the_caller_asks_for(
    tmp_path: Path, production: NameServer
) -> None:
    async with in_test_cluster(tmp_path, namesrv_addr=production.address) as client:
        old = await client.call(raw.ROUTE, topic="prod-1", version=0)
        new = await client.call(raw.ROUTE, topic="prod-1", version=401)

    assert b'{0:"10.0.0.9:10911"}' in old.body
    assert b'{"0":"10.0.0.9:10911"}' in new.body


async def test_without_the_mode_production_is_not_asked(
    tmp_path: Path, production: NameServer
) -> None:
    settings = {"namesrv_addr": production.address}
    async with local_node(tmp_path, **settings) as node, Peer(node.port) as client:
        assert await brokers_of(client, "prod-1") is None


async def test_production_that_is_dead_means_not_found(tmp_path: Path) -> None:
    async with in_test_cluster(tmp_path, namesrv_addr=f"127.0.0.1:{unused_port()}") as client:
        assert await brokers_of(client, "prod-1") is None
        assert await brokers_of(client, "test-1") == ["broker-test"]


@pytest.mark.parametrize(
    "address",
    ["not an address", "127.0.0.1:99999", "127.0.0.1:port", ":", "no-such-host.invalid:9876"],
)
async def test_an_address_that_is_none_means_not_found(tmp_path: Path, address: str) -> None:
    async with in_test_cluster(tmp_path, namesrv_addr=address) as client:
        assert await brokers_of(client, "prod-1") is None


async def test_production_that_talks_nonsense_means_not_found(tmp_path: Path) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, in_test_cluster(tmp_path, namesrv_addr=f"127.0.0.1:{port}") as client:
        assert await brokers_of(client, "prod-1") is None


async def test_the_next_production_server_is_asked_when_one_is_dead(
    tmp_path: Path, production: NameServer
) -> None:
    addresses = f"127.0.0.1:{unused_port()};{production.address}"
    async with in_test_cluster(tmp_path, namesrv_addr=addresses) as client:
        assert await brokers_of(client, "prod-1") == ["broker-prod"]
        assert await brokers_of(client, "prod-2") == ["broker-prod"]


async def test_a_slow_production_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """Not even the one who asks for something else on the same connection."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with silent, in_test_cluster(tmp_path, namesrv_addr=f"127.0.0.1:{port}") as client:
        await client.send(raw.request(raw.ROUTE, {"topic": "prod-1"}, opaque=500))
        assert await brokers_of(client, "test-1") == ["broker-test"]

        late = await client.read()

    assert (late.opaque, late.code) == (500, raw.TOPIC_NOT_EXIST)


@contextmanager
def unreachable() -> Iterator[str]:
    """An address where connecting neither succeeds nor fails, as behind a broken cable."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # more than its queue holds; nobody accepts them
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield f"127.0.0.1:{full.getsockname()[1]}"


async def test_production_that_cannot_be_reached_is_tried_once_for_all(tmp_path: Path) -> None:
    """Clients wait three seconds; those who ask together must not wait for one another."""
    with unreachable() as address:
        async with in_test_cluster(tmp_path, namesrv_addr=address) as client:
            questions = [
                raw.request(raw.ROUTE, {"topic": "prod-1"}, opaque=1000 + n) for n in range(8)
            ]
            await client.send(b"".join(questions))
            async with asyncio.timeout(12):  # one attempt takes three
                answers = [await client.read() for _ in questions]

    assert {answer.code for answer in answers} == {raw.TOPIC_NOT_EXIST}


async def test_production_is_found_again_after_a_restart(tmp_path: Path) -> None:
    async with AsyncExitStack() as before, AsyncExitStack() as after:
        first = await before.enter_async_context(local_node(tmp_path / "production"))
        port = first.port
        broker = await before.enter_async_context(Peer(port))
        client = await after.enter_async_context(
            in_test_cluster(tmp_path, namesrv_addr=first.address)
        )
        await THERE.register(broker, ["prod-1", "prod-2"])
        assert await brokers_of(client, "prod-1") == ["broker-prod"]
        await before.aclose()
        assert await brokers_of(client, "prod-1") is None
        await after.enter_async_context(local_node(tmp_path / "production", listen_port=port))
        broker = await after.enter_async_context(Peer(port))
        await THERE.register(broker, ["prod-1", "prod-2"])

        async def found() -> list[str] | None:
            return await brokers_of(client, "prod-1")

        await eventually("production", found, until=lambda found: found is not None)


async def test_everything_else_works_as_usual(tmp_path: Path, production: NameServer) -> None:
    """In the reference of 5.x every request is taken for a route query in this mode."""
    async with in_test_cluster(tmp_path, namesrv_addr=production.address) as client:
        info = (await client.call(raw.CLUSTER_INFO)).value
        assert list(info["brokerAddrTable"]) == ["broker-test"]
        topics = (await client.call(raw.ALL_TOPICS)).value
        assert sorted(topics["topicList"]) == ["test-1", "test-2"]
        put = await client.call(
            raw.PUT_KV, namespace="ORDER_TOPIC_CONFIG", key="test-1", value="broker-test:4"
        )
        assert put.code == raw.SUCCESS
        # Order configuration comes with routes in this mode whatever orderMessageEnable says.
        route = (await client.call(raw.ROUTE, topic="test-1")).value
        assert route["orderTopicConf"] == "broker-test:4"
        await HERE.unregister(client)
        assert await brokers_of(client, "test-1") is None


# -- the address service


@contextmanager
def address_service(
    body: bytes, *, status: bytes = b"HTTP/1.1 200 OK"
) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the paths it is asked for."""
    asked: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            length = b"Content-Length: %d" % len(body)
            self.wfile.write(b"\r\n".join([status, length, b"Connection: close", b"", body]))
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_production_is_found_by_the_address_service(
    tmp_path: Path, production: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    body = f"127.0.0.1:{unused_port()};{production.address}\nanything else\n".encode()
    with address_service(body) as (domain, asked):
        settings = {"rocketmq_namesrv_domain": domain, "product_env_name": "prod-unit"}
        async with in_test_cluster(tmp_path, **settings) as client:
            assert await brokers_of(client, "prod-1") == ["broker-prod"]
            assert await brokers_of(client, "prod-2") == ["broker-prod"]

    assert asked == ["/rocketmq/nsaddr-prod-unit?nofix=1"]


async def test_the_subgroup_is_part_of_the_path(
    tmp_path: Path, production: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with address_service(production.address.encode()) as (domain, asked):
        settings = {
            "rocketmq_namesrv_domain": domain,
            "rocketmq_namesrv_domain_subgroup": "elsewhere",
        }
        async with in_test_cluster(tmp_path, **settings) as client:
            assert await brokers_of(client, "prod-1") == ["broker-prod"]

    assert asked == ["/rocketmq/elsewhere-center?nofix=1"]


async def test_the_environment_is_asked_before_the_address_service(
    tmp_path: Path, production: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", production.address)
    async with in_test_cluster(tmp_path) as client:
        assert await brokers_of(client, "prod-1") == ["broker-prod"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(b"HTTP/1.1 404 Not Found", b"", id="not-found"),
        pytest.param(b"HTTP/1.1 500 Oops", b"10.0.0.1:9876", id="failed"),
        pytest.param(b"HTTP/1.1 200 OK", b"", id="empty"),
        pytest.param(b"HTTP/1.1 200 OK", b"<html>who are you?</html>", id="html"),
        pytest.param(b"this is not HTTP", b"127.0.0.1:9876", id="not-http"),
    ],
)
async def test_an_address_service_that_does_not_know_means_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: bytes, body: bytes
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with address_service(body, status=status) as (domain, asked):
        async with in_test_cluster(tmp_path, rocketmq_namesrv_domain=domain) as client:
            assert await brokers_of(client, "prod-1") is None
            assert await brokers_of(client, "test-1") == ["broker-test"]
    assert len(asked) == 1


async def test_many_who_ask_at_once_all_get_the_route(
    tmp_path: Path, production: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question makes the node look for production; the others wait for that too."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with address_service(production.address.encode()) as (domain, asked):
        async with in_test_cluster(tmp_path, rocketmq_namesrv_domain=domain) as client:
            questions = [
                raw.request(raw.ROUTE, {"topic": "prod-1"}, opaque=1000 + n) for n in range(20)
            ]
            await client.send(b"".join(questions))
            answers = [await client.read() for _ in questions]

    assert [answer.code for answer in answers] == [raw.SUCCESS] * 20
    assert len(asked) == 1
