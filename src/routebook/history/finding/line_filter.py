"""Which lines of a journal a question needs, told from their bytes: most are never decoded.

A name stands in a line as JSON writes it. Quotation marks inside of names are escaped there, so a
member of a record and its value cannot be mistaken for part of a name.
"""

from collections.abc import Callable, Iterable

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    Event,
    GroupRestated,
    HeartbeatGaps,
    JournalRecovered,
    Kind,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    RecordsLost,
    RegistrationCompleted,
    RouteQueries,
    StateRestated,
)
from routebook.journal.record import type_written, types_where
from routebook.journal.selection import name_written

Wanted = Callable[[bytes], bool]


def _types_written(kinds: Iterable[type[Event] | str]) -> tuple[bytes, ...]:
    return tuple(map(type_written, kinds))


_HEARTBEATS = type_written(HeartbeatGaps)
_QUERIES = type_written(RouteQueries)
_RESTATED = type_written(GroupRestated)
_COUNTS = _types_written(types_where(lambda kind: kind.kind is Kind.WINDOW))
_LISTS = _types_written(types_where(lambda kind: kind.only_topics))

BREAKS = frozenset(kind.__name__ for kind in (NodeStarted, JournalRecovered, RecordsLost))
"""After these nothing is as before; the record just before them tells up to when it was."""


def about_topic(topic: str) -> Wanted:
    """All that can change the route of ``topic``, and the queries for it."""
    name = name_written(topic)

    def wanted(line: bytes) -> bool:
        if _HEARTBEATS in line:
            return False
        return name in line or not _has(line, _LISTS)

    return wanted


def about_broker(broker: str) -> Wanted:
    """All about brokers of this name, and about the node.

    Groups that are restated too: only all of them are the end of doubt.
    """
    name = b'"broker":' + name_written(broker)

    def wanted(line: bytes) -> bool:
        if name in line or _RESTATED in line:
            return True
        return b'"broker":"' not in line and _QUERIES not in line

    return wanted


def about_tables(line: bytes) -> bool:
    """All that can change a view."""
    return not _has(line, _COUNTS)


_NODE = _types_written((*BREAKS, NodeStopped, NodeStalled))
_BROKERS = _types_written(
    (
        BrokerRegistered,
        RegistrationCompleted,
        BrokerLeft,
        BrokerConfirmed,
        GroupRestated,
        StateRestated,
    )
)


def about_node(line: bytes) -> bool:
    """What happened to the node itself."""
    return _has(line, _NODE)


def about_awareness(line: bytes) -> bool:
    """What tells when the node was awake, whether brokers were listed, and what others saw too."""
    if _HEARTBEATS in line or _has(line, _LISTS):
        return False  # by far the most of them
    return _has(line, _BROKERS) or _has(line, _NODE)


def any_of(*wanted: Wanted) -> Wanted:
    return lambda line: any(each(line) for each in wanted)


def _has(line: bytes, texts: tuple[bytes, ...]) -> bool:
    return any(text in line for text in texts)
