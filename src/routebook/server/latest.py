"""LatestRecords: what a node can be asked for, bounded by the bytes it takes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from routebook.events import (
    Event,
    GroupRestated,
    MappingsChanged,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record
from routebook.state import costs

MAX_RECORDS = 20_000
RECORD = 400  # itself and its event, without what that holds
CHANGE = 100 + costs.LONGEST_NAME  # of a topic that may be gone from the tables
_NUMBER = 32
_PLACE = 100  # in a table


class LatestRecords:
    """``noted`` is told how many bytes all of them take."""

    def __init__(self, max_bytes: int, noted: Callable[[int], None]) -> None:
        self._max_bytes = max_bytes
        self._noted = noted
        self._costs: deque[int] = deque()
        self.records: deque[Record] = deque()
        self.bytes = 0

    def add(self, record: Record) -> None:
        """Remember ``record``, and forget the oldest there is no room for."""
        cost = cost_of(record.event)
        self.records.append(record)
        self._costs.append(cost)
        self.bytes += cost
        while len(self.records) > 1 and (
            len(self.records) > MAX_RECORDS or self.bytes > self._max_bytes
        ):
            self.records.popleft()
            self.bytes -= self._costs.popleft()
        self._noted(self.bytes)


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
