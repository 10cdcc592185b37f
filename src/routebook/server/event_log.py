"""Events as log lines: one JSON object each, without control characters.

Long lists are cut to their length and a few examples, long texts to their beginning.
"""

import logging
from dataclasses import fields
from itertools import islice
from typing import Any

from routebook.events import Event, Kind
from routebook.journal.record import as_json
from routebook.printable import escaped, shortened

logger = logging.getLogger("routebook.events")

_EXAMPLES = 3
_LONGEST = 512  # characters of a text
_ADDRS = 16  # of a group


def log_event(event: Event) -> None:
    if event.kind is Kind.WINDOW:
        return  # counts, for the journal: far too many for a log
    level = logging.WARNING if event.alarming else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", line(event), extra={"kind": event.type_name})


def line(event: Event) -> str:
    """``{"event":"BrokerLeft","revision":7,"cause":"expired",...}``."""
    members: dict[str, Any] = {"event": event.type_name}
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
    if hasattr(value, "_asdict"):
        return _bounded(_said(value))
    if isinstance(value, tuple):
        if value and isinstance(value[0], int):
            return value  # numbers, such as a data version
        return [_bounded(item) for item in value[:_EXAMPLES]]
    if isinstance(value, dict):
        return {_bounded(key): _bounded(item) for key, item in islice(value.items(), _ADDRS)}
    return value


def _said(item: Any) -> dict[str, Any]:
    """The members of a named tuple, without those that are as they usually are."""
    usual = item._field_defaults
    return {k: v for k, v in item._asdict().items() if k not in usual or v != usual[k]}
