"""PollSchedule: when each topic is to be polled next. Told the time.

Every topic has times of its own, so that many topics make a steady trickle of polls and not a burst
a period. What is due within one tick is taken together.
"""

import random
from collections.abc import Callable

from routebook.deadlines import Deadlines

TICKS_A_PERIOD = 100
MAX_JITTER = 0.5
_SHORTEST_WAIT = 0.1  # of a period


class PollSchedule:
    """``jitter`` is the part of the period by which a poll may be early or late.

    Topics that are ``rare`` have a period of their own.
    """

    def __init__(
        self,
        period_s: float,
        jitter: float,
        rng: random.Random,
        *,
        rare: Callable[[str], bool] = lambda topic: False,
        rare_period_s: float = 0.0,
    ) -> None:
        if not period_s > 0 or not 0 <= jitter <= MAX_JITTER:
            raise ValueError(f"a period of {period_s} s with a jitter of {jitter} makes no sense")
        self.tick_s = period_s / TICKS_A_PERIOD
        self._period_s = period_s
        self._rare = rare
        self._rare_period_s = max(period_s, rare_period_s)
        self._jitter = jitter
        self._rng = rng
        self._due: Deadlines[str, float] = Deadlines()
        self._new: set[str] = set()  # added as due at once, and not taken yet

    def __contains__(self, topic: str) -> bool:
        return topic in self._due

    def add(self, topic: str, now: float, *, at_once: bool) -> None:
        """Begin with ``topic``: due now, or within a period when it has just been asked for."""
        if at_once:
            self._new.add(topic)
        self._due.set(topic, now if at_once else now + self._first_wait_s(topic))

    def plan_anew(self, now: float) -> None:
        """Which topics are rare is another than before."""
        for topic in self._due.keys():  # noqa: SIM118 - a heap of deadlines, not a table
            if topic not in self._new:
                self._due.set(topic, now + self._first_wait_s(topic))

    def drop(self, topic: str) -> None:
        self._due.drop(topic)
        self._new.discard(topic)

    def take_due(self, now: float, limit: int) -> list[str]:
        """At most ``limit`` topics to be polled now, each planned anew."""
        due: list[str] = []
        while len(due) < limit and self._due.is_due(now + self.tick_s):
            due += self._due.due(now + self.tick_s, limit - len(due))
        for topic in due:
            wait_s = self._first_wait_s(topic) if topic in self._new else self._wait_s(topic)
            self._new.discard(topic)
            self._due.set(topic, now + wait_s)
        return due

    def next_in_s(self, now: float) -> float:
        """No topic is due earlier: 0 when one may be, infinity when there is none."""
        next_at = self._due.next_at()
        return float("inf") if next_at is None else max(0.0, next_at - now)

    def _first_wait_s(self, topic: str) -> float:
        # Topics that came into use together must not be polled together for ever.
        return self._period_of(topic) * self._rng.uniform(_SHORTEST_WAIT, 1)

    def _period_of(self, topic: str) -> float:
        return self._rare_period_s if self._rare(topic) else self._period_s

    def _wait_s(self, topic: str) -> float:
        return self._period_of(topic) * self._rng.uniform(1 - self._jitter, 1 + self._jitter)
