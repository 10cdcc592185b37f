"""Lines in segments: numbered, chained and sealed, without holding more than a minute of them.

The same files a node leaves behind, without the steps in between: a segment is packed while it is
written, and gets its name and its manifest when it is full.
"""

import zlib
from binascii import hexlify
from collections.abc import Sequence
from hashlib import blake2b, sha256
from pathlib import Path

import msgspec

from routebook.disk import TEMPORARY
from routebook.events import Event
from routebook.journal.manifest import Manifest
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from routebook.journal.segment import Summary

ROTATE_MS = 3_600_000
ROTATE_BYTES = 64 * 1024 * 1024
ROTATE_RECORDS = 2**19
SEALED_AFTER_MS = 400
_LEVEL = 3  # a node packs with 6, which takes twice as long and saves a tenth
_GZIP = 31


class _Open:
    """The segment being written, under a name of its own."""

    def __init__(self, folder: Path, node: str, *, first_hash: bytes, first_seq: int) -> None:
        self.summary = Summary(node, first_hash, first_hash)
        self.path = folder / f"{first_seq:012d}{TEMPORARY}"
        self.packed_bytes = 0
        self._file = self.path.open("wb")
        self._packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self._content = sha256()
        self._packed = sha256()

    def put(self, lines: bytes) -> None:
        self._content.update(lines)
        self._write(self._packing.compress(lines))

    def close(self, *, previous_sha256: str) -> Manifest:
        self._write(self._packing.flush())
        self._file.close()
        summary = self.summary
        return Manifest(
            node=summary.node,
            first_seq=summary.first_seq,
            last_seq=summary.last_seq,
            records=summary.records,
            first_wall_ms=summary.first_wall_ms,
            last_wall_ms=summary.last_wall_ms,
            min_wall_ms=summary.min_wall_ms,
            max_wall_ms=summary.max_wall_ms,
            bytes=summary.size,
            packed_bytes=self.packed_bytes,
            sha256=self._packed.hexdigest(),
            content_sha256=self._content.hexdigest(),
            previous_sha256=previous_sha256,
            first_hash=summary.first_hash.hex(),
            last_hash=summary.last_hash.hex(),
            sealed_at_ms=summary.last_wall_ms + SEALED_AFTER_MS,
        )

    def _write(self, piece: bytes) -> None:
        self._packed.update(piece)
        self.packed_bytes += self._file.write(piece)


class Segments:
    """The journal of ``node`` in ``folder``, from its first record on; what it adds up to."""

    def __init__(self, folder: Path, node: str) -> None:
        self.node = node
        self.records = 0
        self.bytes = 0
        self.packed_bytes = 0
        self.sealed = 0
        self._folder = folder
        self._seq = 0
        self._previous = CHAIN_START
        self._previous_sha256 = ""
        self._open: _Open | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, event: Event, *, wall_ms: int, mono_ms: int) -> None:
        segment = self._segment(wall_ms)
        self._seq += 1
        line = encode(Record(self._seq, wall_ms, mono_ms, self.node, event), self._previous)
        self._previous = hash_of(line) or CHAIN_START
        segment.put(line)
        summary = segment.summary
        summary.add(self._seq, wall_ms, size=len(line), line_hash=self._previous)

    def write_gaps(
        self,
        gaps: Sequence[tuple[bytes, bytes]],
        *,
        wall_ms: int,
        mono_ms: int,
        revision: int,
    ) -> None:
        """A HeartbeatGaps record for each pair of ``gaps_opening(...)`` and numbers with commas.

        Nearly all of a journal is made of these, so their bytes are put together by hand.
        """
        if not gaps:
            return
        segment = self._segment(wall_ms)
        head = (
            b',"node":%b,"wall_ms":%d,"mono_ms":%d,"type":"HeartbeatGaps","data":'
            b'{"revision":%d,"cause":"window","peer":"",'
            % (msgspec.json.encode(self.node), wall_ms, mono_ms, revision)
        )
        first_seq = seq = self._seq
        previous = self._previous
        lines: list[bytes] = []
        for opening, numbers in gaps:
            seq += 1
            body = b'{"v":1,"seq":%d%b%b%b]}' % (seq, head, opening, numbers)
            previous = blake2b(previous + body, digest_size=8).digest()
            lines.append(b'%b,"hash":"%b"}\n' % (body, hexlify(previous)))
        text = b"".join(lines)
        segment.put(text)
        self._seq, self._previous = seq, previous
        summary = segment.summary
        summary.add(first_seq + 1, wall_ms, size=len(text), line_hash=previous)
        summary.last_seq = seq
        summary.records += len(lines) - 1

    def close(self) -> None:
        """Seal what there is."""
        segment, self._open = self._open, None
        if segment is None:
            return
        manifest = segment.close(previous_sha256=self._previous_sha256)
        # As routebook.journal.manifest writes it, but without waiting for the disk each time.
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        segment.path.rename(self._folder / manifest.span.packed)
        (self._folder / manifest.span.manifest).write_bytes(text)
        self._previous_sha256 = sha256(text).hexdigest()
        self.sealed += 1
        self.records += manifest.records
        self.bytes += manifest.bytes
        self.packed_bytes += manifest.packed_bytes

    def _segment(self, wall_ms: int) -> _Open:
        if self._open is not None:
            summary = self._open.summary
            if (
                wall_ms >= summary.first_wall_ms + ROTATE_MS
                or summary.size >= ROTATE_BYTES
                or summary.records >= ROTATE_RECORDS
            ):
                self.close()
        if self._open is None:
            self._open = _Open(
                self._folder, self.node, first_hash=self._previous, first_seq=self._seq + 1
            )
        return self._open


def gaps_opening(cluster: str, broker: str, broker_id: int, addr: str, generation: int) -> bytes:
    """What a HeartbeatGaps record says between the peer and its numbers."""
    said = {
        "cluster": cluster,
        "broker": broker,
        "broker_id": broker_id,
        "addr": addr,
        "generation": generation,
        "window_ms": 60_000,
    }
    return msgspec.json.encode(said)[1:-1] + b',"gaps_ms":['
