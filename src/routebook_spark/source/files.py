"""Journal folders that are followed while nodes write them: what is new, and where it is.

Records are told apart by their numbers, which never change; files change their names while they
are read. So what was planned can be read later, and again, from wherever it has got to.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from routebook.journal.errors import BadRecord, JournalError
from routebook.journal.folder import ACTIVE, LOCK, REMOVED, Listing, Span, list_folder
from routebook.journal.manifest import find_removed, read_manifest
from routebook.journal.reader import Range, read_lines
from routebook.journal.record import place_of

_CHUNK = 1 << 16
_DEPTH = 3
_SIGNS = {ACTIVE, LOCK, REMOVED}  # of a journal
_MANIFEST = ".manifest.json"
_WILD = set("*?[")


@dataclass(frozen=True, slots=True)
class Mark:
    """The line of record ``seq`` began at ``byte`` of the active segment, and still may."""

    seq: int
    byte: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Records after ``after_seq`` up to ``to_seq``, which is there."""

    folder: Path
    after_seq: int
    to_seq: int
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """Where to look for journals: in ``base`` itself, or in what fits ``pattern`` there."""

    base: Path
    pattern: str = ""

    def journals(self) -> dict[str, Path]:
        """Folders that hold a journal, and are here or below, by their names from ``base`` on."""
        found: dict[str, Path] = {}
        for start in sorted(self.base.glob(self.pattern)) if self.pattern else [self.base]:
            for folder in _journals_below(start):
                found[folder.relative_to(self.base).as_posix()] = folder
        return dict(sorted(found.items()))


def root_of(path: str) -> Root:
    """What ``path``, a folder or a pattern, means. Raises JournalError for no folder of here."""
    local = path.removeprefix("file://") if path.startswith("file://") else path
    local = local.removeprefix("file:")
    if "://" in local:
        raise JournalError(
            f"{path} is not on this machine: journals that are being written can only be followed"
            " in folders of this machine, or mounted there"
        )
    root = Path(local)
    if root.is_dir():
        return Root(root)
    parts = root.parts
    literal = next((i for i, part in enumerate(parts) if _WILD.intersection(part)), len(parts))
    base = Path(*parts[:literal])
    if literal == len(parts) or not base.is_dir():
        raise JournalError(f"there is no folder {base} to follow")
    return Root(base, "/".join(parts[literal:]))


