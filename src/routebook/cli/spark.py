"""``routebook spark``: the pipeline over journals, if it is installed."""

import importlib
from typing import NoReturn

import click

_NEEDED = {"routebook_spark", "pyspark", "delta", "pandas", "pyarrow", "matplotlib"}


def _pipeline() -> click.Command:
    try:
        # By name: nothing of Spark is a part of the node or of its tools.
        group: click.Command = importlib.import_module("routebook_spark.commands.main").spark
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        return _missing(error.name or "")
    return group


def _missing(name: str) -> click.Command:
    @click.command(
        "spark",
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def spark(arguments: tuple[str, ...]) -> NoReturn:
        raise click.ClickException(
            f"{name} is not installed; `pip install 'routebook[spark]'` brings Spark and Delta Lake"
        )

    return spark


spark = _pipeline()
