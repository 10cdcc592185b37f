"""Costs: what things take in memory, in bytes; estimates on the safe side.

The numbers were measured as the growth of the resident size with tables of many shapes
(tests/integration/test_memory_costs.py measures them again).
"""

from collections.abc import Collection, Iterable

from routebook.events import StaticMapping

ENTRY = 110  # a topic on a broker: its places in two tables
TOPIC = 340  # a topic: its table of holders, its place among the topics
SHAPE = 640  # an odd number of queues: itself, its numbers, its encoded pieces
BROKER = 4000
MAPPING = 800
QUEUE_OF_MAPPING = 140
PAIR = 240
NAMESPACE = 600  # of pairs: its tables
LISTED = 16  # a place in a list
WATCHER = 1200  # who watches, without its topics; its connection is counted as such
WATCHED = 520  # a topic of one watcher: its places in three tables

LONGEST_NAME = 80 + 4 * 127  # wire.headers: 390 characters of ASCII, 127 of anything else
ENTRY_AT_MOST = ENTRY + TOPIC + LONGEST_NAME


def text(value: str | None) -> int:
    """Of a string, whatever it has cached of itself."""
    if value is None:
        return 0
    return 56 + len(value) if value.isascii() else 80 + 4 * len(value)


def texts(values: Collection[str]) -> int:
    """Of many strings."""
    joined = "".join(values)
    return 56 * len(values) + len(joined) if joined.isascii() else sum(map(text, values))


def mapping(held: StaticMapping) -> int:
    names = text(held.topic) + text(held.bname) + text(held.scope)
    return MAPPING + names + QUEUE_OF_MAPPING * len(held.curr_id_map)


def mappings(held: Iterable[StaticMapping]) -> int:
    return sum(map(mapping, held))


def broker(names: Iterable[str | None], filter_servers: Collection[str]) -> int:
    """Of a broker process with these names and addresses."""
    listed = LISTED * len(filter_servers) + texts(filter_servers)
    return BROKER + 3 * sum(map(text, names)) + 3 * listed  # encoded twice as well


def namespace(name: str) -> int:
    """Of a table of pairs, without them."""
    return NAMESPACE + text(name)


def pair(key: str, value: str) -> int:
    return PAIR + text(key) + text(value)
