"""Pace: so many a second and no more, however many want."""

import asyncio
from collections.abc import Callable
from time import monotonic


class Pace:
    """Lets ``a_second`` through, and as many at once after a quiet second."""

    def __init__(self, a_second: int, *, now_s: Callable[[], float] = monotonic) -> None:
        self._a_second = a_second
        self._now_s = now_s
        self._free_at = now_s() - 1.0  # when all that were let through are paid for

    def wait_s(self) -> float:
        """Take a place; how long to wait for it."""
        now = self._now_s()
        self._free_at = max(self._free_at, now - 1.0) + 1 / self._a_second
        return max(0.0, self._free_at - now)

    def give_back(self) -> None:
        """The place that was taken is not used."""
        self._free_at -= 1 / self._a_second

    async def place(self, *, at_most_s: float) -> bool:
        """Wait for a place; False: it would take longer than that."""
        wait_s = self.wait_s()
        if wait_s > at_most_s:
            self.give_back()
            return False
        if wait_s:
            await asyncio.sleep(wait_s)
        return True
