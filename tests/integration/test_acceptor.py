"""New connections are taken as they come, and nobody is forgotten at the end."""

import asyncio
import contextlib
import errno
import gc
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from routebook.server import acceptor
from routebook.server.acceptor import ACCEPTS_A_TURN, Acceptor


class Door(asyncio.Protocol):
    opened = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Door.opened += 1
        transport.close()


def on(loop: str, story: Callable[[], Awaitable[None]]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else None
    Door.opened = 0

    async def told() -> None:
        await story()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(told())


async def listening() -> Acceptor:
    port = Acceptor(Door)
    await port.listen("127.0.0.1", 0, backlog=1024)
    return port


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_many_who_wait_are_taken_in_a_few_turns(loop: str) -> None:
    async def story() -> None:
        port = await listening()
        with contextlib.ExitStack() as stack:
            for _ in range(4 * ACCEPTS_A_TURN):
                stack.enter_context(socket.create_connection(port.address))
            turns = 0
            while Door.opened < 4 * ACCEPTS_A_TURN:
                await asyncio.sleep(0)
                turns += 1
            assert turns < 32, "one connection a turn would be 256"
        await port.close()

    on(loop, story)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_turn_takes_no_more_than_its_share_and_says_that_more_wait(loop: str) -> None:
    async def story() -> None:
        port = await listening()
        with contextlib.ExitStack() as stack:
            for _ in range(ACCEPTS_A_TURN + 1):
                stack.enter_context(socket.create_connection(port.address))
            behind = []
            while Door.opened <= ACCEPTS_A_TURN:
                await asyncio.sleep(0)
                behind.append(port.behind)
            assert True in behind
            assert not port.behind
        await port.close()

    on(loop, story)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("turns", range(5))
def test_a_peer_accepted_while_the_listener_closes_is_not_forgotten(turns: int, loop: str) -> None:
    async def story() -> None:
        port = await listening()
        with socket.create_connection(port.address) as peer:
            peer.setblocking(False)
            for _ in range(turns):  # in one of them it is accepted and has no transport yet
                await asyncio.sleep(0)
            await port.close()
            gc.collect()  # of a socket that nobody has closed this makes a warning
            try:
                got = asyncio.get_running_loop().sock_recv(peer, 1)
                assert await asyncio.wait_for(got, 5) == b""
            except ConnectionResetError:
                pass  # never accepted

    on(loop, story)


class OutOfDescriptors(socket.socket):
    """A listening socket of a process that has opened all it may."""

    tries = 0

    def accept(self) -> tuple[socket.socket, object]:
        OutOfDescriptors.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_running_out_of_descriptors_is_said_once_and_does_not_keep_the_loop_busy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "REST_S", 0.02)
    OutOfDescriptors.tries = 0

    async def story() -> None:
        port = Acceptor(Door)
        with monkeypatch.context() as patch:
            patch.setattr("routebook.server.acceptor.socket.socket", OutOfDescriptors)
            await port.listen("127.0.0.1", 0, backlog=8)
        with socket.create_connection(port.address):
            turns = 0
            while OutOfDescriptors.tries < 3:
                await asyncio.sleep(0)
                turns += 1
            assert turns > 3, "it rests between two tries"
        await port.close()

    with caplog.at_level(logging.ERROR):
        on("asyncio", story)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Too many open files" in caplog.text


def test_an_address_in_use_is_an_error_and_leaves_nothing_open() -> None:
    async def story() -> None:
        port = await listening()
        with pytest.raises(OSError, match="in use"):
            await Acceptor(Door).listen(*port.address, backlog=1)
        await port.close()
        gc.collect()

    on("asyncio", story)
