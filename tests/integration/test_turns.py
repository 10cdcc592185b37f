"""Connections that send many requests at once take turns with all others. Counted, not timed."""

import asyncio
import itertools
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.events import Cause
from routebook.server.connection import TURN, Connection
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import local_node
from support.raw import Peer

PIPELINES = 20
DEEP = 1000
BROKER = Broker("broker-a", addr="10.0.0.1:10911")
CHANGED = registration_body([f"T{number}" for number in range(1, 100)], counter=2)


def answered(node: NameServer) -> int:
    """Route queries the node has answered."""
    return sum(sum(cell) for cell in node._services.tally._cells.values())


async def test_a_bystander_is_answered_before_those_who_sent_thousands_are(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(local_node(tmp_path))
        await BROKER.register(await stack.enter_async_context(Peer(node.port)))
        crowd = [await stack.enter_async_context(Peer(node.port)) for _ in range(PIPELINES)]
        bystander = await stack.enter_async_context(Peer(node.port))
        for peer in crowd:
            peer.socket.setblocking(False)
            for opaque in range(DEEP):
                peer.send_soon(raw.request(raw.ROUTE, {"topic": "T1"}, opaque=opaque))
        # All of it is in the node's sockets when it has its next turn.
        assert (await bystander.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        by_then = answered(node)
        assert by_then <= PIPELINES * len(TURN) * 12 < PIPELINES * DEEP

        for peer in crowd:
            answers = [await peer.read() for _ in range(DEEP)]
            assert [answer.opaque for answer in answers] == list(range(DEEP))
        assert answered(node) == PIPELINES * DEEP + 1


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        pytest.param(raw.REGISTER, BROKER.fields, CHANGED, id="a-changed-registration"),
        pytest.param(raw.HEARTBEAT, BROKER.fields, b"", id="a-heartbeat"),
        pytest.param(raw.ALL_TOPICS, {}, b"", id="a-list"),
        pytest.param(raw.CLUSTER_INFO, {}, b"", id="a-short-call"),
    ],
)
async def test_a_flood_of_queries_leaves_the_others_their_turns(
    tmp_path: Path, code: int, fields: dict[str, str], body: bytes
) -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(local_node(tmp_path))
        other = await stack.enter_async_context(Peer(node.port))
        await BROKER.register(other)
        crowd = [await stack.enter_async_context(Peer(node.port)) for _ in range(PIPELINES)]
        for peer in crowd:
            peer.send_soon(raw.request(raw.ROUTE, {"topic": "T1"}) * DEEP)
        assert (await other.ask(code, fields, body)).code == raw.SUCCESS
        assert answered(node) <= PIPELINES * len(TURN) * 12 < PIPELINES * DEEP
        for peer in crowd:
            peer.abort()


async def test_who_sent_much_has_its_turns_before_the_node_stops(tmp_path: Path) -> None:
    much = 3 * len(TURN)
    async with local_node(tmp_path) as node:
        peer = await Peer(node.port).__aenter__()
        await BROKER.register(peer)
        peer.send_soon(
            b"".join(raw.request(raw.ROUTE, {"topic": "T1"}, opaque=n) for n in range(much))
        )
        assert (await peer.read()).opaque == 0
    assert [(await peer.read()).opaque for _ in range(1, much)] == list(range(1, much))
    await peer.close()


async def test_connections_that_are_idle_together_are_closed_a_few_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routebook.server.port.CLOSED_A_TURN", 2)
    loop, turn = asyncio.get_running_loop(), itertools.count(1)
    closed: list[int] = []  # in which turn each was
    now = 0
    abort = Connection.abort

    def count() -> None:
        nonlocal now
        now = next(turn)
        if len(closed) < PIPELINES:
            loop.call_soon(count)

    def aborted(connection: Connection, cause: Cause | None = None) -> None:
        if not closed:
            loop.call_soon(count)
        closed.append(now)
        abort(connection, cause)

    monkeypatch.setattr(Connection, "abort", aborted)
    async with AsyncExitStack() as stack:
        node = local_node(tmp_path, server_channel_max_idle_time_seconds=1)
        await stack.enter_async_context(node)
        crowd = [await stack.enter_async_context(Peer(node.port)) for _ in range(PIPELINES)]
        for peer in crowd:
            assert await peer.hung_up() == b""
    assert max(Counter(closed[:PIPELINES]).values()) == 2
