"""ServiceManager: what systemd wants to hear of a node, if it asked for it (sd_notify).

It names a socket in the environment. READY is said when the node listens; while the loop turns,
WATCHDOG is said three times as often as asked for, so that a node whose loop hangs is restarted.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

from routebook.server.background import again_and_again

logger = logging.getLogger(__name__)

OFTENER = 3  # than the manager wants to hear of it


class ServiceManager:
    """``every_s`` is how often to call ``alive``; None: nobody wants to know."""

    def __init__(self, address: str | None = None, every_s: float | None = None) -> None:
        self._address = address
        self._failing = False
        self.every_s = every_s if address is not None else None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        address = environment.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")):
            return cls()
        microseconds = environment.get("WATCHDOG_USEC", "")
        meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        every_s = None
        if meant and microseconds.isascii() and microseconds.isdigit() and int(microseconds):
            every_s = int(microseconds) / 1_000_000 / OFTENER
        # A name that begins with @ is one in no file system.
        return cls(address.replace("@", "\0", 1) if address[0] == "@" else address, every_s)

    def ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=stopping")

    def _tell(self, state: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(state.encode(), self._address)
        except OSError as error:
            if not self._failing:
                logger.warning("the service manager cannot be told %r: %s", state, error)
            self._failing = True
        else:
            self._failing = False


@asynccontextmanager
async def kept_informed(manager: ServiceManager, status: str) -> AsyncIterator[None]:
    """Say that the node is ready, that its loop turns, and at the end that it stops."""
    manager.ready(status)
    beating = None
    if manager.every_s is not None:
        beating = asyncio.create_task(
            again_and_again("telling systemd", manager.alive, every_s=manager.every_s)
        )
    try:
        yield
    finally:
        manager.stopping()
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
