"""One connection to a NameServer: many requests in flight, answers found by their opaque."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from routebook.client.errors import BadAnswer, ConnectionLost, NodeError, RequestTooLarge
from routebook.wire.address import Address
from routebook.wire.codec import decode_command, encode_request
from routebook.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from routebook.wire.errors import WireError
from routebook.wire.frame import MAX_FRAME, FrameDecoder
from routebook.wire.signature import Credentials, signed_fields

_MAX_OPAQUE = 2**31 - 1
_MAX_HEADER = 2**24 - 1
CLOSE_S = 2.0  # for what is written to leave, and for TLS to say goodbye


@dataclass(frozen=True, slots=True)
class Pending:
    """A request on its way, by its number on this connection."""

    opaque: int
    answer: "asyncio.Future[Command]"


class Connection(asyncio.Protocol):
    """Made by ``Node``. A broken stream fails all requests in flight and closes."""

    def __init__(
        self,
        address: Address,
        *,
        max_frame: int = MAX_FRAME,
        credentials: Credentials | None = None,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._max_frame = max_frame
        self._decoder = FrameDecoder(max_frame)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False
        self._reason = "it closed the connection"  # what those in flight are told
        self.blamed = False  # whether its node was made to rest for it
        self.answered = 0  # answers so far; whoever answered nothing is not to be trusted
        self.heard_at = self._loop.time()
        self.pushed: Callable[[Command], None] | None = None  # who is told what was not asked for

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._decoder.feed(data)
        try:
            while (frame := self._decoder.next_frame()) is not None:
                answer = decode_command(frame)
                if not answer.flag & FLAG_RESPONSE:
                    if self.pushed is not None:
                        self.pushed(answer)
                    continue  # else a request; nothing is asked of a client of NameServers
                waiting = self._waiting.pop(answer.opaque, None)
                if waiting is not None and not waiting.done():
                    self.answered += 1
                    waiting.set_result(answer)
        except WireError as error:
            self._fail(BadAnswer(self._address, f"what it sent is not readable: {error}"))
            self.abort("what it sent is not readable")

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        reason = f"the connection broke ({error})" if error else self._reason
        self._fail(ConnectionLost(self._address, reason))
        self._writable.set()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- its user calls these

    @property
    def closing(self) -> bool:
        """Whether it can be used no longer, though the socket may not be gone yet."""
        return self._closing or self._transport.is_closing()

    @property
    def peer_host(self) -> str:
        """The numeric address at the other end."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    async def writable(self) -> None:
        """Wait until the peer has read enough of what was written."""
        await self._writable.wait()

    def send(self, commands: Sequence[Command]) -> list[Pending]:
        """Send copies of ``commands`` in one go.

        Raises ConnectionLost when it is closed, RequestTooLarge with nothing sent.
        """
        self._check_open()
        frames: list[bytes] = []
        sent: list[Pending] = []
        for command in commands:
            self._opaque = self._opaque % _MAX_OPAQUE + 1
            frames.append(self._encoded(command, self._opaque, command.flag))
            sent.append(Pending(self._opaque, self._loop.create_future()))
        self._waiting.update((pending.opaque, pending.answer) for pending in sent)
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
        return sent

    def send_oneway(self, command: Command) -> None:
        """Send without expecting an answer; raises ConnectionLost when it is closed."""
        self._check_open()
        self._opaque = self._opaque % _MAX_OPAQUE + 1
        self._transport.write(self._encoded(command, self._opaque, command.flag | FLAG_ONEWAY))

    def forget(self, sent: Iterable[Pending]) -> None:
        """Expect these answers no longer."""
        for pending in sent:
            self._waiting.pop(pending.opaque, None)
            pending.answer.cancel()

    async def wait_lost(self) -> None:
        await asyncio.shield(self._lost)

    async def close(self) -> None:
        """Close and wait until the socket is gone."""
        self._closing = True
        self._reason = "this client closed the connection"
        self._transport.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.wait_lost()
        except TimeoutError:
            self._transport.abort()
            await self.wait_lost()

    def abort(self, reason: str) -> None:
        """Close at once, whatever is still to be written."""
        self._closing = True
        self._reason = reason
        self._transport.abort()

    def _check_open(self) -> None:
        if self.closing:
            raise ConnectionLost(self._address, "the connection is closed")

    def _encoded(self, command: Command, opaque: int, flag: int) -> bytes:
        fields = command.ext_fields
        if self._credentials is not None:
            fields = signed_fields(command, self._credentials)
        encoded = encode_request(
            Command(
                command.code,
                flag,
                opaque,
                command.version,
                command.remark,
                fields,
                command.body,
                command.codec,
            )
        )
        size = len(encoded)
        if size > self._max_frame or size - len(command.body) > _MAX_HEADER:
            raise RequestTooLarge(
                self._address, f"a request of {size} bytes exceeds the limit of a frame"
            )
        return encoded

    def _fail(self, error: NodeError) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)
