"""``routebook journal``: the command and what it shows."""

from routebook.cli.journal.command import journal

__all__ = ["journal"]
