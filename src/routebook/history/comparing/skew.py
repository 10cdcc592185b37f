"""Skew: how far apart the clocks of two nodes are, judged by what both saw.

A broker registers with all nodes at about the same time, and its data version tells one of its
registrations from the next. Where both nodes took the same one, the difference of their times is
that of their clocks, give or take the time it took to reach them. But a node that was down, slept
or was cut off takes it later, and all brokers together when it is back. So one difference proves
nothing; several that agree do, unless all are of one moment, and differences that such an absence
explains are not counted.

What is not measured is unknown, and never 0. ``skew_of`` is the rule; the pipeline has the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from routebook.events import BrokerConfirmed, RegistrationCompleted
from routebook.journal.record import Record

AGREE_MS = 2000
"""Samples this close to each other agree. Few samples this close to 0 are taken to."""

MOMENT_MS = 60_000
"""Brokers that could not reach a node all register with it within their interval, a minute at most,
of being able to again; those that had started together are late by the same time."""

LEAST_SAMPLES = 3
LEAST_UNCERTAINTY_MS = 100


@dataclass(frozen=True, slots=True)
class Skew:
    """``offset_ms`` is how far a clock is ahead; None: nobody knows.

    ``samples`` is how often both saw the same, ``agreeing`` how many of these tell the offset.
    ``assumed``: they are too few to measure it, and say nothing else. ``asked``: the nodes were
    asked for the time instead.
    """

    offset_ms: int | None = 0
    uncertainty_ms: int = 0
    samples: int = 0
    agreeing: int = 0
    assumed: bool = False
    asked: bool = False

    @property
    def known(self) -> bool:
        return self.offset_ms is not None


OWN_CLOCK = Skew(0, 0)
"""That of a clock against itself."""


class Measured(NamedTuple):
    """A difference of wall times for the same content, and when it was seen by either clock."""

    offset_ms: int
    seen_ms: int


def skew_of(samples: Iterable[Measured]) -> Skew:
    """The skew that ``samples`` tell.

    Known when at least three lie within two seconds of each other and are more than half of all:
    their median, and the largest distance from it. Those that agree, are not within two seconds of
    0 and are of one moment count as one: that may be a node that was new, or that nobody could
    reach. One or two, all within two seconds of 0, are taken to say that the clocks agree.
    Everything else is unknown.
    """
    everything = sorted(samples)
    ordered = _absences_once(everything)
    agreeing = _agreeing(ordered)
    total, count = len(everything), len(agreeing)
    if count >= LEAST_SAMPLES and 2 * count > len(ordered):
        told = [each.offset_ms for each in agreeing]
        offset = round(median(told))
        spread = max(abs(each - offset) for each in told)
        return Skew(offset, max(spread, LEAST_UNCERTAINTY_MS), total, count)
    if 0 < total < LEAST_SAMPLES and all(map(_is_near, everything)):
        return Skew(0, AGREE_MS, total, total, assumed=True)
    return Skew(None, 0, total, count)


def _agreeing(ordered: Sequence[Measured]) -> Sequence[Measured]:
    """As many as there are within ``AGREE_MS`` of each other; those nearest together, of equals."""
    best: tuple[int, int] = (0, 0)
    found: Sequence[Measured] = ()
    first = 0
    for last, (offset_ms, _) in enumerate(ordered):
        while offset_ms - ordered[first].offset_ms > AGREE_MS:
            first += 1
        rank = (last - first + 1, ordered[first].offset_ms - offset_ms)
        if rank > best or not found:
            best, found = rank, ordered[first : last + 1]
    return found


def _absences_once(ordered: Sequence[Measured]) -> Sequence[Measured]:
    """With one of those that a node explains that came, or could be reached again, at once."""
    kept = [each for each in ordered if _is_near(each)]
    far = [each for each in ordered if not _is_near(each)]
    while far:
        agreeing = _agreeing(far)
        kept += agreeing[:1] if _is_one_moment(agreeing) else agreeing
        low, high = agreeing[0].offset_ms, agreeing[-1].offset_ms
        far = [each for each in far if not low <= each.offset_ms <= high]
    return sorted(kept)


def _is_one_moment(samples: Sequence[Measured]) -> bool:
    times = [each.seen_ms for each in samples]
    return max(times) - min(times) <= MOMENT_MS


def _is_near(sample: Measured) -> bool:
    return abs(sample.offset_ms) <= AGREE_MS


# -- from records to samples

Content = tuple[object, ...]


class Sighting(NamedTuple):
    """When a node saw a registration complete; ``epoch`` numbers the stretches of its clock."""

    wall_ms: int
    epoch: int


Sightings = Mapping[Content, Sequence[Sighting]]
"""All of one node, in the order it saw them."""

WasAwake = Callable[[int], bool | None]
"""Whether a node was awake at a wall time by its own clock; None outside of its records."""


def sightings(records: Iterable[tuple[Record, int]]) -> Sightings:
    """Those among ``records``, of one node, each with the epoch of its clock.

    A broker that confirms what a node knew from before a restart says it when its next beat is
    due, and to this node only: that is no sighting.
    """
    seen: dict[Content, list[Sighting]] = {}
    confirmed: set[Content] = set()
    for record, epoch in records:
        event = record.event
        if isinstance(event, BrokerConfirmed):
            confirmed.add((*event.group, event.addr))
        elif isinstance(event, RegistrationCompleted):
            broker = (*event.group, event.addr)
            if broker in confirmed:
                confirmed.discard(broker)
            elif event.data_version is not None:
                content = (*broker, event.data_version)
                seen.setdefault(content, []).append(Sighting(record.wall_ms, epoch))
    return seen


class Sample(NamedTuple):
    """One happening: when each of two nodes saw it, by their own clocks."""

    here: Sighting
    there: Sighting

    @property
    def offset_ms(self) -> int:
        return self.there.wall_ms - self.here.wall_ms

    @property
    def measured(self) -> Measured:
        return Measured(self.offset_ms, self.here.wall_ms)


def samples_of(
    here: Sightings, there: Sightings, was_awake_here: WasAwake, was_awake_there: WasAwake
) -> Iterator[Sample]:
    """What both nodes saw and is surely one happening.

    Times within ``AGREE_MS`` of each other are. Of others the first times, and the second and so on
    only where both saw it as often, for a broker says the same again to a node that was away; and
    only where the one that saw it later was not known to be away when the other one saw it.
    """
    for content, times in here.items():
        others = there.get(content)
        if not others:
            continue
        near = list(_near(times, others))
        if near:
            yield from near
            continue
        as_often = len(times) == len(others)
        for sample in map(Sample, times, others) if as_often else [Sample(times[0], others[0])]:
            if not _was_away(sample, was_awake_here, was_awake_there):
                yield sample


def _was_away(sample: Sample, was_awake_here: WasAwake, was_awake_there: WasAwake) -> bool:
    if sample.offset_ms > 0:
        late, early, later = was_awake_there, sample.here, was_awake_here
        seen_late = sample.there
    else:
        late, early, later = was_awake_here, sample.there, was_awake_there
        seen_late = sample.here
    return not late(early.wall_ms) and later(seen_late.wall_ms) is not None


def _near(here: Sequence[Sighting], there: Sequence[Sighting]) -> Iterator[Sample]:
    """Sightings that are each other's nearest, and near."""
    ours, theirs = sorted(here), sorted(there)
    for each in ours:
        nearest = _nearest(theirs, each)
        if _nearest(ours, nearest) == each and abs(nearest.wall_ms - each.wall_ms) <= AGREE_MS:
            yield Sample(each, nearest)


def _nearest(times: Sequence[Sighting], wanted: Sighting) -> Sighting:
    place = bisect_left(times, wanted)
    around = times[max(0, place - 1) : place + 2]
    return min(around, key=lambda time: abs(time.wall_ms - wanted.wall_ms))
