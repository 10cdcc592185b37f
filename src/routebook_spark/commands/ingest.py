"""``routebook spark ingest``: take sealed segments of journals into tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.output import Output, console, json_option, say
from routebook.cli.progress import progress_shown
from routebook.plain import json_text, plain
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from routebook_spark.bronze.ingest import IngestResult

_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_SHOWN = 10


def _duration(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", given)
    seconds = float(found[1]) * _UNITS_S[found[2] or "s"] if found else 0.0
    if seconds < 1:
        raise click.BadParameter(
            f"{given} is no time of a second or more, such as 30s or 5m", ctx, param
        )
    return seconds


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True)
@click.option(
    "--every",
    "every_s",
    callback=_duration,
    metavar="TIME",
    help="Go on until Ctrl-C, and look this often: 30s, 5m. Default: once.",
)
@click.option(
    "--fleet",
    metavar="NAME",
    help="The set of NameServers these nodes belong to. Default: what their journals say.",
)
@spark_options
@json_option
def ingest(
    folders: tuple[str, ...],
    every_s: float | None,
    fleet: str | None,
    engine: Engine,
    as_json: bool,
) -> None:
    """Take sealed segments of journals into tables, each exactly once.

    FOLDER is the journal folder of a node, a folder with such folders in it at any depth, or a
    pattern like '/data/*/journal'; on this machine or on any path Hadoop can reach. What is taken
    once is not taken again: run it as often as you like.
    """
    with engine.lake("ingest") as lake:
        from routebook_spark.bronze.ingest import follow
        from routebook_spark.bronze.ingest import ingest as take

        if every_s is None:
            wanted = console(stderr=True).is_terminal
            with progress_shown() as told:
                result = take(lake, folders, fleet=fleet, told=told if wanted else None)
            Output(as_json).show(lambda: result, table=result_table, data=result_data)
            return
        say(f"looking every {every_s:g} s; Ctrl-C stops it")
        follow(
            lake,
            folders,
            every_s=every_s,
            fleet=fleet,
            seen=lambda result: _tell(result, as_json),
        )


def _tell(result: "IngestResult", as_json: bool) -> None:
    if as_json:
        click.echo(json_text(result_data(result)))
    else:
        Output().show(lambda: result, table=result_table, data=result_data)


def result_data(result: "IngestResult") -> Any:
    return asdict(result) | {"seconds": round(result.seconds, 1)}


def result_table(result: "IngestResult") -> RenderableType:
    rows = [
        ("segments taken", result.segments),
        ("events", result.events),
        ("copies of segments, not read", result.copies),
        ("records that were there already", result.duplicates),
        ("records in quarantine", sum(result.quarantined.values())),
        ("segments waiting", len(result.waiting)),
        *((f"gaps: {kind}", count) for kind, count in sorted(result.gaps.items())),
        ("seconds", f"{result.seconds:.1f}"),
    ]
    return Group(table_of(_pair("INGEST", "", Kind.NUMBER), rows), *_details(result))


def _pair(first: str, second: str, kind: Kind) -> Sequence[Column[tuple[object, object]]]:
    return (
        Column(None, first, lambda row: row[0], kind=Kind.PROSE),
        Column(None, second, lambda row: row[1], kind=kind),
    )


def _details(result: "IngestResult") -> Iterator[RenderableType]:
    if result.quarantined:
        reasons = sorted(result.quarantined.items(), key=lambda item: -item[1])
        yield Text()
        yield table_of(_pair("IN QUARANTINE BECAUSE", "RECORDS", Kind.NUMBER), reasons)
    if result.waiting:
        yield Text()
        waiting = sorted(result.waiting.items())
        yield table_of(_pair("NOT TAKEN YET", "WHY", Kind.PROSE), waiting[:_SHOWN])
        if len(result.waiting) > _SHOWN:
            yield Text(f"and {len(result.waiting) - _SHOWN} more, in the table segments")
    for remark in result.remarks:
        yield Text(plain(f"Note: {remark}"))
