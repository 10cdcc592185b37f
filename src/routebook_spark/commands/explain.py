"""``routebook spark explain``: the story of a topic or a broker, on all nodes."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from routebook.cli.errors import Negative
from routebook.cli.output import Output, json_option, say
from routebook.cli.plain import one_line
from routebook.history.explain import Line, as_text
from routebook.history.times import exact
from routebook_spark.commands.asking import check_known, in_ms, node_option, time_option
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    as_json: bool,
) -> None:
    """Tell in sentences what happened to a topic or broker, on all nodes together.

    Times are by the clock of one of them; how far the others are ahead is estimated. Brokers have
    a topic of their own name: unless --topic is given, the broker is told of.
    """
    with engine.lake("explain") as lake:
        from routebook_spark.questions import Routebook

        book = Routebook(lake)
        check_known(book, node)
        kind = "broker"
        lines = (
            []
            if only_topic
            else _last(book.explain_broker(name, begin=begin, end=end), node, limit)
        )
        if not lines:
            kind = "topic"
            lines = _last(book.explain_topic(name, begin=begin, end=end), node, limit)
    if not lines:
        raise Negative(f"nothing about {name} is known")
    shown = lines[-limit:]
    Output(as_json).show(
        lambda: shown,
        table=lambda told: "\n".join(map(one_line, as_text(told))),
        data=lambda told: _document(name, kind, told),
    )
    if len(shown) < len(lines):
        say("Earlier lines are left out; --limit shows more.")


def _last(story: "DataFrame", node: str | None, limit: int) -> list[Line]:
    """The last lines, and one more if there are more."""
    if node is not None:
        story = story.where(story.node == node)
    return [Line(in_ms(row.at), row.seq, row.node, row.sentence) for row in story.tail(limit + 1)]


def _document(name: str, kind: str, lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "lines": [
            {"at": exact(line.wall_ms), "seq": line.seq, "node": line.node, "text": line.text}
            for line in lines
        ],
    }
