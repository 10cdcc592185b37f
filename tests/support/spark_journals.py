"""Sealed segments for tests of the ingest, good ones and bad ones."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from support.journals import NOON_MS, numbered

SPOILT = b'{"v":1,"seq":'


def records(node: str, first_seq: int, last_seq: int, *, wall_ms: int = NOON_MS) -> list[Record]:
    """Numbered ones, a second apart."""
    return [
        Record(seq, wall_ms + seq * 1000, seq * 1000, node, numbered(seq))
        for seq in range(first_seq, last_seq + 1)
    ]


def chain(items: Iterable[Record], previous: bytes = CHAIN_START) -> list[bytes]:
    """Their lines."""
    lines = []
    for item in items:
        lines.append(encode(item, previous))
        previous = hash_of(lines[-1]) or previous
    return lines


def write_segments(folder: Path, lines: Sequence[bytes], *, size: int) -> list[Path]:
    """Sealed segments of up to ``size`` lines each; the paths of the packed files."""
    return [
        write_segment(folder, lines[start : start + size]) for start in range(0, len(lines), size)
    ]


def write_segment(
    folder: Path,
    lines: Sequence[bytes],
    *,
    bad: Sequence[bytes] = (),
    **manifest: Any,
) -> Path:
    """One sealed segment of ``lines``; ``bad`` ones are put behind the first.

    ``manifest`` is what the manifest says other than the truth about ``lines``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = [json.loads(line) for line in lines]
    first, last = said[0], said[-1]
    content = b"".join([lines[0], *bad, *lines[1:]])
    packed = gzip.compress(content, mtime=0)
    stem = f"{first['seq']:012d}-{last['seq']:012d}"
    times = [line["wall_ms"] for line in said]
    path = folder / f"{stem}.jsonl.gz"
    path.write_bytes(packed)
    told = {
        "v": 1,
        "node": first["node"],
        "first_seq": first["seq"],
        "last_seq": last["seq"],
        "records": len(lines) + len(bad),
        "first_wall_ms": first["wall_ms"],
        "last_wall_ms": last["wall_ms"],
        "min_wall_ms": min(times),
        "max_wall_ms": max(times),
        "bytes": len(content),
        "packed_bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "previous_sha256": "",
        "first_hash": CHAIN_START.hex(),
        "last_hash": last["hash"],
        "sealed_at_ms": max(times),
    }
    text = json.dumps(told | manifest, indent=2)
    (folder / f"{stem}.manifest.json").write_text(text)
    return path


def manifest_of(path: Path) -> Path:
    return path.with_name(path.name.replace(".jsonl.gz", ".manifest.json"))


def altered(line: bytes, **members: Any) -> bytes:
    """``line`` with other members; None removes one."""
    said = json.loads(line) | members
    kept = {name: value for name, value in said.items() if value is not None}
    return json.dumps(kept, separators=(",", ":")).encode() + b"\n"
