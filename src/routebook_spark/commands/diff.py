"""``routebook spark diff``: what changed between two times, on all nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.output import Output, json_option
from routebook.plain import word
from routebook.words import EXAMPLES, counted, listed
from routebook_spark.commands.asking import (
    fleet_option,
    known_nodes,
    node_option,
    shown,
    time_option,
)
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from pyspark.sql import Row

_COME_AND_GONE = ("came", "went")


@dataclass(frozen=True, slots=True)
class _Node:
    """What is different on one node; ``unknown`` is why that is not known, or None.

    ``title`` names it, with its fleet where there are several.
    """

    fleet: str
    name: str
    title: str
    unknown: str | None
    brokers: Sequence["Row"]
    topics: Sequence["Row"]

    def changed(self, change: str) -> "Row | None":
        return next((row for row in self.topics if row.change == change), None)


@click.command()
@time_option("--from", "begin", required=True, help="The first time.")
@time_option("--to", "end", default="now", help="The second one; default now.")
@click.option("--topic", help="Only what concerns this topic.")
@node_option
@fleet_option
@json_option
@spark_options
def diff(
    engine: Engine,
    begin: datetime,
    end: datetime,
    topic: str | None,
    node: str | None,
    fleet: str | None,
    as_json: bool,
) -> None:
    """Show which brokers and topics came, went or changed between two times.

    Not all that happened between them: a broker that left and came back is no difference. Times are
    ISO times (2026-11-15T03:12:04Z; UTC without a zone), of the last 24 hours (08:30), before now
    (15m, 2h30m, 1d) or "now", by the clock of each node.
    """
    with engine.lake("diff") as lake:
        from routebook_spark.questions import Routebook

        book = Routebook(lake)
        known = known_nodes(book, node=node, fleet=fleet)
        found = book.differences(begin, end, node=node, topic=topic, fleet=fleet)
        periods = found.period.select("fleet", "node", "told").orderBy("fleet", "node").collect()
        brokers = found.by_broker().orderBy("cluster", "broker").collect()
        topics = found.topics().collect()
    nodes = [
        _Node(
            each.fleet,
            each.node,
            known.named(each.fleet, each.node),
            each.told,
            [row for row in brokers if (row.fleet, row.node) == (each.fleet, each.node)],
            [row for row in topics if (row.fleet, row.node) == (each.fleet, each.node)],
        )
        for each in periods
    ]
    Output(as_json).show(
        lambda: nodes,
        table=lambda seen: Group(*_shown(begin, end, seen)),
        data=lambda seen: _document(begin, end, seen),
    )


def _shown(begin: datetime, end: datetime, nodes: Sequence[_Node]) -> Iterator[RenderableType]:
    for number, node in enumerate(nodes):
        if number:
            yield Text()
        yield Text(f"{word(node.title)}, from {shown(begin)} to {shown(end)}\n", style="bold")
        if node.unknown is not None:
            yield Text(f"not known: {node.unknown}", style="bold red")
        elif not node.brokers:
            yield Text("no difference")
        else:
            yield table_of(COLUMNS, node.brokers)
        for change in _COME_AND_GONE:
            row = node.changed(change)
            if row is not None:
                yield Text(f"\n{counted(row.topics, 'topic')} {change}: {_named(row)}")


def _what(row: "Row") -> str:
    ways = [way for way in row.ways or () if row.change == "changed"]
    return "\n".join(f"{way.what}: {counted(way.topics, 'topic')} ({_named(way)})" for way in ways)


COLUMNS = (
    Column[Any]("cluster", "cluster", lambda row: row.cluster, drop=1),
    Column[Any]("broker", "broker", lambda row: row.broker),
    Column[Any]("change", "change", lambda row: row.change),
    Column[Any]("members", "members", lambda row: list(row.members), "\n".join, Kind.PROSE),
    Column[Any]("topics", "topics", lambda row: row.topics, kind=Kind.NUMBER),
    Column[Any](None, "what", _what, kind=Kind.PROSE),
    Column[Any](
        "queues",
        None,
        lambda row: [
            {
                "what": way.what,
                "topics": way.topics,
                "examples": list(way.examples[:EXAMPLES]),
            }
            for way in row.ways or ()
        ],
    ),
)


def _named(row: "Row") -> str:
    return word(listed(row.examples, of=row.topics))


def _document(begin: datetime, end: datetime, nodes: Sequence[_Node]) -> dict[str, Any]:
    return {
        "from": shown(begin),
        "to": shown(end),
        "nodes": [
            {
                "fleet": node.fleet,
                "node": node.name,
                "known": node.unknown is None,
                "why": node.unknown,
                "brokers": documents_of(COLUMNS, node.brokers),
                "topics_came": _come_or_gone(node, "came"),
                "topics_went": _come_or_gone(node, "went"),
            }
            for node in nodes
        ],
    }


def _come_or_gone(node: _Node, change: str) -> dict[str, Any]:
    row = node.changed(change)
    return {"topics": row.topics if row else 0, "examples": list(row.examples) if row else []}
