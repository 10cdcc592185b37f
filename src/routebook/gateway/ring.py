"""EventRing: the latest events of all nodes a gateway follows, for any number of readers.

A reader holds the number of the last entry it has. Who falls behind the ring is told so.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

MAX_ENTRIES = 10_000
MAX_BYTES = 8 * 1024 * 1024

EVENT, LOST, BEGAN = "event", "lost", "began"


class Entry(NamedTuple):
    """One event of a node, or what is to be known of its feed.

    ``event``: ``body`` is ``{"left_out":0,"record":{…}}``. ``lost``: events of the node are gone,
    ``body`` has ``from`` and ``to``. ``began``: the node tells from here on, in a new boot.
    ``token`` is the place after it in what the node tells: node.boot.seq.
    """

    number: int
    kind: str
    node: str
    token: str
    body: bytes


class Unread(NamedTuple):
    """Entries after a place; ``missed`` of them are gone."""

    entries: list[Entry]
    missed: int


class EventRing:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.last = 0  # the number of the newest entry
        self.observers: list[Callable[[Entry], object]] = []

    def add(self, kind: str, node: str, token: str, body: bytes) -> None:
        self.last += 1
        entry = Entry(self.last, kind, node, token, body)
        self._entries.append(entry)
        self._bytes += len(body)
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            self._bytes -= len(self._entries.popleft().body)
        self._news.set()
        self._news = asyncio.Event()
        for observer in self.observers:
            observer(entry)

    @property
    def first(self) -> int:
        """The number of the oldest entry there is; one more than ``last`` without any."""
        return self._entries[0].number if self._entries else self.last + 1

    def after(self, number: int, at_most: int = 1000) -> Unread:
        missed = max(0, self.first - number - 1)
        start = max(0, number - self.first + 1)
        return Unread(list(islice(self._entries, start, start + at_most)), missed)

    def find(self, node: str, token: str) -> int | None:
        """The number of the entry a node gave this token to; None: it is not in the ring."""
        for entry in reversed(self._entries):
            if entry.token == token and entry.node == node:
                return entry.number
        return None

    async def wait_beyond(self, number: int) -> None:
        """Until there is an entry after that one."""
        while self.last <= number:
            await self._news.wait()
