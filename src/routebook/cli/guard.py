"""``routebook guard``: brokers that nodes believe in although they fell silent."""

from collections.abc import Iterator, Mapping

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.outcomes import (
    check_answered,
    confirm,
    outcomes_of,
    show_outcomes,
    yes_option,
)
from routebook.cli.output import Output, json_option, output_options, table_of
from routebook.cli.plain import plain
from routebook.cli.reports import (
    FOREIGN,
    Guard,
    Held,
    Report,
    Reports,
    excuse,
    is_foreign,
    is_ours,
    reports_of_ours,
    take_reports,
    why_held,
)
from routebook.cli.subcommands import refuse_options
from routebook.client import Address
from routebook.words import counted, listed, span, to_second


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
        data=lambda reports: {
            "nodes": [
                {"node": str(node), "guard": None, "error": excuse(found)}
                if not isinstance(found, Report)
                else {"node": str(node), "guard": found.document.get("guard"), "error": None}
                for node, found in reports.items()
            ]
        },
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
    show_outcomes(outcomes_of(said, _released), {}, as_json=as_json)


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
    yield table_of(
        ["node", "holds", "since", "until", "why"],
        (
            (node, None, None, None, Text(plain(excuse(found)), style=_style(found)))
            if not isinstance(found, Report)
            else (node, *_summary(found.health.guard))
            for node, found in reports.items()
        ),
    )
    if holding := _holding(reports):
        yield ""
        yield _held_table(holding)


def _style(found: object) -> str:
    return "bold red" if is_ours(found) else "dim"


def _summary(guard: Guard) -> tuple[object, ...]:
    if not guard.held:
        return "nobody", None, None, None
    return (
        Text(counted(guard.number_held, "broker"), style="bold yellow"),
        to_second(guard.since_ms),
        to_second(guard.until_ms),
        why_held(guard),
    )


def _held_table(holding: Mapping[Address, Guard]) -> Table:
    return table_of(
        ["node", "cluster", "broker", "id", "address", "silent for"],
        (
            (node, held.cluster, held.broker, held.broker_id, held.addr, span(held.silent_ms))
            for node, found in holding.items()
            for held in sorted(found.held, key=lambda held: (held.cluster, held.broker, held.addr))
        ),
        right=["id"],
    )


def _name(broker: Held) -> str:
    return f"{broker.broker}:{broker.broker_id}"
