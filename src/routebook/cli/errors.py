"""Exit codes: 0 fine, 1 the answer is no, 2 wrong usage, 3 NameServers could not be asked.

130 is Ctrl-C, and 141 a reader of the output that went away, as in a shell.
"""

import click

from routebook.cli.plain import one_line

NO = 1
CANNOT_ASK = 3
INTERRUPTED = 130
NO_READER = 141


class _Sentence(click.ClickException):
    def format_message(self) -> str:
        return one_line(self.message)


class CannotAsk(_Sentence):
    """No NameServer could be asked, or none answered."""

    exit_code = CANNOT_ASK


class Negative(_Sentence):
    """The question was answered, and the answer is no."""

    exit_code = NO
