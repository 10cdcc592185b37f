"""What somebody may have meant who mistyped a name."""

from collections.abc import Collection
from difflib import get_close_matches

from routebook.words import listed

MOST_NAMES = 10_000  # more take longer to compare than anybody wants to wait
FEW = 10
ALIKE = 0.75  # the default, 0.6, takes shipments for payments


def close_names(name: str, known: Collection[str]) -> str:
    """``did you mean orders?``, or ``order, orders or older?``; empty where no name is like it."""
    close = get_close_matches(name, known, cutoff=ALIKE) if len(known) <= MOST_NAMES else []
    if not close:
        return ""
    *others, last = close
    meant = f"{', '.join(others)} or {last}" if others else last
    return f"did you mean {meant}?"


def known_names(name: str, known: Collection[str], where: object) -> str:
    """All of them if they are few, else those it may have been, else some."""
    if len(known) > FEW and (close := close_names(name, known)):
        return close
    return f"known at {where}: {listed(sorted(known), most=FEW) or 'none'}"
