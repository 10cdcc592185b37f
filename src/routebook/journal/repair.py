"""What a folder holds when a node starts, and the mending of what a killed one left.

Lines that are whole and follow each other stay, even where a hash says that one was changed: that
is for ``verify`` to tell. What does not read, and all that comes after it, is cut off; more than a
line that was being written is kept in a file of its own.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from routebook.disk import sync_folder
from routebook.journal.errors import BadRecord, JournalError
from routebook.journal.folder import (
    ACTIVE,
    Listing,
    Span,
    list_folder,
    snapshot_name,
    torn_name,
    write_whole,
)
from routebook.journal.lock import Note
from routebook.journal.manifest import find_removed, read_manifest
from routebook.journal.record import CHAIN_START, Place, decode, hash_of, place_of
from routebook.journal.segment import Summary, chunks_of, lines_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """``given_seq`` is a number that was given away, whether or not its record is there.

    ``first_given_seq`` is the first that the node that was killed gave away; 0 if nobody knows.
    ``revision`` and ``wall_ms`` are those of the last record, where it was looked for. ``closed``
    are unsealed.
    """

    last_seq: int
    given_seq: int
    first_given_seq: int
    last_hash: bytes
    unclean: bool
    torn_bytes: int
    revision: int
    wall_ms: int
    closed: tuple[Span, ...]


def repair(folder: Path, before: Note | None) -> Found:
    """Leave full segments only in ``folder``, whose lock said ``before``.

    Raises OSError when it cannot be mended, JournalError when it cannot be read.
    """
    listing = list_folder(folder)
    _tidy(folder, listing)
    last_seq, last_hash = _ending(folder, listing, before)
    unclean = listing.active or (before is not None and before.last_seq is None)
    torn_bytes = 0
    if listing.active:
        summary, torn_bytes = _mend_active(folder, last_seq, last_hash)
        if summary.records:
            last_seq, last_hash = summary.last_seq, summary.last_hash
    listing = list_folder(folder)
    revision, wall_ms = _last_revision(folder, listing) if unclean else (0, 0)
    return Found(
        last_seq=last_seq,
        given_seq=max(last_seq, before.first_seq if before else 0),
        first_given_seq=before.first_seq if before else 0,
        last_hash=last_hash,
        unclean=unclean,
        torn_bytes=torn_bytes,
        revision=revision,
        wall_ms=wall_ms,
        closed=tuple(span for span in listing.plain if span not in listing.sealed),
    )


def hash_before(folder: Path, listing: Listing, seq: int) -> bytes:
    """The hash that the record ``seq``, the first of a segment, follows; zeros if nobody knows."""
    spans = [span for span in (*listing.manifests, *listing.plain) if span.last_seq < seq]
    if spans:
        return _last_hash(folder, max(spans, key=lambda span: span.last_seq))
    removed = find_removed(folder)
    return _from_hex(removed.last_hash) if removed else CHAIN_START


def _tidy(folder: Path, listing: Listing) -> None:
    """Take away what was left half done, and done twice."""
    for name in listing.temporary:
        # A snapshot is the business of whoever makes it, and it may be at work.
        if not name.startswith(snapshot_name(0)[:9]):
            (folder / name).unlink(missing_ok=True)
    for span in listing.plain:
        if span in listing.sealed:
            (folder / span.plain).unlink()
    removed = find_removed(folder)
    for span in listing.packed:
        if removed is not None and span.last_seq <= removed.last_seq and span not in listing.sealed:
            (folder / span.packed).unlink()


def _ending(folder: Path, listing: Listing, before: Note | None) -> tuple[int, bytes]:
    """The last record of full segments, or that something else says there has been."""
    last_seq = listing.last_seq
    last_hash = hash_before(folder, listing, last_seq + 1)
    removed = find_removed(folder)
    if removed is not None and removed.last_seq > last_seq:
        last_seq, last_hash = removed.last_seq, _from_hex(removed.last_hash)
    if before is not None and before.last_seq is not None and before.last_seq > last_seq:
        last_seq, last_hash = before.last_seq, _from_hex(before.last_hash)
    if listing.snapshots and listing.snapshots[-1] > last_seq:
        last_seq = listing.snapshots[-1]
    return last_seq, last_hash


def _mend_active(folder: Path, last_seq: int, last_hash: bytes) -> tuple[Summary, int]:
    """Close the active segment; what it holds, and how many bytes were cut off."""
    active = folder / ACTIVE
    summary = Summary("", last_hash, last_hash)
    for line, place, line_hash in _good_lines(active, last_seq):
        summary.add(place.seq, place.wall_ms, size=len(line), line_hash=line_hash)
    torn_bytes = active.stat().st_size - summary.size
    if torn_bytes:
        _keep_torn(active, summary.size, torn_name(summary.last_seq or last_seq))
    if summary.records:
        with active.open("rb+") as file:
            file.truncate(summary.size)
            os.fsync(file.fileno())
        active.rename(folder / summary.span.plain)
    else:
        active.unlink()
    sync_folder(folder)
    return summary, torn_bytes


def _good_lines(path: Path, last_seq: int) -> Iterator[tuple[bytes, Place, bytes]]:
    """Whole lines from the start, each the record after the one before it."""
    expected = 0
    for line in lines_of(chunks_of(path)):
        line_hash = hash_of(line)
        if line_hash is None or not line.endswith(b"\n"):
            return
        try:
            place = place_of(line)
        except BadRecord:
            return
        if place.seq != expected if expected else place.seq <= last_seq:
            return
        expected = place.seq + 1
        yield line, place, line_hash


def _keep_torn(active: Path, offset: int, name: str) -> None:
    with active.open("rb") as file:
        file.seek(offset)
        torn = file.read()
    if b"\n" not in torn:
        return
    try:
        write_whole(active.with_name(name), torn)
    except OSError as error:
        logger.warning("journal: cannot keep %d bytes of %s: %s", len(torn), ACTIVE, error.strerror)


def _last_hash(folder: Path, span: Span) -> bytes:
    try:
        return _from_hex(read_manifest(folder, span).last_hash)
    except (JournalError, FileNotFoundError):
        line = _last_line(folder, span)
        return (hash_of(line) if line else None) or CHAIN_START


def _last_revision(folder: Path, listing: Listing) -> tuple[int, int]:
    """And when it was; zeros if nobody knows."""
    spans = (*listing.sealed, *listing.plain)
    line = _last_line(folder, max(spans, key=lambda span: span.last_seq)) if spans else None
    try:
        record = decode(line) if line else None
    except JournalError:
        return 0, 0
    return (record.event.revision, record.wall_ms) if record is not None else (0, 0)


def _last_line(folder: Path, span: Span) -> bytes | None:
    """None when the file is damaged, or gone."""
    path = folder / span.plain
    try:
        lines = lines_of(chunks_of(path if path.exists() else folder / span.packed))
        last = deque(lines, maxlen=1)
    except (JournalError, FileNotFoundError):
        return None
    return last[0] if last else None


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return CHAIN_START
