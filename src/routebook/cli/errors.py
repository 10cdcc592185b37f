"""Exit codes: 0 fine, 1 the answer is no, 2 wrong usage, 3 NameServers could not be asked.

130 is Ctrl-C, and 141 a reader of the output that went away, as in a shell. An error is a sentence
on standard error; with --json it is ``{"error": "…", "exit_code": 1}``, one line.
"""

import click

from routebook.plain import one_line

NO = 1
CANNOT_ASK = 3
INTERRUPTED = 130
NO_READER = 141

JSON_WANTED = "routebook.json"  # in the ``meta`` of contexts: whether --json was given


class _Sentence(click.ClickException):
    def format_message(self) -> str:
        return one_line(self.message)


class CannotAsk(_Sentence):
    """No NameServer could be asked, or none answered."""

    exit_code = CANNOT_ASK


class Negative(_Sentence):
    """The question was answered, and the answer is no."""

    exit_code = NO


class CannotStart(_Sentence):
    """A program that runs until it is stopped could not begin."""

    exit_code = 2


def show(error: click.ClickException) -> None:
    """On standard error, in the way that was asked for."""
    from routebook.cli.output import json_wanted, tell_error

    if isinstance(error, click.UsageError) and not json_wanted():
        error.show()  # how the command is used comes first
    else:
        tell_error(error.format_message(), error.exit_code)
