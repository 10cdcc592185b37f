"""``routebook health``: how nodes are."""

from collections.abc import Sequence

import click
from rich.table import Table
from rich.text import Text

from routebook.audit.health import RelayHealth, Stalls
from routebook.cli.errors import Negative
from routebook.cli.memory import memory_table
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options, table_of
from routebook.cli.plain import one_line, plain
from routebook.cli.reports import (
    RelayReport,
    Report,
    Reports,
    excuse,
    is_foreign,
    reports_of_ours,
    take_reports,
)
from routebook.client import NameServerError
from routebook.words import span, to_second

COUNTS = ("brokers", "unconfirmed", "topics", "journal", "synced", "lost")


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
        table=memory_table if memory else _table,
        data=lambda reports: {
            "nodes": [
                {"node": str(node), "health": None, "error": excuse(found)}
                if isinstance(found, NameServerError)
                else {"node": str(node), "health": found.document, "error": None}
                for node, found in reports.items()
            ]
        },
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


def _table(reports: Reports) -> Table:
    columns = [
        "node",
        "id",
        "version",
        "uptime",
        *COUNTS,
        "stalls",
        "last error",
        "guard",
        "health",
    ]
    return table_of(
        columns,
        (
            (node, *[None] * (len(columns) - 2), _no_report(found))
            if isinstance(found, NameServerError)
            else (node, *_cells(found))
            for node, found in reports.items()
        ),
        right=COUNTS,
    )


def _no_report(error: NameServerError) -> Text:
    return Text(plain(excuse(error)), style="dim" if is_foreign(error) else "bold red")


def _cells(report: Report | RelayReport) -> Sequence[object]:
    health = report.health
    if isinstance(health, RelayHealth):
        style = "green" if health.ok else "bold red"
        last_error = None if health.ok or not health.last_error else one_line(health.last_error)
        counts = (None, None, health.topics, None, None, None)
        uptime = span(health.uptime_ms)
        state = Text(_state(report), style=style)
        return ("a relay", health.version, uptime, *counts, None, last_error, None, state)
    journal, guard, tasks = health.journal, health.guard, health.tasks
    return (
        health.node,
        health.version,
        span(health.uptime_ms),
        health.brokers,
        health.unconfirmed,
        health.topics,
        journal.last_seq,
        journal.synced_seq,
        journal.lost,
        _stalls(health.stalls),
        one_line(last_error) if (last_error := journal.last_error or tasks.last_error) else None,
        f"{guard.number_held} held until {to_second(guard.until_ms)}" if guard.held else None,
        Text(_state(report), style="green" if health.ok else "bold red"),
    )


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
