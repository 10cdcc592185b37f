"""Keeping the tables out of garbage collections.

They hold no cycles, and a collection that walks those of a few registrations takes 20 ms and more.
So whatever there is after a turn of long work is frozen, and let go as ever when nobody refers to
it. This is for a process that froze what it began with, as ``routebook serve`` does; others are
left as they are.
"""

import gc
from collections.abc import Callable


def freezer() -> Callable[[], None]:
    """What is to be called when the tables have grown; it takes no time."""
    return gc.freeze if gc.get_freeze_count() else _leave_alone


def _leave_alone() -> None:
    """Whose process this is has other plans."""
