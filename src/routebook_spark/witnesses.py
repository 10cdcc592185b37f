"""Witnesses: whose records something is made of.

Nodes of one fleet may be compared. One name may stand for several witnesses, one after the other:
a node whose disk was replaced begins a new incarnation, with numbers of its own.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F


class Witness(NamedTuple):
    fleet: str
    node: str
    incarnation: str

    def is_of(self) -> Column:
        """Whether a row is of it."""
        return (
            (F.col("fleet") == self.fleet)
            & (F.col("node") == self.node)
            & (F.col("incarnation") == self.incarnation)
        )

    def sql(self) -> str:
        """The same, as text."""
        return (
            f"fleet = {_literal(self.fleet)} AND node = {_literal(self.node)}"
            f" AND incarnation = {_literal(self.incarnation)}"
        )


def witness_of(row: Any) -> Witness:
    return Witness(row.fleet, row.node, row.incarnation)


def is_of_any(witnesses: Iterable[Witness]) -> Column:
    """Whether a row is of one of them."""
    return reduce(Column.__or__, (each.is_of() for each in sorted(witnesses)), F.lit(False))


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
