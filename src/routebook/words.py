"""Small pieces of sentences: numbers with their nouns, lists cut short, times, sizes, permissions.

Node, history, command line and pipeline write them alike, because they write them here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

EXAMPLES = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PERMISSIONS = (("R", 4), ("W", 2), ("X", 1))


def plural(number: int, noun: str) -> str:
    """``topic`` of one, ``topics`` of any other number."""
    return noun if number == 1 else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """As in ``1 topic`` and ``2 topics``."""
    return f"{number} {plural(number, noun)}"


def listed(names: Sequence[str], *, most: int = EXAMPLES, of: int | None = None) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b, c and 7 more``.

    ``of`` is how many there are where ``names`` are only the first of them.
    """
    shown, total = names[:most], len(names) if of is None else of
    if total > len(shown):
        return f"{', '.join(shown)} and {total - len(shown)} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def first_lines(lines: Sequence[str], *, most: int) -> list[str]:
    """The first of them, and a line that says how many there are besides."""
    more = len(lines) - most
    return [*lines[:most], f"and {more} more"] if more > 0 else list(lines)


def permission(perm: int) -> str:
    """``RW-``, as mqadmin writes it; the third letter is that new topics may inherit from it."""
    return "".join(letter if perm & bit else "-" for letter, bit in _PERMISSIONS)


def size(count: float) -> str:
    """``812 B``, ``3.4 KiB``, ``12 MiB``."""
    if count < 0:
        return f"-{size(-count)}"
    unit = "B"
    for larger in ("KiB", "MiB", "GiB"):
        if round(count) < 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:.0f} {unit}" if unit == "B" or round(count, 1) >= 10 else f"{count:.1f} {unit}"


def span(ms: int) -> str:
    """``850 ms``, ``4.2 s``, ``30 s``, ``4 min 10 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if ms < 0:
        return f"-{span(-ms)}"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 10_000:
        tenths = ms // 100
        return f"{tenths // 10}.{tenths % 10} s" if tenths % 10 else f"{tenths // 10} s"
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return _two(seconds, 60, "min", "s")
    if seconds < 86_400:
        return _two(seconds // 60, 60, "h", "min")
    return _two(seconds // 3600, 24, "d", "h")


def _two(count: int, per: int, large: str, small: str) -> str:
    rest = f" {count % per} {small}" if count % per else ""
    return f"{count // per} {large}{rest}"


def exact(wall_ms: int) -> str:
    """``2026-11-15T03:12:04.120Z``; the milliseconds only where there are any."""
    moment = _datetime(wall_ms)
    if moment is None:
        return f"{wall_ms} ms after 1970"
    millis = f".{wall_ms % 1000:03}" if wall_ms % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{millis}Z"


def to_second(wall_ms: int) -> str:
    """``2026-11-15T03:12:04Z``."""
    return exact(wall_ms - wall_ms % 1000)


def day(wall_ms: int) -> str:
    """``2026-11-15``."""
    moment = _datetime(wall_ms)
    return exact(wall_ms) if moment is None else f"{moment:%Y-%m-%d}"


def time_of_day(wall_ms: int) -> str:
    """``03:12:04Z``."""
    moment = _datetime(wall_ms)
    return exact(wall_ms) if moment is None else f"{moment:%H:%M:%S}Z"


def _datetime(wall_ms: int) -> datetime | None:
    """None beyond the years 1 to 9999, which a broken clock may well report."""
    try:
        return _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return None
