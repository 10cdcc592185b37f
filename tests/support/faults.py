"""A network that can fail: a relay in front of a node that is cut and healed."""

import asyncio
from types import TracebackType


class Relay:
    """``async with Relay(node.port) as link: ... link.cut() ... link.heal()``.

    Cut means silence, as when a cable is pulled: connections stay open, new ones are accepted, and
    nothing passes in either direction until the relay is healed. Then what was under way
    arrives, however old it is.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._relay(reader, writer)
        except OSError:
            pass  # one side is gone, so the other is let go
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        node_reader, node_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            both = {
                asyncio.create_task(self._pump(reader, node_writer)),
                asyncio.create_task(self._pump(node_reader, writer)),
            }
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in both:
                    pump.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        finally:
            node_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._open.wait()
            data = await reader.read(1 << 16)
            await self._open.wait()  # it may have been cut while we waited for the data
            if not data:
                return
            writer.write(data)
            await writer.drain()
