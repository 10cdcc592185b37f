"""Waiting on a condition, never on a guess of how long something takes."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

POLL_S = 0.02


class GaveUp(AssertionError):
    """A condition did not come true in time; the message says what was seen last."""

    def __init__(self, what: str, timeout_s: float, seen: object) -> None:
        super().__init__(f"gave up waiting for {what} after {timeout_s:g} s; last saw: {seen}")
        self.seen = seen


def wait_for(
    what: str,
    look: Callable[[], Seen],
    *,
    until: Callable[[Seen], bool],
    timeout_s: float = 30.0,
) -> Seen:
    """Look again and again; return the first sight that fulfils ``until``. Raises GaveUp."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if until(seen):
            return seen
        if time.monotonic() > deadline:
            raise GaveUp(what, timeout_s, seen)
        time.sleep(POLL_S)
