"""Events as log lines: one JSON object each, long lists cut to their length and a few examples."""

import logging
from dataclasses import fields
from typing import Any

import msgspec

from routebook.events import BrokerConflict, Event, QueueChange, RequestRefused

logger = logging.getLogger("routebook.events")

_EXAMPLES = 3
_LISTS = frozenset({"changes", "topics_set", "topics_dropped", "recipients"})
_TROUBLE = (BrokerConflict, RequestRefused)


def log_event(event: Event) -> None:
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
    return msgspec.json.encode(members).decode()


def _readable(item: Any) -> Any:
    return item._asdict() if isinstance(item, QueueChange) else item
