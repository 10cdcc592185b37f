"""What a node can bear witness to: when it was awake, when it was down, and when nobody knows.

A node is a witness only while it listens. Of any other time no claim is made: no route was told,
no broker was there or gone, nobody disagreed with anybody. There are these kinds:

    stopped   it was down, from an orderly stop to the next start; that is known
    killed    it stopped at some moment after its last record, or last sign of life
    lost      it ran, and its records did not reach the disk
    missing   they did, and are no longer there
    stalled   it listened to nobody, and said so when it woke
    silent    brokers were listed, and nothing was recorded for more than two windows
    clock     its clock jumped: forward, over a time that nobody was awake in, or back
    ended     the journal ends, and nobody saw the node stop

``Watch`` is told the times of every record, and finds silences and jumps. Whoever reads a journal
puts records in their place that nobody wrote, as it does where records are missing. ``Silences`` is
told the records a question needs, these included, and says what each ends. Everything in
``history`` asks these two.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, TypeVar

from routebook.events import (
    Cause,
    Event,
    JournalRecovered,
    Kind,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    RecordsLost,
)
from routebook.journal.record import Record, types_where
from routebook.journal.view import View

# -- the rules, which the pipeline has too

DEFAULT_WINDOW_MS = 60_000
SILENT_WINDOWS = 2
LATEST_WINDOWS = 4
"""Of so many windows the longest tells how long a node may be quiet: the last one of a run, and one
that a stall falls into, are short. A start counts as one of the default length."""

WINDOWS_APART_MS = 1000
"""Windows end no closer to each other, nor to a stall that does not cut one short."""

LEAST_SILENCE_MS = 10_000
ALIVE_SLACK_MS = 3000
"""A node that runs gives a sign of life about every second."""

JUMP_MS = 1000
JUMP_PER_MILLE = 1
STALL_EDGES_MS = 1000
"""A stall of one pause is told from the tick before it to the tick after it."""


def longest_pause_ms(window_ms: int | None) -> int:
    """How long a node that is awake and lists brokers can go without a record.

    ``window_ms`` is that of its latest heartbeats or queries; None when it wrote none.
    """
    return max(SILENT_WINDOWS * (window_ms or DEFAULT_WINDOW_MS), LEAST_SILENCE_MS)


def jump_ms(wall_ms: int, mono_ms: int) -> int:
    """How far the clock was set while ``wall_ms`` passed by it and ``mono_ms`` by the other one.

    0 where the difference is what clocks have among themselves.
    """
    difference = wall_ms - mono_ms
    allowed = 1000 * JUMP_MS + JUMP_PER_MILLE * abs(mono_ms)
    return difference if 1000 * abs(difference) > allowed else 0


# -- stretches


class Silent(StrEnum):
    STOPPED = "stopped"
    KILLED = "killed"
    LOST = "lost"
    MISSING = "missing"
    STALLED = "stalled"
    SILENT = "silent"
    CLOCK = "clock"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch in which the node was no witness.

    ``lost`` is how many records, and ``clock_ms`` how far the clock was set, where that is known;
    else 0. ``recorded_ms`` is the time of the last record before it, where ``since_ms`` is a later
    sign of life. ``signs``: the node gave signs of life while it was awake.
    ``heard_ms`` is how long it listened at most between the pauses of a stall.
    """

    since_ms: int
    until_ms: int
    reason: Silent
    lost: int = 0
    recorded_ms: int | None = None
    clock_ms: int = 0
    signs: bool = False
    heard_ms: int = 0

    @property
    def broken(self) -> bool:
        """It is a stall of several pauses, with moments in between: something was answered."""
        return self.heard_ms > STALL_EDGES_MS

    @property
    def set_back(self) -> bool:
        """The clock was: no time passed that nobody knows of."""
        return self.reason is Silent.CLOCK and self.clock_ms < 0

    def covers(self, wall_ms: int) -> bool:
        """Whether that moment is in it."""
        return self.since_ms < wall_ms < self.until_ms and not self.set_back

    @property
    def lasted_ms(self) -> int:
        return max(0, self.until_ms - self.since_ms)


