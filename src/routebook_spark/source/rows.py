"""Lines of journals as rows of ``events``, in batches of Arrow.

``data`` has the members of its type; ``raw`` is the whole line for types this version does not
know, and null for others. ``segment`` is null: which file a line is in changes while it is read.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from routebook.journal.errors import NewerSchema
from routebook.journal.record import VERSION, event_types
from routebook_spark.bronze.checks import EARLIEST_MS
from routebook_spark.schemas import EVENTS, LINE

logger = logging.getLogger(__name__)

SCHEMA = to_arrow_schema(EVENTS, timezone="UTC")

_DAY_MS = 86_400_000
_Read = Callable[[Any], Any]


class _Misfit(ValueError):
    pass


@dataclass(frozen=True)
class Note:
    """Something about a folder, told between the records: ``reason`` why it cannot be read.

    ``quiet_ms`` is for how long nothing has come.
    """

    type: str
    folder: str
    node: str
    fleet: str
    at_ms: int
    reason: str | None = None
    quiet_ms: int | None = None


def note_batch(notes: Iterable[Note]) -> pa.RecordBatch:
    """A row for each; they have no number."""
    rows = [
        {
            "node": note.node,
            "fleet": note.fleet,
            "incarnation": "",
            "type": note.type,
            "wall_ms": note.at_ms,
            "at": note.at_ms * 1000,
            "day": note.at_ms // _DAY_MS,
            "data": {"subject": note.folder, "reason": note.reason, "after_ms": note.quiet_ms},
        }
        for note in notes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def batch_of(lines: Iterable[bytes], *, fleet: str, incarnation: str = "") -> pa.RecordBatch:
    """A row for each line; one that cannot be read is logged and left out.

    Raises NewerSchema.
    """
    rows = []
    said = {"fleet": fleet, "incarnation": incarnation}
    for line in lines:
        try:
            rows.append(_row(line) | said)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _Misfit) as error:
            logger.warning("a line of a journal is left out: %s", error)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(line: bytes) -> dict[str, Any]:
    members = _decode(line)
    version = members.get("v")
    if isinstance(version, int) and version > VERSION:
        raise NewerSchema(version, VERSION)
    row = {name: read(members.get(name)) for name, read in _ENVELOPE.items()}
    missing = [name for name, value in row.items() if value is None and name in _REQUIRED]
    if missing:
        raise _Misfit(f"{missing[0]} is missing")
    said = members.get("data")
    if not isinstance(said, dict):
        raise _Misfit("data is missing")
    known = row["type"] in _TYPES
    reads = _KNOWN if known else _UNKNOWN
    row |= {name: read(said.get(name)) for name, read in reads.promoted.items()}
    row["data"] = _data(row["type"], said, reads)
    if not known:
        row["raw"] = line.rstrip(b"\n").decode()
    wall_ms: int = row["wall_ms"]
    if not EARLIEST_MS <= wall_ms <= _LATEST_MS:
        raise _Misfit(f"there is no time {wall_ms}")
    row["at"] = wall_ms * 1000
    row["day"] = wall_ms // _DAY_MS
    return row


def _data(kind: str, said: dict[str, Any], reads: "_Reads") -> dict[str, Any]:
    data = {name: read(said[name]) for name, read in reads.data.items() if name in said}
    topics = said.get("topics")
    if kind == "RouteQueries":
        data["queries"] = None if topics is None else [_query(each) for each in _list(topics)]
    else:
        data["topic_count"] = reads.count(topics)
    return data


def _query(count: Any) -> dict[str, Any]:
    if not isinstance(count, list) or len(count) < len(_QUERY):
        raise _Misfit(f"{count!r} does not count queries of a topic")
    return {name: read(value) for (name, read), value in zip(_QUERY.items(), count, strict=False)}


# -- values of one type, as Arrow takes them


def _reading(kind: DataType) -> _Read:
    if isinstance(kind, ArrayType):
        return _list_of(_reading(kind.elementType))
    if isinstance(kind, MapType):
        return _pairs_of(_reading(kind.valueType))
    if isinstance(kind, StructType):
        return _struct_of({field.name: _reading(field.dataType) for field in kind})
    return _READINGS[type(kind)]


def _text(value: Any) -> str | None:
    """Anything has a text: that of JSON, where it is something else."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _whole(value: Any, *, bits: int = 64) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _Misfit(f"{value!r} is not a number of {bits} bits")
    return value


def _small(value: Any) -> int | None:
    return _whole(value, bits=32)


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise _Misfit(f"{value!r} is neither true nor false")


def _list_of(read: _Read) -> _Read:
    def listed(value: Any) -> list[Any] | None:
        return None if value is None else [read(item) for item in _list(value)]

    return listed


def _pairs_of(read: _Read) -> _Read:
    def paired(value: Any) -> list[tuple[str, Any]] | None:
        return None if value is None else [(k, read(v)) for k, v in _object(value).items()]

    return paired


def _struct_of(reads: Mapping[str, _Read]) -> _Read:
    def filled(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        members = _object(value)
        return {name: read(members.get(name)) for name, read in reads.items()}

    return filled


def _if_fit(read: _Read) -> _Read:
    def fitting(value: Any) -> Any:
        try:
            return read(value)
        except _Misfit:
            return None

    return fitting


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _Misfit(f"{value!r} is not a list")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Misfit(f"{value!r} is not an object")
    return value


_READINGS: dict[type[DataType], _Read] = {
    StringType: _text,
    LongType: _whole,
    IntegerType: _small,
    BooleanType: _truth,
}
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_TYPES = frozenset(event_types())
_REQUIRED = ("node", "seq", "wall_ms", "type")
_ENVELOPE = {name: _reading(EVENTS[name].dataType) for name in (*_REQUIRED, "mono_ms", "hash")}
_SAID = LINE["data"].dataType
assert isinstance(_SAID, StructType)
_KEPT = EVENTS["data"].dataType
assert isinstance(_KEPT, StructType)


class _Reads(NamedTuple):
    """How the members of ``data`` are read: those with columns of their own, and the others."""

    promoted: dict[str, _Read]
    data: dict[str, _Read]
    count: _Read


_KNOWN = _Reads(
    {name: _reading(EVENTS[name].dataType) for name in _SAID.names if name in EVENTS.names},
    {field.name: _reading(field.dataType) for field in _KEPT if field.name in _SAID.names},
    _whole,
)
# In a type of a later version members may be of other types: they are left to ``raw``.
_UNKNOWN = _Reads(
    {name: _if_fit(read) for name, read in _KNOWN.promoted.items()},
    {name: _if_fit(read) for name, read in _KNOWN.data.items()},
    _if_fit(_whole),
)
_COUNTS = _KEPT["queries"].dataType
assert isinstance(_COUNTS, ArrayType)
assert isinstance(_COUNTS.elementType, StructType)
_QUERY = {field.name: _reading(field.dataType) for field in _COUNTS.elementType}
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999
