"""Skew: how far apart the clocks of two nodes are, judged by what both saw.

A broker registers with all nodes at about the same time, and its data version tells one of its
registrations from the next. Where both nodes took the same one, the difference of their times is
that of their clocks, give or take the time it took to reach them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from routebook.events import RegistrationCompleted
from routebook.journal.record import Record

_SPREAD = 3 * 1.4826  # of the median deviation: three standard deviations, if it were normal
_FEW = 3
LEAST_UNCERTAINTY_MS = 10
UNCERTAINTY_OF_FEW_MS = 1000

Registrations = Mapping[tuple[object, ...], list[int]]
"""When each registration was complete: wall times, in order."""


@dataclass(frozen=True, slots=True)
class Skew:
    """``offset_ms`` is how far a clock is ahead; nothing is known from 0 ``samples``."""

    offset_ms: int = 0
    uncertainty_ms: int = UNCERTAINTY_OF_FEW_MS
    samples: int = 0


NO_SKEW = Skew(uncertainty_ms=0)


def registrations(records: Iterable[Record]) -> Registrations:
    """Those among ``records``, of one node."""
    seen: dict[tuple[object, ...], list[int]] = {}
    for record in records:
        event = record.event
        if isinstance(event, RegistrationCompleted):
            key = (event.cluster, event.broker, event.addr, event.data_version)
            seen.setdefault(key, []).append(record.wall_ms)
    for times in seen.values():
        times.sort()
    return seen


def estimate(first: Registrations, other: Registrations) -> Skew:
    """How far the clock of ``other`` is ahead of that of ``first``."""
    offsets = [
        there - here
        for key, times in first.items()
        if key in other
        for here, there in _pairs(times, other[key])
    ]
    if not offsets:
        return Skew()
    offset = round(median(offsets))
    deviations = [abs(each - offset) for each in offsets]
    if len(offsets) < _FEW:
        uncertainty = max(*deviations, UNCERTAINTY_OF_FEW_MS)
    else:
        uncertainty = max(round(_SPREAD * median(deviations)), LEAST_UNCERTAINTY_MS)
    return Skew(offset, uncertainty, len(offsets))


def _pairs(here: list[int], there: list[int]) -> Iterable[tuple[int, int]]:
    """Times that are each other's nearest."""
    for each in here:
        nearest = _nearest(there, each)
        if _nearest(here, nearest) == each:
            yield each, nearest


def _nearest(times: list[int], wanted: int) -> int:
    place = bisect_left(times, wanted)
    return min(times[max(0, place - 1) : place + 1], key=lambda time: abs(time - wanted))
