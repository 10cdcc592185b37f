"""The common clock of a fleet: how far each clock is ahead of it, on each day.

    rows = common_clock(days, samples)

It is the clock of the first node, by name, in the first epoch of it. Others are compared with that,
or with one that was, by what both saw; days whose samples do not tell are judged by all there were
up to them. So it does not move when the first node is absent. Where nobody is left who could be
compared with anybody known, the first of those who are there begins a new one.

What was not measured is unknown, and stays so: None is not 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from routebook.history.comparing.skew import LEAST_SAMPLES, Measured, Skew, skew_of

_MOST_LOOKED_AT = 1000


class Clock(NamedTuple):
    """``epoch`` is the first record since it was last set."""

    fleet: str
    node: str
    incarnation: str
    epoch: int


class Sample(NamedTuple):
    """How far ``clock`` was ahead of ``against``; days are those of each by itself.

    ``seen_ms`` is when that was, by either clock.
    """

    clock: Clock
    day: date
    against: Clock
    against_day: date
    offset_ms: int
    seen_ms: int


class _Seen(NamedTuple):
    """A sample as one of the two has it."""

    day: date
    other_day: date
    measured: Measured


class SkewRow(NamedTuple):
    """A row of the table. ``offset_ms`` None: nobody knows."""

    day: date
    fleet: str
    node: str
    incarnation: str
    against: str
    offset_ms: int | None
    uncertainty_ms: int | None
    samples: int
    assumed: bool


class _Known(NamedTuple):
    """By how much a clock is ahead of the common one, as of a day of its own."""

    against: str
    offset_ms: int
    uncertainty_ms: int
    samples: int
    assumed: bool


def common_clock(days: Iterable[tuple[date, Clock]], samples: Iterable[Sample]) -> list[SkewRow]:
    """A row for each day on which a witness wrote something; ``days`` has its clocks on it."""
    by_fleet: defaultdict[str, list[tuple[date, Clock]]] = defaultdict(list)
    for day, clock in days:
        by_fleet[clock.fleet].append((day, clock))
    seen: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        seen[sample.clock.fleet].append(sample)
    return [
        row for fleet in sorted(by_fleet) for row in _Fleet(by_fleet[fleet], seen[fleet]).rows()
    ]


class _Fleet:
    def __init__(self, days: Sequence[tuple[date, Clock]], samples: Iterable[Sample]) -> None:
        self._days: defaultdict[date, list[Clock]] = defaultdict(list)
        self._last_day: dict[Clock, date] = {}
        for day, clock in sorted(set(days)):
            self._days[day].append(clock)
            self._last_day[clock] = day
        self._samples: defaultdict[Clock, defaultdict[Clock, list[_Seen]]]
        self._samples = defaultdict(lambda: defaultdict(list))
        for one in samples:
            ahead, behind = (Measured(ms, one.seen_ms) for ms in (one.offset_ms, -one.offset_ms))
            self._samples[one.clock][one.against].append(_Seen(one.day, one.against_day, ahead))
            self._samples[one.against][one.clock].append(_Seen(one.against_day, one.day, behind))
        for others in self._samples.values():
            for listed in others.values():
                listed.sort()
        self._known: defaultdict[Clock, dict[date, _Known]] = defaultdict(dict)

    def rows(self) -> Iterator[SkewRow]:
        if not self._last_day:
            return
        anchors = [min(self._last_day)]
        while anchors:
            self._settle(anchors)
            anchors = self._next_anchor(anchors)
        for day in sorted(self._days):
            yield from self._rows_of(day)

    def _settle(self, anchors: Sequence[Clock]) -> None:
        """Find all that can be compared with an anchor, or with one that can."""
        anchor = anchors[-1]
        own = _Known(anchor.node, 0, 0, 0, assumed=False)
        places = [(day, clock) for day in sorted(self._days) for clock in self._days[day]]
        for day, clock in places:
            if clock == anchor:
                self._known[clock].setdefault(day, own)
        found = True
        while found:
            found = False
            for day, clock in places:
                if day in self._known[clock]:
                    continue
                best = self._best(clock, day)
                if best is not None:
                    self._known[clock][day] = best
                    found = True

    def _best(self, clock: Clock, day: date) -> _Known | None:
        """As of ``day``, by the clock that tells it best."""
        candidates = []
        for other, listed in self._samples[clock].items():
            until = [each for each in listed if each.day <= day][-_MOST_LOOKED_AT:]
            used = [each for each in until if each.day == day]
            skew = skew_of(each.measured for each in used)
            if len(used) < LEAST_SAMPLES or not skew.known:
                used = until
                skew = skew_of(each.measured for each in used)
            base = self._as_of(other, max((each.other_day for each in used), default=None))
            if base is not None and skew.offset_ms is not None:
                candidates.append((_by(skew, base), other))
        if not candidates:
            return None
        return min(candidates, key=lambda each: (each[0].uncertainty_ms, each[1]))[0]

    def _as_of(self, clock: Clock, day: date | None) -> _Known | None:
        """What is known of ``clock`` on ``day``, or else the last before it, or the first."""
        known = self._known[clock]
        if day is None or not known:
            return None
        before = [each for each in known if each <= day]
        return known[max(before) if before else min(known)]

    def _next_anchor(self, anchors: Sequence[Clock]) -> list[Clock]:
        """One more, for days on which nobody is left of whom anything is known."""
        last = max(self._last_day[clock] for clock, days in self._known.items() if days)
        for day in sorted(self._days):
            unknown = [clock for clock in self._days[day] if not self._known[clock]]
            if day > last and unknown:
                return [*anchors, min(unknown)]
        return []

    def _rows_of(self, day: date) -> Iterator[SkewRow]:
        by_witness: defaultdict[tuple[str, str, str], list[_Known | None]] = defaultdict(list)
        for clock in self._days[day]:
            by_witness[clock[:3]].append(self._known[clock].get(day))
        for (fleet, node, incarnation), found in sorted(by_witness.items()):
            known = _together(found)
            if known is None:
                against = min(self._last_day).node
                yield SkewRow(day, fleet, node, incarnation, against, None, None, 0, assumed=False)
            else:
                yield SkewRow(day, fleet, node, incarnation, *known)


def _by(skew: Skew, base: _Known) -> _Known:
    assert skew.offset_ms is not None
    return _Known(
        base.against,
        base.offset_ms + skew.offset_ms,
        base.uncertainty_ms + skew.uncertainty_ms,
        skew.samples,
        assumed=skew.assumed or base.assumed,
    )


def _together(found: Sequence[_Known | None]) -> _Known | None:
    """Of the clocks of one witness on one day; None when it was set, and nobody knows from what."""
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    widest = max(each.uncertainty_ms for each in known)
    offsets = [each.offset_ms for each in known]
    if max(offsets) - min(offsets) > widest:
        return None
    return known[-1]._replace(uncertainty_ms=widest)
