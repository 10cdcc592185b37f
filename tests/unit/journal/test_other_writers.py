"""Journals are read by what docs/journal.md says, also when another program wrote them.

The writer here follows that page alone. The journals in ``tests/golden`` were made by ours, so what
writer and reader of ours take for the format together would not show there.
"""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from routebook.events import BrokerLeft, Cause, KvChanged
from routebook.journal.reader import read
from routebook.journal.record import Record
from routebook.journal.verify import verify

NODE = "by-hand"
WALL_MS = 1_794_747_846_490
LEFT = {
    "revision": 7,
    "cause": "expired",
    "peer": "",
    "cluster": "c1",
    "broker": "broker-a",
    "broker_id": 0,
    "addr": "10.0.0.9:10911",
    "generation": 3,
    "addrs_before": {"0": "10.0.0.9:10911", "1": "10.0.0.8:10911"},
    "addrs_after": {"1": "10.0.0.8:10911"},
    "topics_lost": 0,
}


def kv(revision: int, before: str | None, after: str | None) -> dict[str, Any]:
    told = {"revision": revision, "cause": "admin", "peer": "127.0.0.1:48422"}
    return {**told, "namespace": "ns", "key": "clé", "before": before, "after": after}


class Writer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._hash = bytes(8)
        self._manifest = ""
        self._seq = 0

    def lines(self, *events: tuple[str, dict[str, Any]]) -> list[bytes]:
        lines = []
        for kind, data in events:
            self._seq += 1
            members = {
                "v": 1,
                "seq": self._seq,
                "node": NODE,
                "wall_ms": WALL_MS + self._seq,
                "mono_ms": self._seq,
                "type": kind,
                "data": data,
            }
            text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))[:-1].encode()
            self._hash = hashlib.blake2b(self._hash + text, digest_size=8).digest()
            lines.append(text + b',"hash":"' + self._hash.hex().encode() + b'"}\n')
        return lines

    def seal(self, *events: tuple[str, dict[str, Any]]) -> None:
        first_hash, first = self._hash.hex(), self._seq + 1
        content = b"".join(self.lines(*events))
        packed = gzip.compress(content)
        stem = f"{first:012}-{self._seq:012}"
        (self._folder / f"{stem}.jsonl.gz").write_bytes(packed)
        manifest = {
            "v": 1,
            "node": NODE,
            "first_seq": first,
            "last_seq": self._seq,
            "records": len(events),
            "first_wall_ms": WALL_MS + first,
            "last_wall_ms": WALL_MS + self._seq,
            "min_wall_ms": WALL_MS + first,
            "max_wall_ms": WALL_MS + self._seq,
            "bytes": len(content),
            "packed_bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "content_sha256": hashlib.sha256(content).hexdigest(),
            "previous_sha256": self._manifest,
            "first_hash": first_hash,
            "last_hash": self._hash.hex(),
            "sealed_at_ms": WALL_MS + 1000,
            "fleet": "shop",
            "incarnation": "9f86d081884c7d65",
        }
        text = json.dumps(manifest, indent=1).encode()
        (self._folder / f"{stem}.manifest.json").write_bytes(text)
        self._manifest = hashlib.sha256(text).hexdigest()

    def write(self, *events: tuple[str, dict[str, Any]]) -> None:
        (self._folder / "active.jsonl").write_bytes(b"".join(self.lines(*events)))


def test_a_journal_of_another_writer_is_sound_and_means_what_it_says(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "journal")
    writer.seal(("KvChanged", kv(1, None, "grün")), ("BrokerLeft", LEFT))
    writer.seal(("KvChanged", kv(2, "grün", None)))
    writer.write(("Invented", {"revision": 3}), ("KvChanged", kv(4, None, "🚀")))

    report = verify(tmp_path / "journal")
    assert (report.findings, report.records, report.segments) == ((), 5, 3)
    *told, last = read(tmp_path / "journal")
    admin = {"cause": Cause.ADMIN, "peer": "127.0.0.1:48422", "namespace": "ns", "key": "clé"}
    assert last.event == KvChanged(revision=4, before=None, after="🚀", **admin)  # type: ignore[arg-type]
    left = BrokerLeft(
        revision=7,
        cause=Cause.EXPIRED,
        peer="",
        cluster="c1",
        broker="broker-a",
        broker_id=0,
        addr="10.0.0.9:10911",
        generation=3,
        addrs_before={0: "10.0.0.9:10911", 1: "10.0.0.8:10911"},
        addrs_after={1: "10.0.0.8:10911"},
        topics_lost=0,
    )
    assert told[1] == Record(2, WALL_MS + 2, 2, NODE, left)
    assert [each.seq for each in told] == [1, 2, 3, 4]


def test_a_changed_line_of_another_writer_is_found(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "journal")
    writer.write(("KvChanged", kv(1, None, "old")), ("KvChanged", kv(2, "old", "new")))
    active = tmp_path / "journal" / "active.jsonl"
    active.write_bytes(active.read_bytes().replace(b'"after":"old"', b'"after":"odd"'))
    (found,) = verify(tmp_path / "journal").findings
    assert "line 1" in str(found)
