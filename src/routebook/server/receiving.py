"""Receiving: those who send much at once are read from by turns.

An event loop goes on reading from one connection as long as its sender keeps up, tens of pieces in
a row, and from all that are readable before anybody else has a turn. So who has sent a large piece
is not read from until the next turn, and then only a few are.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

LARGE_READ = 64 * 1024
READS_A_TURN = 4  # of 256 KB at most, which take a millisecond


class Sender(Protocol):
    def read_on(self) -> None: ...


class Receiving:
    """``call_soon`` has the given function called in the next turn of the loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Sender] = deque()

    def put(self, sender: Sender) -> None:
        """Have ``sender`` wait for its turn to be read from."""
        if not self._waiting:
            self._call_soon(self._give_turns)
        self._waiting.append(sender)

    def _give_turns(self) -> None:
        try:
            for _ in range(min(READS_A_TURN, len(self._waiting))):
                self._waiting.popleft().read_on()
        finally:
            if self._waiting:
                self._call_soon(self._give_turns)
