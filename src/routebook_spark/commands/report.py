"""``routebook spark report``."""

import os
from datetime import datetime
from pathlib import Path

import click

from routebook.disk import write_file
from routebook_spark.commands.asking import time_option
from routebook_spark.commands.options import Engine, JobFailed, spark_options


@click.command()
@click.option(
    "--out",
    default="report.html",
    show_default=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write.",
)
@time_option("--from", "from_at", help="Where it begins; default 30 days before the end.")
@time_option("--to", "to_at", help="Where it ends; default the last record of any node.")
@click.option(
    "--fleet",
    metavar="NAME",
    help="The fleet it is about; default: all that are in the tables, one after the other.",
)
@click.option("--title", default="Routebook report", show_default=True, help="The heading.")
@spark_options
def report(
    engine: Engine,
    out: Path,
    from_at: datetime | None,
    to_at: datetime | None,
    fleet: str | None,
    title: str,
) -> None:
    """Write one page about brokers, nodes and topics, with plots and tables, to mail and to keep.

    The page needs nothing but itself. The same tables give the same page. Times are ISO times
    (2026-11-15T03:12:04Z; UTC without a zone), times before now (-7d) or "now".
    """
    _check_writable(out)
    with engine.lake("report") as lake:
        try:
            from routebook_spark.report.gather import gather, period_of
            from routebook_spark.report.page import page
        except ImportError as error:
            raise JobFailed(
                f"{error.name} is not installed; `pip install 'routebook[spark]'` brings it"
            ) from error
        period = period_of(lake, from_at, to_at, fleet=fleet)
        text = page(gather(lake, period, title=title, fleet=fleet))
    _write(out, text)
    click.echo(out)


def _check_writable(out: Path) -> None:
    """Before any work is done that could not be kept."""
    folder = out.parent
    if not folder.is_dir():
        raise JobFailed(
            f"{out} cannot be written: there is no folder {folder}; make it"
            f" (`mkdir -p {folder}`) or name another file with --out"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise JobFailed(
            f"{out} cannot be written: {folder} is not yours to write in; name another file with"
            " --out"
        )


def _write(out: Path, text: str) -> None:
    """All of it or nothing."""
    try:
        write_file(out, text.encode())
    except OSError as error:
        raise JobFailed(f"{out} cannot be written: {error.strerror}") from error
