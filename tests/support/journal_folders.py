"""Journal folders as a node leaves them, written from records."""

from collections.abc import Collection, Iterable
from pathlib import Path

from routebook.journal.folder import ACTIVE
from routebook.journal.manifest import manifest_sha256
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from routebook.journal.segment import seal, summary_of
from routebook.journal.snapshot_file import Snapshot, write
from routebook.journal.view import View


def write_journal(
    folder: Path,
    records: Iterable[Record],
    *,
    sealed_at: Collection[int] = (),
    snapshots_at: Collection[int] = (),
) -> Path:
    """Segments end, and snapshots are made, after these sequence numbers; the rest is active."""
    folder.mkdir(parents=True, exist_ok=True)
    view, last_hash, manifest = View(), CHAIN_START, ""
    lines: list[bytes] = []
    first_hash = last_hash
    for record in records:
        lines.append(encode(record, last_hash))
        last_hash = hash_of(lines[-1]) or CHAIN_START
        view.apply(record)
        if record.seq in sealed_at:
            manifest = _seal(folder, lines, record.node, first_hash, manifest)
            lines, first_hash = [], last_hash
        if record.seq in snapshots_at:
            write(folder, Snapshot(view, last_hash))
    (folder / ACTIVE).write_bytes(b"".join(lines))
    return folder


def _seal(
    folder: Path, lines: list[bytes], node: str, first_hash: bytes, previous_sha256: str
) -> str:
    summary = summary_of(lines, node=node, first_hash=first_hash)
    (folder / summary.span.plain).write_bytes(b"".join(lines))
    seal(
        folder,
        summary,
        previous_sha256=previous_sha256,
        sealed_at_ms=summary.last_wall_ms,
        stopped=lambda: False,
    )
    return manifest_sha256(folder, summary.span)
