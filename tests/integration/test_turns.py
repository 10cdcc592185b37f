"""Connections that send many requests at once take turns with all others. Counted, not timed."""

from contextlib import AsyncExitStack
from pathlib import Path

from routebook.app import NameServer
from routebook.server.connection import TURN
from support import raw
from support.brokers import Broker
from support.nodes import local_node
from support.raw import Peer

PIPELINES = 20
DEEP = 1000
BROKER = Broker("broker-a", addr="10.0.0.1:10911")


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
        assert by_then <= PIPELINES * len(TURN) * 8 < PIPELINES * DEEP

        for peer in crowd:
            answers = [await peer.read() for _ in range(DEEP)]
            assert [answer.opaque for answer in answers] == list(range(DEEP))
        assert answered(node) == PIPELINES * DEEP + 1


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
