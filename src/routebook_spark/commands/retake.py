"""``routebook spark retake``: take segments once more of which records are in quarantine."""

import click

from routebook.cli.output import Output, console, json_option
from routebook.cli.progress import progress_shown
from routebook_spark.commands.ingest import result_data, result_table
from routebook_spark.commands.options import Engine, spark_options


@click.command()
@click.option(
    "--because",
    metavar="TEXT",
    help="Only segments with a reason that has this in it, such as 'schema version'.",
)
@spark_options
@json_option
def retake(because: str | None, engine: Engine, as_json: bool) -> None:
    """Take segments once more of which records are in quarantine.

    After an upgrade of the pipeline it can read what it could not before. What is in the tables
    already is recognised and not taken twice. Their files have to be where they were.
    """
    with engine.existing_lake("retake") as lake:
        from routebook_spark.bronze.ingest import retake as take_once_more

        wanted = console(stderr=True).is_terminal
        with progress_shown() as told:
            result = take_once_more(lake, because=because, told=told if wanted else None)
        Output(as_json).show(lambda: result, table=result_table, data=result_data)
