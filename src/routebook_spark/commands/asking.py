"""What the commands that ask questions share: times, nodes, and tables that hold nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time_ns
from typing import TYPE_CHECKING, Any

import click

from routebook.cli.errors import Negative
from routebook.history.times import AtTime, BadTime, parse
from routebook.words import exact

if TYPE_CHECKING:
    from routebook_spark.questions import Routebook

_FORMS = "2026-11-15T03:12:04Z, 03:12, 15m, 2h30m or now"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def time_option(flag: str, name: str, **more: Any) -> Decorator:
    return click.option(flag, name, callback=_time, metavar="TIME", **more)


node_option = click.option("--node", help="Only what this node knew.")
fleet_option = click.option("--fleet", help="Only nodes of this fleet.")


def _time(ctx: click.Context, param: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = parse(given, now_ms=time_ns() // 1_000_000)
    except BadTime as error:
        # It knows of sequence numbers as well, which are of no use here.
        raise click.BadParameter(
            f"{given!r} is no time: {error.reason}; write {_FORMS}", ctx, param
        ) from error
    if not isinstance(moment, AtTime):
        raise click.BadParameter(
            f"nodes have sequence numbers of their own: give a time, such as {_FORMS}", ctx, param
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


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that tables tell of, by fleet and name."""

    names: tuple[tuple[str, str], ...]

    @property
    def fleets(self) -> list[str]:
        return sorted({fleet for fleet, _ in self.names})

    def named(self, fleet: str, node: str) -> str:
        """The name of a node, with that of its fleet where there are several."""
        return f"{fleet}/{node}" if len(self.fleets) > 1 else node


def known_nodes(book: "Routebook", *, node: str | None, fleet: str | None) -> Nodes:
    """Raises Negative when the tables tell nothing, or nothing of ``node`` or ``fleet``."""
    rows = book.table("node_coverage").select("fleet", "node").distinct().collect()
    nodes = Nodes(tuple(sorted((row.fleet, row.node) for row in rows)))
    if not nodes.names:
        raise Negative(
            f"there is nothing in {book.lake.root} yet: run `routebook spark ingest` and then"
            " `routebook spark build`"
        )
    if fleet is not None and fleet not in nodes.fleets:
        raise Negative(f"no fleet {fleet} is known, but {', '.join(nodes.fleets)}")
    there = [name for name in nodes.names if fleet in (None, name[0])]
    if node is not None and node not in {name for _, name in there}:
        others = ", ".join(nodes.named(*name) for name in there)
        raise Negative(f"no node {node} is known, but {others}")
    return nodes
