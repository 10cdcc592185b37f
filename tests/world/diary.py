"""How a simulated node writes down what happens to it, and what of it reaches the disk."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from routebook.events import Cause, Event, NodeStalled, RecordsLost, StateRestated
from routebook.journal.record import Record
from world.book import Groups
from world.truth import Life, Span, Written

WRITTEN_AFTER_MS = 8  # by then a record is in the file


@dataclass(slots=True)
class _Unwritten:
    written: Written
    remembered: Groups


class Diary:
    """``lost`` is called when the journal has to say that records were lost.

    ``remembered`` are the tables as the journal tells them; ``unsure``: it does not, until they are
    stated anew.
    """

    def __init__(
        self, life: Life, rng: Random, now_ms: Callable[[], float], lost: Callable[[], None]
    ) -> None:
        self._life = life
        self._now_ms = now_ms
        self._told_lost = lost
        self._queue: list[_Unwritten] = []
        self._snapshot: Groups = {}  # what the next record leaves behind
        self._mono_base_ms = -float(rng.randint(10_000, 90_000_000))
        self._failing_until = -1.0
        self._lost_since = 0.0
        self._lost_wall_ms = 0
        self.seq = 0
        self.revision = 0
        self.remembered: Groups = {}
        self.unsure = False
        self.lost = 0
        self.in_window = 0  # records since the last window ended

    @property
    def is_failing(self) -> bool:
        return self._now_ms() < self._failing_until

    def fail(self, for_ms: int) -> None:
        """Lose everything for so long."""
        self._failing_until = self._now_ms() + for_ms

    def mend(self) -> None:
        """A new process has a new queue."""
        self._failing_until = -1.0
        self.lost = 0

    def suspend(self, for_ms: float) -> None:
        """The monotonic clock stood still for so long."""
        self._mono_base_ms += for_ms

    def mono_ms(self, true_ms: float) -> int:
        return int(true_ms - self._mono_base_ms)

    def remember(self, groups: Groups) -> None:
        """What the next record leaves in the journal, should it be the last one."""
        self._snapshot = {key: group.copy() for key, group in groups.items() if group.members}

    def write(self, event: Event) -> None:
        now_ms = self._now_ms()
        self.in_window += 1
        if self.is_failing:
            if not self.lost:
                self._lost_since, self._lost_wall_ms = now_ms, self._life.wall_ms(now_ms)
            if isinstance(event, NodeStalled):
                self._lost_wall_ms = min(self._lost_wall_ms, event.from_ms)
            self.lost += 1
            return
        if self.lost:
            count, self.lost = self.lost, 0
            self.unsure = True
            note = self.note(Cause.JOURNAL)
            self._put(RecordsLost(**note, count=count, since_ms=self._lost_wall_ms))
            self._life.losses.append(Span(self._lost_since, float("inf"), "records lost"))
            self._told_lost()
        self._put(event)

    def _put(self, event: Event) -> None:
        now_ms = self._now_ms()
        self.seq += 1
        wall_ms, mono_ms = self._life.wall_ms(now_ms), self.mono_ms(now_ms)
        record = Record(self.seq, wall_ms, mono_ms, self._life.node, event)
        self._queue.append(_Unwritten(Written(now_ms, record), self._snapshot))
        self.flush(now_ms - WRITTEN_AFTER_MS)

    def flush(self, until_ms: float) -> None:
        """Have everything on disk that was recorded until then."""
        while self._queue and self._queue[0].written.true_ms <= until_ms:
            first = self._queue.pop(0)
            self._life.written.append(first.written)
            self.remembered = first.remembered
            if isinstance(first.written.record.event, StateRestated):
                self.unsure = False

    def drop(self) -> float | None:
        """Lose what is not on disk; the true time of the first such record."""
        queue, self._queue = self._queue, []
        return queue[0].written.true_ms if queue else None

    def note(self, cause: Cause) -> dict[str, Any]:
        return {"revision": self.revision, "cause": cause, "peer": ""}

    def change(self, cause: Cause, peer: str) -> dict[str, Any]:
        self.revision += 1
        return {"revision": self.revision, "cause": cause, "peer": peer}
