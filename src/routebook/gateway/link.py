"""Links: how a gateway reaches a node.

To nodes elsewhere it makes connections (``client.node.Node``). The node whose child it is has given
it one end of a pair of sockets: there is no other, and when it is lost the gateway has no reason to
be.
"""

import asyncio
import socket
from typing import Protocol

from routebook.client.connection import Connection
from routebook.client.errors import ConnectionLost, NoAnswer
from routebook.client.node import Answer
from routebook.wire.address import Address
from routebook.wire.command import Command


class Link(Protocol):
    @property
    def address(self) -> Address: ...
    async def ask(self, command: Command, *, timeout_s: float) -> Answer: ...
    async def connection(self, timeout_s: float) -> Connection: ...
    async def close(self) -> None: ...


class OwnNode:
    """The node at the other end of a pair of sockets. Silence does not end it: a node may stall."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self._address = address
        self._connection = connection

    @classmethod
    async def over(cls, sock: socket.socket, address: Address) -> "OwnNode":
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: Connection(address), sock=sock)
        return cls(address, connection)

    @property
    def address(self) -> Address:
        return self._address

    async def connection(self, timeout_s: float) -> Connection:
        if self._connection.closing:
            raise ConnectionLost(self._address, "the node has gone")
        return self._connection

    async def ask(self, command: Command, *, timeout_s: float) -> Answer:
        connection = await self.connection(timeout_s)
        pending = connection.send([command])
        try:
            async with asyncio.timeout(timeout_s):
                return Answer(self._address, await pending[0].answer)
        except TimeoutError:
            raise NoAnswer(self._address, timeout_s) from None
        finally:
            connection.forget(pending)

    async def wait_lost(self) -> None:
        await self._connection.wait_lost()

    async def close(self) -> None:
        await self._connection.close()
