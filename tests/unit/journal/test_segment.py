import gzip
import hashlib
import json
from pathlib import Path

import pytest

from routebook.journal.errors import BadSegment, NewerSchema
from routebook.journal.folder import Span, list_folder
from routebook.journal.manifest import read_manifest, read_removed
from routebook.journal.record import CHAIN_START, hash_of
from routebook.journal.segment import chunks_of, lines_of, seal, summary_of
from support.journals import NODE, NOON_MS, chained, lay, record, span_of


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    content = b"one\n\ntwo\nthree"
    cut = [content[start : start + size] for start in range(0, len(content), size)]
    assert list(lines_of(cut)) == [b"one\n", b"\n", b"two\n", b"three"]


def test_a_summary_bounds_the_times_of_a_clock_that_was_set_back() -> None:
    records = [record(1, wall_ms=500), record(2, wall_ms=900), record(3, wall_ms=100)]
    lines = chained([*records, record(4, wall_ms=300)])
    summary = summary_of(lines, node=NODE, first_hash=CHAIN_START)
    assert summary.span == Span(1, 4)
    assert (summary.first_wall_ms, summary.last_wall_ms) == (500, 300)
    assert (summary.min_wall_ms, summary.max_wall_ms) == (100, 900)
    assert (summary.records, summary.size) == (4, sum(map(len, lines)))
    assert summary.last_hash == hash_of(lines[-1])


def test_a_sealed_segment_has_its_lines_and_a_manifest_that_says_so(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5))
    assert list_folder(tmp_path).sealed == (Span(1, 3), Span(4, 5))
    assert list_folder(tmp_path).plain == ()
    packed = (tmp_path / "000000000004-000000000005.jsonl.gz").read_bytes()
    content = gzip.decompress(packed)
    assert content.splitlines(keepends=True) == chained(span_of(1, 5))[3:]
    first = (tmp_path / "000000000001-000000000003.manifest.json").read_bytes()
    assert json.loads((tmp_path / "000000000004-000000000005.manifest.json").read_bytes()) == {
        "v": 1,
        "node": NODE,
        "first_seq": 4,
        "last_seq": 5,
        "records": 2,
        "first_wall_ms": NOON_MS + 4000,
        "last_wall_ms": NOON_MS + 5000,
        "min_wall_ms": NOON_MS + 4000,
        "max_wall_ms": NOON_MS + 5000,
        "bytes": len(content),
        "packed_bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "previous_sha256": hashlib.sha256(first).hexdigest(),
        "first_hash": json.loads(chained(span_of(1, 3))[-1])["hash"],
        "last_hash": json.loads(content.splitlines()[-1])["hash"],
        "sealed_at_ms": NOON_MS,
        "fleet": "",
        "incarnation": "",
    }


def test_sealing_that_is_stopped_leaves_the_segment_as_it_was(tmp_path: Path) -> None:
    lay(tmp_path, closed=span_of(1, 3))
    summary = summary_of(chained(span_of(1, 3)), node=NODE, first_hash=CHAIN_START)
    done = seal(tmp_path, summary, previous_sha256="", sealed_at_ms=0, stopped=lambda: True)
    assert done is None
    listing = list_folder(tmp_path)
    assert (listing.plain, listing.packed, listing.manifests) == ((Span(1, 3),), (), ())


@pytest.mark.parametrize("keep", [0, 1, 20, -8, -1])
def test_a_packed_file_that_is_cut_says_so_after_what_can_be_had(tmp_path: Path, keep: int) -> None:
    path = lay(tmp_path, span_of(1, 50)) / "000000000001-000000000050.jsonl.gz"
    path.write_bytes(path.read_bytes()[:keep])
    had: list[bytes] = []
    with pytest.raises(BadSegment, match="it ends too early"):
        had.extend(chunks_of(path))
    assert b"".join(chained(span_of(1, 50))).startswith(b"".join(had))


def test_a_packed_file_that_is_damaged_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(b"this was never packed")
    with pytest.raises(BadSegment, match=r"x\.jsonl\.gz cannot be unpacked"):
        list(chunks_of(path))


def test_a_segment_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    with pytest.raises(BadSegment, match=r"cannot read x\.jsonl: Is a directory"):
        list(chunks_of(tmp_path / "x.jsonl"))
    with pytest.raises(FileNotFoundError):
        list(chunks_of(tmp_path / "y.jsonl"))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", BadSegment, "cannot be understood"),
        ("{}", BadSegment, "cannot be understood"),
        ('{"v":1}', BadSegment, "cannot be understood"),
        ("\udcff", BadSegment, "cannot be understood"),
        ('{"v":7,"other":true}', NewerSchema, "version 7"),
    ],
    ids=["empty", "no-version", "too-few", "not-utf-8", "newer"],
)
def test_a_bad_manifest_is_told_in_a_sentence(
    tmp_path: Path, text: str, error: type[Exception], says: str
) -> None:
    lay(tmp_path, span_of(1, 3))
    content = text.encode(errors="surrogateescape")
    (tmp_path / Span(1, 3).manifest).write_bytes(content)
    (tmp_path / "removed.json").write_bytes(content)
    with pytest.raises(error, match=says):
        read_manifest(tmp_path, Span(1, 3))
    with pytest.raises(error, match=says):
        read_removed(tmp_path)


def test_a_manifest_of_other_records_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3))
    (tmp_path / Span(1, 3).manifest).rename(tmp_path / Span(1, 4).manifest)
    with pytest.raises(BadSegment, match="is about the records 000000000001-000000000003"):
        read_manifest(tmp_path, Span(1, 4))
