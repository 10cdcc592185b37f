"""Ratios of figures measured in pairs, and how sure one can be of them.

Both members of a pair are measured within seconds of each other, so that a slow minute of the
machine hits both. What is left of its noise is in the interval.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

DRAWS = 4000
SURE = 0.95
ENOUGH = 5  # pairs; an interval of fewer means nothing


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the ratios of all pairs, and where it lies with a certainty of 95 %."""

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f}..{self.high:.3f})"

    def verdict(self, target: float) -> str:
        """Whether the ratio is at least ``target``, as far as can be said."""
        if self.pairs < ENOUGH:
            return "too few rounds to say"
        if self.low >= target:
            return "met"
        if self.high < target:
            return "missed"
        return "within the noise, median " + ("met" if self.median >= target else "missed")


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The first of each pair divided by the second. Bootstrapped, always with the same seed."""
    ratios = [first / second for first, second in pairs]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    outside = int(DRAWS * (1 - SURE) / 2)
    return Ratio(statistics.median(ratios), medians[outside], medians[-1 - outside], len(pairs))
