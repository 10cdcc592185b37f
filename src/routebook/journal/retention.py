"""Retention: old sealed segments go, whole ones only, the oldest first.

What the newest snapshot needs stays, whatever the limits say: the segments after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from routebook.disk import size_of
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE, Listing, Span, snapshot_name, torn_name
from routebook.journal.manifest import (
    Removed,
    find_removed,
    manifest_sha256,
    read_manifest,
    write_removed,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A sealed segment; ``bytes`` includes the snapshots that go when it does."""

    span: Span
    bytes: int
    max_wall_ms: int


def expired(
    segments: Sequence[Kept],
    *,
    now_ms: int,
    retain_age_ms: int,
    retain_bytes: int,
    snapshot_seq: int | None,
    loose_bytes: int = 0,
) -> list[Span]:
    """Which of ``segments``, given in order, have to go; ``loose_bytes`` of others are there."""
    total = loose_bytes + sum(segment.bytes for segment in segments)
    gone: list[Span] = []
    for segment in segments:
        old = segment.max_wall_ms < now_ms - retain_age_ms
        needed = snapshot_seq is not None and segment.span.last_seq > snapshot_seq
        if needed or not (old or total > retain_bytes):
            break
        gone.append(segment.span)
        total -= segment.bytes
    return gone


def kept_in(folder: Path, listing: Listing, known: dict[Span, Kept]) -> list[Kept]:
    """The sealed segments of ``folder``, in order.

    ``known`` is for the next time: sealed files do not change, and there may be thousands.
    """
    snapshots = list(listing.snapshots)
    kept: list[Kept] = []
    for span in listing.sealed:
        if span not in known:
            files = size_of(folder / span.packed) + size_of(folder / span.manifest)
            known[span] = Kept(span, files, _last_moment(folder, span))
        size = known[span].bytes
        while snapshots and snapshots[0] < span.last_seq:
            size += size_of(folder / snapshot_name(snapshots.pop(0)))
        kept.append(replace(known[span], bytes=size))
    return kept


def loose_bytes_in(folder: Path, listing: Listing, sealed: Sequence[Kept]) -> int:
    """The bytes of what is in no sealed segment: what waits, is being written, or was cut off."""
    last_seq = sealed[-1].span.last_seq if sealed else 0
    names = [
        *(span.plain for span in listing.plain),
        *(span.packed for span in listing.packed if span not in listing.sealed),
        *(snapshot_name(seq) for seq in listing.snapshots if seq >= last_seq),
        *listing.torn,
        *listing.temporary,
        *([ACTIVE] if listing.active else []),
    ]
    return sum(size_of(folder / name) for name in names)


def remove(folder: Path, spans: Sequence[Span], listing: Listing, *, now_ms: int) -> None:
    """Take ``spans``, the oldest ones, out of ``folder``, and note it first."""
    last = spans[-1]
    before = find_removed(folder)
    write_removed(
        folder,
        Removed(
            last_seq=last.last_seq,
            last_hash=_last_hash(folder, last),
            manifest_sha256=manifest_sha256(folder, last),
            segments=len(spans) + (before.segments if before else 0),
            at_ms=now_ms,
        ),
    )
    for span in spans:
        # The manifest first: without one nobody takes the rest for a segment.
        (folder / span.manifest).unlink(missing_ok=True)
        (folder / span.packed).unlink(missing_ok=True)
    for seq in listing.snapshots:
        if seq < last.last_seq:
            (folder / snapshot_name(seq)).unlink(missing_ok=True)
    for name in listing.torn:
        if name < torn_name(last.last_seq):
            (folder / name).unlink(missing_ok=True)


def _last_hash(folder: Path, span: Span) -> str:
    """The hash the segment ends with; "" when its manifest cannot be read."""
    try:
        return read_manifest(folder, span).last_hash
    except JournalError:
        return ""


def _last_moment(folder: Path, span: Span) -> int:
    try:
        return read_manifest(folder, span).max_wall_ms
    except (JournalError, OSError):
        return int(_modified_s(folder / span.packed) * 1000)


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
