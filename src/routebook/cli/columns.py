"""Columns: what a command tells of each row, declared once for its table and its JSON.

    COLUMNS = (
        Column("broker", "broker", lambda session: session.broker),
        Column("from", "from", lambda session: session.began_ms, kind=Kind.MOMENT),
        Column("lasted_ms", "lasted", lambda session: session.lasted_ms, shown=span),
        Column("heartbeats.count", "heartbeats", lambda session: ..., kind=Kind.NUMBER),
    )
    table_of(COLUMNS, sessions)
    documents_of(COLUMNS, sessions)

A dot in a key makes an object in the object. A column without a heading is in JSON only, one
without a key in the table only.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.text import Text

from routebook.cli.layout import Cell, Kind, ShownColumn, TableView, moment
from routebook.cli.plain import plain
from routebook.words import exact

__all__ = ["Column", "Kind", "document_of", "documents_of", "facts_of", "judged", "table_of"]

Row = TypeVar("Row")


def judged(text: str, *, good: bool) -> Text:
    """``text`` as good or as bad news."""
    return Text(plain(text), style="green" if good else "bold red")


@dataclass(frozen=True)  # slots do not go with Column[Row](...)
class Column(Generic[Row]):
    """``shown`` makes text of a value that is there; ``drop`` says what goes first for room."""

    key: str | None
    heading: str | None
    value: Callable[[Row], Any]
    shown: Callable[[Any], object] = lambda value: value
    kind: Kind = Kind.NAME
    drop: int | None = None

    def cell(self, row: Row) -> Cell:
        """What the table has."""
        value = self.value(row)
        if value is None:
            return Cell(plain(None), empty=True)
        if self.kind is Kind.MOMENT:
            return moment(value)
        text = self.shown(value)
        if isinstance(text, Text):
            return Cell(text.plain, str(text.style))
        return Cell(plain(text), empty=text is None or text == "")

    def member(self, row: Row) -> Any:
        """What JSON has."""
        value = self.value(row)
        return exact(value) if self.kind is Kind.MOMENT and value is not None else value


def table_of(
    columns: Sequence[Column[Row]], rows: Iterable[Row], *, title: str | None = None
) -> TableView:
    """All columns that have a heading."""
    return TableView(None if title is None else plain(title), _shown(columns, list(rows)))


def facts_of(columns: Sequence[Column[Row]], row: Row) -> TableView:
    """One row as a list: a line for each column that has a heading and something to say."""
    return TableView(None, _shown(columns, [row]), as_list=True)


def _shown(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[ShownColumn]:
    return [
        ShownColumn(plain(each.heading), each.kind, each.drop, [each.cell(row) for row in rows])
        for each in columns
        if each.heading is not None
    ]


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