# -- records nobody wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp(Event):
    """In place of what a journal does not say, by whoever reads it."""

    kind: ClassVar[Kind] = Kind.NODE

    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsMissing(MadeUp):
    """Records are missing here."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingRecorded(MadeUp):
    """Nothing was recorded for longer than a node can be quiet that lists brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped(MadeUp):
    """The clock was set by ``clock_ms`` since the record before.

    ``explained``: the node said so itself, or was down meanwhile.
    """

    clock_ms: int
    explained: bool


def clock_jumped(since_ms: int, clock_ms: int, *, explained: bool) -> ClockJumped:
    return ClockJumped(
        revision=0,
        cause=Cause.JOURNAL,
        peer="",
        since_ms=since_ms,
        clock_ms=clock_ms,
        explained=explained,
    )


def missing_records(count: int, since_ms: int) -> RecordsMissing:
    return RecordsMissing(revision=0, cause=Cause.JOURNAL, peer="", count=count, since_ms=since_ms)


STALLED = NodeStalled.__name__
STARTED = NodeStarted.__name__
BOOTS = frozenset({STARTED, JournalRecovered.__name__})
EXPLAINED = frozenset({STALLED, RecordsLost.__name__})
WINDOWS = types_where(lambda kind: kind.kind is Kind.WINDOW)


Source = TypeVar("Source")


class Watch(Generic[Source]):
    """Told when each record of a node was written, says what must have happened in between.

    ``window_ms`` tells the window of a record of heartbeats or queries, ``explained_ms`` since when
    a record itself tells of a pause; records are whatever these take, and are read only where it
    matters. ``amid``: there were records before the first one it is told of, and windows that may
    have been of any length.
    """

    def __init__(
        self,
        window_ms: Callable[[Source], int | None],
        explained_ms: Callable[[Source], int | None],
        *,
        known_ms: int | None = None,
        amid: bool = False,
    ) -> None:
        self._window_of = window_ms
        self._explained_of = explained_ms
        # A record of each; None stands for one of the default length.
        self._windows: tuple[Source | None, ...] = (None,) if amid else ()
        self._window_at_ms = 0
        self._wall_ms = known_ms
        self._mono_ms: int | None = None

    def next(self, record: Source, kind: str, wall_ms: int, mono_ms: int) -> "MadeUp | None":
        """What to put before ``record``, of this ``kind``."""
        last_wall_ms, last_mono_ms = self._wall_ms, self._mono_ms
        self._wall_ms, self._mono_ms = wall_ms, mono_ms
        windows = self._windows
        if kind == STALLED:
            self._window_at_ms = wall_ms  # it cuts the window short that ends with it
        elif kind == STARTED:
            self._windows = (*windows[1 - LATEST_WINDOWS :], None)
        elif kind in WINDOWS and abs(wall_ms - self._window_at_ms) >= WINDOWS_APART_MS:
            self._window_at_ms = wall_ms
            self._windows = windows = (*windows[1 - LATEST_WINDOWS :], record)
        if last_wall_ms is None:
            return None
        passed_ms = wall_ms - last_wall_ms
        if last_mono_ms is not None:
            difference_ms = passed_ms - mono_ms + last_mono_ms
            if -JUMP_MS <= difference_ms <= JUMP_MS and passed_ms <= LEAST_SILENCE_MS - JUMP_MS:
                return None  # as nearly always, and there are many records
            jumped_ms = jump_ms(passed_ms, mono_ms - last_mono_ms)
            if jumped_ms:
                explained = kind in BOOTS or kind == STALLED
                return clock_jumped(last_wall_ms, jumped_ms, explained=explained)
            passed_ms = mono_ms - last_mono_ms
        if passed_ms <= LEAST_SILENCE_MS or kind in BOOTS:
            return None
        window_ms = max((self._window_ms(each) for each in windows), default=None)
        limit_ms = longest_pause_ms(window_ms)
        if passed_ms <= limit_ms:
            return None
        if kind in EXPLAINED:
            since_ms = self._explained_of(record)
            if since_ms is not None and since_ms - last_wall_ms <= limit_ms:
                return None
        return NothingRecorded(revision=0, cause=Cause.JOURNAL, peer="", since_ms=last_wall_ms)

    def _window_ms(self, record: Source | None) -> int:
        return DEFAULT_WINDOW_MS if record is None else self._window_of(record) or 0


