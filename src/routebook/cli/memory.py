"""The table of ``routebook health --memory``: what nodes hold for others, for what and for whom."""

from rich.table import Table

from routebook.audit.health import Memory
from routebook.cli.output import table_of
from routebook.cli.plain import plain
from routebook.cli.reports import Report, Reports, excuse
from routebook.client import NameServerError
from routebook.words import size

SIZES = ("resident", "limit", "tables", "of")
SHOWN_PEERS = 3


def memory_table(reports: Reports) -> Table:
    kinds = list(
        dict.fromkeys(
            kind
            for found in reports.values()
            if isinstance(found, Report)
            for kind in found.health.memory.kinds
        )
    )
    columns = ["node", *SIZES, *kinds, "most for"]
    return table_of(
        columns,
        (
            (node, *_cells(found.health.memory, kinds))
            if isinstance(found, Report)
            else (node, *[None] * (len(columns) - 2), _excuse(found))
            for node, found in reports.items()
        ),
        right=(*SIZES, *kinds),
    )


def _excuse(found: object) -> str:
    return plain(excuse(found)) if isinstance(found, NameServerError) else "a relay"


def _cells(memory: Memory, kinds: list[str]) -> list[object]:
    if not memory.limit:
        return [None] * (len(SIZES) + len(kinds) + 1)  # a node from before there was an account
    peers = [f"{each.peer} {size(each.bytes)}" for each in memory.peers[:SHOWN_PEERS]]
    return [
        size(memory.resident),
        size(memory.limit),
        size(memory.tables),
        size(memory.tables_limit),
        *(size(memory.kinds.get(kind, 0)) for kind in kinds),
        ", ".join(peers) or None,
    ]
