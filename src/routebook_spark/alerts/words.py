"""Small pieces of sentences: numbers with their nouns, lists cut short, times and spans."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_EXAMPLES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(number: int, noun: str) -> str:
    """As in ``1 topic`` and ``2 topics``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b, c and 7 more``."""
    if len(names) > _EXAMPLES:
        return f"{', '.join(names[:_EXAMPLES])} and {len(names) - _EXAMPLES} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def moment(at_ms: int) -> str:
    """``2026-11-15T03:12:04Z``; of the years 1 to 9999."""
    return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%dT%H:%M:%SZ}"


def span(ms: int) -> str:
    """``850 ms``, ``4.2 s``, ``30 s``, ``4 min 10 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if ms < 1000:
        return f"{max(ms, 0)} ms"
    seconds = ms // 1000
    if ms < 10_000:
        tenths = ms // 100 % 10
        return f"{seconds}.{tenths} s" if tenths else f"{seconds} s"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return _two(seconds, 60, "min", "s")
    if seconds < 86_400:
        return _two(seconds // 60, 60, "h", "min")
    return _two(seconds // 3600, 24, "d", "h")


def _two(number: int, per: int, large: str, small: str) -> str:
    rest = f" {number % per} {small}" if number % per else ""
    return f"{number // per} {large}{rest}"
