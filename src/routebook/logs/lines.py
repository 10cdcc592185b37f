"""How a log line looks: as text for people, or as one JSON object for programs.

Whatever is in a line, it is one line: this is the one place where control characters of names and
values are escaped, and where lines are cut. ``PlainText`` does that where the line comes up; what
it made of it is written as it is, or taken apart into an object by ``JsonLine``.
"""

import logging
import time
from typing import Any

import msgspec

from routebook.printable import escaped, shortened

TEXT, JSON = "text", "json"

LONGEST = 8 * 1024  # characters of a line; a traceback comes on lines of its own
LONGEST_TRACEBACK = 64 * 1024
_INDENT = "\n  "


class PlainText(logging.Formatter):
    """The message on one line; a traceback below it, indented: no line of it passes as another."""

    def format(self, record: logging.LogRecord) -> str:
        text = shortened(escaped(record.getMessage()), LONGEST)
        below = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            below.append(self.formatStack(record.stack_info))
        lines = shortened("\n".join(below), LONGEST_TRACEBACK).split("\n") if below else []
        return _INDENT.join((text, *map(escaped, lines)))


class TextLine(logging.Formatter):
    """``time level logger message`` of what PlainText made; before the message its request."""

    def format(self, record: logging.LogRecord) -> str:
        ids = [f"[{number}]" for number in _ids(record).values()]
        message = record.getMessage()
        return " ".join((_utc(record), record.levelname, record.name, *ids, message))


class JsonLine(logging.Formatter):
    """The same as one JSON object: ``time``, ``level``, ``logger``, ``message``, and more.

    ``extra={"members": {...}}`` adds members, and a message that is a JSON object itself, as those
    of events are, stands for its members instead of being a text. ``traceback`` is the rest.
    """

    def format(self, record: logging.LogRecord) -> str:
        message, _, below = record.getMessage().partition(_INDENT)
        line: dict[str, Any] = {
            "time": _utc(record),
            "level": record.levelname,
            "logger": record.name,
        }
        line |= _ids(record)
        line |= _members(message) or {"message": message}
        line |= getattr(record, "members", {})
        if below:
            line["traceback"] = below.replace(_INDENT, "\n")
        return escaped(msgspec.json.encode(line, enc_hook=str).decode())


def _ids(record: logging.LogRecord) -> dict[str, str]:
    """Of the request and the trace that a line is about, where somebody noted them."""
    found = {name: getattr(record, name, "") for name in ("request_id", "trace_id")}
    return {name: number for name, number in found.items() if number}


def _members(message: str) -> dict[str, Any] | None:
    if not message.startswith('{"'):
        return None
    try:
        members = msgspec.json.decode(message)
    except msgspec.DecodeError:  # it was cut
        return None
    return members if isinstance(members, dict) else None


def _utc(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def formatter(log_format: str) -> logging.Formatter:
    """Of lines that PlainText prepared."""
    return JsonLine() if log_format == JSON else TextLine()
