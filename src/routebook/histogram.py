"""Histogram: how often something took how long, in plain numbers."""

from bisect import bisect_left

BOUNDS_US = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000)
"""Upper bounds, in microseconds; a twelfth place is for what took longer."""


class Histogram:
    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.total_us = 0

    def add(self, seconds: float) -> None:
        took_us = max(0, round(seconds * 1_000_000))
        self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        self.total_us += took_us

    def told(self) -> dict[str, object]:
        """For STATISTICS: how many fell into each place, and the sum."""
        return {"counts": list(self.counts), "total_us": self.total_us}
