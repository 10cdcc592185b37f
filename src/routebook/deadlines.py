"""A heap of deadlines on whatever clock the caller keeps.

Extending a deadline is a dictionary store; the heap holds one entry a key, and an entry that
surfaces before its key's deadline goes back in with the true one:

    set("a", 100)          deadlines a:100            heap [100 a]
    set("a", 130)          deadlines a:130            heap [100 a]
    due(120) -> []         deadlines a:130            heap [130 a]
    due(131) -> ["a"]      deadlines                  heap []

What is left in the heap of keys that are gone, or have an earlier deadline since, is cleared away
by making a new heap. There may be a hundred thousand keys, so everybody who sets or drops one
carries a few of them over:

    heap [a x y z b x z y]      new heap [a]                 1 of 2 keys carried over
    set("c", 90)                new heap [90 c, 100 a, b]    and is the heap from now on
"""

import heapq
from collections.abc import Hashable, Iterator
from itertools import count, islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
At = TypeVar("At", int, float)

CARRIED_A_TIME = 16  # keys
OLD_A_LOOK = 1000  # entries of a heap that was


class Deadlines(Generic[K, At]):
    def __init__(self) -> None:
        self._at: dict[K, At] = {}
        self._heap: list[tuple[At, int, K]] = []
        self._order = count()  # keys need not be comparable
        self._new: list[tuple[At, int, K]] = []  # the next heap, while keys are carried over
        self._carrying: Iterator[K] | None = None
        self._old: list[tuple[At, int, K]] = []  # a heap that was, and goes a little at a time

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def keys(self) -> list[K]:
        """All that have a deadline."""
        return list(self._at)

    def set(self, key: K, at: At) -> None:
        before = self._at.get(key)
        self._at[key] = at
        if before is None or at < before:
            entry = (at, next(self._order), key)
            heapq.heappush(self._heap, entry)
            if self._carrying is not None:
                heapq.heappush(self._new, entry)
            self._tidy(64)

    def drop(self, key: K) -> None:
        self._at.pop(key, None)
        self._tidy(0)  # who is gone holds much, and is not to be held on to

    def due(self, now: At, at_most: int | None = None) -> list[K]:
        """Take out and return every key whose deadline lies before ``now``.

        ``at_most`` entries are looked at; then ``is_due`` tells whether there are more.
        """
        gone: list[K] = []
        del self._old[-OLD_A_LOOK:]
        while self.is_due(now) and at_most != 0:
            at_most = None if at_most is None else at_most - 1
            _, _, key = heapq.heappop(self._heap)
            actual = self._at.get(key)
            if actual is None:
                continue
            if actual >= now:
                heapq.heappush(self._heap, (actual, next(self._order), key))
            else:
                del self._at[key]
                gone.append(key)
        return gone

    def is_due(self, now: At) -> bool:
        """Whether there may be a key whose deadline lies before ``now``."""
        return bool(self._heap) and self._heap[0][0] < now

    def next_at(self) -> At | None:
        """No deadline lies before this time; None when there is none at all."""
        return self._heap[0][0] if self._heap else None

    def _tidy(self, slack: int) -> None:
        """Carry a few keys over to the next heap, if there is to be one.

        There is when the heap has more entries than twice the keys, and ``slack``.
        """
        del self._old[-2 * CARRIED_A_TIME :]
        if self._carrying is None:
            if len(self._heap) <= 2 * len(self._at) + slack:
                return
            self._carrying = iter(list(self._at))
        some = list(islice(self._carrying, CARRIED_A_TIME))
        for key in some:
            at = self._at.get(key)
            if at is not None:
                heapq.heappush(self._new, (at, next(self._order), key))
        if len(some) < CARRIED_A_TIME:
            self._carrying = None
            self._old, self._heap, self._new = self._heap, self._new, []
