"""``routebook history``: the command, where it reads, and what it shows."""

from routebook.cli.history.command import history

__all__ = ["history"]
