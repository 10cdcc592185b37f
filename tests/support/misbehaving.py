"""Small NameServers that do as a test tells them, among them ways to misbehave.

async with Server(go_away) as server:
    ...NameServerClient(server.address)...

A behaviour is a coroutine function that is given each new connection. Frames are built and read
by support.raw, apart from the code under test.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from support import raw

ROUTE_BODY = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b","cluster":"c"}],'
    b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4}]}'
)


def answer(
    opaque: int,
    code: int = raw.SUCCESS,
    body: bytes = b"",
    *,
    remark: str | None = None,
    ext_fields: Mapping[str, str] | None = None,
    flag: int = raw.RESPONSE,
    version: int = raw.V5_5_0,
) -> bytes:
    """One frame with a JSON header."""
    header = {
        "code": code,
        "extFields": dict(ext_fields or {}),
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "remark": remark,
        "version": version,
    }
    return raw.frame(json.dumps(header).encode(), body)


def binary_answer(
    opaque: int,
    code: int = raw.SUCCESS,
    body: bytes = b"",
    *,
    remark: str = "",
    ext_fields: Mapping[str, str] | None = None,
) -> bytes:
    """The same in the ROCKETMQ header encoding."""
    entries = b"".join(
        raw.i16(len(key.encode())) + key.encode() + raw.i32(len(value.encode())) + value.encode()
        for key, value in (ext_fields or {}).items()
    )
    header = b"".join(
        [
            raw.i16(code) + b"\0" + raw.i16(raw.V5_5_0),  # code, language, version
            raw.i32(opaque) + raw.i32(raw.RESPONSE),
            raw.i32(len(remark.encode())) + remark.encode(),
            raw.i32(len(entries)) + entries,
        ]
    )
    return raw.frame(header, body, codec=raw.BINARY)


class Caller:
    """One connection, as its server sees it. ``number`` counts from 1."""

    def __init__(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        requests: list[raw.Answer],
    ) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer
        self._requests = requests

    async def request(self) -> raw.Answer:
        """The next request: its members are those of an answer. Raises raw.Hangup."""
        try:
            (length,) = struct.unpack(">I", await self._reader.readexactly(4))
            request = raw.answer_of(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise raw.Hangup(str(error)) from error
        self._requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def stop_reading(self) -> None:
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Close with a reset instead of a goodbye."""
        plug: socket.socket = self._writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Caller], Awaitable[None]]


class Server:
    """Listens on a free port, or the one given, while the block runs."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.behaviour = behaviour  # of connections to come
        self.host = host
        self.port = port
        self._context = context
        self._writers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.accepted = 0
        self.requests: list[raw.Answer] = []

    async def __aenter__(self) -> "Server":
        self._server = await asyncio.start_server(
            self._serve, self.host, self.port, ssl=self._context, backlog=1000
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        writers = dict(self._writers)
        for task, writer in writers.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*writers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._writers[task] = writer
        self.accepted += 1
        try:
            await self.behaviour(Caller(self.accepted, reader, writer, self.requests))
        except (raw.Hangup, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # the block has ended; asyncio would complain about a handler that is cancelled
        finally:
            del self._writers[task]
            writer.close()


def unused_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def black_hole() -> Iterator[int]:
    """A port of 127.0.0.1 where an attempt to connect neither succeeds nor fails."""
    with socket.socket() as listening, socket.socket() as first:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())  # the queue is full from here on
        yield listening.getsockname()[1]


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


# -- behaviours


async def routes(caller: Caller) -> None:
    """Know a route for every topic."""
    while True:
        request = await caller.request()
        await caller.send(answer(request.opaque, body=ROUTE_BODY))


async def silence(caller: Caller) -> None:
    """Take requests and never answer."""
    while True:
        await caller.request()


async def deafness(caller: Caller) -> None:
    """Never read."""
    caller.stop_reading()
    await for_ever()


async def indifference(caller: Caller) -> None:
    """Do nothing at all."""
    await for_ever()


async def hang_up(caller: Caller) -> None:
    """Close as soon as somebody comes."""


async def hang_up_on_request(caller: Caller) -> None:
    await caller.request()


async def reset_on_request(caller: Caller) -> None:
    await caller.request()
    caller.reset()


async def go_away(caller: Caller) -> None:
    while True:
        request = await caller.request()
        await caller.send(answer(request.opaque, raw.GO_AWAY, remark="please go away"))


async def not_ready(caller: Caller) -> None:
    while True:
        request = await caller.request()
        remark = "name server not ready"
        await caller.send(answer(request.opaque, raw.SYSTEM_ERROR, remark=remark))


async def half_a_frame_then_silence(caller: Caller) -> None:
    request = await caller.request()
    await caller.send(answer(request.opaque, body=ROUTE_BODY)[:-10])
    await for_ever()


async def half_a_frame_then_close(caller: Caller) -> None:
    request = await caller.request()
    await caller.send(answer(request.opaque, body=ROUTE_BODY)[:-10])


async def trickle(caller: Caller) -> None:
    """Send an answer so slowly that nobody will ever have all of it."""
    request = await caller.request()
    for byte in answer(request.opaque, body=ROUTE_BODY):
        await caller.send(bytes([byte]))
        await asyncio.sleep(0.05)


async def wrong_opaque(caller: Caller) -> None:
    while True:
        request = await caller.request()
        await caller.send(answer(request.opaque + 1_000_000, body=ROUTE_BODY))


async def requests_instead_of_answers(caller: Caller) -> None:
    """Answer with the right number, but without the flag that makes it an answer."""
    while True:
        request = await caller.request()
        await caller.send(answer(request.opaque, body=ROUTE_BODY, flag=0))


def saying(data: bytes) -> Behaviour:
    """Send the same bytes to each request."""

    async def say(caller: Caller) -> None:
        while True:
            await caller.request()
            await caller.send(data)

    return say


def greeting(data: bytes) -> Behaviour:
    """Speak before being asked."""

    async def greet(caller: Caller) -> None:
        await caller.send(data)
        await for_ever()

    return greet


def answering(
    body: bytes = b"",
    *,
    code: int = raw.SUCCESS,
    remark: str | None = None,
    ext_fields: Mapping[str, str] | None = None,
) -> Behaviour:
    """Give the same answer to each request."""

    async def give(caller: Caller) -> None:
        while True:
            opaque = (await caller.request()).opaque
            await caller.send(answer(opaque, code, body, remark=remark, ext_fields=ext_fields))

    return give