def _journals_below(start: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(start):
        here = Path(folder)
        if _SIGNS.intersection(names) or any(name.endswith(_MANIFEST) for name in names):
            yield here
            below.clear()
        elif len(here.relative_to(start).parts) >= _DEPTH:
            below.clear()


def newest(
    folder: Path, after_seq: int, *, most_bytes: int | None, mark: Mark | None = None
) -> tuple[int, Mark | None]:
    """The record up to which to read on from ``after_seq``, and where it begins, if in the active.

    About ``most_bytes`` are taken, but whole segments, and one line at least. Raises JournalError
    when what follows ``after_seq`` is no longer there, or the folder is another journal's.
    """
    passed = max(after_seq, _removed_upto(folder, after_seq))
    found, taken, last = after_seq, 0, 0
    listing = list_folder(folder)
    for span in _full(listing):
        last = max(last, span.last_seq)
        if span.last_seq <= passed:
            continue
        size = _size(folder, span, listing)
        if size is None or (taken and most_bytes is not None and taken + size > most_bytes):
            return found, None
        found = passed = span.last_seq
        taken += size
    if most_bytes is not None and taken >= most_bytes:
        return found, None
    left = None if most_bytes is None else most_bytes - taken
    end = _end_of_active(folder, passed, left, mark)
    if end is not None and end.seq >= passed:
        return end.seq, end
    last = max(last, end.seq if end else 0)
    if 0 < last < after_seq:
        raise JournalError(
            f"the journal {folder} ends with record {last}, and {after_seq} had been read before:"
            " it is another journal, and needs another checkpoint"
        )
    return found, None


def pieces(folder: Path, after_seq: int, to_seq: int, mark: Mark | None) -> Iterator[Piece]:
    """One for each file."""
    passed = max(after_seq, _removed_upto(folder, after_seq))
    for span in _full(list_folder(folder)):
        if span.last_seq > passed and span.first_seq <= to_seq:
            upto = min(span.last_seq, to_seq)
            yield Piece(folder, passed, upto)
            passed = upto
    if passed < to_seq:
        yield Piece(folder, passed, to_seq, mark if mark and mark.seq == passed else None)


def lines_in(piece: Piece) -> Iterator[bytes]:
    """The lines of ``piece``, in order. Raises JournalError when not all are there any more."""
    line = b""
    for line in _marked_lines(piece) or _found_lines(piece):
        yield line
    last = place_of(line).seq if line else piece.after_seq
    if last != piece.to_seq:
        raise JournalError(
            f"records {last + 1} to {piece.to_seq} of the journal {piece.folder} were there and"
            " are gone"
        )


# -- segments that are full


def _full(listing: Listing) -> list[Span]:
    return sorted({*listing.plain, *listing.packed, *listing.manifests})


def _size(folder: Path, span: Span, listing: Listing) -> int | None:
    """How many bytes its lines have; None when it is still being copied to here."""
    try:
        if span in listing.plain:
            return (folder / span.plain).stat().st_size
        if span not in listing.sealed:
            return None
        manifest = read_manifest(folder, span)
        whole = (folder / span.packed).stat().st_size >= manifest.packed_bytes
    except FileNotFoundError:
        return None  # it got another name: there is a next time
    return manifest.bytes if whole else None


def _removed_upto(folder: Path, after_seq: int) -> int:
    """The last record that retention took; raises JournalError when it was still wanted."""
    removed = find_removed(folder)
    if removed is None:
        return 0
    if after_seq and removed.last_seq > after_seq:
        raise JournalError(
            f"records {after_seq + 1} to {removed.last_seq} of the journal {folder} were removed"
            " before they had been read; with a new checkpoint reading begins with those that are"
            " left"
        )
    return removed.last_seq


# -- the active segment


def _end_of_active(
    folder: Path, after_seq: int, most_bytes: int | None, mark: Mark | None
) -> Mark | None:
    """Its last whole line, or the last within ``most_bytes`` after record ``after_seq``."""
    try:
        file = (folder / ACTIVE).open("rb")
    except FileNotFoundError:
        return None
    with file:
        size = os.fstat(file.fileno()).st_size
        if most_bytes is None:
            return _last_line(file, 0, size)
        begin = _after_mark(file, mark) if mark and mark.seq == after_seq else None
        begin = _after_seq(file, after_seq) if begin is None else begin
        end = None
        while end is None and begin < size:
            end = _last_line(file, begin, min(begin + most_bytes, size))
            if begin + most_bytes >= size:
                break
            most_bytes *= 2  # a line that is longer than all that may be taken is taken
        return end or _last_line(file, 0, begin)


def _after_mark(file: BinaryIO, mark: Mark) -> int | None:
    """Where the line after that of ``mark`` begins; None when that is not there."""
    file.seek(mark.byte)
    line = file.readline()
    return file.tell() if line.endswith(b"\n") and _seq_of(line) == mark.seq else None


def _after_seq(file: BinaryIO, seq: int) -> int:
    """Where the first line of a later record begins."""
    file.seek(0)
    begin = 0
    for line in file:
        found = _seq_of(line)
        if not line.endswith(b"\n") or (found is not None and found > seq):
            break
        begin += len(line)
    return begin


def _last_line(file: BinaryIO, begin: int, end: int) -> Mark | None:
    """The last whole line between two places that is a record."""
    while begin < end:
        feed = _last_feed(file, begin, end)
        if feed is None:
            return None
        before = _last_feed(file, begin, feed)
        start = begin if before is None else before + 1
        file.seek(start)
        seq = _seq_of(file.read(feed + 1 - start))
        if seq is not None:
            return Mark(seq, start)
        end = start
    return None


def _last_feed(file: BinaryIO, begin: int, end: int) -> int | None:
    while begin < end:
        start = max(begin, end - _CHUNK)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place
        end = start
    return None


def _seq_of(line: bytes) -> int | None:
    try:
        return place_of(line).seq
    except BadRecord:
        return None


# -- lines


def _marked_lines(piece: Piece) -> Iterator[bytes] | None:
    """From the mark on; None when the segment has been closed since."""
    if piece.mark is None:
        return None
    try:
        file = (piece.folder / ACTIVE).open("rb")
    except FileNotFoundError:
        return None
    begin = _after_mark(file, piece.mark)
    if begin is None:
        file.close()
        return None
    return _lines_upto(file, piece.to_seq)


def _lines_upto(file: BinaryIO, to_seq: int) -> Iterator[bytes]:
    with file:
        for line in file:
            seq = _seq_of(line)
            if seq is not None and seq <= to_seq:
                yield line
            if seq is not None and seq >= to_seq:
                return


def _found_lines(piece: Piece) -> Iterator[bytes]:
    wanted = Range(from_seq=piece.after_seq + 1, to_seq=piece.to_seq)
    for line in read_lines(piece.folder, wanted, damaged=_pass_over):
        yield line.text


def _pass_over(error: JournalError) -> None:
    """Lines that are no records are left out; anything else is an error."""
    if not isinstance(error, BadRecord):
        raise error
