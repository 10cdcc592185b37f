"""HangUps: those whose peers hang up are closed a few a turn.

A connection that ends takes the loop some thirty microseconds, and thousands may end at the same
moment: with the process that had them, or with a network. Whoever is heard of only by its end can
wait for its turn.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

CLOSED_A_TURN = 50


class Leaver(Protocol):
    def close(self) -> None: ...


class HangUps:
    """``call_soon`` has the given function called in the next turn of the loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Leaver] = deque()
        self._closed = 0  # in this turn

    def may_close(self, leaver: Leaver) -> bool:
        """Whether ``leaver`` may end now. If not, it is closed when its turn comes."""
        if self._closed == CLOSED_A_TURN:
            self._waiting.append(leaver)
            return False
        if not self._closed:
            self._call_soon(self._close_some)
        self._closed += 1
        return True

    def _close_some(self) -> None:
        self._closed = min(CLOSED_A_TURN, len(self._waiting))
        if self._closed:
            self._call_soon(self._close_some)
        for _ in range(self._closed):
            self._waiting.popleft().close()
