"""Closing a server of asyncio without forgetting those it has just accepted."""

import asyncio


async def close_server(server: asyncio.Server) -> None:
    """Listen no longer; connections are left to their protocols.

    asyncio accepts in one turn of the loop and makes the transport in the next. A server closed
    in between is given no transport: the connection stays open, with nobody to close it.
    """
    loop = server.get_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    await asyncio.sleep(0)
    server.close()
