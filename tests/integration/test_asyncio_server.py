"""Who connects while a listener closes gets an end, not a connection nobody looks after."""

import asyncio
import gc
import socket

import pytest

from routebook.asyncio_server import close_server


class Door(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@pytest.mark.parametrize("turns", range(5))
async def test_a_peer_accepted_while_the_listener_closes_is_not_forgotten(turns: int) -> None:
    server = await asyncio.get_running_loop().create_server(Door, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()[:2]) as peer:
        peer.setblocking(False)
        for _ in range(turns):  # in one of them it is accepted and has no transport yet
            await asyncio.sleep(0)
        await close_server(server)
        await server.wait_closed()
        gc.collect()  # of a socket that nobody has closed this makes a warning
        loop = asyncio.get_running_loop()
        try:
            assert await asyncio.wait_for(loop.sock_recv(peer, 1), 5) == b""
        except ConnectionResetError:
            pass  # never accepted
