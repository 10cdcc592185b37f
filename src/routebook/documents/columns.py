"""Columns: what is told of each row, declared once for its table and its JSON.

    COLUMNS = (
        Column("broker", "broker", lambda session: session.broker),
        Column("from", "from", lambda session: session.began_ms, kind=Kind.MOMENT),
        Column("lasted_ms", "lasted", lambda session: session.lasted_ms, shown=span),
        Column("heartbeats.count", "heartbeats", lambda session: ..., kind=Kind.NUMBER),
    )
    documents_of(COLUMNS, sessions)

A dot in a key makes an object in the object. A column without a heading is in JSON only, one
without a key in the table only. Tables are the business of ``cli.columns``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeVar

from routebook.words import exact

Row = TypeVar("Row")


class Kind(Enum):
    """NAME is one piece, PROSE may go on in the next line, MOMENT is a wall time in ms.

    VALUE is prose of any sort: one whose words are too wide has lines of its own, below its row.
    """

    NAME = auto()
    NUMBER = auto()
    PROSE = auto()
    VALUE = auto()
    MOMENT = auto()


class Styled(NamedTuple):
    """Text of a table that is to stand out; ``style`` as Rich has it."""

    text: str
    style: str


@dataclass(frozen=True)  # slots do not go with Column[Row](...)
class Column(Generic[Row]):
    """``shown`` makes text of a value that is there; ``drop`` says what goes first for room."""

    key: str | None
    heading: str | None
    value: Callable[[Row], Any]
    shown: Callable[[Any], object] = lambda value: value
    kind: Kind = Kind.NAME
    drop: int | None = None

    def member(self, row: Row) -> Any:
        """What JSON has."""
        value = self.value(row)
        return exact(value) if self.kind is Kind.MOMENT and value is not None else value


def document_of(columns: Sequence[Column[Row]], row: Row) -> dict[str, Any]:
    """All columns that have a key, in their order."""
    document: dict[str, Any] = {}
    for column in columns:
        if column.key is None:
            continue
        *outer, last = column.key.split(".")
        place = document
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = column.member(row)
    return document


def documents_of(columns: Sequence[Column[Row]], rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [document_of(columns, row) for row in rows]
