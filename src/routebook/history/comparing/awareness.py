"""Awareness: of all the time a journal tells of, when its node was a witness, and by which clock.

An epoch is a stretch of records between which nobody set the clock of the node. Times of one epoch
compare with each other; those of two do only where what other nodes saw joins them.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from routebook.events import JournalRecovered, NodeStarted
from routebook.history.comparing.skew import Sightings, sightings
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import ClockJumped, MadeUp, Silence, Silences, apply
from routebook.journal.record import Place, Record
from routebook.journal.view import View


@dataclass(frozen=True, slots=True)
class Epoch:
    """From record ``first_seq`` on; times are those of its first and last record."""

    first_seq: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A silence, and the epochs in whose clocks it begins and ends."""

    silence: Silence
    begins_in: int
    ends_in: int


@dataclass(frozen=True, slots=True)
class Awareness:
    node: str
    epochs: tuple[Epoch, ...]
    stretches: tuple[Stretch, ...]
    seen: Sightings
    fleet: str = ""

    def epoch_at(self, seq: int) -> int:
        return max(0, bisect_right(self.epochs, seq, key=lambda epoch: epoch.first_seq) - 1)

    def awake_at(self, wall_ms: int) -> bool | None:
        """None where no record is near."""
        if not any(epoch.from_ms <= wall_ms <= epoch.to_ms for epoch in self.epochs):
            return None
        return not any(stretch.silence.covers(wall_ms) for stretch in self.stretches)


def awareness(
    records: Iterable[Record], *, first: Place, last: Place, known: View | None = None
) -> Awareness:
    """What ``records`` tell, those made up included; ``known`` is what was known before them."""
    watching = _Watching(first, known or View())
    numbered = ((record, watching.take(record)) for record in records)
    seen = sightings(numbered)
    return watching.finish(last, seen)


class _Watching:
    def __init__(self, first: Place, known: View) -> None:
        self._view = narrow_view(known, None)
        self._silences = Silences(known.wall_ms if known.seq else None)
        self._epochs = [Epoch(first.seq, first.wall_ms, first.wall_ms)]
        self._ran_in = 0  # the epoch of the last record of a node that ran
        self._stretches: list[Stretch] = []
        self._node = known.node
        self._fleet = ""

    def take(self, record: Record) -> int:
        """The epoch of ``record``."""
        event = record.event
        self._node = record.node
        if isinstance(event, ClockJumped):
            begun = self._epochs[-1]
            self._epochs[-1] = Epoch(begun.first_seq, begun.from_ms, event.since_ms)
            self._epochs.append(Epoch(record.seq + 1, record.wall_ms, record.wall_ms))
        epoch = len(self._epochs) - 1
        silence = self._silences.next(record, listed=self._view.groups.members() > 0)
        apply(self._view, narrow_record(record, None))
        if silence is not None:
            self._stretches.append(Stretch(silence, self._ran_in, epoch))
        if isinstance(event, NodeStarted):
            self._fleet = event.fleet or self._fleet
        if not isinstance(event, MadeUp | JournalRecovered):
            self._ran_in = epoch
        return epoch

    def finish(self, last: Place, seen: Sightings) -> Awareness:
        begun = self._epochs[-1]
        self._epochs[-1] = Epoch(begun.first_seq, begun.from_ms, last.wall_ms)
        return Awareness(self._node, tuple(self._epochs), tuple(self._stretches), seen, self._fleet)
