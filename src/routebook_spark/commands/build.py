"""``routebook spark build``."""

from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.output import Output, console, json_option
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from routebook_spark.jobs import Built


@click.command()
@click.option("--full", is_flag=True, help="Make all tables again, not only what has changed.")
@json_option
@spark_options
def build(engine: Engine, full: bool, as_json: bool) -> None:
    """Make the tables from what was ingested.

    Only what has changed is made again, from the first day with new records on; --full makes
    everything again, and gives the same tables.
    """
    with engine.existing_lake("build") as lake:
        from routebook_spark.jobs import build as build_tables

        with console(stderr=True).status("looking for new records") as status:
            built = build_tables(lake, full=full, told=lambda name: status.update(f"making {name}"))
        Output(as_json).show(lambda: built, table=_table, data=_data)


COLUMNS = (
    Column[Any]("table", "table", lambda stage: stage.table),
    Column[Any]("rows", "rows", lambda stage: stage.rows, "{:,}".format, Kind.NUMBER),
    Column[Any](
        "seconds", "seconds", lambda stage: round(stage.seconds, 3), "{:.1f}".format, Kind.NUMBER
    ),
)


def _table(built: "Built") -> RenderableType:
    if not built.stages:
        return "nothing is new: the tables are as they were"
    since = built.from_day or "the beginning"
    return table_of(
        COLUMNS,
        built.stages,
        title=f"made from {since} on, with new records of {', '.join(built.nodes)}",
    )


def _data(built: "Built") -> Any:
    return {
        "from_day": None if built.from_day is None else str(built.from_day),
        "nodes": list(built.nodes),
        "tables": documents_of(COLUMNS, built.stages),
    }
