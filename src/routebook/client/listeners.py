"""Those who want to hear of route changes: functions that are called, streams that are read."""

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable

from routebook.client.changes import RouteChange

logger = logging.getLogger(__name__)

STREAM_LIMIT = 1_000

Listener = Callable[[RouteChange], object]


class ChangeStream:
    """``async for change in stream``; ends when the cache is closed.

    A reader that falls behind loses the oldest changes; ``dropped`` counts them. For one reader.
    """

    def __init__(self, limit: int) -> None:
        self._waiting: deque[RouteChange] = deque(maxlen=limit)
        self._arrived = asyncio.Event()
        self._ended = False
        self.dropped = 0

    def __aiter__(self) -> "ChangeStream":
        return self

    async def __anext__(self) -> RouteChange:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def put(self, change: RouteChange) -> None:
        """Give the reader one more; called by the cache."""
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
        self._waiting.append(change)
        self._arrived.set()

    def end(self) -> None:
        """Let the reader have what is there already, and no more; called by the cache."""
        self._ended = True
        self._arrived.set()


class Listeners:
    def __init__(self) -> None:
        self._callbacks: dict[object, Listener] = {}
        # Whoever stops reading just lets go of the stream: nothing is to be closed.
        self._streams: weakref.WeakSet[ChangeStream] = weakref.WeakSet()
        self._ended = False

    def add(self, callback: Listener) -> Callable[[], None]:
        """Call ``callback`` with each change until the returned function is called."""
        key = object()
        self._callbacks[key] = callback

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def stream(self, limit: int) -> ChangeStream:
        stream = ChangeStream(limit)
        if self._ended:
            stream.end()
        self._streams.add(stream)
        return stream

    def tell(self, change: RouteChange) -> None:
        for callback in list(self._callbacks.values()):
            try:
                callback(change)
            except Exception:  # the others are to hear of it, and polling goes on
                logger.exception("a listener failed on a change of the route of %r", change.topic)
        for stream in list(self._streams):
            stream.put(change)

    def end(self) -> None:
        self._ended = True
        for stream in list(self._streams):
            stream.end()
