"""What the commands that ask questions share: times, nodes, and tables that hold nothing."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import time_ns
from typing import TYPE_CHECKING, Any

import click

from routebook.cli.errors import Negative
from routebook.history.times import AtTime, BadTime, exact, parse

if TYPE_CHECKING:
    from routebook_spark.questions import Routebook

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def time_option(flag: str, name: str, **more: Any) -> Decorator:
    return click.option(flag, name, callback=_time, metavar="TIME", **more)


node_option = click.option("--node", help="Only what this node knew.")


def _time(ctx: click.Context, param: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = parse(given, now_ms=time_ns() // 1_000_000)
    except BadTime as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not isinstance(moment, AtTime):
        raise click.BadParameter(
            "nodes have sequence numbers of their own: give a time", ctx, param
        )
    try:
        return datetime.fromtimestamp(moment.wall_ms / 1000, UTC)
    except (OverflowError, ValueError) as error:
        raise click.BadParameter(f"there is no year like that of {given}", ctx, param) from error


def shown(moment: datetime) -> str:
    """``2026-11-15T03:12:04Z``, with milliseconds where there are any."""
    return exact(in_ms(moment))


def in_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)  # Spark gives local times, without saying so


def check_known(book: "Routebook", node: str | None) -> None:
    """Raises Negative when the tables tell nothing, or nothing of ``node``."""
    nodes = sorted(
        row.node for row in book.table("node_coverage").select("node").distinct().collect()
    )
    if not nodes:
        raise Negative(
            f"there is nothing in {book.lake.root} yet: run `routebook spark ingest` and then"
            " `routebook spark build`"
        )
    if node is not None and node not in nodes:
        raise Negative(f"no node {node} is known, but {', '.join(nodes)}")
