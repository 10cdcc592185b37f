"""Journals: the folder of one node, read as far as it can be, and no further than a question needs.

What is damaged is noted and passed over. An inserted record says where records are missing.
"""

import functools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from routebook.disk import size_of
from routebook.events import JournalRecovered, NodeStopped
from routebook.history.finding.clocks import ClockReading
from routebook.history.finding.line_filter import BREAKS, Wanted
from routebook.history.finding.witness import Watch, explained_since_ms, missing_records
from routebook.history.times import AtSeq, Moment
from routebook.journal.alive import find_alive
from routebook.journal.errors import JournalError
from routebook.journal.folder import Listing, Span, list_folder
from routebook.journal.manifest import read_manifest
from routebook.journal.pairs import without_values
from routebook.journal.reader import Range, read_lines
from routebook.journal.record import Place, Record, decode, place_of
from routebook.journal.replay import newest
from routebook.journal.segment import chunks_of
from routebook.journal.view import View
from routebook.words import exact, first_lines

Progress = Callable[[str, int, int], None]

MAX_DAMAGE = 10
NO_END = 2**63


class BeforeJournal(JournalError):
    """A moment before the first record."""


class AfterJournal(JournalError):
    """A sequence number that no record has yet."""


@dataclass(frozen=True, slots=True)
class Base:
    """A view to go on from. ``partial``: there was more before, of which nothing is left."""

    view: View
    partial: bool = False


@dataclass(slots=True)
class Damage:
    """What is wrong with a journal: each sentence once, the first few of them."""

    _found: Counter[str] = field(default_factory=Counter)

    def note(self, error: JournalError) -> None:
        self._found[str(error)] += 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def sentences(self) -> list[str]:
        return first_lines(list(self._found), most=MAX_DAMAGE)


@dataclass(frozen=True, slots=True)
class Served:
    """What a node sent of its records: what it believed before them, and when it answered.

    ``known`` None: it did not say, and ``why`` is why not, in a sentence without a full stop.
    ``asked_ms`` is when that was by its own clock, if that is known.
    """

    known: View | None
    asked_ms: int
    why: str = ""
    reading: ClockReading | None = None


