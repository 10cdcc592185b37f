"""One clock for several nodes: that of the first one, in its longest epoch.

Where two epochs of different nodes saw enough together, their skew is known. Epochs that are joined
to the common clock by known skews, directly or over others, have a place on it; the rest has none,
and what happened in them cannot be compared with anything.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from routebook.history.comparing.awareness import Awareness, Epoch
from routebook.history.comparing.skew import (
    LEAST_UNCERTAINTY_MS,
    OWN_CLOCK,
    Measured,
    Skew,
    samples_of,
    skew_of,
)
from routebook.history.finding.clocks import ClockReading

Spot = tuple[int, int]  # number of the node, number of its epoch


@dataclass(frozen=True, slots=True)
class CommonClock:
    """``skews`` has every epoch of every node; unknown for those without a place.

    ``epoch`` of the first node is the one whose clock it is.
    """

    skews: Mapping[Spot, Skew]
    epoch: int = 0

    def own(self, first: Awareness) -> Epoch:
        return first.epochs[self.epoch]

    def at_ms(self, node: int, epoch: int, wall_ms: int) -> int | None:
        """A time of a node by the common clock; None where that is not known."""
        offset_ms = self.skews[node, epoch].offset_ms
        return None if offset_ms is None else wall_ms - offset_ms


def common_clock(
    nodes: Sequence[Awareness], readings: Sequence[ClockReading | None] | None = None
) -> CommonClock:
    """``readings`` are those of the clocks as they are now, of nodes that were asked."""
    measured = _measured(nodes, readings or [None] * len(nodes))
    epochs = nodes[0].epochs
    longest = max(range(len(epochs)), key=lambda e: epochs[e].to_ms - epochs[e].from_ms)
    placed: dict[Spot, Skew] = {(0, longest): OWN_CLOCK}
    waiting: list[Spot] = [(0, longest)]
    while waiting:
        here = waiting.pop(0)
        for there, skew in sorted(measured[here].items(), key=lambda item: _rank(item[1])):
            if there not in placed and skew.known:
                placed[there] = _joined(placed[here], skew)
                waiting.append(there)
    skews = {
        (number, epoch): placed.get((number, epoch)) or _unplaced(measured, (number, epoch))
        for number, node in enumerate(nodes)
        for epoch in range(len(node.epochs))
    }
    return CommonClock(skews, longest)


def _rank(skew: Skew) -> tuple[bool, int]:
    return skew.assumed, skew.uncertainty_ms


def _unplaced(measured: Mapping[Spot, Mapping[Spot, Skew]], spot: Spot) -> Skew:
    found = [skew for there, skew in measured[spot].items() if there[0] == 0]
    most = max(found, key=lambda skew: skew.samples, default=None)
    return Skew(None, 0, most.samples if most else 0, most.agreeing if most else 0)


def _joined(one: Skew, other: Skew) -> Skew:
    assert one.offset_ms is not None
    assert other.offset_ms is not None
    return Skew(
        one.offset_ms + other.offset_ms,
        one.uncertainty_ms + other.uncertainty_ms,
        other.samples,
        other.agreeing,
        assumed=one.assumed or other.assumed,
        asked=other.asked,
    )


def _measured(
    nodes: Sequence[Awareness], readings: Sequence[ClockReading | None]
) -> Mapping[Spot, dict[Spot, Skew]]:
    """Of each epoch how far others are ahead of it, as far as they saw anything together."""
    found: dict[Spot, dict[Spot, Skew]] = defaultdict(dict)
    for (i, here), (j, there) in combinations(enumerate(nodes), 2):
        samples: dict[tuple[Spot, Spot], list[Measured]] = defaultdict(list)
        for sample in samples_of(here.seen, there.seen, here.awake_at, there.awake_at):
            pair = (i, sample.here.epoch), (j, sample.there.epoch)
            samples[pair].append(sample.measured)
        skews = {pair: skew_of(each) for pair, each in samples.items()}
        now = _asked(readings[i], readings[j])
        if now is not None:
            skews[(i, len(here.epochs) - 1), (j, len(there.epochs) - 1)] = now
        for (one, other), skew in skews.items():
            found[one][other] = skew
            found[other][one] = _turned(skew)
    return found


def _asked(here: ClockReading | None, there: ClockReading | None) -> Skew | None:
    if here is None or there is None:
        return None
    uncertainty_ms = max(here.uncertainty_ms + there.uncertainty_ms, LEAST_UNCERTAINTY_MS)
    return Skew(there.ahead_ms - here.ahead_ms, uncertainty_ms, asked=True)


def _turned(skew: Skew) -> Skew:
    if skew.offset_ms is None:
        return skew
    return Skew(
        -skew.offset_ms,
        skew.uncertainty_ms,
        skew.samples,
        skew.agreeing,
        assumed=skew.assumed,
        asked=skew.asked,
    )
