"""A heap of deadlines on whatever clock the caller keeps.

Extending a deadline is a dictionary store; the heap holds one entry a key, and an entry that
surfaces before its key's deadline goes back in with the true one:

    set("a", 100)          deadlines a:100            heap [100 a]
    set("a", 130)          deadlines a:130            heap [100 a]
    due(120) -> []         deadlines a:130            heap [130 a]
    due(131) -> ["a"]      deadlines                  heap []
"""

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._order = count()  # keys need not be comparable

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: K, at_ms: int) -> None:
        before = self._at.get(key)
        self._at[key] = at_ms
        if before is None or at_ms < before:
            heapq.heappush(self._heap, (at_ms, next(self._order), key))
            if len(self._heap) > 2 * len(self._at) + 64:
                self._rebuild()

    def drop(self, key: K) -> None:
        self._at.pop(key, None)
        if len(self._heap) > 2 * len(self._at):
            self._rebuild()  # what is left of those who are gone

    def due(self, now_ms: int) -> list[K]:
        """Take out and return every key whose deadline lies before ``now_ms``."""
        gone: list[K] = []
        while self._heap and self._heap[0][0] < now_ms:
            _, _, key = heapq.heappop(self._heap)
            actual = self._at.get(key)
            if actual is None:
                continue
            if actual >= now_ms:
                heapq.heappush(self._heap, (actual, next(self._order), key))
            else:
                del self._at[key]
                gone.append(key)
        return gone

    def next_at(self) -> int | None:
        """No deadline lies before this time; None when there is none at all."""
        return self._heap[0][0] if self._heap else None

    def _rebuild(self) -> None:
        self._heap = [(at_ms, next(self._order), key) for key, at_ms in self._at.items()]
        heapq.heapify(self._heap)
