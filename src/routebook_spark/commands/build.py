"""``routebook spark build``."""

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from routebook.cli.output import Output, console, json_option, table_of
from routebook_spark.commands.options import Engine, spark_options

if TYPE_CHECKING:
    from routebook_spark.jobs import Built


@click.command()
@click.option("--full", is_flag=True, help="Make all tables anew, not only what has news.")
@json_option
@spark_options
def build(engine: Engine, full: bool, as_json: bool) -> None:
    """Make the tables from what was ingested.

    Only what has news is made anew, from the first day the news are about; --full makes everything
    anew, and gives the same tables.
    """
    with engine.existing_lake("build") as lake:
        from routebook_spark.jobs import build as build_tables

        with console(stderr=True).status("looking for news") as status:
            built = build_tables(lake, full=full, told=lambda name: status.update(f"making {name}"))
        Output(as_json).show(lambda: built, table=_table, data=_data)


def _table(built: "Built") -> Table | str:
    if not built.stages:
        return "nothing is new: the tables are as they were"
    since = built.from_day or "the beginning"
    return table_of(
        ["table", "rows", "seconds"],
        [[stage.table, f"{stage.rows:,}", f"{stage.seconds:.1f}"] for stage in built.stages],
        title=f"made anew from {since} on, news of {', '.join(built.nodes)}",
        right=["rows", "seconds"],
    )


def _data(built: "Built") -> Any:
    return {
        "from_day": None if built.from_day is None else str(built.from_day),
        "nodes": list(built.nodes),
        "tables": [
            {"table": stage.table, "rows": stage.rows, "seconds": round(stage.seconds, 3)}
            for stage in built.stages
        ],
    }
