"""Feed: the latest events of a node as lines, in a ring that all who follow it share.

A reader holds the number of the last event it was told. Who falls behind the ring is told which
numbers it has lost. The ring begins with the first reader: until then it costs nothing.
"""

from collections import deque
from collections.abc import Callable, Sized
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from routebook.events import (
    Event,
    GroupRestated,
    MappingsChanged,
    RouteQueries,
    StateRestated,
    StaticMapping,
    TopicsChanged,
)
from routebook.journal.narrowing import told_of
from routebook.journal.record import Record

MAX_EVENTS = 10_000
MAX_BYTES = 4 * 1024 * 1024
LISTED = 20  # of a list of topics


class FeedPage(NamedTuple):
    """Events after a place: those up to ``lost_to`` are gone, ``entries`` go up to ``seq``."""

    entries: list[bytes]
    seq: int
    lost_to: int | None


class Feed:
    def __init__(self, last_seq: Callable[[], int], max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._last_seq = last_seq
        self._ring: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._from: int | None = None  # nothing up to here is in the ring; None: it has not begun
        self.last = 0

    @property
    def begun(self) -> bool:
        return self._from is not None

    @property
    def bytes(self) -> int:
        return self._bytes

    def begin(self) -> None:
        """There is somebody to be told from now on."""
        if self._from is None:
            self._from = self.last = self._last_seq()

    def add(self, record: Record) -> None:
        if self._from is None:
            return
        event, left_out = _cut(record.event)
        line = told_of(replace(record, event=event), None, None, values=False) or b""
        entry = b'{"left_out":%d,"record":%b}' % (left_out, line.rstrip())
        self._ring.append((record.seq, entry))
        self._bytes += len(entry)
        self.last = record.seq
        while len(self._ring) > MAX_EVENTS or (
            self._bytes > self._max_bytes and len(self._ring) > 1
        ):
            self._from, gone = self._ring.popleft()
            self._bytes -= len(gone)

    def after(self, seq: int, *, at_most: int) -> FeedPage:
        """Events after ``seq``, in about ``at_most`` bytes."""
        assert self._from is not None
        lost_to = self._from if seq < self._from else None
        entries: list[bytes] = []
        size = 0
        # From the newest back: most readers have all but the last few.
        new = 0
        for number, _ in reversed(self._ring):
            if number <= seq:
                break
            new += 1
        told = seq if lost_to is None else lost_to
        for number, entry in islice(self._ring, len(self._ring) - new, None):
            if entries and size + len(entry) > at_most:
                break
            entries.append(entry)
            size += len(entry)
            told = number
        return FeedPage(entries, told, lost_to)


def _cut(event: Event) -> tuple[Event, int]:
    """Without what is listed beyond the first few, and how much that is."""
    if isinstance(event, TopicsChanged):
        return replace(event, changes=event.changes[:LISTED]), _beyond(event.changes)
    if isinstance(event, MappingsChanged):
        return replace(event, mappings=_few(event.mappings)), _beyond(event.mappings)
    if isinstance(event, RouteQueries):
        return replace(event, topics=event.topics[:LISTED]), _beyond(event.topics)
    if isinstance(event, GroupRestated):
        cut = replace(event, queues=event.queues[:LISTED], mappings=_few(event.mappings))
        return cut, _beyond(event.queues) + _beyond(event.mappings)
    if isinstance(event, StateRestated):
        return replace(event, kv={}), sum(map(len, event.kv.values()))
    return event, 0


def _beyond(listed: Sized) -> int:
    return max(0, len(listed) - LISTED)


def _few(mappings: tuple[StaticMapping, ...]) -> tuple[StaticMapping, ...]:
    """There may be a million queues in one."""
    return tuple(each._replace(curr_id_map=each.curr_id_map[:LISTED]) for each in mappings[:LISTED])
