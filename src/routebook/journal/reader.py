"""Records of a folder, in order, while a node may be writing it.

Files change their names under a reader: the active one is closed, closed ones are packed, old ones
removed. It therefore looks for one file at a time, the one with the next sequence numbers, and
opens it before it looks again. An open file can be read to its end, whatever becomes of its name.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from routebook.disk import size_of
from routebook.journal.errors import BadRecord, BadSegment, JournalError
from routebook.journal.folder import ACTIVE, Listing, Span, list_folder
from routebook.journal.manifest import Manifest, read_manifest
from routebook.journal.record import Record, decode, place_of
from routebook.journal.segment import chunks_of, lines_of

Progress = Callable[[int, int], None]
Damage = Callable[[JournalError], None]

_CHUNK = 1 << 18
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Range:
    """Which records are wanted, both ends included. Wall time may go backwards in a journal."""

    from_seq: int | None = None
    to_seq: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, seq: int, wall_ms: int) -> bool:
        return (
            (self.from_seq is None or seq >= self.from_seq)
            and (self.to_seq is None or seq <= self.to_seq)
            and (self.from_ms is None or wall_ms >= self.from_ms)
            and (self.to_ms is None or wall_ms <= self.to_ms)
        )

    def meets(self, span: Span) -> bool:
        return (self.from_seq is None or span.last_seq >= self.from_seq) and (
            self.to_seq is None or span.first_seq <= self.to_seq
        )

    def meets_times(self, manifest: Manifest) -> bool:
        return (self.from_ms is None or manifest.max_wall_ms >= self.from_ms) and (
            self.to_ms is None or manifest.min_wall_ms <= self.to_ms
        )


@dataclass(frozen=True, slots=True)
class Line:
    """A whole line, with its line feed, and where it was found."""

    file: str
    number: int
    text: bytes


def read(
    folder: Path,
    *,
    from_seq: int | None = None,
    to_seq: int | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    progress: Progress | None = None,
    damaged: Damage | None = None,
) -> Iterator[Record]:
    """The records of ``folder`` in order; all ends are included.

    ``progress`` is told how many bytes of how many have been read. What cannot be read raises
    JournalError, or is told to ``damaged`` and passed over.
    """
    wanted = Range(from_seq, to_seq, from_ms, to_ms)
    for line in read_lines(folder, wanted, progress=progress, damaged=damaged):
        try:
            yield decode(line.text)
        except JournalError as error:
            _tell(damaged, _located(error, line))


def follow(
    folder: Path,
    *,
    from_seq: int,
    wait: Callable[[], bool],
    damaged: Damage | None = None,
) -> Iterator[Line]:
    """Lines from ``from_seq`` on and whatever is written next.

    ``wait`` is called whenever there is nothing new; False from it is the end.
    """
    return _Reading(folder, Range(from_seq=from_seq), damaged=damaged).lines(wait)


def read_lines(
    folder: Path,
    wanted: Range,
    *,
    progress: Progress | None = None,
    damaged: Damage | None = None,
) -> Iterator[Line]:
    """As ``read``, without reading the events. A line that is cut off is left out."""
    return _Reading(folder, wanted, progress=progress, damaged=damaged).lines(None)


def last_lines(
    folder: Path,
    count: int,
    *,
    chosen: Callable[[Line], bool] = lambda line: True,
    damaged: Damage | None = None,
) -> list[Line]:
    """The last ``count`` lines of those ``chosen``, in order. Reads no more than it has to."""
    listing = list_folder(folder)
    spans = [Range(span.first_seq, span.last_seq) for span in reversed(_full(listing))]
    found: list[Line] = []
    for wanted in (Range(from_seq=listing.last_seq + 1), *spans):
        if len(found) >= count:
            break
        lines = filter(chosen, read_lines(folder, wanted, damaged=damaged))
        found = [*deque(lines, maxlen=count - len(found)), *found]
    return found


def segments(folder: Path) -> list[Manifest]:
    """The manifests of the sealed segments, in order. Raises JournalError for one that is bad."""
    found: list[Manifest] = []
    for span in list_folder(folder).sealed:
        try:
            found.append(read_manifest(folder, span))
        except FileNotFoundError:
            continue  # retention was quicker
    return found


def node_of(folder: Path) -> str:
    """The node that wrote the last segment. Raises JournalError when there is no record."""
    for span in reversed(list_folder(folder).sealed):
        try:
            return read_manifest(folder, span).node
        except FileNotFoundError:
            continue
    record = next(read(folder), None)
    if record is None:
        raise JournalError(f"the journal {folder} holds no records")
    return record.node


class _Reading:
    """One way through a folder. ``_passed`` is the last record that is behind it."""

    def __init__(
        self,
        folder: Path,
        wanted: Range,
        *,
        progress: Progress | None = None,
        damaged: Damage | None = None,
    ) -> None:
        self._folder = folder
        self._wanted = wanted
        self._damaged = damaged
        self._progress = progress
        self._passed = (wanted.from_seq or 1) - 1
        self._highest = 0
        self._done_bytes = 0
        self._total_bytes = self._size() if progress is not None else 0

    def lines(self, wait: Callable[[], bool] | None) -> Iterator[Line]:
        tries, to_seq = 0, self._wanted.to_seq
        while to_seq is None or self._passed < to_seq:
            span = self._next_full()
            if span is not None:
                try:
                    yield from self._full(span)
                except FileNotFoundError:
                    # It was packed or removed meanwhile: look again.
                    tries += 1
                    if tries < _TRIES:
                        continue
                    _tell(self._damaged, BadSegment(f"{span.packed} is missing"))
                tries, self._passed = 0, span.last_seq
                continue
            active = self._open_active()
            if self._next_full() is not None:  # the active one was closed: it comes first
                if active is not None:
                    active.close()
                continue
            if active is not None:
                with active:
                    more = yield from self._active(active, wait)
            else:
                more = wait is not None and wait()
            if not more:
                return

    def _next_full(self) -> Span | None:
        to_seq = self._wanted.to_seq
        for span in _full(list_folder(self._folder)):
            if span.last_seq > self._passed:
                return span if to_seq is None or span.first_seq <= to_seq else None
        return None

    def _full(self, span: Span) -> Iterator[Line]:
        plain, packed = self._folder / span.plain, self._folder / span.packed
        path = plain if plain.exists() else packed
        if self._out_of_time(span):
            self._tell_progress(path.stat().st_size)
            return
        chunks = chunks_of(path, told=self._tell_progress)
        number = 0
        try:
            lines = lines_of(chain([next(chunks, b"")], chunks))  # opened here, not while reading
            for number, text in enumerate(lines, 1):
                yield from self._wanted_line(Line(path.name, number, text))
        except BadSegment as error:
            _tell(self._damaged, BadSegment(f"{error}, after line {number}"))

    def _out_of_time(self, span: Span) -> bool:
        """Whether no record of ``span`` is in time; a manifest that cannot be read does not say."""
        if self._wanted.from_ms is None and self._wanted.to_ms is None:
            return False
        try:
            return not self._wanted.meets_times(read_manifest(self._folder, span))
        except (JournalError, FileNotFoundError):
            return False

    def _active(
        self, active: BinaryIO, wait: Callable[[], bool] | None
    ) -> Generator[Line, None, bool]:
        """Whether there may be more, in another file."""
        number, rest, closed = 0, b"", False
        while True:
            if chunk := active.read(_CHUNK):
                self._tell_progress(len(chunk))
                whole, feed, rest = (rest + chunk).rpartition(b"\n")
                for text in whole.split(b"\n") if feed else ():
                    number += 1
                    yield from self._wanted_line(Line(ACTIVE, number, text + b"\n"))
            elif wait is None or closed:
                self._passed = max(self._passed, self._highest)
                return closed
            elif not self._is_active(active):
                closed = True  # and there may be more in it since the last look
            elif not wait():
                return False

    def _wanted_line(self, line: Line) -> Iterator[Line]:
        try:
            place = place_of(line.text)
        except BadRecord as error:
            _tell(self._damaged, _located(error, line))
            return
        self._highest = max(self._highest, place.seq)
        if place.seq > self._passed and self._wanted.has(place.seq, place.wall_ms):
            yield line

    def _open_active(self) -> BinaryIO | None:
        try:
            return (self._folder / ACTIVE).open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"cannot read {self._folder / ACTIVE}: {error.strerror}") from error

    def _is_active(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), (self._folder / ACTIVE).stat())
        except FileNotFoundError:
            return False

    def _size(self) -> int:
        listing = list_folder(self._folder)
        names = [ACTIVE]
        for span in _full(listing):
            if self._wanted.meets(span):
                names.append(span.plain if span in listing.plain else span.packed)
        return sum(size_of(self._folder / name) for name in names)

    def _tell_progress(self, count: int) -> None:
        self._done_bytes += count
        if self._progress is not None:
            self._progress(min(self._done_bytes, self._total_bytes), self._total_bytes)


def _full(listing: Listing) -> list[Span]:
    """Segments that will not grow; one without its file will be missed when it is opened."""
    return sorted({*listing.manifests, *listing.packed, *listing.plain})


def _located(error: JournalError, line: Line) -> JournalError:
    if isinstance(error, BadRecord):
        return BadRecord(f"{line.file} line {line.number}: {error}")
    return error


def _tell(damaged: Damage | None, error: JournalError) -> None:
    if damaged is None:
        raise error
    damaged(error)
