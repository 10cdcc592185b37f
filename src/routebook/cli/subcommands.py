"""Commands that do something themselves and have subcommands as well."""

import click
from click.core import ParameterSource


def refuse_options(ctx: click.Context, subcommand: str) -> None:
    """An option before a subcommand would do nothing, which nobody means; raises UsageError."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} goes after {subcommand}", ctx)
