"""LatestRecords: what a node can be asked for, bounded by the bytes it takes."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from routebook.events import (
    Event,
    GroupRestated,
    MappingsChanged,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record, decode, encode
from routebook.slices import Slices
from routebook.state import costs

MAX_RECORDS = 20_000
RECORD = 400  # itself and its event, without what that holds
CHANGE = 100 + costs.LONGEST_NAME  # of a topic that may be gone from the tables
PACKED_RECORDS = 200  # in one piece
PACKED_BYTES = 256 * 1024
_NUMBER = 32
_PLACE = 100  # in a table


class LatestRecords:
    """Records, the oldest of them packed, and ``bytes``, what they take; ``noted`` is told.

    Packed, they are lines of a journal, many in a piece. What is in a record lies scattered among
    all that brokers had when they registered; when those are gone, a name here and there would
    keep the allocator from giving any of it back.
    """

    def __init__(self, max_bytes: int, noted: Callable[[int], None]) -> None:
        self._max_bytes = max_bytes
        self._noted = noted
        self._pieces: deque[bytes] = deque()
        self._counts: deque[int] = deque()  # of lines in each piece
        self._lines: list[bytes] = []  # to be the next piece
        self._loose: deque[Record] = deque()
        self._costs: deque[int] = deque()
        self._count = 0
        self.bytes = 0
        self.last_seq = 0

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> None:
        """Remember ``record``, and forget the oldest there is no room for."""
        cost = cost_of(record.event)
        self._loose.append(record)
        self._costs.append(cost)
        self._count += 1
        self.bytes += cost
        self.last_seq = record.seq
        while self._count > 1 and (self._count > MAX_RECORDS or self.bytes > self._max_bytes):
            self._forget()
        self._noted(self.bytes)

    def _forget(self) -> None:
        if self._pieces:
            self.bytes -= len(self._pieces.popleft())
            self._count -= self._counts.popleft()
        elif self._lines:
            self.bytes -= len(self._lines.pop(0))
            self._count -= 1
        else:
            self._loose.popleft()
            self.bytes -= self._costs.popleft()
            self._count -= 1

    def pack(self) -> Slices[None]:
        """Pack all but the last record, one a slice."""
        while len(self._loose) > 1:
            line = encode(self._loose.popleft())
            self.bytes += len(line) - self._costs.popleft()
            self._lines.append(line)
            if len(self._lines) == PACKED_RECORDS or sum(map(len, self._lines)) > PACKED_BYTES:
                self._put_together()
            yield
        self._put_together()
        self._noted(self.bytes)

    def _put_together(self) -> None:
        if self._lines:
            self._pieces.append(b"".join(self._lines))
            self._counts.append(len(self._lines))
            self._lines = []

    def held(self) -> Sequence[bytes | Record]:
        """All of them as they are now, for ``unpacked``; oldest first."""
        return [*self._pieces, *self._lines, *self._loose]


def unpacked(held: Sequence[bytes | Record]) -> Iterator[Record]:
    for each in held:
        if isinstance(each, Record):
            yield each
        else:
            yield from map(decode, each.splitlines())


def cost_of(event: Event) -> int:
    """Bytes, rather too many."""
    if isinstance(event, TopicsChanged):
        return RECORD + CHANGE * len(event.changes)
    if isinstance(event, GroupRestated):
        listed = CHANGE * len(event.queues) + costs.mappings(event.mappings)
        return RECORD + listed + _held(event.members)
    if isinstance(event, MappingsChanged):
        return RECORD + costs.mappings(event.mappings)
    if isinstance(event, RouteQueries):
        return RECORD + CHANGE * len(event.topics)
    if isinstance(event, StateRestated):
        pairs = (costs.pair(k, v) for table in event.kv.values() for k, v in table.items())
        return RECORD + sum(pairs)
    names = (name for kind in type(event).__mro__ for name in getattr(kind, "__slots__", ()))
    return RECORD + sum(_held(getattr(event, name)) for name in names)


def _held(value: Any) -> int:
    if isinstance(value, str):
        return costs.text(value)
    if isinstance(value, dict):
        return _PLACE + sum(_PLACE + _held(k) + _held(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return _PLACE + sum(8 + _held(item) for item in value)
    return _NUMBER
