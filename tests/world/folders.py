"""The journals of a world on disk, as its nodes leave them and as they are carried elsewhere."""

import gzip
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from routebook.journal.folder import ACTIVE, IDENTITY
from routebook.journal.identity import Identity
from routebook.journal.manifest import Manifest
from routebook.journal.record import CHAIN_START, encode, hash_of
from routebook.journal.segment import Summary, summary_of
from world.plan import SegmentLate, SegmentLost
from world.truth import Life, Truth, Written

SEALED_AFTER_MS = 100


@dataclass(frozen=True, slots=True)
class Segment:
    written: tuple[Written, ...]

    @property
    def stem(self) -> str:
        return f"{self.written[0].record.seq:012d}-{self.written[-1].record.seq:012d}"


def segments_of(life: Life) -> list[Segment]:
    """All that it wrote; a boot begins a segment."""
    segments: list[Segment] = []
    boots = set(life.boots)
    part: list[Written] = []
    for each in life.written:
        if part and (each.record.seq in boots or len(part) >= life.segment):
            segments.append(Segment(tuple(part)))
            part = []
        part.append(each)
    if part:
        segments.append(Segment(tuple(part)))
    return segments


def lost_of(truth: Truth, life: Life) -> set[int]:
    """Segments that never arrive, by their place; never the last one."""
    return _places(truth, life, SegmentLost)


def late_of(truth: Truth, life: Life) -> dict[int, SegmentLate]:
    """Segments that come late, by their place."""
    return {
        place: deed
        for deed in truth.plan.deeds
        if isinstance(deed, SegmentLate) and deed.node == life.node
        for place in _place(life, deed.at_ms)
    }


def _places(truth: Truth, life: Life, kind: type[SegmentLost]) -> set[int]:
    return {
        place
        for deed in truth.plan.deeds
        if isinstance(deed, kind) and deed.node == life.node
        for place in _place(life, deed.at_ms)
    }


def _place(life: Life, true_ms: float) -> list[int]:
    segments = segments_of(life)
    ends = [segment.written[-1].true_ms for segment in segments]
    place = bisect_left(ends, true_ms)
    return [place] if place < len(segments) - 1 else []


def held_of(segments: Sequence[Segment], lost: set[int]) -> list[Written]:
    return [w for place, s in enumerate(segments) if place not in lost for w in s.written]


def write_life(folder: Path, life: Life, *, lost: set[int], all_sealed: bool = False) -> Path:
    """The folder of one life. Its last segment is active, unless the node stopped in order."""
    folder.mkdir(parents=True)
    segments = segments_of(life)
    identity = Identity(1, life.node, life.fleet, life.incarnation)
    (folder / IDENTITY).write_bytes(msgspec.json.encode(identity) + b"\n")
    last_hash, previous = CHAIN_START, ""
    running = life.phases[-1][1] != "stopped"
    for place, segment in enumerate(segments):
        lines, first_hash = [], last_hash
        for each in segment.written:
            lines.append(encode(each.record, last_hash))
            last_hash = hash_of(lines[-1]) or last_hash
        if place == len(segments) - 1 and running and not all_sealed:
            (folder / ACTIVE).write_bytes(b"".join(lines))
            break
        summary = summary_of(lines, node=life.node, first_hash=first_hash)
        if place in lost:
            previous = sha256(summary.span.stem.encode()).hexdigest()
            continue
        packed = gzip.compress(b"".join(lines), 1, mtime=0)
        manifest = _manifest(summary, lines, packed, previous, identity)
        (folder / summary.span.packed).write_bytes(packed)
        (folder / summary.span.manifest).write_bytes(manifest)
        previous = sha256(manifest).hexdigest()
    return folder


def _manifest(
    summary: Summary, lines: Sequence[bytes], packed: bytes, previous: str, identity: Identity
) -> bytes:
    manifest = Manifest(
        node=summary.node,
        first_seq=summary.first_seq,
        last_seq=summary.last_seq,
        records=summary.records,
        first_wall_ms=summary.first_wall_ms,
        last_wall_ms=summary.last_wall_ms,
        min_wall_ms=summary.min_wall_ms,
        max_wall_ms=summary.max_wall_ms,
        bytes=summary.size,
        packed_bytes=len(packed),
        sha256=sha256(packed).hexdigest(),
        content_sha256=sha256(b"".join(lines)).hexdigest(),
        previous_sha256=previous,
        first_hash=summary.first_hash.hex(),
        last_hash=summary.last_hash.hex(),
        sealed_at_ms=summary.last_wall_ms + SEALED_AFTER_MS,
        fleet=identity.fleet,
        incarnation=identity.incarnation,
    )
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
