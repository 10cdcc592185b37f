"""``routebook spark route``: which brokers held a topic at a time, on all nodes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.errors import NO
from routebook.cli.output import Output, json_option, table_of
from routebook.cli.plain import word
from routebook.history.words import MASTER, permission
from routebook_spark.commands.asking import check_known, node_option, shown, time_option
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from pyspark.sql import Row

_WHY = {
    "none": "no route",
    "down": "the node was down",
    "unknown": "not known, records of this time are missing",
}


@click.command()
@click.argument("topic")
@time_option("--at", "moment", default="now", help="The time; default now.")
@node_option
@json_option
@spark_options
def route(engine: Engine, topic: str, moment: datetime, node: str | None, as_json: bool) -> None:
    """Show the route of TOPIC as clients were told it, node by node.

    Times are ISO times (2026-11-15T03:12:04Z; UTC without a zone), times before now (-15m, -2h30m,
    -1d) or "now", by the clock of each node.

    Exit code 1 when no node had a route.
    """
    with engine.lake("route") as lake:
        from routebook_spark.questions import Routebook

        book = Routebook(lake)
        check_known(book, node)
        rows = book.route(topic, moment, node=node).orderBy("node", "cluster", "broker").collect()
    Output(as_json).show(
        lambda: rows,
        table=lambda found: Group(*_routes(topic, moment, found)),
        data=lambda found: _document(topic, moment, found),
    )
    if not any(row.told == "route" for row in rows):
        raise click.exceptions.Exit(NO)


def _by_node(rows: Sequence["Row"]) -> Iterator[tuple[str, list["Row"]]]:
    for node, same in groupby(rows, key=lambda row: row.node):
        yield node, list(same)


def _routes(topic: str, moment: datetime, rows: Sequence["Row"]) -> Iterator[RenderableType]:
    for number, (node, parts) in enumerate(_by_node(rows)):
        if number:
            yield Text()
        yield from _route(f"{word(topic)} at {word(node)}, {shown(moment)}", parts)


def _route(title: str, parts: Sequence["Row"]) -> Iterator[RenderableType]:
    told = parts[0].told
    if told != "route":
        yield Text(f"{title}: {_WHY[told]}", style="bold red")
        return
    yield Text(f"{title}\n", style="bold")
    yield table_of(
        ["cluster", "broker", "id", "role", "address", "confirmed"],
        (
            (
                part.cluster,
                part.broker,
                broker_id,
                "master" if broker_id == MASTER else "slave",
                addr,
                Text("no", style="bold yellow") if addr in part.unconfirmed else "yes",
            )
            for part in parts
            for broker_id, addr in sorted(part.addrs.items())
        ),
        right=["id"],
    )
    yield Text()
    yield table_of(
        ["broker", "read", "write", "permission", "since", "cause"],
        (
            (
                part.broker,
                part.read_queues,
                part.write_queues,
                permission(part.perm),
                shown(part.since),
                part.cause,
            )
            for part in parts
        ),
        right=["read", "write"],
    )
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
        "nodes": [_node_document(node, parts) for node, parts in _by_node(rows)],
    }


def _node_document(node: str, parts: Sequence["Row"]) -> dict[str, Any]:
    first = parts[0]
    return {
        "node": node,
        "told": first.told,
        "known": first.known,
        "partial": first.partial,
        "seq": first.seq,
        "as_of": None if first.as_of is None else shown(first.as_of),
        "brokers": [
            {
                "cluster": part.cluster,
                "broker": part.broker,
                "addresses": {str(i): addr for i, addr in sorted(part.addrs.items())},
                "unconfirmed": list(part.unconfirmed),
                "read": part.read_queues,
                "write": part.write_queues,
                "perm": part.perm,
                "permission": permission(part.perm),
                "sys_flag": part.flags,
                "since": shown(part.since),
                "since_seq": part.since_seq,
                "cause": part.cause,
            }
            for part in parts
            if part.broker is not None
        ],
    }
