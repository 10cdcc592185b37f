"""Events as log lines: one JSON object each, long lists cut to their length and a few examples."""

import logging
from dataclasses import fields
from typing import Any

import msgspec

from routebook.events import Event

logger = logging.getLogger("routebook.events")

_EXAMPLES = 3


def log_event(event: Event) -> None:
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", line(event))


def line(event: Event) -> str:
    """``{"event":"BrokerLeft","revision":7,"cause":"expired",...}``."""
    members: dict[str, Any] = {"event": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, tuple) and len(value) > _EXAMPLES and field.name != "data_version":
            members[f"{field.name}_count"] = len(value)
            value = value[:_EXAMPLES]
        members[field.name] = value
    return msgspec.json.encode(members).decode()
