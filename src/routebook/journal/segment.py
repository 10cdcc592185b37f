"""Segments: lines in files, plain while they are written and packed for good.

    active.jsonl  --closed-->  A-B.jsonl  --sealed-->  A-B.jsonl.gz, A-B.manifest.json

A file is complete before it gets its next name, and its old name goes last. A node that is killed
at any moment leaves the lines in one of the two, or twice the same.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from routebook.journal.errors import BadSegment
from routebook.journal.folder import Span, made_whole, sync_folder
from routebook.journal.identity import UNKNOWN, Identity
from routebook.journal.manifest import Manifest, write_manifest
from routebook.journal.record import hash_of, place_of

OnBytes = Callable[[int], None]

_CHUNK = 1 << 18
_GZIP = 31  # zlib's window bits for a gzip header, which then has no time in it
_LEVEL = 6


@dataclass(slots=True)
class Summary:
    """What the lines of a segment add up to."""

    node: str
    first_hash: bytes
    last_hash: bytes
    first_seq: int = 0
    last_seq: int = 0
    records: int = 0
    first_wall_ms: int = 0
    last_wall_ms: int = 0
    min_wall_ms: int = 0
    max_wall_ms: int = 0
    size: int = 0  # of the lines, in bytes

    def add(self, seq: int, wall_ms: int, *, size: int, line_hash: bytes) -> None:
        if not self.records:
            self.first_seq = seq
            self.first_wall_ms = self.min_wall_ms = self.max_wall_ms = wall_ms
        self.last_seq = seq
        self.last_wall_ms = wall_ms
        self.min_wall_ms = min(self.min_wall_ms, wall_ms)
        self.max_wall_ms = max(self.max_wall_ms, wall_ms)
        self.records += 1
        self.size += size
        self.last_hash = line_hash

    @property
    def span(self) -> Span:
        return Span(self.first_seq, self.last_seq)


def summary_of(lines: Iterable[bytes], *, node: str, first_hash: bytes) -> Summary:
    """Raises BadRecord for a line that is none; whether hashes are true is not looked at."""
    summary = Summary(node, first_hash, first_hash)
    for line in lines:
        place = place_of(line)
        line_hash = hash_of(line) or summary.last_hash
        summary.add(place.seq, place.wall_ms, size=len(line), line_hash=line_hash)
    return summary


def chunks_of(path: Path, *, told: OnBytes | None = None) -> Iterator[bytes]:
    """The content of a segment, unpacked; ``told`` hears how many bytes of the file were read.

    Raises FileNotFoundError at once, and BadSegment, after all that could be had, for a file that
    cannot be read, is damaged or cut.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadSegment(f"cannot read {path.name}: {error.strerror}") from error
    with file:
        yield from chunks_from(file, path.name, told=told)


def chunks_from(file: BinaryIO, name: str, *, told: OnBytes | None = None) -> Iterator[bytes]:
    """As ``chunks_of``, of a file that is open."""
    unpack = zlib.decompressobj(_GZIP) if name.endswith(".gz") else None
    try:
        while chunk := file.read(_CHUNK):
            if told is not None:
                told(len(chunk))
            yield chunk if unpack is None else unpack.decompress(chunk)
    except OSError as error:
        raise BadSegment(f"cannot read {name}: {error.strerror}") from error
    except zlib.error as error:
        raise BadSegment(f"{name} cannot be unpacked: {error}") from error
    if unpack is not None and not unpack.eof:
        raise BadSegment(f"{name} cannot be unpacked: it ends too early")


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with their line feeds; what follows the last one comes last, without."""
    rest = b""
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


class _Stopped(Exception):
    pass


def _packed(
    chunks: Iterable[bytes], seen: Callable[[bytes], None], stopped: Callable[[], bool]
) -> Iterator[bytes]:
    compress = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for chunk in chunks:
        if stopped():
            raise _Stopped
        seen(chunk)
        yield compress.compress(chunk)
    yield compress.flush()


def seal(
    folder: Path,
    summary: Summary,
    *,
    previous_sha256: str,
    sealed_at_ms: int,
    stopped: Callable[[], bool],
    identity: Identity = UNKNOWN,
) -> Manifest | None:
    """Pack a closed segment. None, and nothing changed, when ``stopped`` said so."""
    span = summary.span
    plain, packed = folder / span.plain, folder / span.packed
    content_sum, packed_sum, packed_bytes = sha256(), sha256(), 0
    try:
        with made_whole(packed) as file:
            for piece in _packed(chunks_of(plain), content_sum.update, stopped):
                packed_sum.update(piece)
                packed_bytes += file.write(piece)
    except _Stopped:
        return None
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
        packed_bytes=packed_bytes,
        sha256=packed_sum.hexdigest(),
        content_sha256=content_sum.hexdigest(),
        previous_sha256=previous_sha256,
        first_hash=summary.first_hash.hex(),
        last_hash=summary.last_hash.hex(),
        sealed_at_ms=sealed_at_ms,
        fleet=identity.fleet,
        incarnation=identity.incarnation,
    )
    write_manifest(folder, manifest)
    plain.unlink(missing_ok=True)
    sync_folder(folder)
    return manifest
