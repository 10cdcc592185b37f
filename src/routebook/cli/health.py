"""``routebook health``: how nodes are."""

from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from routebook.audit.health import Health, RelayHealth, Stalls
from routebook.cli.columns import Column, Kind, documents_of, judged, table_of
from routebook.cli.errors import Negative
from routebook.cli.memory import memory_table
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options
from routebook.cli.reports import (
    RelayReport,
    Report,
    excuse,
    reports_of_ours,
    take_reports,
)
from routebook.client import Address, NameServerError
from routebook.client.errors import is_foreign
from routebook.plain import one_line, plain
from routebook.words import span, to_second

NodeRow = tuple[Address, Report | RelayReport | NameServerError]


@click.command()
@output_options
@click.option("--memory", "memory", is_flag=True, help="What is held in memory, and for whom.")
@asking_options
def health(asking: Asking, memory: bool, output: Output) -> None:
    """Show how every node is: what it knows, its journal, its stalls, brokers its guard holds.

    Relays say that they are none, and how old their oldest answer is.

    Exit code 1 when a node is not ok or cannot be asked, 3 when none can be asked. NameServers
    that are not Routebook's cannot tell, and do not count unless there are no others.
    """
    reports = output.show(
        lambda: take_reports(asking),
        table=memory_table if memory else lambda reports: table_of(COLUMNS, reports.items()),
        data=lambda reports: {"nodes": documents_of(COLUMNS, reports.items())},
    )
    if not any(isinstance(found, RelayReport) for found in reports.values()):
        reports_of_ours(reports)
    trouble = {
        node: excuse(found) if isinstance(found, NameServerError) else _state(found)
        for node, found in reports.items()
        if not is_foreign(found) and (isinstance(found, NameServerError) or not found.health.ok)
    }
    if trouble:
        raise Negative("; ".join(f"{node}: {text}" for node, text in trouble.items()))


def _of_node(value: Callable[[Health], Any]) -> Callable[[NodeRow], Any]:
    """``value`` of the health of a node; None of a relay and of one that tells nothing."""
    return lambda row: value(row[1].health) if isinstance(row[1], Report) else None


def _of_both(value: Callable[[Health | RelayHealth], Any]) -> Callable[[NodeRow], Any]:
    """Of a relay too."""
    return lambda row: None if isinstance(row[1], NameServerError) else value(row[1].health)


def _id(row: NodeRow) -> str | None:
    found = row[1]
    if isinstance(found, RelayReport):
        return "a relay"
    return found.health.node if isinstance(found, Report) else None


def _last_error(health: Health | RelayHealth) -> str | None:
    if isinstance(health, RelayHealth):
        error = None if health.ok else health.last_error
    else:
        error = health.journal.last_error or health.tasks.last_error
    return one_line(error) if error else None


def _held(health: Health) -> str | None:
    guard = health.guard
    return f"{guard.number_held} held until {to_second(guard.until_ms)}" if guard.held else None


def _how(row: NodeRow) -> Text:
    found = row[1]
    if isinstance(found, NameServerError):
        style = "dim" if is_foreign(found) else "bold red"
        return Text(plain(excuse(found)), style=style)
    return judged(_state(found), good=found.health.ok)


def _document(row: NodeRow) -> Any:
    return None if isinstance(row[1], NameServerError) else row[1].document


def _count(
    heading: str, value: Callable[[Health], Any], drop: int | None = None
) -> Column[NodeRow]:
    return Column(None, heading, _of_node(value), kind=Kind.NUMBER, drop=drop)


COLUMNS = (
    Column[NodeRow]("node", "node", lambda row: str(row[0])),
    Column[NodeRow]("health", None, _document),
    Column[NodeRow](
        "error", None, lambda row: excuse(row[1]) if isinstance(row[1], NameServerError) else None
    ),
    Column[NodeRow](None, "id", _id, drop=4),
    Column[NodeRow](None, "version", _of_both(lambda health: health.version), drop=2),
    Column[NodeRow](None, "uptime", _of_both(lambda health: health.uptime_ms), shown=span, drop=5),
    _count("brokers", lambda health: health.brokers),
    _count("unconfirmed", lambda health: health.unconfirmed, drop=7),
    Column[NodeRow](None, "topics", _of_both(lambda health: health.topics), kind=Kind.NUMBER),
    _count("journal", lambda health: health.journal.last_seq, drop=3),
    _count("synced", lambda health: health.journal.synced_seq, drop=1),
    _count("lost", lambda health: health.journal.lost, drop=6),
    Column[NodeRow](
        None, "stalls", _of_node(lambda health: _stalls(health.stalls)), kind=Kind.PROSE
    ),
    Column[NodeRow](None, "last error", _of_both(_last_error), kind=Kind.PROSE),
    Column[NodeRow](None, "guard", _of_node(_held), kind=Kind.PROSE),
    Column[NodeRow](None, "health", _how, kind=Kind.PROSE),
)
"""JSON has all that each node says of itself."""


def _stalls(stalls: Stalls) -> str | None:
    """How often the node listened to nobody, and when that was last."""
    last = stalls.last
    if last is None:
        return None
    what = f"clock set by {span(abs(last.clock_ms))}"
    if last.longest_ms:
        what = f"for {span(max(last.to_ms - last.from_ms, last.longest_ms))}"
    return f"{stalls.count}, last at {to_second(last.from_ms)} {what}"


def _relay_state(health: RelayHealth) -> str:
    oldest = "" if health.oldest_ms is None else f", answers up to {span(health.oldest_ms)} old"
    if health.outage_ms is None:
        return f"ok{oldest}"
    return f"no NameServer has answered it for {span(health.outage_ms)}{oldest}"


def _state(report: Report | RelayReport) -> str:
    """In a few words, all that is wrong."""
    health = report.health
    if isinstance(health, RelayHealth):
        return _relay_state(health)
    if health.ok:
        return "ok"
    wrong = []
    if health.guard.held:
        wrong.append("holds silent brokers")
    if health.journal.failing:
        wrong.append("the journal cannot be written")
    if health.memory.pressed:
        wrong.append("its memory is used up")
    wrong += [f"{plain(what)} fails ({plain(why)})" for what, why in health.tasks.failing.items()]
    return ", ".join(wrong) or "not ok"
