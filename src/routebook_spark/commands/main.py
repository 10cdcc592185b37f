"""The group of commands ``routebook spark``, each loaded when it is used."""

import importlib

import click

COMMANDS = {
    "build": "Make the tables from what was ingested.",
    "diff": "Show what changed between two times.",
    "explain": "Tell the story of a topic or a broker in sentences.",
    "ingest": "Take sealed segments of journals into tables, each exactly once.",
    "retake": "Take segments once more of which records are in quarantine.",
    "report": "Write a page with plots and tables to mail.",
    "route": "Show which brokers held a topic at a time.",
    "watch": "Follow journals and raise alerts.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"routebook_spark.commands.{name}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def spark() -> None:
    """Turn the journals of all nodes into tables, answers, alerts and a report."""
