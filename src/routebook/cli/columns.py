"""Columns as the tables of a terminal; what they tell is declared with ``documents.columns``.

table_of(COLUMNS, sessions)
"""

from collections.abc import Iterable, Sequence

from rich.text import Text

from routebook.cli.layout import Cell, ShownColumn, TableView, moment
from routebook.documents.columns import Column, Kind, Row, Styled, document_of, documents_of
from routebook.plain import plain

__all__ = ["Column", "Kind", "document_of", "documents_of", "facts_of", "judged", "table_of"]


def judged(text: str, *, good: bool) -> Text:
    """``text`` as good or as bad news."""
    return Text(plain(text), style="green" if good else "bold red")


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
        ShownColumn(plain(each.heading), each.kind, each.drop, [_cell(each, row) for row in rows])
        for each in columns
        if each.heading is not None
    ]


def _cell(column: Column[Row], row: Row) -> Cell:
    value = column.value(row)
    if value is None:
        return Cell(plain(None), empty=True)
    if column.kind is Kind.MOMENT:
        return moment(value)
    text = column.shown(value)
    if isinstance(text, Text):
        return Cell(text.plain, str(text.style))
    if isinstance(text, Styled):
        return Cell(plain(text.text), text.style)
    return Cell(plain(text), empty=text is None or text == "")
