"""Those who send much are read from by turns. Counted, not timed."""

import asyncio
import contextlib
import socket
from collections import Counter
from pathlib import Path

import pytest
import uvloop

from routebook.server.connection import Connection
from routebook.server.receiving import READS_A_TURN
from support import raw
from support.nodes import local_node
from support.raw import Peer

SENDERS = 24
MUCH = 8 * 1024 * 1024
ONE_READ = 256 * 1024  # at most, with either loop
LARGE = raw.request(raw.REGISTER, {}, body=bytes(MUCH))


def test_senders_of_large_frames_do_not_fill_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On uvloop, which goes on reading from one connection as long as there is something."""
    received: Counter[int] = Counter()
    turn = 0

    def counted(connection: Connection, data: bytes) -> None:
        received[turn] += len(data)
        take(connection, data)

    take = Connection.data_received
    monkeypatch.setattr(Connection, "data_received", counted)

    async def story() -> None:
        nonlocal turn
        async with contextlib.AsyncExitStack() as stack:
            node = await stack.enter_async_context(
                local_node(tmp_path, max_buffered_bytes=SENDERS * MUCH)
            )
            bystander = await stack.enter_async_context(Peer(node.port))
            senders = [
                stack.enter_context(socket.create_connection(("127.0.0.1", node.port)))
                for _ in range(SENDERS)
            ]
            await bystander.call(raw.ROUTE, topic="nobody has it")
            sent = 0
            for sender in senders:
                sender.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        sent += sender.send(LARGE)
            received.clear()
            while sum(received.values()) < sent and turn < 100_000:
                await asyncio.sleep(0)
                turn += 1
            assert sum(received.values()) == sent
            assert (
                await bystander.call(raw.ROUTE, topic="nobody has it")
            ).code == raw.TOPIC_NOT_EXIST
            assert sent > 2 * SENDERS * ONE_READ, "too little to tell turns apart"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
    first, *others = [received[number] for number in sorted(received)]
    assert first <= SENDERS * ONE_READ, "each is read from once before it is known as one of many"
    assert max(others) <= READS_A_TURN * ONE_READ
