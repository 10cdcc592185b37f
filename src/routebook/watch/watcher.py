"""Watcher: the topics of one connection, and which of them it has not been told yet.

There is no queue: a topic that changes again before it was told is in the set once. What is in
the set when the watcher's turn comes is its batch, told in as many frames as it takes, each topic
as it is by then; what else changes meanwhile is for the next one.

    orders changes            dirty {orders}
    its turn                  batch {orders}      dirty {}
    stock, orders change      batch {orders}      dirty {stock}
    the frame is made         batch {}            dirty {stock}: it has the latest orders
    50 ms later               batch {stock}       dirty {}
"""

from typing import NamedTuple

from routebook.state.model import Link


class Place(NamedTuple):
    """Of a frame in the chain of its watcher."""

    n: int
    after: int
    rev: int


class Watcher:
    """``has`` are its topics, with the etags it was told or said that it has."""

    __slots__ = (
        "_changed",
        "_lost",
        "batch",
        "begun",
        "cost",
        "cursor",
        "ended",
        "has",
        "host",
        "link",
        "n",
        "parked",
        "rev",
        "synced",
        "told_ms",
    )

    def __init__(self, link: Link, host: str) -> None:
        self.link = link
        self.host = host
        self.has: dict[str, str] = {}
        self._lost: dict[str, None] = {}  # what may have been taken away, oldest first
        self._changed: dict[str, None] = {}
        self.batch: dict[str, None] = {}  # what is being told, the next one last
        self.begun = False  # its WATCH is answered: frames may follow
        self.synced = False  # there was a time when nothing was left to be told
        self.ended = False
        self.parked = False  # it does not read
        self.told_ms: int | None = None  # when it was last told routes or events
        self.cursor: int | None = None  # the last event it was told; None: it has no feed
        self.n = self.rev = 0
        self.cost = 0

    @property
    def dirty(self) -> int:
        """How many topics it has not been told yet."""
        return len(self._lost) + len(self._changed) + len(self.batch)

    def mark(self, topic: str, *, loss: bool) -> None:
        """It may not have the route of ``topic``; a ``loss`` is told before other changes."""
        if topic in self.batch:
            return  # it is told as it is when its turn comes
        if loss:
            self._changed.pop(topic, None)
            self._lost[topic] = None
        elif topic not in self._lost:
            self._changed[topic] = None

    def unmark(self, topic: str) -> None:
        for topics in (self._lost, self._changed, self.batch):
            topics.pop(topic, None)

    def only_topic(self) -> str | None:
        """The topic it was not told yet, if there is just one and its turn has not begun."""
        if self.batch or len(self._lost) + len(self._changed) != 1:
            return None
        return next(iter(self._lost or self._changed))

    def next_topic(self) -> str | None:
        """The topic to be told next; None at the end of the batch."""
        return self.batch.popitem()[0] if self.batch else None

    def begin_batch(self) -> bool:
        """Take all that is dirty as the next batch; whether there is anything."""
        if not (self._lost or self._changed):
            return False
        self.batch = dict.fromkeys([*self._lost, *self._changed][::-1])
        self._lost, self._changed = {}, {}
        return True

    def place(self, rev: int) -> Place:
        """Where the next frame belongs."""
        after, self.rev = self.rev, max(self.rev, rev)
        self.n += 1
        return Place(self.n, after, self.rev)
