"""LatestRecords: what a node can be asked for, bounded by the bytes it takes."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
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
from routebook.state.account import host_of

MAX_RECORDS = 20_000
RECORD = 400  # itself and its event, without what that holds
CHANGE = 100 + costs.LONGEST_NAME  # of a topic that may be gone from the tables
PACKED_RECORDS = 200  # in one piece
PACKED_BYTES = 256 * 1024
_NUMBER = 32
_PLACE = 100  # in a table


class LatestRecords:
    """Records, the oldest of them packed, and ``bytes``, what they take.

    Packed, they are lines of a journal, many in a piece. What is in a record lies scattered among
    all that brokers had when they registered; when those are gone, a name here and there would
    keep the allocator from giving any of it back.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: deque[bytes] = deque()
        self._in_pieces: deque[tuple[int, Counter[str]]] = deque()  # lines, and bytes by host
        self._lines: list[bytes] = []  # to be the next piece
        self._of_lines: list[str] = []  # the host of each
        self._loose: deque[Record] = deque()
        self._costs: deque[int] = deque()
        self._count = 0
        self._by_host: dict[str, int] = {}
        self.bytes = 0
        self.last_seq = 0

    @property
    def by_host(self) -> Mapping[str, int]:
        """Bytes by the host whose request made the record; "" is the node itself."""
        return self._by_host

    def _charge(self, host: str, amount: int) -> None:
        self.bytes += amount
        held = self._by_host.get(host, 0) + amount
        if held:
            self._by_host[host] = held
        else:
            del self._by_host[host]

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> None:
        """Remember ``record``, and forget the oldest there is no room for."""
        cost = cost_of(record.event)
        self._loose.append(record)
        self._costs.append(cost)
        self._count += 1
        self._charge(host_of(record.event.peer), cost)
        self.last_seq = record.seq
        while self._count > 1 and (self._count > MAX_RECORDS or self.bytes > self._max_bytes):
            self._forget()

    def _forget(self) -> None:
        if self._pieces:
            self._pieces.popleft()
            count, by_host = self._in_pieces.popleft()
            self._count -= count
            for host, taken in by_host.items():
                self._charge(host, -taken)
            return
        self._count -= 1
        if self._lines:
            self._charge(self._of_lines.pop(0), -len(self._lines.pop(0)))
        else:
            record = self._loose.popleft()
            self._charge(host_of(record.event.peer), -self._costs.popleft())

    def pack(self) -> Slices[None]:
        """Pack all but the last record, one a slice."""
        while len(self._loose) > 1:
            record = self._loose.popleft()
            line, host = encode(record), host_of(record.event.peer)
            self._charge(host, len(line) - self._costs.popleft())
            self._lines.append(line)
            self._of_lines.append(host)
            if len(self._lines) == PACKED_RECORDS or sum(map(len, self._lines)) > PACKED_BYTES:
                self._put_together()
            yield
        self._put_together()

    def _put_together(self) -> None:
        if self._lines:
            self._pieces.append(b"".join(self._lines))
            by_host: Counter[str] = Counter()
            for host, line in zip(self._of_lines, self._lines, strict=True):
                by_host[host] += len(line)
            self._in_pieces.append((len(self._lines), by_host))
            self._lines, self._of_lines = [], []

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
