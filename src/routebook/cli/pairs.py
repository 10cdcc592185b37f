"""Keys and values of several nodes in one table."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import RenderableType

from routebook.cli.columns import Column, Kind, table_of
from routebook.client import Address


@dataclass(frozen=True, slots=True)
class _Pair:
    key: str
    value: str
    nodes: str


_PAIR = (
    Column[_Pair](None, "key", lambda pair: pair.key),
    Column[_Pair](None, "value", lambda pair: pair.value, kind=Kind.VALUE),
)
_HOLDERS = Column[_Pair](None, "nodes", lambda pair: pair.nodes, kind=Kind.PROSE)


def pairs_table(tables: Mapping[Address, Mapping[str, str]]) -> RenderableType:
    """Each value once; a third column says which nodes have it if not all of them do."""
    holders: dict[tuple[str, str], list[str]] = {}
    for node, table in tables.items():
        for pair in table.items():
            holders.setdefault(pair, []).append(str(node))
    rows = [
        _Pair(*pair, "all" if len(nodes) == len(tables) else ", ".join(nodes))
        for pair, nodes in sorted(holders.items())
    ]
    agreed = all(row.nodes == "all" for row in rows)
    return table_of(_PAIR if agreed else (*_PAIR, _HOLDERS), rows)
