"""Moments as people write them.

2026-11-15T03:12:04Z    ISO 8601; without a zone it is UTC, without a time midnight
08:30  08:30:15+02:00   the last time it was that late
15m  2h30m  1d          before now, with a minus or without: weeks, days, hours, minutes, seconds
seq:1234  1234          after that record
now
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from routebook.words import exact

_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_RELATIVE = re.compile(r"-?((?:[0-9]{1,9}[wdhms])+)")
_TIME_OF_DAY = re.compile(
    r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_DAY = timedelta(days=1)
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
            f"{text!r} is no moment: {reason}; write 2026-11-15T03:12:04Z, 03:12, 15m, 2h30m,"
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
    if told.startswith("-") or _RELATIVE.fullmatch(told.lower()):
        return AtTime(now_ms - _ago_ms(text, told))
    if _TIME_OF_DAY.fullmatch(told):
        return AtTime(_last_ms(text, told, now_ms))
    return AtTime(_iso_ms(text, told))


def _ago_ms(text: str, told: str) -> int:
    found = _RELATIVE.fullmatch(told.lower())
    if found is None:
        raise BadTime(text, "after the minus come numbers with a unit, w, d, h, m or s")
    units = re.findall(r"([0-9]+)([wdhms])", found[1])
    return sum(int(number) * _UNITS_MS[unit] for number, unit in units)


def _last_ms(text: str, told: str, now_ms: int) -> int:
    """When it was last that late: today, or yesterday if that is still to come."""
    try:
        at = time.fromisoformat(told.zfill(len(told) + (told[1] == ":")).upper())
    except ValueError as error:
        raise BadTime(text, str(error)) from error
    zone = at.tzinfo or UTC
    now = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone)
    moment = datetime.combine(now.date(), at.replace(tzinfo=zone))
    last = moment if moment <= now else moment - _DAY
    return (last - _EPOCH) // timedelta(milliseconds=1)


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
