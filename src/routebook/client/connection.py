"""One connection to a NameServer, many requests in flight."""

import asyncio
import itertools
from types import TracebackType

from routebook.wire.codec import decode_command, encode_request
from routebook.wire.command import Command
from routebook.wire.errors import WireError
from routebook.wire.frame import FrameDecoder

CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 3.0


class NameServerConnection:
    """``async with NameServerConnection("127.0.0.1", 9876) as nameserver: ...``.

    A request fails with OSError, also when the connection breaks, or with TimeoutError.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._opaques = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reader_task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> "NameServerConnection":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._reader_task = asyncio.create_task(self._read(reader))

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.gather(self._reader_task, return_exceptions=True)

    @property
    def broken(self) -> bool:
        return self._reader_task is None or self._reader_task.done()

    async def request(self, command: Command, timeout_s: float = REQUEST_TIMEOUT_S) -> Command:
        """Send a copy of ``command`` under an opaque of its own and wait for the answer."""
        if self._writer is None or self.broken:
            raise ConnectionError("the connection to the NameServer is closed")
        opaque = next(self._opaques)
        sent = Command(
            command.code,
            command.flag,
            opaque,
            command.version,
            command.remark,
            command.ext_fields,
            command.body,
            command.codec,
        )
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(encode_request(sent))
                await self._writer.drain()
                return await answer
        finally:
            self._waiting.pop(opaque, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = FrameDecoder()
        reason = "the NameServer closed the connection"
        try:
            while data := await reader.read(256 * 1024):
                decoder.feed(data)
                while (frame := decoder.next_frame()) is not None:
                    answer = decode_command(frame)
                    waiting = self._waiting.get(answer.opaque)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)
        except (OSError, WireError) as error:
            reason = str(error)
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError(reason))
