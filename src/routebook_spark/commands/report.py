"""``routebook spark report``."""

from datetime import datetime
from pathlib import Path

import click

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
@click.option("--title", default="Routebook report", show_default=True, help="The heading.")
@spark_options
def report(
    engine: Engine, out: Path, from_at: datetime | None, to_at: datetime | None, title: str
) -> None:
    """Write one page about brokers, nodes and topics, with plots and tables, to mail and to keep.

    The page needs nothing but itself. The same tables give the same page. Times are ISO times
    (2026-11-15T03:12:04Z; UTC without a zone), times before now (-7d) or "now".
    """
    with engine.lake("report") as lake:
        try:
            from routebook_spark.report.gather import gather, period_of
            from routebook_spark.report.page import page
        except ImportError as error:
            raise JobFailed(
                f"{error.name} is not installed; `pip install 'routebook[spark]'` brings it"
            ) from error
        text = page(gather(lake, period_of(lake, from_at, to_at), title=title))
    _write(out, text)
    click.echo(out)


def _write(out: Path, text: str) -> None:
    """All of it or nothing."""
    part = out.with_name(f"{out.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise JobFailed(f"{out} cannot be written: {error.strerror}") from error
