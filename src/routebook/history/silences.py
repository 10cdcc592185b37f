"""Silences: stretches of time of which a journal knows nothing."""

from dataclasses import dataclass
from enum import StrEnum

from routebook.events import Event, JournalRecovered, NodeStarted, NodeStopped, RecordsLost
from routebook.journal.record import Record


class Silent(StrEnum):
    STOPPED = "stopped"  # in order
    KILLED = "killed"
    LOST = "lost"  # the node ran, its records did not reach the disk
    MISSING = "missing"  # they did, and are no longer there


@dataclass(frozen=True, slots=True)
class Silence:
    """``lost`` is how many records, where that is known; else 0."""

    since_ms: int
    until_ms: int
    reason: Silent
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsMissing(Event):
    """Made up by whoever reads a journal that lacks records, in their place."""

    count: int
    since_ms: int


class Silences:
    """Told record after record of one node, finds where nothing is known.

    The record just before a start, a recovery or a loss must be among them, unless it is the one
    before all of them, which was at ``known_ms``; others may be left out.
    """

    def __init__(self, known_ms: int | None) -> None:
        self._last: Record | None = None
        self._known_ms = known_ms
        self._killed_ms: int | None = None

    def next(self, record: Record) -> Silence | None:
        """The silence that ends with ``record``, if one does."""
        last, self._last = self._last, record
        event = record.event
        if isinstance(event, RecordsLost):
            return Silence(event.since_ms, record.wall_ms, Silent.LOST, event.count)
        if isinstance(event, RecordsMissing):
            self._last = last
            return Silence(event.since_ms, record.wall_ms, Silent.MISSING, event.count)
        last_ms = self._known_ms if last is None else last.wall_ms
        if isinstance(event, JournalRecovered):
            self._killed_ms = last_ms
            return None
        if not isinstance(event, NodeStarted) or last_ms is None:
            return None
        killed_ms, self._killed_ms = self._killed_ms, None
        if last is not None and isinstance(last.event, JournalRecovered):
            since_ms = last_ms if killed_ms is None else killed_ms
            return Silence(since_ms, record.wall_ms, Silent.KILLED)
        stopped = last is None or isinstance(last.event, NodeStopped)
        reason = Silent.STOPPED if stopped else Silent.KILLED
        return Silence(last_ms, record.wall_ms, reason)
