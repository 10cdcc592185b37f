"""Keys and values of several nodes in one table."""

from collections.abc import Mapping

from rich.table import Table

from routebook.cli.output import table_of
from routebook.client import Address


def pairs_table(tables: Mapping[Address, Mapping[str, str]]) -> Table:
    """Each value once; a third column says which nodes have it if not all of them do."""
    holders: dict[tuple[str, str], list[str]] = {}
    for node, table in tables.items():
        for pair in table.items():
            holders.setdefault(pair, []).append(str(node))
    rows = sorted(holders.items())
    if all(len(nodes) == len(tables) for nodes in holders.values()):
        return table_of(["key", "value"], [pair for pair, _ in rows])
    return table_of(
        ["key", "value", "nodes"],
        [(*pair, "all" if len(nodes) == len(tables) else ", ".join(nodes)) for pair, nodes in rows],
    )
