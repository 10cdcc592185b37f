"""The program ``routebook``: its commands, each loaded when it is used."""

import importlib
import io
import os
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from routebook.cli.errors import INTERRUPTED, JSON_WANTED, NO_READER, show
from routebook.documents.suggestions import close_names
from routebook.version import __version__

COMMANDS = {
    "agent": "Register services as brokers and keep them registered.",
    "bench": "Measure how fast NameServers answer.",
    "brokers": "Show broker groups, their addresses and roles.",
    "clusters": "Show clusters and the brokers in them.",
    "compare": "Ask every node and show where their views differ.",
    "config": "Show or change the settings of nodes.",
    "doctor": "Look for what is wrong with a cluster.",
    "drain": "Take write permission from a broker, everywhere.",
    "gateway": "Serve the page, the HTTP API and metrics of nodes.",
    "guard": "Show brokers that are held although silent, and release them.",
    "health": "Show how nodes are.",
    "history": "Ask journals what a node knew, when, and why.",
    "journal": "Check, read and export the journal of a node.",
    "kv": "Read and write key-value pairs.",
    "relay": "Answer route queries from a cache of its own.",
    "route": "Show which brokers hold a topic.",
    "serve": "Run a node until it is told to stop.",
    "simulate": "Run a cluster of simulated brokers.",
    "spark": "Turn the journals of all nodes into tables, answers and reports.",
    "topics": "List topics, add and delete them.",
    "undrain": "Give write permission back to a broker, everywhere.",
    "watch": "Print routes as they change.",
}
"""Name and one line of help, so that ``routebook --help`` loads none of them."""

_MODULES = {"undrain": "drain", "clusters": "brokers"}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Errors are told in JSON to who wants JSON, also those of the arguments themselves.
        ctx.meta[JSON_WANTED] = "--json" in args[: args.index("--") if "--" in args else None]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = close_names(args[0], COMMANDS)
            if not close or args[0] in COMMANDS:
                raise
            raise click.UsageError(f"{error.message} {close.capitalize()}", ctx) from error

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"routebook.cli.{_MODULES.get(name, name)}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [
            CompletionItem(name, help=text)
            for name, text in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            show(error)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever reads the output has seen enough. What is left of it must go somewhere, or
            # the interpreter complains when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(NO_READER) from None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Completion: eval "$(_ROUTEBOOK_COMPLETE=bash_source routebook)" (or zsh_source,'
    " fish_source).",
)
@click.version_option(__version__, prog_name="routebook")
def cli() -> None:
    """A NameServer for Apache RocketMQ, and the tools around it."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 is no reason to fail
    cli(prog_name="routebook")