def watched(records: Iterable[Record], *, known_ms: int | None = None) -> Iterator[Record]:
    """``records``, all of one node, with those made up that ``Watch`` finds."""
    watch = Watch[Record](
        lambda record: getattr(record.event, "window_ms", None),
        lambda record: explained_since_ms(record.event),
        known_ms=known_ms,
    )
    seq = 0
    for record in records:
        kind = record.event.type_name
        found = watch.next(record, kind, record.wall_ms, record.mono_ms)
        if found is not None:
            yield Record(seq, record.wall_ms, record.mono_ms, record.node, found)
        seq = record.seq
        yield record


def explained_since_ms(event: Event) -> int | None:
    """Since when ``event`` tells of a pause that it ends."""
    if isinstance(event, NodeStalled):
        return event.from_ms
    return event.since_ms if isinstance(event, RecordsLost) else None


def apply(view: View, record: Record) -> None:
    """Go on by one record, or by one that was made up."""
    if isinstance(record.event, RecordsMissing):
        view.lose_track()
    view.apply(record)


class Silences:
    """Told record after record of one node, finds where it was no witness.

    The record just before a start, a recovery or a loss must be among them, unless it is the one
    before all of them, which was at ``known_ms``; others may be left out.
    """

    def __init__(self, known_ms: int | None) -> None:
        self._last: Record | None = None
        self._known_ms = known_ms
        self._killed: tuple[int | None, int | None] | None = None

    def next(self, record: Record, *, listed: bool) -> Silence | None:
        """The silence that ends with ``record``, if one does.

        ``listed``: brokers were, before it; else a node has nothing to record.
        """
        event = record.event
        if isinstance(event, MadeUp):
            return _made_up(event, record.wall_ms, listed=listed)
        last, self._last = self._last, record
        if isinstance(event, RecordsLost):
            return Silence(event.since_ms, record.wall_ms, Silent.LOST, event.count)
        if isinstance(event, NodeStalled):
            return _stalled(event)
        last_ms = self._known_ms if last is None else last.wall_ms
        if isinstance(event, JournalRecovered):
            self._killed = last_ms, event.alive_ms
            return None
        if not isinstance(event, NodeStarted) or last_ms is None:
            return None
        killed, self._killed = self._killed, None
        if killed is not None:
            recorded_ms, alive_ms = killed
            return killed_between(recorded_ms or last_ms, alive_ms, record.wall_ms)
        if last is None or isinstance(last.event, NodeStopped):
            return Silence(last_ms, record.wall_ms, Silent.STOPPED)
        return killed_between(last_ms, None, record.wall_ms)


def killed_between(recorded_ms: int, alive_ms: int | None, until_ms: int) -> Silence:
    """Of a node whose last record and last sign of life these are."""
    signs = alive_ms is not None
    if alive_ms is None or not recorded_ms < alive_ms <= until_ms:
        return Silence(recorded_ms, until_ms, Silent.KILLED, signs=signs)
    return Silence(alive_ms, until_ms, Silent.KILLED, recorded_ms=recorded_ms, signs=signs)


def slept(event: NodeStalled) -> bool:
    """Whether there was a pause; else the clock was set, and the node listened all the time."""
    return event.longest_ms >= STALL_EDGES_MS or not event.clock_ms


def _stalled(event: NodeStalled) -> Silence:
    if not slept(event):
        return Silence(event.from_ms, event.to_ms, Silent.CLOCK, clock_ms=event.clock_ms)
    return Silence(
        event.from_ms,
        event.to_ms,
        Silent.STALLED,
        clock_ms=event.clock_ms,
        heard_ms=heard_ms(event),
    )


def heard_ms(event: NodeStalled) -> int:
    """For how long the node listened in between, at most; not known where its clock was set."""
    set_ms = max(event.clock_ms, 0)  # no time passed, or it was suspended
    return max(event.to_ms - event.from_ms - set_ms - event.longest_ms, 0)


def _made_up(event: MadeUp, wall_ms: int, *, listed: bool) -> Silence | None:
    match event:
        case RecordsMissing():
            return Silence(event.since_ms, wall_ms, Silent.MISSING, event.count)
        case NothingRecorded():
            return Silence(event.since_ms, wall_ms, Silent.SILENT) if listed else None
        case ClockJumped() if not event.explained:
            return Silence(event.since_ms, wall_ms, Silent.CLOCK, clock_ms=event.clock_ms)
    return None
