"""Durations that survive a clock set back: monotonic within a run of the node, wall beyond it."""

from dataclasses import dataclass

from routebook.events import JournalRecovered, NodeStarted
from routebook.journal.record import Record


@dataclass(frozen=True, slots=True)
class Stamp:
    """``run`` counts the starts of the node: its monotonic clock begins anew with each."""

    run: int
    wall_ms: int
    mono_ms: int


class Runs:
    """Told record after record of one node, stamps each."""

    def __init__(self) -> None:
        self._run = 0

    def stamp(self, record: Record) -> Stamp:
        if isinstance(record.event, NodeStarted | JournalRecovered):
            self._run += 1
        return Stamp(self._run, record.wall_ms, record.mono_ms)


def elapsed_ms(earlier: Stamp, later: Stamp) -> int:
    """Never negative, whatever the clocks say."""
    if earlier.run == later.run:
        return max(0, later.mono_ms - earlier.mono_ms)
    return max(0, later.wall_ms - earlier.wall_ms)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the clock of a node showed against that of whoever asked it."""

    ahead_ms: int
    uncertainty_ms: int
