"""Which lines of a journal a question needs, told from their bytes: most are never decoded.

A name stands in a line as JSON writes it. Quotation marks inside of names are escaped there, so a
member of a record and its value cannot be mistaken for part of a name.
"""

from collections.abc import Callable

import msgspec

Wanted = Callable[[bytes], bool]

_HEARTBEATS = b'"type":"HeartbeatGaps"'
_QUERIES = b'"type":"RouteQueries"'
_TOPICS = b'"type":"TopicsChanged"'
_MAPPINGS = b'"type":"MappingsChanged"'
_RESTATED = b'"type":"GroupRestated"'
_COMPLETED = b'"type":"RegistrationCompleted"'

BREAKS = frozenset({"NodeStarted", "JournalRecovered", "RecordsLost"})
"""After these nothing is as before; the record just before them tells up to when it was."""


def about_topic(topic: str) -> Wanted:
    """All that can change the route of ``topic``, and the queries for it."""
    name = _as_written(topic)

    def wanted(line: bytes) -> bool:
        if _HEARTBEATS in line:
            return False
        return name in line or not (_TOPICS in line or _QUERIES in line or _MAPPINGS in line)

    return wanted


def about_broker(broker: str) -> Wanted:
    """All about brokers of this name, and about the node.

    Groups that are restated too: only all of them are the end of doubt.
    """
    name = b'"broker":' + _as_written(broker)

    def wanted(line: bytes) -> bool:
        if name in line or _RESTATED in line:
            return True
        return b'"broker":"' not in line and _QUERIES not in line

    return wanted


def about_tables(line: bytes) -> bool:
    """All that can change a view."""
    return _HEARTBEATS not in line and _QUERIES not in line


_NODE = tuple(f'"type":"{kind}"'.encode() for kind in (*BREAKS, "NodeStopped", "NodeStalled"))
_BROKERS = (
    b'"type":"BrokerRegistered"',
    b'"type":"BrokerLeft"',
    b'"type":"BrokerConfirmed"',
    b'"type":"GroupRestated"',
    b'"type":"StateRestated"',
)


def about_node(line: bytes) -> bool:
    """What happened to the node itself."""
    return any(kind in line for kind in _NODE)


def about_awareness(line: bytes) -> bool:
    """What tells when the node was awake, whether brokers were listed, and what others saw too."""
    if _HEARTBEATS in line or _TOPICS in line or _QUERIES in line:
        return False
    return _COMPLETED in line or about_node(line) or any(kind in line for kind in _BROKERS)


def any_of(*wanted: Wanted) -> Wanted:
    return lambda line: any(each(line) for each in wanted)


def _as_written(name: str) -> bytes:
    # What no UTF-8 can hold the journal writes as a question mark.
    return msgspec.json.encode(name.encode("utf-8", "replace").decode())
