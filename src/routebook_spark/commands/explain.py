"""``routebook spark explain``: the story of a topic or a broker, on all nodes."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from routebook.cli.errors import Negative
from routebook.cli.output import Output, json_option, say
from routebook.history.telling.explain import Line, as_text
from routebook.plain import one_line
from routebook.words import exact
from routebook_spark.commands.asking import (
    Nodes,
    fleet_option,
    in_ms,
    known_nodes,
    node_option,
    shown,
    time_option,
)
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

LINES = 50


@click.command()
@click.argument("name", metavar="TOPIC|BROKER")
@click.option("--topic", "only_topic", is_flag=True, help="A topic, though a broker is called so.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LINES,
    show_default=True,
    help="The last lines only.",
)
@time_option("--from", "begin", help="From this time; default the beginning.")
@time_option("--to", "end", help="Up to this time; default the end.")
@node_option
@fleet_option
@json_option
@spark_options
def explain(
    engine: Engine,
    name: str,
    only_topic: bool,
    limit: int,
    begin: datetime | None,
    end: datetime | None,
    node: str | None,
    fleet: str | None,
    as_json: bool,
) -> None:
    """Tell in sentences what happened to a topic or broker, on all nodes together.

    Times are by the clock of one of them; how far the others are ahead is estimated. Brokers have
    a topic of their own name: unless --topic is given, the broker is told of.
    """
    with engine.lake("explain") as lake:
        from routebook_spark.questions import Routebook

        book = Routebook(lake)
        nodes = known_nodes(book, node=node, fleet=fleet)
        stories = {"broker": book.explain_broker, "topic": book.explain_topic}
        if only_topic:
            del stories["broker"]
        kind, rows = "", list["Row"]()
        for each, story in stories.items():
            if not rows:
                kind = each
                rows = _last(story(name, begin=begin, end=end, fleet=fleet), node, limit)
        if not rows:
            told = [row for story in stories.values() for row in _extent(story(name, fleet=fleet))]
            raise Negative(_nothing(name, node, told))
    last = rows[-limit:]
    Output(as_json).show(
        lambda: last,
        table=lambda told: "\n".join(map(one_line, as_text([_line(row, nodes) for row in told]))),
        data=lambda told: _document(name, kind, told),
    )
    if len(last) < len(rows):
        say("Earlier lines are left out; --limit shows more.")


def _last(story: "DataFrame", node: str | None, limit: int) -> list["Row"]:
    """The last lines, and one more if there are more."""
    if node is not None:
        story = story.where(story.node == node)
    return story.tail(limit + 1)


def _extent(story: "DataFrame") -> list["Row"]:
    """From when to when each node tells of it: ``node, first_at, last_at``."""
    from pyspark.sql import functions as F

    told = story.groupBy("node").agg(F.min("at").alias("first_at"), F.max("at").alias("last_at"))
    return told.collect()


def _nothing(name: str, node: str | None, extents: Sequence["Row"]) -> str:
    """Why there is no line: there never was one, not on this node, or not in this time."""
    if not extents:
        return f"nothing about {name} is known"
    here = [each for each in extents if node in (None, each.node)]
    if not here:
        others = ", ".join(sorted({each.node for each in extents}))
        return f"nothing about {name} is known at {node}, but at {others}"
    first, last = min(each.first_at for each in here), max(each.last_at for each in here)
    return (
        f"nothing happened to {name} in this time; there is something about it from"
        f" {shown(first)} to {shown(last)}"
    )


def _line(row: "Row", nodes: Nodes) -> Line:
    return Line(in_ms(row.at), row.seq, nodes.named(row.fleet, row.node), row.sentence)


def _document(name: str, kind: str, lines: Sequence["Row"]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "lines": [
            {
                "at": exact(in_ms(row.at)),
                "seq": row.seq,
                "fleet": row.fleet,
                "node": row.node,
                "text": row.sentence,
            }
            for row in lines
        ],
    }
