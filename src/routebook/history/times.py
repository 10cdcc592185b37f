"""Moments as people write them, and times and spans as people read them.

2026-11-15T03:12:04Z    ISO 8601; without a zone it is UTC, without a time midnight
-15m  -2h30m  -1d       before now: weeks, days, hours, minutes, seconds
seq:1234  1234          after that record
now
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_RELATIVE = re.compile(r"-((?:[0-9]{1,9}[wdhms])+)")
_SEQUENCE = re.compile(r"(?:seq:)?([0-9]{1,18})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AtTime:
    wall_ms: int

    def __str__(self) -> str:
        return exact(self.wall_ms)


@dataclass(frozen=True, slots=True)
class AtSeq:
    """Just after the record of this sequence number."""

    seq: int

    def __str__(self) -> str:
        return f"sequence number {self.seq}"


Moment = AtTime | AtSeq


class BadTime(ValueError):
    """One sentence about a text that names no moment."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            f"{text!r} is no moment: {reason}; write 2026-11-15T03:12:04Z, -15m, -2h30m,"
            " seq:1234 or now"
        )
        self.reason = reason


def parse(text: str, *, now_ms: int) -> Moment:
    """The moment ``text`` names; raises BadTime."""
    told = text.strip()
    if told.lower() == "now":
        return AtTime(now_ms)
    if found := _SEQUENCE.fullmatch(told):
        return AtSeq(int(found[1]))
    if told.lower().startswith("seq:"):
        raise BadTime(text, "after seq: comes a sequence number of up to 18 digits")
    if told.startswith("-"):
        return AtTime(now_ms - _ago_ms(text, told))
    return AtTime(_iso_ms(text, told))


def _ago_ms(text: str, told: str) -> int:
    found = _RELATIVE.fullmatch(told.lower())
    if found is None:
        raise BadTime(text, "after the minus come numbers with a unit, w, d, h, m or s")
    units = re.findall(r"([0-9]+)([wdhms])", found[1])
    return sum(int(number) * _UNITS_MS[unit] for number, unit in units)


def _iso_ms(text: str, told: str) -> int:
    try:
        moment = datetime.fromisoformat(told)
    except ValueError as error:
        # The parser names a part that is out of range, and otherwise only repeats the text.
        reason = "it is not an ISO 8601 time" if "isoformat" in str(error) else str(error)
        raise BadTime(text, reason) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


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
