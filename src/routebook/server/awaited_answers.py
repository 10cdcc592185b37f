"""AwaitedAnswers: those of one connection that wait for the disk or another server.

They keep no other request of their connection waiting, and are given when they are there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply

logger = logging.getLogger(__name__)

MAX_AWAITED = 64  # with so many nothing more is read from the connection


class AwaitedAnswers:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.count = 0

    def put(
        self,
        answer: Awaitable[Reply],
        request: Command,
        *,
        peer: str,
        give: Callable[[Command, Reply], None],
        go_on: Callable[[], None],
    ) -> None:
        """Have ``give`` called with the reply, and then ``go_on``: there is room for another."""
        # What was asked is the handler's by now, and may be large; its answer needs little of it.
        request = Command(opaque=request.opaque, flag=request.flag, codec=request.codec)

        async def answered() -> None:
            try:
                reply = await answer
            except Exception:  # a mistake of ours must not take the connection down
                logger.exception("answer to %s failed", peer)
                reply = Reply(ResponseCode.SYSTEM_ERROR, "internal error")
            give(request, reply)

        def done(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            self.count -= 1
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("answer to %s failed", peer, exc_info=error)
            go_on()

        task = asyncio.get_running_loop().create_task(answered())
        self._tasks.add(task)
        self.count += 1
        task.add_done_callback(done)
