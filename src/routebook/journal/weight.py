"""What an event takes of the queue to the disk, and of the disk: units of some 700 bytes."""

from collections.abc import Callable
from typing import Any

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    ConfigChanged,
    Event,
    GroupRestated,
    HeartbeatGaps,
    KvChanged,
    MappingsChanged,
    MinBrokerChanged,
    RequestRefused,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)

UNIT_BYTES = 700
_TOPICS = 8  # a unit, likewise the others
_ADDRS = 24
_GAPS = 100
_MAPPINGS = 4
_CHARACTERS = 500


def weight_of(event: Event) -> int:
    """1, and 1 for each eight topics it lists, or as much of anything else."""
    more = _MORE.get(type(event))
    return 1 if more is None else 1 + more(event)


def _of_pairs(event: StateRestated) -> int:
    return sum(
        (len(key) + len(value)) // _CHARACTERS + 1
        for table in event.kv.values()
        for key, value in table.items()
    )


def _of_details(event: BrokerUpdated) -> int:
    servers = [each.get("filter_servers") or () for each in (event.before, event.after)]
    return sum(len(each) for each in servers if isinstance(each, tuple | list)) // _ADDRS


_MORE: dict[type[Event], Callable[[Any], int]] = {
    TopicsChanged: lambda event: len(event.changes) // _TOPICS,
    GroupRestated: lambda event: (
        len(event.queues) // _TOPICS
        + len(event.mappings) // _MAPPINGS
        + sum(1 + len(member.filter_servers) // _ADDRS for member in event.members)
    ),
    RouteQueries: lambda event: len(event.topics) // _TOPICS,
    MappingsChanged: lambda event: sum(
        1 + len(mapping.curr_id_map) // _GAPS for mapping in event.mappings
    ),
    BrokerRegistered: lambda event: (
        (len(event.addrs_before) + len(event.addrs_after) + len(event.filter_servers)) // _ADDRS
    ),
    BrokerLeft: lambda event: (len(event.addrs_before) + len(event.addrs_after)) // _ADDRS,
    BrokerUpdated: _of_details,
    MinBrokerChanged: lambda event: len(event.recipients) // _ADDRS,
    HeartbeatGaps: lambda event: len(event.gaps_ms) // _GAPS,
    KvChanged: lambda event: (
        (len(event.key) + len(event.before or "") + len(event.after or "")) // _CHARACTERS
    ),
    RequestRefused: lambda event: (len(event.subject) + len(event.reason)) // _CHARACTERS,
    ConfigChanged: lambda event: sum(map(len, event.after.values())) // _CHARACTERS,
    StateRestated: _of_pairs,
}
