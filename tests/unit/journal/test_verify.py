import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE, Span, list_folder, snapshot_name
from routebook.journal.locate import NoJournal
from routebook.journal.lock import lock_folder
from routebook.journal.manifest import Removed, manifest_sha256, read_manifest, write_removed
from routebook.journal.record import encode, hash_of
from routebook.journal.retention import remove
from routebook.journal.verify import verify
from support.journals import chained, lay, record, recovered, span_of

FIRST, SECOND, THIRD = Span(1, 5), Span(6, 10), Span(11, 15)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three sealed segments of five records and an active one of four."""
    spans = [span_of(first, first + 4) for first in (1, 6, 11)]
    return lay(tmp_path, *spans, active=span_of(16, 19))


def found(folder: Path) -> list[str]:
    return [str(finding) for finding in verify(folder).findings]


def edit_active(folder: Path, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    path = folder / ACTIVE
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


def repack(folder: Path, span: Span, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    """Edit the lines of a sealed segment, and leave its manifest."""
    lines = gzip.decompress((folder / span.packed).read_bytes()).splitlines(keepends=True)
    (folder / span.packed).write_bytes(gzip.compress(b"".join(edit(lines)), mtime=0))


def test_a_whole_journal_has_no_findings(folder: Path) -> None:
    report = verify(folder)
    assert report.findings == ()
    assert report.sound
    assert (report.records, report.segments, report.last_seq) == (19, 4, 19)
    assert (report.leaps, report.being_written) == (0, False)


def test_a_folder_without_a_journal_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="there is no journal"):
        verify(tmp_path)
    with pytest.raises(JournalError, match="cannot read the journal"):
        verify(tmp_path / "missing")


def test_a_flipped_byte_anywhere_in_a_sealed_segment_is_found(folder: Path) -> None:
    path = folder / SECOND.packed
    content = path.read_bytes()
    for position in range(0, len(content), 5):
        flipped = bytearray(content)
        flipped[position] ^= 0x10
        path.write_bytes(flipped)
        findings = [finding for finding in verify(folder).findings if finding.serious]
        assert any("sha256" in finding.what for finding in findings), position
        assert {finding.file for finding in findings} == {path.name}, position


def test_a_flipped_byte_anywhere_in_the_active_segment_is_found(folder: Path) -> None:
    path = folder / ACTIVE
    content = path.read_bytes()
    ends = [position for position, byte in enumerate(content) if byte == ord("\n")]
    for position in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[position] ^= 0x01
        path.write_bytes(flipped)
        line = sum(end < position for end in ends) + 1
        findings = [finding for finding in verify(folder).findings if finding.serious]
        assert findings, position
        assert findings[0].line == line, (position, findings)
        assert len(findings) <= 3, (position, findings)


def test_a_flipped_byte_anywhere_in_a_manifest_is_found(folder: Path) -> None:
    path = folder / SECOND.manifest
    content = path.read_bytes()
    for position in range(0, len(content), 5):
        flipped = bytearray(content)
        flipped[position] ^= 0x01
        path.write_bytes(flipped)
        assert not verify(folder).sound, (position, bytes(flipped))


def test_a_changed_line_is_found_where_it_is(folder: Path) -> None:
    edit_active(folder, lambda lines: [line.replace(b"key-17", b"key-71") for line in lines])
    assert found(folder) == [
        "active.jsonl line 2, record 17: was changed, or a line before it: its hash does not fit"
    ]


def test_a_changed_line_of_a_sealed_segment_is_found_where_it_is(folder: Path) -> None:
    repack(folder, FIRST, lambda lines: [line.replace(b"key-3", b"kez-3") for line in lines])
    assert found(folder) == [
        f"{FIRST.packed} line 3, record 3: was changed, or a line before it: its hash does not fit",
        f"{FIRST.packed}: does not fit its manifest: sha256, content_sha256",
    ]


def test_a_missing_segment_is_found(folder: Path) -> None:
    (folder / SECOND.packed).unlink()
    assert found(folder) == [
        f"{SECOND.packed}, record 6: is missing, and with it the records 6 to 10"
    ]
    (folder / SECOND.manifest).unlink()
    assert found(folder) == [
        f"{THIRD.packed} line 1, record 11: records 6 to 10 are missing before it"
    ]


def test_a_missing_first_segment_is_found(folder: Path) -> None:
    for name in (FIRST.packed, FIRST.manifest):
        (folder / name).unlink()
    assert found(folder) == [
        f"{SECOND.packed} line 1, record 6: records 1 to 5 are missing before it"
    ]


def test_a_missing_segment_before_the_active_one_is_found(folder: Path) -> None:
    for name in (THIRD.packed, THIRD.manifest):
        (folder / name).unlink()
    assert found(folder) == [
        "active.jsonl line 1, record 16: records 11 to 15 are missing before it, or it was changed"
    ]


def test_segments_that_retention_removed_are_not_missing(folder: Path) -> None:
    remove(folder, [FIRST, SECOND], list_folder(folder), now_ms=0)
    report = verify(folder)
    assert report.findings == ()
    assert (report.records, report.segments) == (9, 2)
    for name in (THIRD.packed, THIRD.manifest):
        (folder / name).unlink()
    assert found(folder) == [
        "active.jsonl line 1, record 16: records 11 to 15 are missing before it, or it was changed"
    ]


def test_segments_that_retention_has_noted_and_not_yet_removed_are_fine(folder: Path) -> None:
    note = Removed(
        last_seq=5,
        last_hash=read_manifest(folder, FIRST).last_hash,
        manifest_sha256=manifest_sha256(folder, FIRST),
        segments=1,
        at_ms=0,
    )
    write_removed(folder, note)
    (folder / FIRST.manifest).unlink()
    assert found(folder) == []


def test_a_cut_segment_is_found(folder: Path) -> None:
    path = folder / THIRD.packed
    path.write_bytes(path.read_bytes()[:-100])
    findings = found(folder)
    assert findings[-1] == f"{path.name}: does not fit its manifest: sha256"
    assert "cannot be unpacked: it ends too early" in findings[0]
    assert findings[0].startswith(f"{path.name} line ")
    assert len(findings) == 2


def test_lines_cut_from_a_sealed_segment_are_found(folder: Path) -> None:
    repack(folder, SECOND, lambda lines: lines[:-2])
    assert found(folder) == [
        f"{SECOND.packed}: does not fit its manifest: sha256, content_sha256, last_hash, bytes,"
        " last_seq, records, last_wall_ms, max_wall_ms",
        f"{SECOND.packed} line 3, record 8: ends with record 8 instead of 10",
    ]


def test_a_line_cut_off_at_the_end_is_found(folder: Path) -> None:
    edit_active(folder, lambda lines: [*lines[:-1], lines[-1][:50]])
    assert found(folder) == ["active.jsonl line 4: is cut off after 50 bytes"]


def test_a_line_that_a_node_is_writing_is_fine(folder: Path) -> None:
    edit_active(folder, lambda lines: [*lines[:-1], lines[-1][:50]])
    lock = lock_folder(folder)
    report = verify(folder)
    lock.release()
    assert report.findings == ()
    assert report.being_written


def test_an_end_cut_off_after_an_orderly_stop_is_found(folder: Path) -> None:
    (folder / ACTIVE).unlink()
    lock = lock_folder(folder)
    lock.stopped(15, bytes.fromhex(read_manifest(folder, THIRD).last_hash))
    lock.release()
    assert found(folder) == []
    for name in (THIRD.packed, THIRD.manifest):
        (folder / name).unlink()
    assert found(folder) == [
        "lock, record 15: records 11 to 15 are missing at the end: the node wrote them before it"
        " stopped"
    ]


def test_another_end_than_the_one_the_node_wrote_is_found(folder: Path) -> None:
    lock = lock_folder(folder)
    lock.stopped(19, b"another!")
    lock.release()
    assert found(folder) == ["lock, record 19: the last record is not the one the node wrote last"]


@pytest.mark.parametrize("honest", [True, False], ids=["with-a-true-hash", "with-any-hash"])
def test_an_inserted_record_is_found(folder: Path, honest: bool) -> None:
    def insert(lines: list[bytes]) -> list[bytes]:
        previous = (hash_of(lines[1]) if honest else None) or b"whatever"
        return [*lines[:2], encode(record(18), previous), *lines[2:]]

    edit_active(folder, insert)
    findings = found(folder)
    assert findings[-1] == (
        "active.jsonl line 4, record 18: record 18 is there twice: one of them was inserted"
    )
    assert len(findings) == (1 if honest else 2)


def test_an_inserted_line_that_is_no_record_is_found(folder: Path) -> None:
    edit_active(folder, lambda lines: [*lines[:2], b"{}\n", *lines[2:]])
    findings = found(folder)
    assert len(findings) == 1
    assert findings[0].startswith("active.jsonl line 3: not a record:")


def test_a_record_inserted_between_segments_is_found(folder: Path) -> None:
    (folder / Span(7, 7).plain).write_bytes(b"".join(chained(span_of(7, 7))))
    assert found(folder) == [f"{Span(7, 7).stem}, record 7: has records that another segment has"]


def test_a_removed_record_is_found(folder: Path) -> None:
    edit_active(folder, lambda lines: [lines[0], *lines[2:]])
    assert found(folder) == [
        "active.jsonl line 2, record 18: record 17 is missing before it, or it was changed"
    ]


def test_a_removed_record_with_a_new_chain_behind_it_is_found(folder: Path) -> None:
    """Whoever writes all that follows anew still has numbers that do not follow."""
    edit_active(
        folder,
        lambda lines: [
            lines[0],
            *chained(span_of(18, 19), hash_of(lines[0]) or b""),
        ],
    )
    assert found(folder) == ["active.jsonl line 2, record 18: record 17 is missing before it"]


def test_reordered_records_are_found(folder: Path) -> None:
    edit_active(folder, lambda lines: [lines[0], lines[2], lines[1], lines[3]])
    assert found(folder) == [
        "active.jsonl line 2, record 18: record 17 is missing before it, or it was changed",
        "active.jsonl line 3, record 17: record 17 is out of order: it comes after record 18",
    ]


def test_one_wrong_number_does_not_make_all_that_follow_wrong(folder: Path) -> None:
    edit_active(folder, lambda lines: [line.replace(b'"seq":17', b'"seq":97') for line in lines])
    assert found(folder) == [
        "active.jsonl line 2, record 97: records 17 to 96 are missing before it, or it was changed"
    ]


def test_a_wrong_hash_does_not_make_the_next_line_wrong(folder: Path) -> None:
    edit_active(
        folder, lambda lines: [lines[0], lines[1][:-19] + b'0123456789abcdef"}\n', *lines[2:]]
    )
    assert found(folder) == [
        "active.jsonl line 2, record 17: was changed, or a line before it: its hash does not fit"
    ]


def test_a_line_without_a_hash_is_found(folder: Path) -> None:
    edit_active(folder, lambda lines: [*lines[:3], lines[3][:-28] + b"}\n"])
    assert found(folder) == ["active.jsonl line 4, record 19: has no hash"]


def test_a_bad_manifest_is_found_and_the_segment_read_all_the_same(folder: Path) -> None:
    (folder / SECOND.manifest).write_text("{}")
    report = verify(folder)
    assert [finding.file for finding in report.findings] == [SECOND.manifest]
    assert report.records == 19


def test_a_manifest_that_was_changed_shows_in_the_next_one(folder: Path) -> None:
    path = folder / SECOND.manifest
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"sealed_at_ms": 1}))
    assert found(folder) == [
        f"{THIRD.manifest}: previous_sha256 is not that of the manifest before it"
    ]


def test_a_segment_without_a_manifest_is_found(folder: Path) -> None:
    (folder / THIRD.manifest).unlink()
    assert found(folder) == [f"{THIRD.packed}, record 11: has no manifest"]


def test_a_closed_segment_is_read_like_a_sealed_one(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), closed=span_of(4, 6), active=span_of(7, 7))
    assert found(tmp_path) == []
    path = tmp_path / Span(4, 6).plain
    path.write_bytes(path.read_bytes()[:-10])
    findings = found(tmp_path)
    assert findings[0].startswith(f"{path.name} line 3: is cut off")
    assert findings[1] == f"{path.name} line 2, record 5: ends with record 5 instead of 6"
    assert len(findings) == 2


def test_a_leap_of_the_numbers_is_fine_after_a_kill_that_is_recorded(tmp_path: Path) -> None:
    after = [record(2**21, recovered(5)), *span_of(2**21 + 1, 2**21 + 3)]
    lay(tmp_path, span_of(1, 5), after)
    report = verify(tmp_path)
    assert report.findings == ()
    assert (report.leaps, report.last_seq) == (1, 2**21 + 3)


@pytest.mark.parametrize(
    ("last_seq", "says"),
    [
        (4, "says that record 4 was the last one, not 5"),
        (7, "records 6 to 7 are missing before it"),
    ],
    ids=["less", "more"],
)
def test_a_leap_must_name_the_record_before_it(tmp_path: Path, last_seq: int, says: str) -> None:
    leap = Span(2**21, 2**21)
    lay(tmp_path, span_of(1, 5), [record(2**21, recovered(last_seq))])
    assert found(tmp_path) == [f"{leap.packed} line 1, record {leap.first_seq}: {says}"]


def test_a_leap_without_a_reason_is_found(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 5), span_of(2**21, 2**21))
    assert found(tmp_path)[0].endswith(f"records 6 to {2**21 - 1} are missing before it")


def test_foreign_files_are_mentioned_and_harmless(folder: Path) -> None:
    (folder / "notes.txt").touch()
    (folder / "folder").mkdir()
    (folder / "torn-000000000004.bin").touch()
    (folder / f"{THIRD.packed}.tmp").touch()
    report = verify(folder)
    assert report.sound
    assert {finding.file: finding.what for finding in report.findings} == {
        "notes.txt": "is none of the journal's files",
        "folder": "is none of the journal's files",
        "torn-000000000004.bin": "was cut off when the node was killed",
        f"{THIRD.packed}.tmp": "was left half done",
    }


def test_a_damaged_snapshot_is_found(folder: Path) -> None:
    (folder / snapshot_name(10)).write_bytes(gzip.compress(b"{}"))
    assert found(folder) == []
    (folder / snapshot_name(15)).write_bytes(gzip.compress(b"{}")[:-3])
    (folder / snapshot_name(99)).write_bytes(gzip.compress(b"{}"))
    assert found(folder) == [
        f"{snapshot_name(15)}, record 15: cannot be unpacked: it ends too early",
        f"{snapshot_name(99)}, record 99: is of a record that is not there",
    ]


def test_a_newer_schema_is_named(folder: Path) -> None:
    edit_active(folder, lambda lines: [line.replace(b'"v":1', b'"v":2') for line in lines])
    assert "schema version 2 was written by a newer Routebook" in found(folder)[0]


def test_a_file_full_of_faults_does_not_fill_the_report(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 2))
    (tmp_path / ACTIVE).write_bytes(b"garbage\n" * 1000)
    findings = found(tmp_path)
    assert len(findings) == 101
    assert findings[-1] == "active.jsonl: has 900 more faults"


def test_faults_in_several_places_are_all_found(folder: Path) -> None:
    repack(folder, FIRST, lambda lines: [line.replace(b"key-3", b"kez-3") for line in lines])
    (folder / SECOND.packed).unlink()
    edit_active(folder, lambda lines: [*lines[:2], lines[3], b"half"])
    files = [finding.file for finding in verify(folder).findings]
    assert files == [FIRST.packed, FIRST.packed, SECOND.packed, ACTIVE, ACTIVE]


def test_progress_ends_with_about_all_there_is(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    verify(folder, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] > 0.3 * told[-1][1]
