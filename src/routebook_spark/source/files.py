"""Journal folders that are followed while nodes write them: what is new, and where it is.

Records are told apart by their numbers, which never change; files change their names while they
are read. So what was planned can be read later, and again, from wherever it has got to.

Whatever is planned has been looked through before: a file that cannot be read, is cut off or is
written in a newer schema ends the plan at the last record before that, and the reason is told.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from routebook.journal.errors import BadRecord, BadSegment, JournalError
from routebook.journal.folder import ACTIVE, Listing, Span, list_folder
from routebook.journal.manifest import find_removed, read_manifest
from routebook.journal.reader import Range, read_lines
from routebook.journal.record import VERSION, place_of
from routebook.journal.segment import chunks_of, lines_of

_KNOWN = b'{"v":%d,' % VERSION


@dataclass(frozen=True, slots=True)
class Position:
    """The line of record ``seq`` began at ``byte`` of the active segment, and still may."""

    seq: int
    byte: int


@dataclass(frozen=True, slots=True)
class Reach:
    """A journal can be read up to record ``seq``; ``fault`` says why not further, if it cannot.

    ``position`` is where that record begins, if in the active segment. ``shrunk``: the journal ends
    before what had been read of it.
    """

    seq: int
    position: Position | None = None
    fault: str = ""
    shrunk: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """Records after ``after_seq`` up to ``to_seq``, which is there."""

    folder: Path
    after_seq: int
    to_seq: int
    position: Position | None = None


def reach_of(
    folder: Path,
    after_seq: int,
    *,
    most_bytes: int | None,
    position: Position | None = None,
    patience_s: float = 0.0,
) -> Reach:
    """How far to read on from record ``after_seq``.

    About ``most_bytes`` are taken, but whole segments, and one line at least. A file that is not
    whole is a fault when nobody has written it for ``patience_s``; until then it is being copied.
    """
    try:
        return _reach(folder, after_seq, most_bytes, position, patience_s)
    except (OSError, JournalError) as error:
        return Reach(after_seq, fault=_said(folder, error))


def last_seq(folder: Path) -> int | None:
    """The last record there is, whether or not it can be read; None if nobody can tell."""
    try:
        _, last = _after_seq_in(folder, None)
        return max(last, list_folder(folder).last_seq)
    except (OSError, JournalError):
        return None


def removed_upto(folder: Path) -> int:
    """The last record that retention took."""
    removed = find_removed(folder)
    return 0 if removed is None else removed.last_seq


def pieces(folder: Path, after_seq: int, to_seq: int, position: Position | None) -> Iterator[Piece]:
    """One for each file. Raises JournalError."""
    passed = max(after_seq, removed_upto(folder))
    for span in _full(list_folder(folder)):
        if span.last_seq > passed and span.first_seq <= to_seq:
            upto = min(span.last_seq, to_seq)
            yield Piece(folder, passed, upto)
            passed = upto
    if passed < to_seq:
        yield Piece(
            folder, passed, to_seq, position if position and position.seq == passed else None
        )


def lines_in(piece: Piece) -> Iterator[bytes]:
    """The lines of ``piece``, in order. Raises JournalError when not all are there any more."""
    last = piece.after_seq
    for line in _marked_lines(piece) or _found_lines(piece):
        yield line
        last = place_of(line).seq
        if last >= piece.to_seq:
            return
    raise JournalError(
        f"records {last + 1} to {piece.to_seq} of the journal {piece.folder} were there and are"
        " gone"
    )


def first_line(folder: Path) -> bytes | None:
    """The line of record 1; None where it is not there any more. Raises JournalError, OSError."""
    full = _full(list_folder(folder))
    if full:
        if full[0].first_seq != 1:
            return None
        plain = folder / full[0].plain
        path = plain if plain.exists() else folder / full[0].packed
        return next(lines_of(chunks_of(path)), None)
    with (folder / ACTIVE).open("rb") as file:
        line = file.readline()
    return line if line.endswith(b"\n") and _seq_of(line) == 1 else None


def _reach(
    folder: Path,
    after_seq: int,
    most_bytes: int | None,
    position: Position | None,
    patience_s: float,
) -> Reach:
    passed = max(after_seq, removed_upto(folder))
    found, taken, last = after_seq, 0, 0
    listing = list_folder(folder)
    for span in _full(listing):
        last = max(last, span.last_seq)
        if span.last_seq <= passed:
            continue
        size = _size(folder, span, listing)
        if size is None:
            waiting = _age_s(folder, span) < patience_s
            return Reach(found, fault="" if waiting else _not_whole(folder, span, listing))
        if taken and most_bytes is not None and taken + size > most_bytes:
            return Reach(found)
        upto, fault = _looked_through(folder, span, passed)
        if fault:
            return Reach(max(found, upto), fault=fault)
        found = passed = span.last_seq
        taken += size
    if most_bytes is not None and taken >= most_bytes:
        return Reach(found)
    left = None if most_bytes is None else most_bytes - taken
    end, active_last, fault = _end_of_active(folder, passed, left, position)
    if fault or end is not None:
        return Reach(max(found, end.seq if end else 0), end, fault)
    last = max(last, active_last)
    if 0 < last < after_seq and list_folder(folder) != listing:
        return Reach(after_seq)  # a segment was closed while we looked: there is a next time
    if 0 < last < after_seq:
        return Reach(
            after_seq,
            fault=f"the journal {folder} ends with record {last}, and {after_seq} had been read"
            " before: it is an older copy, or records were taken away from its end",
            shrunk=True,
        )
    return Reach(found)


def _said(folder: Path, error: Exception) -> str:
    """One sentence that names the folder."""
    if isinstance(error, OSError):
        return f"cannot read {error.filename or folder}: {error.strerror or error}"
    text = str(error)
    return text if str(folder) in text else f"the journal {folder}: {text}"


# -- segments that are full


def _full(listing: Listing) -> list[Span]:
    return sorted({*listing.plain, *listing.packed, *listing.manifests})


def _size(folder: Path, span: Span, listing: Listing) -> int | None:
    """How many bytes its lines have; None when it is not whole."""
    try:
        if span in listing.plain:
            return (folder / span.plain).stat().st_size
        if span not in listing.sealed:
            return None
        manifest = read_manifest(folder, span)
        whole = (folder / span.packed).stat().st_size >= manifest.packed_bytes
    except FileNotFoundError:
        return None  # it got another name: there is a next time
    except BadSegment:
        if (folder / span.manifest).stat().st_size:
            raise
        return None  # its copy has only begun
    return manifest.bytes if whole else None


def _age_s(folder: Path, span: Span) -> float:
    """How long ago any of its files was last written here, whatever time the copy was given."""
    latest = 0.0
    for name in (span.packed, span.manifest):
        try:
            latest = max(latest, (folder / name).stat().st_ctime)
        except OSError:
            continue
    return time.time() - latest


def _not_whole(folder: Path, span: Span, listing: Listing) -> str:
    if span not in listing.packed:
        return f"{folder / span.packed} is missing, and its manifest is there"
    if span not in listing.manifests:
        return f"{folder / span.manifest} is missing, and its segment is there"
    return f"{folder / span.packed} is cut off: it is shorter than its manifest says"


def _looked_through(folder: Path, span: Span, passed: int) -> tuple[int, str]:
    """Up to which record after ``passed`` a segment can be read, and why not to its end."""
    for path in (folder / span.plain, folder / span.packed):  # which takes the place of the other
        try:
            return _looked_through_file(path, span, passed)
        except FileNotFoundError:
            continue
    return passed, f"{folder / span.packed} cannot be read: it went away"


def _looked_through_file(path: Path, span: Span, passed: int) -> tuple[int, str]:
    good, number, line = b"", 0, b""
    try:
        for number, line in enumerate(lines_of(chunks_of(path)), 1):
            if (version := _newer(line)) is not None:
                return _last_of(good, passed), _newer_fault(path, number, version)
            good = line
    except BadSegment as error:
        return _last_of(good, passed), f"{path} cannot be read after line {number}: {error}"
    if line and not line.endswith(b"\n"):
        return passed, f"{path} is cut off after line {number - 1}"
    return span.last_seq, ""


def _last_of(line: bytes, passed: int) -> int:
    return max(_seq_of(line) or 0, passed)


# -- schemas


class _Version(msgspec.Struct):
    v: int


_decode_version = msgspec.json.Decoder(_Version).decode


def _newer(line: bytes) -> int | None:
    """The schema of a line that only a newer Routebook can read."""
    if line.startswith(_KNOWN):
        return None
    try:
        found = _decode_version(line).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found > VERSION else None


def _newer_fault(path: Path, number: int, version: int) -> str:
    return (
        f"{path} line {number} is of schema version {version}, written by a newer Routebook; this"
        f" one reads up to {VERSION}: upgrade it"
    )


# -- the active segment


def _end_of_active(
    folder: Path, after_seq: int, most_bytes: int | None, position: Position | None
) -> tuple[Position | None, int, str]:
    """Where to read to, the last record before ``after_seq`` in it, and why not further."""
    try:
        file = (folder / ACTIVE).open("rb")
    except FileNotFoundError:
        return None, 0, ""
    with file:
        begin, before = None, after_seq
        if position and position.seq == after_seq:
            begin = _after_position(file, position)
        if begin is None:
            begin, before = _after_seq(file, after_seq)
        file.seek(begin)
        end, taken = None, 0
        for line in file:
            if not line.endswith(b"\n") or (most_bytes is not None and taken >= most_bytes):
                break
            if (version := _newer(line)) is not None:
                return end, before, _newer_fault(folder / ACTIVE, _number(file, line), version)
            seq = _seq_of(line)
            if most_bytes is not None and end and taken + len(line) > most_bytes:
                break
            if seq is not None and seq > after_seq:
                end = Position(seq, begin + taken)
            taken += len(line)
        return end, before, ""


def _number(file: BinaryIO, line: bytes) -> int:
    """Which line of the file this is."""
    file.seek(0)
    return next(i for i, other in enumerate(file, 1) if other == line)


def _after_position(file: BinaryIO, position: Position) -> int | None:
    """Where the line after that of ``position`` begins; None when that is not there."""
    file.seek(position.byte)
    line = file.readline()
    return file.tell() if line.endswith(b"\n") and _seq_of(line) == position.seq else None


def _after_seq_in(folder: Path, seq: int | None) -> tuple[int, int]:
    try:
        with (folder / ACTIVE).open("rb") as file:
            return _after_seq(file, seq)
    except FileNotFoundError:
        return 0, 0


def _after_seq(file: BinaryIO, seq: int | None) -> tuple[int, int]:
    """Where the first line of a later record begins, and the last record before it."""
    file.seek(0)
    begin, last = 0, 0
    for line in file:
        found = _seq_of(line)
        later = found is not None and seq is not None and found > seq
        if later or not line.endswith(b"\n") or _newer(line) is not None:
            break
        begin += len(line)
        last = max(last, found or 0)
    return begin, last


def _seq_of(line: bytes) -> int | None:
    try:
        return place_of(line).seq
    except BadRecord:
        return None


# -- lines


def _marked_lines(piece: Piece) -> Iterator[bytes] | None:
    """From the position on; None when the segment has been closed since."""
    if piece.position is None:
        return None
    try:
        file = (piece.folder / ACTIVE).open("rb")
    except OSError:
        return None
    begin = _after_position(file, piece.position)
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
