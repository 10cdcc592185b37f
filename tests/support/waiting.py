"""Waiting on a condition, never on a guess of how long something takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Seen = TypeVar("Seen")

POLL_S = 0.02
TIMEOUT_S = 60.0


class GaveUp(AssertionError):
    """A condition did not come true in time; the message says what was seen last."""

    def __init__(self, what: str, timeout_s: float, seen: object) -> None:
        super().__init__(f"gave up waiting for {what} after {timeout_s:g} s; last saw: {seen!r}")


def wait_for(
    what: str,
    look: Callable[[], Seen],
    *,
    until: Callable[[Seen], bool] = bool,
    timeout_s: float = TIMEOUT_S,
) -> Seen:
    """Look again and again; return the first sight that fulfils ``until``. Raises GaveUp."""
    deadline = time.monotonic() + timeout_s
    while not until(seen := look()):
        if time.monotonic() > deadline:
            raise GaveUp(what, timeout_s, seen)
        time.sleep(POLL_S)
    return seen


async def eventually(
    what: str,
    look: Callable[[], Awaitable[Seen]],
    *,
    until: Callable[[Seen], bool] = bool,
    timeout_s: float = TIMEOUT_S,
) -> Seen:
    """``wait_for`` that lets a node in the same event loop run meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not until(seen := await look()):
        if time.monotonic() > deadline:
            raise GaveUp(what, timeout_s, seen)
        await asyncio.sleep(POLL_S)
    return seen


async def soon(
    what: str,
    look: Callable[[], Seen],
    *,
    until: Callable[[Seen], bool] = bool,
    timeout_s: float = TIMEOUT_S,
) -> Seen:
    """``eventually`` for a look that waits for nothing."""

    async def looked() -> Seen:
        return look()

    return await eventually(what, looked, until=until, timeout_s=timeout_s)
