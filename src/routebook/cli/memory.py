"""The table of ``routebook health --memory``: what nodes hold for others, for what and for whom."""

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from routebook.audit.health import Memory
from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.reports import RelayReport, Report, Reports, excuse
from routebook.client import Address, NameServerError
from routebook.words import size

SHOWN_PEERS = 3

NodeRow = tuple[Address, Report | RelayReport | NameServerError]


def memory_table(reports: Reports) -> RenderableType:
    kinds = dict.fromkeys(
        kind
        for found in reports.values()
        if isinstance(found, Report)
        for kind in found.health.memory.kinds
    )
    return table_of(tuple(_columns(kinds)), reports.items())


def _columns(kinds: dict[str, None]) -> Iterator[Column[NodeRow]]:
    """Of nodes; JSON has all that each node says of itself."""
    yield Column(None, "node", lambda row: str(row[0]))
    yield _bytes("resident", lambda memory: memory.resident)
    yield _bytes("limit", lambda memory: memory.limit)
    yield _bytes("tables", lambda memory: memory.tables)
    yield _bytes("of", lambda memory: memory.tables_limit)
    for kind in kinds:
        yield _bytes(kind, lambda memory, kind=kind: memory.kinds.get(kind, 0))  # type: ignore[misc]
    yield Column(None, "most for", _most_for, kind=Kind.PROSE)


def _bytes(heading: str, value: Callable[[Memory], int]) -> Column[NodeRow]:
    def of_node(row: NodeRow) -> int | None:
        memory = _memory(row)
        return None if memory is None else value(memory)

    return Column(None, heading, of_node, shown=size, kind=Kind.NUMBER)


def _memory(row: NodeRow) -> Memory | None:
    """None for a relay, for who tells nothing, for a node from before there was an account."""
    found = row[1]
    told = isinstance(found, Report) and found.health.memory.limit
    return found.health.memory if isinstance(found, Report) and told else None


def _most_for(row: NodeRow) -> str | None:
    found = row[1]
    if isinstance(found, RelayReport):
        return "a relay"
    if isinstance(found, NameServerError):
        return excuse(found)
    memory = _memory(row)
    peers = memory.peers[:SHOWN_PEERS] if memory is not None else ()
    return ", ".join(f"{each.peer} {size(each.bytes)}" for each in peers) or None
