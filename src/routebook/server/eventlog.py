"""Events as log lines: one JSON object each, long lists cut to their length and a few examples."""

import logging
from dataclasses import fields
from typing import Any

from routebook.events import (
    BrokerConflict,
    Event,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    NodeStalled,
    QueueChange,
    RequestRefused,
    RouteQueries,
    StaticMapping,
    Suspect,
)
from routebook.journal.record import as_json

logger = logging.getLogger("routebook.events")

_EXAMPLES = 3
_LISTS = frozenset({"changes", "mappings", "recipients", "suspects"})
_TROUBLE = (BrokerConflict, RequestRefused, GuardEngaged, GuardReleased, NodeStalled)


def log_event(event: Event) -> None:
    if isinstance(event, HeartbeatGaps | RouteQueries):
        return  # counts, for the journal: far too many for a log
    level = logging.WARNING if isinstance(event, _TROUBLE) else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", line(event))


def line(event: Event) -> str:
    """``{"event":"BrokerLeft","revision":7,"cause":"expired",...}``."""
    members: dict[str, Any] = {"event": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        if field.name in _LISTS:
            if len(value) > _EXAMPLES:
                members[f"{field.name}_count"] = len(value)
            value = [_readable(item) for item in value[:_EXAMPLES]]
        members[field.name] = value
    return as_json(members).decode()


def _readable(item: Any) -> Any:
    if isinstance(item, QueueChange):
        return {k: v for k, v in item._asdict().items() if k != "registered" or v is not None}
    return item._asdict() if isinstance(item, StaticMapping | Suspect) else item
