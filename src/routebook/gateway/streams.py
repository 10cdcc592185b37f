"""Streams: server-sent events, of which there are only so many at once."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from routebook.gateway.api.failures import Failure
from routebook.gateway.rarely import Rarely

logger = logging.getLogger(__name__)

MOST = 1000
MOST_OF_ADDRESS = 32
SLOW_S = 30.0  # without reading anything
RETRY_MS = 2000
BOOKMARK_S = 15.0

_rarely = Rarely(logger)


class StreamSlots:
    """How many streams are open, and whose."""

    def __init__(self, most: int = MOST, most_of_address: int = MOST_OF_ADDRESS) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._by_address.total()

    @contextmanager
    def taken(self, request: Request) -> Iterator[None]:
        """A place for one more; raises Failure where there is none."""
        address = "" if request.client is None else request.client.host
        if self._by_address[address] >= self._most_of_address:
            _rarely.warn(f"refusing streams: {self._most_of_address} from one address", address)
            raise Failure(
                429,
                "too_many",
                f"{self._most_of_address} streams of {address} are open; close one, and use one"
                " for all tabs of a browser",
                retry_after_s=5,
            )
        if len(self) >= self._most:
            _rarely.warn(f"refusing streams: {self._most} are open")
            raise Failure(
                503, "busy", f"{self._most} streams are open; try again later", retry_after_s=10
            )
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


def sse(event: str, data: Any, *, number: str | None = None) -> bytes:
    """One event as it is on the wire; JSON has no line breaks of its own."""
    body = data if isinstance(data, bytes) else msgspec.json.encode(data)
    head = f"id: {number}\n" if number is not None else ""
    return b"%bevent: %b\ndata: %b\n\n" % (head.encode(), event.encode(), body)


class EventStream(Response):
    """Sends what ``frames`` gives, as fast as it is read and no faster.

    Nothing is queued for a reader: ``frames`` is asked for the next one when the last one is on its
    way. One that reads nothing for half a minute is left.
    """

    def __init__(self, slots: StreamSlots, request: Request, frames: AsyncIterator[bytes]) -> None:
        self._slots = slots
        self._request = request
        self._frames = frames
        super().__init__(
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._slots.taken(self._request):
                await self._stream(receive, send)
        except Failure as failure:
            await failure.answer()(scope, receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            results = await asyncio.gather(sending, leaving, return_exceptions=True)
        error = results[0]
        if isinstance(error, Exception) and not isinstance(error, TimeoutError | OSError):
            raise error

    async def _send_all(self, send: Send) -> None:
        await _sent(send, b"retry: %d\n\n" % RETRY_MS)
        async for frame in self._frames:
            await _sent(send, frame)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _sent(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
