"""Watching: sends watchers what they are to be told, a little in each turn of the loop.

What is sent, when and to whom is decided in ``routebook.watch``. Here are the sockets: a turn is
one millisecond or 64 frames, since the loop hands them to the system when the turn is over.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

from routebook.server.background import Upkeep
from routebook.server.connection import Connection
from routebook.slices import Slices
from routebook.state.model import Link
from routebook.watch.hub import SLOW_MS, Frame, Watchers

logger = logging.getLogger(__name__)

TURN_S = 0.001
FRAMES_A_TURN = 64
# Bookmarks that nobody acknowledges: the peer is gone, though its connection is not.
UNACKNOWLEDGED_MS = 45_000


class Watching:
    def __init__(
        self,
        watchers: Watchers,
        *,
        find: Callable[[Link], Connection | None],
        carry_on: Callable[[Slices[Any]], None],
        upkeep: Upkeep,
    ) -> None:
        self._watchers = watchers
        self._find = find
        self._carry_on = carry_on
        self._upkeep = upkeep
        self._loop = asyncio.get_running_loop()
        self._work: Iterator[Frame | None] | None = None
        self._awake = False
        self._timer: asyncio.TimerHandle | None = None
        watchers.wake = self.wake

    def wake(self) -> None:
        """There may be something to tell."""
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        until, frames = monotonic() + TURN_S, 0
        if self._work is None:
            self._work = self._watchers.work()
        try:
            for frame in self._work:
                if frame is not None:
                    self._send(frame)
                    frames += 1
                if frames == FRAMES_A_TURN or monotonic() > until:
                    self._loop.call_soon(self._turn)
                    return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # whatever one watcher does, the others are to be told
            logger.exception("telling watchers failed; going on")
            self._upkeep.erred("telling watchers", error)
            if self._watchers.telling is not None and (
                connection := self._find(self._watchers.telling)
            ):
                connection.offend("what it watches could not be told")  # it may begin anew
            self._work = None
            self._loop.call_later(1.0, self._turn)
            return
        self._work, self._awake = None, False
        self._plan()

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at_ms = self._watchers.next_ms()
        if at_ms is not None:
            wait_s = max(1, at_ms - self._watchers.now_ms() + 1) / 1000
            self._timer = self._loop.call_later(wait_s, self.wake)

    def _send(self, frame: Frame) -> None:
        connection = self._find(frame.link)
        if connection is None:
            return  # it is gone, and so is its watcher in a moment
        if frame.first:
            _notice_death(connection)
        connection.push(frame.data)
        if frame.last:
            self._carry_on(self._watchers.end(frame.link))
            connection.offend(f"it has not read what it watches for {SLOW_MS // 1000} s")
        elif connection.paused:
            self._watchers.park(frame.link)

    async def say_goodbye(self) -> None:
        """The node stops: have everybody who watches go elsewhere."""
        for number, frame in enumerate(self._watchers.goodbyes(), start=1):
            connection = self._find(frame.link)
            if connection is not None:
                connection.push(frame.data)
            self._carry_on(self._watchers.end(frame.link))
            if number % FRAMES_A_TURN == 0:
                await asyncio.sleep(0)
        if self._timer is not None:
            self._timer.cancel()


def _notice_death(connection: Connection) -> None:
    """Have the system close a connection whose peer is gone without a word."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    sock = connection.transport.get_extra_info("socket")
    if option is not None and sock is not None:
        with suppress(OSError):  # a pair of sockets within this machine has no such thing
            sock.setsockopt(socket.IPPROTO_TCP, option, UNACKNOWLEDGED_MS)