class Journal:
    """Raises JournalError when there is no record in ``folder``, or it cannot be read.

    ``served`` is what a node said beside the records in there, if they are from a node.
    ``alive_ms`` is its last sign of life, which may be later than its last record. Without
    ``values`` those of key-value pairs are told by their length.
    """

    def __init__(
        self,
        folder: Path,
        progress: Progress,
        served: Served | None = None,
        *,
        values: bool = True,
    ) -> None:
        self._folder = folder
        self._values = values
        self._progress = progress
        self._served = served
        self.damage = Damage()
        self.node = ""
        first = next((block.lines[0] for block in self._blocks(0, NO_END)), None)
        if first is None:
            raise JournalError(
                f"the journal {folder} holds no records that can be read"
                if self.damage
                else f"the journal {folder} holds no records"
            )
        self.first = place_of(first)
        self.last = self.last_at(None) or self.first
        self.node = decode(first).node
        self.alive_ms = _alive_ms(folder, self.last) if served is None else served.asked_ms

    @property
    def source(self) -> str:
        """Where the records are from: the folder, or nothing where a node sent them."""
        return str(self._folder) if self._served is None else ""

    @property
    def reading(self) -> ClockReading | None:
        return self._served.reading if self._served else None

    @functools.cached_property
    def stopped(self) -> bool:
        """Whether the last record tells that the node stopped in order."""
        found = self._last_within(Range(self.last.seq, self.last.seq))
        return found is not None and found.type == NodeStopped.__name__

    @property
    def known_ms(self) -> int:
        """Up to when it is known what the node said: what it did not record did not happen."""
        if self.alive_ms is None or self.stopped:
            return self.last.wall_ms
        return max(self.last.wall_ms, self.alive_ms)

    # -- moments

    def seq_at(self, moment: Moment) -> int:
        """The last record at ``moment``; raises BeforeJournal or AfterJournal.

        Where the clock of the node was set back, a time may have come twice: the later is meant.
        """
        if isinstance(moment, AtSeq):
            if moment.seq < self.first.seq - 1:
                raise BeforeJournal(f"{moment} is too early: {self._beginning()}")
            if moment.seq > self.last.seq:
                raise AfterJournal(
                    f"{moment} is not there yet: the journal of {self.node} ends with number"
                    f" {self.last.seq}, at {exact(self.last.wall_ms)}"
                )
            return moment.seq
        if moment.wall_ms >= self.last.wall_ms:
            return self.last.seq
        place = self.last_at(moment.wall_ms)
        if place is None:
            raise BeforeJournal(f"{moment} is too early: {self._beginning()}")
        return place.seq

    def _beginning(self) -> str:
        return (
            f"the journal of {self.node} begins at {exact(self.first.wall_ms)} with number"
            f" {self.first.seq}"
        )

    def last_at(self, wall_ms: int | None) -> Place | None:
        """The last record that is not after ``wall_ms``, if given."""
        sealed = _leading(list_folder(self._folder))
        after = sealed[-1].last_seq if sealed else 0
        found = self._last_within(Range(from_seq=after + 1, to_ms=wall_ms))
        for span in reversed(sealed):
            if found is not None:
                break
            found = self._last_of(span, wall_ms)
        return found

    def _last_of(self, span: Span, wall_ms: int | None) -> Place | None:
        try:
            manifest = read_manifest(self._folder, span)
        except (JournalError, FileNotFoundError):
            pass  # then its lines have to say
        else:
            if wall_ms is None or manifest.max_wall_ms <= wall_ms:
                return Place(span.last_seq, manifest.last_wall_ms)
            if manifest.min_wall_ms > wall_ms:
                return None
        return self._last_within(Range(span.first_seq, span.last_seq, to_ms=wall_ms))

    def _last_within(self, wanted: Range) -> Place | None:
        try:
            last = deque(read_lines(self._folder, wanted, damaged=self.damage.note), maxlen=1)
        except JournalError as error:
            self.damage.note(error)
            return None
        return place_of(last[0].text) if last else None

    # -- views

    def bases(self, seq: int) -> Iterator[Base]:
        """Views to go on from to record ``seq``: from the nearest to the farthest.

        Fewer and fewer as they get farther, and the beginning of the journal at last. All are from
        before that record: it may tell what no view does, that the node stopped.
        """
        seqs = [s for s in list_folder(self._folder).snapshots if s < seq]
        passed = 0
        while seqs:
            found = newest(self._folder, upto=seqs[-1], refused=self.damage.note)
            if found is None:
                break
            yield Base(found.view)
            seqs = [s for s in seqs if s < found.view.seq]
            seqs = seqs[: max(0, len(seqs) - passed)]
            passed = 4 * passed + 3
        yield self.beginning()

    def beginning(self) -> Base:
        """What was known before the first record."""
        before = self.first.seq - 1
        if not before:
            return Base(View())
        if self._served is not None and self._served.known is not None:
            return Base(self._served.known.copy())
        found = newest(self._folder, upto=before, refused=self.damage.note)
        if found is not None and found.view.seq == before:
            return Base(found.view)
        return Base(View(node=self.node), partial=True)

    @functools.cached_property
    def partial(self) -> str:
        """Why what was before the first record is not known; nothing where it is."""
        if not self.beginning().partial:
            return ""
        if self._served is not None and self._served.why:
            return self._served.why
        return f"records before number {self.first.seq} are no longer there"

    def oldest_known(self) -> Base:
        """The earliest view there is; partial when there is none."""
        beginning = self.beginning()
        snapshots = list_folder(self._folder).snapshots if beginning.partial else ()
        for seq in snapshots:
            found = newest(self._folder, upto=seq, refused=self.damage.note)
            if found is not None:
                return Base(found.view)
        return beginning

    # -- records

    def records(
        self, *, after_seq: int, to_seq: int, wanted: Wanted, known_ms: int | None = None
    ) -> Iterator[Record]:
        """Those whose lines are ``wanted``, the one before each break, and those made up.

        ``known_ms`` is the time of record ``after_seq``, where that is known. That one is read too,
        if it is there: between it and the next the clock may have been set.
        """
        watch: Watch[bytes] | None = None
        previous: bytes | None = None
        for block in self._blocks(max(after_seq - 1, 0), to_seq):
            if block.begins:
                yield from self._missing(previous, after_seq, known_ms, block.lines[0])
            for line in block.lines:
                place = _PLACE.search(line)
                kind = place[3].decode() if place else ""
                if place is not None:
                    if watch is None:
                        goes_on = place_of(line).seq > after_seq
                        since_ms = known_ms if goes_on else None
                        watch = Watch(
                            _window_ms, _explained_ms, known_ms=since_ms, amid=after_seq > 0
                        )
                    found = watch.next(line, kind, int(place[1]), int(place[2]))
                    if found is not None and after_seq < place_of(line).seq <= to_seq:
                        seq = place_of(previous).seq if previous else after_seq
                        yield Record(seq, int(place[1]), int(place[2]), self.node, found)
                if kind in BREAKS and previous is not None and not wanted(previous):
                    yield from self._decoded(previous, after_seq, to_seq)
                if wanted(line):
                    yield from self._decoded(line, after_seq, to_seq)
                previous = line

    def _decoded(self, line: bytes, after_seq: int, to_seq: int) -> Iterator[Record]:
        try:
            record = decode(line)
        except JournalError as error:
            self.damage.note(error)
            return
        if after_seq < record.seq <= to_seq:
            event = record.event if self._values else without_values(record.event)
            yield record if event is record.event else replace(record, event=event)

    def _missing(
        self, previous: bytes | None, after_seq: int, known_ms: int | None, following: bytes
    ) -> Iterator[Record]:
        """A record about those between two files, if there must have been some.

        Before the first file that is read comes record ``after_seq``.
        """
        try:
            after = place_of(following)
            before = Place(after_seq, after.wall_ms if known_ms is None else known_ms)
            if previous is not None:
                before = place_of(previous)
            elif not after_seq or after.seq <= after_seq:
                return
            if after.seq == before.seq + 1 or _leaps(following, before):
                return
        except JournalError:
            return  # noted where it is read
        self.damage.note(JournalError(f"records {before.seq + 1} to {after.seq - 1} are missing"))
        missing = missing_records(after.seq - before.seq - 1, before.wall_ms)
        yield Record(before.seq, after.wall_ms, 0, self.node, missing)

    def _blocks(self, after_seq: int, to_seq: int) -> Iterator["_Block"]:
        listing = list_folder(self._folder)
        sealed = _leading(listing)
        spans = [s for s in sealed if s.last_seq > after_seq and s.first_seq <= to_seq]
        total = sum(size_of(self._folder / span.packed) for span in spans)
        done = 0

        def told(count: int) -> None:
            nonlocal done
            done += count
            if self.node:  # else it is being opened
                self._progress(self.node, done, total)

        for span in spans:
            yield from self._sealed_blocks(span, told)
        behind = sealed[-1].last_seq if sealed else 0
        if behind >= to_seq:
            return
        rest = Range(from_seq=max(behind, after_seq) + 1, to_seq=to_seq)
        for number, line in enumerate(read_lines(self._folder, rest, damaged=self.damage.note)):
            yield _Block([line.text], begins=number == 0)

    def _sealed_blocks(self, span: Span, told: Callable[[int], None]) -> Iterator["_Block"]:
        """Sealed segments do not change, and most of their lines are not wanted: whole chunks."""
        rest, begins = b"", True
        try:
            for chunk in chunks_of(self._folder / span.packed, told=told):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                if lines:
                    yield _Block(lines, begins=begins)
                    begins = False
        except FileNotFoundError:
            pass  # retention was quicker
        except JournalError as error:
            self.damage.note(error)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines in a row; ``begins``: the first ones of a file."""

    lines: list[bytes]
    begins: bool


_PLACE = re.compile(rb'"wall_ms":(-?[0-9]+),"mono_ms":(-?[0-9]+),"type":"([A-Za-z]+)"')
_WINDOW = re.compile(rb'"window_ms":([0-9]+)')


def _window_ms(line: bytes) -> int | None:
    found = _WINDOW.search(line)
    return int(found[1]) if found else None


def _explained_ms(line: bytes) -> int | None:
    try:
        return explained_since_ms(decode(line).event)
    except JournalError:
        return None  # noted where it is read


def _leading(listing: Listing) -> list[Span]:
    """Sealed segments up to the first that is not."""
    sealed, leading = set(listing.sealed), []
    for span in sorted({*listing.plain, *listing.packed, *listing.manifests}):
        if span not in sealed:
            break
        leading.append(span)
    return leading


def _leaps(line: bytes, before: Place) -> bool:
    """Whether ``line`` tells that the node was killed after ``before``, so that numbers leap."""
    event = decode(line).event
    return isinstance(event, JournalRecovered) and event.last_seq == before.seq


def _alive_ms(folder: Path, last: Place) -> int | None:
    """When the node last gave a sign of life, with nothing recorded after ``last``."""
    found = find_alive(folder)
    return max(found.wall_ms, last.wall_ms) if found and found.seq <= last.seq else None
