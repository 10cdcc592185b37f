"""``routebook spark route``: which brokers held a topic at a time, on all nodes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.errors import NO
from routebook.cli.output import Output, json_option
from routebook.documents.routes import role
from routebook.plain import word
from routebook.words import permission
from routebook_spark.commands.asking import (
    Nodes,
    fleet_option,
    known_nodes,
    node_option,
    shown,
    time_option,
)
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from pyspark.sql import Row

_TOLD = {
    "none": "no route",
    "down": "the node was down",
    "unknown": "not known",
}
_ANSWERS = ("route", "probably")
_WHY = {
    "records_lost": "records of this time were lost",
    "records_missing": "records of this time are missing",
    "stalled": "the node listened to nobody, or only for moments",
    "silent": "brokers were listed and nothing was recorded: nobody knows whether it was awake",
    "clock": "its clock was set, and nobody was awake at this time",
    "killed": "the node was killed at some moment after {since}",
    "ended": "there are no records after {since}",
}
_NOTHING = "there is nothing of this time, or it does not begin with a state"


@click.command()
@click.argument("topic")
@time_option("--at", "moment", default="now", help="The time; default now.")
@node_option
@fleet_option
@json_option
@spark_options
def route(
    engine: Engine,
    topic: str,
    moment: datetime,
    node: str | None,
    fleet: str | None,
    as_json: bool,
) -> None:
    """Show the route of TOPIC as clients were told it, node by node.

    Where nobody knows whether a node answered at that time, what it knew last is told as probable,
    or nothing, with the reason.

    Times are ISO times (2026-11-15T03:12:04Z; UTC without a zone), of the last 24 hours (08:30),
    before now (15m, 2h30m, 1d) or "now", by the clock of each node.

    Exit code 1 when no node had a route.
    """
    with engine.lake("route") as lake:
        from routebook_spark.questions import Routebook

        book = Routebook(lake)
        nodes = known_nodes(book, node=node, fleet=fleet)
        found = book.route(topic, moment, node=node, fleet=fleet)
        rows = found.orderBy("fleet", "node", "cluster", "broker").collect()
    Output(as_json).show(
        lambda: rows,
        table=lambda found: Group(*_routes(topic, moment, found, nodes)),
        data=lambda found: _document(topic, moment, found),
    )
    if not any(row.told in _ANSWERS and row.broker is not None for row in rows):
        raise click.exceptions.Exit(NO)


def _by_node(rows: Sequence["Row"]) -> Iterator[list["Row"]]:
    for _, same in groupby(rows, key=lambda row: (row.fleet, row.node)):
        yield list(same)


def _why(row: "Row") -> str | None:
    """The reason why it is not known what was told; None where it is."""
    if row.told not in ("probably", "unknown"):
        return None
    if row.why is None:
        return _NOTHING
    since = "" if row.unclear_since is None else shown(row.unclear_since)
    return _WHY.get(row.why, str(row.why)).format(since=since)


def _routes(
    topic: str, moment: datetime, rows: Sequence["Row"], nodes: Nodes
) -> Iterator[RenderableType]:
    for number, parts in enumerate(_by_node(rows)):
        if number:
            yield Text()
        name = nodes.named(parts[0].fleet, parts[0].node)
        yield from _route(f"{word(topic)} at {word(name)}, {shown(moment)}", parts)


MEMBERS = (
    Column[Any](None, "cluster", lambda row: row[0].cluster, drop=2),
    Column[Any](None, "broker", lambda row: row[0].broker),
    Column[Any](None, "id", lambda row: row[1], kind=Kind.NUMBER),
    Column[Any](None, "role", lambda row: role(row[1]), drop=1),
    Column[Any](None, "address", lambda row: row[2]),
    Column[Any](
        None,
        "confirmed",
        lambda row: Text("no", style="bold yellow") if row[2] in row[0].unconfirmed else "yes",
    ),
)

PARTS = (
    Column[Any]("cluster", None, lambda part: part.cluster),
    Column[Any]("broker", "broker", lambda part: part.broker),
    Column[Any](
        "addresses", None, lambda part: {str(i): addr for i, addr in sorted(part.addrs.items())}
    ),
    Column[Any]("unconfirmed", None, lambda part: list(part.unconfirmed)),
    Column[Any]("read", "read", lambda part: part.read_queues, kind=Kind.NUMBER),
    Column[Any]("write", "write", lambda part: part.write_queues, kind=Kind.NUMBER),
    Column[Any]("perm", None, lambda part: part.perm),
    Column[Any]("permission", "permission", lambda part: permission(part.perm)),
    Column[Any]("sys_flag", None, lambda part: part.flags),
    Column[Any]("since", "since", lambda part: shown(part.since)),
    Column[Any]("since_seq", None, lambda part: part.since_seq),
    Column[Any]("cause", "cause", lambda part: part.cause, kind=Kind.PROSE, drop=1),
)
"""A table has the members apart from what they hold."""


def _route(title: str, parts: Sequence["Row"]) -> Iterator[RenderableType]:
    told, why = parts[0].told, _why(parts[0])
    if parts[0].broker is None:
        says = "probably no route" if told == "probably" else _TOLD[told]
        because = "" if why is None else f", because {why}"
        yield Text(f"{title}: {says}{because}", style="bold red")
        return
    if why is not None:
        yield Text(f"{title}: probably, because {why}\n", style="bold yellow")
    else:
        yield Text(f"{title}\n", style="bold")
    members = ((part, *member) for part in parts for member in sorted(part.addrs.items()))
    yield table_of(MEMBERS, members)
    yield Text()
    yield table_of(PARTS, parts)
    yield Text(f"\nAs of record {parts[0].seq}, at {shown(parts[0].as_of)}.")
    if parts[0].partial:
        yield Text(
            "What was before the journal begins is not known: brokers that did not register since"
            " are missing.",
            style="yellow",
        )


def _document(topic: str, moment: datetime, rows: Sequence["Row"]) -> dict[str, Any]:
    return {
        "topic": topic,
        "at": shown(moment),
        "nodes": [_node_document(parts) for parts in _by_node(rows)],
    }


def _node_document(parts: Sequence["Row"]) -> dict[str, Any]:
    first = parts[0]
    return {
        "fleet": first.fleet,
        "node": first.node,
        "told": first.told,
        "known": first.known,
        "why": _why(first),
        "partial": first.partial,
        "seq": first.seq,
        "as_of": None if first.as_of is None else shown(first.as_of),
        "brokers": documents_of(PARTS, (part for part in parts if part.broker is not None)),
    }
