"""Rows of ``events`` as events again, for ``routebook.history`` to tell of them."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import msgspec
from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from routebook import events
from routebook.events import Event, KvChanged
from routebook.journal.record import decode, event_of
from routebook_spark.schemas import PROMOTED


def event_column() -> Column:
    """What ``event_in`` needs of a row."""
    return F.struct("type", *PROMOTED, "data", "raw")


def event_in(row: Row) -> Event:
    """The event of an ``event_column``."""
    if row["raw"] is not None:
        return decode(row["raw"].encode()).event
    members = row.asDict(recursive=True)
    kind: str = members["type"]
    members |= members.pop("data")
    queries, count = members.pop("queries"), members.pop("topic_count")
    members["topics"] = count if queries is None else [list(each.values()) for each in queries]
    if kind != KvChanged.__name__:
        members |= {
            name: msgspec.json.decode(members[name])
            for name in ("before", "after")
            if members[name] is not None
        }
    return event_of(kind, _said(members))


def _said(members: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that have a default, where nothing was said."""
    return {
        name: [_said(each) if isinstance(each, dict) else each for each in value]
        if isinstance(value, list)
        else value
        for name, value in members.items()
        if value is not None or name not in _DEFAULTS
    }


def _with_defaults() -> Iterator[str]:
    for kind in map(vars(events).get, events.__all__):
        if is_dataclass(kind):
            yield from (field.name for field in fields(kind) if field.default is not MISSING)
        else:
            yield from getattr(kind, "_field_defaults", ())


_DEFAULTS = frozenset(_with_defaults())
