"""Events as log lines: one JSON object each, without control characters.

Long lists are cut to their length and a few examples, long texts to their beginning.
"""

import logging
from dataclasses import fields
from itertools import islice
from typing import Any

from routebook.events import (
    BrokerConflict,
    Event,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    NodeStalled,
    NoiseCounted,
    PeerNoise,
    QueueChange,
    RequestRefused,
    RouteQueries,
    StaticMapping,
    Suspect,
)
from routebook.journal.record import as_json
from routebook.printable import escaped, shortened

logger = logging.getLogger("routebook.events")

_EXAMPLES = 3
_LONGEST = 512  # characters of a text
_ADDRS = 16  # of a group
_TROUBLE = (BrokerConflict, RequestRefused, NoiseCounted, GuardEngaged, GuardReleased, NodeStalled)


def log_event(event: Event) -> None:
    if isinstance(event, HeartbeatGaps | RouteQueries):
        return  # counts, for the journal: far too many for a log
    level = logging.WARNING if isinstance(event, _TROUBLE) else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", line(event), extra={"kind": type(event).__name__})


def line(event: Event) -> str:
    """``{"event":"BrokerLeft","revision":7,"cause":"expired",...}``."""
    members: dict[str, Any] = {"event": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        shown = _bounded(value)
        if isinstance(value, tuple | dict) and len(shown) < len(value):
            members[f"{field.name}_count"] = len(value)
        members[field.name] = shown
    return escaped(as_json(members).decode())


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return shortened(value, _LONGEST)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        if value and isinstance(value[0], int):
            return value  # numbers, such as a data version
        return [_bounded(_readable(item)) for item in value[:_EXAMPLES]]
    if isinstance(value, dict):
        few = islice(value.items(), _ADDRS)
        return {_bounded(key): _bounded(_readable(item)) for key, item in few}
    return value


def _readable(item: Any) -> Any:
    if isinstance(item, QueueChange):
        return {k: v for k, v in item._asdict().items() if k != "registered" or v is not None}
    if isinstance(item, StaticMapping):
        return item._replace(curr_id_map=item.curr_id_map[:_EXAMPLES])._asdict()
    return item._asdict() if isinstance(item, PeerNoise | Suspect) else item
