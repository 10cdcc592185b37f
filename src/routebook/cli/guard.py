"""``routebook guard``: brokers that nodes believe in although they fell silent."""

from collections.abc import Iterator, Mapping

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import (
    check_answered,
    confirm,
    results_of,
    show_results,
    yes_option,
)
from routebook.cli.output import Output, json_option, output_options
from routebook.cli.reports import (
    FOREIGN,
    Guard,
    Held,
    RelayReport,
    Report,
    Reports,
    excuse,
    is_ours,
    reports_of_ours,
    take_reports,
    why_held,
)
from routebook.cli.subcommands import refuse_options
from routebook.client import Address, NameServerError
from routebook.client.errors import is_foreign
from routebook.plain import plain
from routebook.words import counted, listed, span

NodeRow = tuple[Address, Report | RelayReport | NameServerError]
HeldRow = tuple[Address, Held]


@click.group(invoke_without_command=True)
@output_options
@asking_options
@click.pass_context
def guard(ctx: click.Context, /, asking: Asking, output: Output) -> None:
    """Show brokers that nodes hold: their time is up, but too many fell silent at once.

    `routebook guard release` lets them go.
    """
    if ctx.invoked_subcommand is not None:
        refuse_options(ctx, ctx.invoked_subcommand)
        return
    reports = output.show(
        lambda: take_reports(asking),
        table=lambda reports: Group(*_tables(reports)),
        data=lambda reports: {"nodes": documents_of(NODES, reports.items())},
    )
    check_answered(reports_of_ours(reports), refusal="nothing is known")


@guard.command()
@yes_option
@json_option
@asking_options
def release(asking: Asking, yes: bool, as_json: bool) -> None:
    """Let the brokers go that nodes hold, on every node.

    They come back when they register. Nodes must be asked from their own machine, or allow changes
    from others (allowRemoteConfig).
    """
    holding = _holding(reports_of_ours(take_reports(asking)))
    if holding:
        names = sorted({_name(held) for found in holding.values() for held in found.held})
        confirm(
            f"Clients of {', '.join(map(str, holding))} will no longer find {listed(names)}.",
            f"Let {'it' if len(names) == 1 else 'them'} go?",
            yes=yes,
        )
    results = asking.run(lambda client: client.on_every_node(lambda node: node.release_guard()))
    said = {node: None if is_foreign(result) else result for node, result in results.items()}
    show_results(results_of(said, _released), {}, as_json=as_json)


def _released(dropped: int | None) -> str:
    if dropped is None:
        return FOREIGN  # and so without a guard
    return f"let go {counted(dropped, 'broker')}" if dropped else "held nobody"


def _holding(reports: Mapping[Address, object]) -> dict[Address, Guard]:
    """The nodes that hold somebody."""
    return {
        node: found.health.guard
        for node, found in reports.items()
        if isinstance(found, Report) and found.health.guard.held
    }


def _tables(reports: Reports) -> Iterator[RenderableType]:
    yield table_of(NODES, reports.items())
    if holding := _holding(reports):
        yield Text()
        yield table_of(HELD, _held_rows(holding))


def _guard(row: NodeRow) -> Guard | None:
    """That of a node that holds somebody."""
    found = row[1]
    if isinstance(found, Report) and found.health.guard.held:
        return found.health.guard
    return None


def _holds(row: NodeRow) -> object:
    guard = _guard(row)
    if guard is not None:
        return Text(counted(guard.number_held, "broker"), style="bold yellow")
    return "nobody" if isinstance(row[1], Report) else None


def _why(row: NodeRow) -> object:
    found = row[1]
    if not isinstance(found, Report):
        return Text(plain(excuse(found)), style="bold red" if is_ours(found) else "dim")
    guard = _guard(row)
    return guard and why_held(guard)


NODES = (
    Column[NodeRow]("node", "node", lambda row: str(row[0])),
    Column[NodeRow](
        "guard",
        None,
        lambda row: row[1].document.get("guard") if isinstance(row[1], Report) else None,
    ),
    Column[NodeRow](None, "holds", _holds),
    Column[NodeRow](
        None, "since", lambda row: (g := _guard(row)) and g.since_ms, kind=Kind.MOMENT, drop=1
    ),
    Column[NodeRow](None, "until", lambda row: (g := _guard(row)) and g.until_ms, kind=Kind.MOMENT),
    Column[NodeRow](None, "why", _why, kind=Kind.PROSE),
    Column[NodeRow](
        "error", None, lambda row: None if isinstance(row[1], Report) else excuse(row[1])
    ),
)


def _held_rows(holding: Mapping[Address, Guard]) -> Iterator[HeldRow]:
    for node, found in holding.items():
        for held in sorted(found.held, key=lambda held: (held.cluster, held.broker, held.addr)):
            yield node, held


HELD = (
    Column[HeldRow](None, "node", lambda row: str(row[0])),
    Column[HeldRow](None, "cluster", lambda row: row[1].cluster, drop=1),
    Column[HeldRow](None, "broker", lambda row: row[1].broker),
    Column[HeldRow](None, "id", lambda row: row[1].broker_id, kind=Kind.NUMBER),
    Column[HeldRow](None, "address", lambda row: row[1].addr),
    Column[HeldRow](None, "silent for", lambda row: row[1].silent_ms, shown=span),
)
"""JSON has them in the guard of each node, as the node tells them."""


def _name(broker: Held) -> str:
    return f"{broker.broker}:{broker.broker_id}"
