import hashlib
from pathlib import Path

import pytest

from routebook.journal.folder import Span, list_folder, snapshot_name, torn_name
from routebook.journal.manifest import read_manifest, read_removed
from routebook.journal.retention import Kept, expired, kept_in, loose_bytes_in, remove
from support.journals import NOON_MS, lay, numbered, span_of, write_journal

SEGMENTS = [Kept(Span(1, 10), 100, 1_000), Kept(Span(11, 20), 100, 2_000)]
SEGMENTS.append(Kept(Span(21, 30), 100, 3_000))
FOR_EVER = 10**9


@pytest.mark.parametrize(
    ("age_ms", "size", "snapshot", "gone"),
    [
        pytest.param(FOR_EVER, FOR_EVER, None, 0, id="nothing-is-old-or-too-much"),
        pytest.param(2_000, FOR_EVER, None, 1, id="one-is-too-old"),
        pytest.param(3_000, FOR_EVER, None, 0, id="at-its-age"),
        pytest.param(2_999, FOR_EVER, None, 1, id="a-ms-older"),
        pytest.param(FOR_EVER, 300, None, 0, id="at-the-limit"),
        pytest.param(FOR_EVER, 299, None, 1, id="a-byte-too-much"),
        pytest.param(FOR_EVER, 199, None, 2, id="two-too-many"),
        pytest.param(0, 0, None, 3, id="all-of-them"),
        pytest.param(0, 0, 20, 2, id="what-comes-after-the-newest-snapshot-stays"),
        pytest.param(0, 0, 30, 3, id="a-snapshot-of-the-end-needs-no-segment"),
        pytest.param(0, 0, 0, 0, id="a-snapshot-of-the-beginning-needs-all"),
    ],
)
def test_the_oldest_segments_go(age_ms: int, size: int, snapshot: int | None, gone: int) -> None:
    assert expired(
        SEGMENTS, now_ms=4_000, retain_age_ms=age_ms, retain_bytes=size, snapshot_seq=snapshot
    ) == [kept.span for kept in SEGMENTS[:gone]]


def test_a_segment_behind_one_that_stays_stays() -> None:
    out_of_order = [Kept(Span(1, 10), 100, 9_000), Kept(Span(11, 20), 100, 1_000)]
    assert not expired(
        out_of_order, now_ms=9_000, retain_age_ms=10, retain_bytes=FOR_EVER, snapshot_seq=None
    )


def test_segments_count_with_their_manifests_and_the_snapshots_that_go_with_them(
    tmp_path: Path,
) -> None:
    lay(tmp_path, span_of(1, 10), span_of(11, 20))
    for seq in (5, 10, 20):
        (tmp_path / snapshot_name(seq)).write_bytes(b"x" * 1000)
    first, second = kept_in(tmp_path, list_folder(tmp_path), {})
    files = [
        sum((tmp_path / name).stat().st_size for name in (span.packed, span.manifest))
        for span in (Span(1, 10), Span(11, 20))
    ]
    assert first == Kept(Span(1, 10), files[0] + 1000, NOON_MS + 10_000)  # with that of 5
    assert second == Kept(Span(11, 20), files[1] + 1000, NOON_MS + 20_000)  # with that of 10


def test_what_is_removed_is_noted(tmp_path: Path) -> None:
    lay(tmp_path, *(span_of(first, first + 9) for first in (1, 11, 21, 31)))
    for seq in (10, 15, 20, 30):
        (tmp_path / snapshot_name(seq)).touch()
    last = read_manifest(tmp_path, Span(21, 30))
    text = (tmp_path / Span(21, 30).manifest).read_bytes()

    remove(tmp_path, [Span(1, 10)], list_folder(tmp_path), now_ms=1)
    remove(tmp_path, [Span(11, 20), Span(21, 30)], list_folder(tmp_path), now_ms=2)

    listing = list_folder(tmp_path)
    assert listing.packed == listing.manifests == (Span(31, 40),)
    assert listing.snapshots == (30,)  # what the rest is played on
    removed = read_removed(tmp_path)
    assert removed is not None
    assert (removed.last_seq, removed.last_hash) == (30, last.last_hash)
    assert removed.manifest_sha256 == hashlib.sha256(text).hexdigest()
    assert (removed.segments, removed.at_ms) == (3, 2)


def test_a_segment_with_a_bad_manifest_goes_by_the_time_of_its_file(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), span_of(11, 20))
    (tmp_path / Span(1, 10).manifest).write_text("{}")
    kept = kept_in(tmp_path, list_folder(tmp_path), {})
    assert kept[0].max_wall_ms == int((tmp_path / Span(1, 10).packed).stat().st_mtime * 1000)
    remove(tmp_path, [Span(1, 10)], list_folder(tmp_path), now_ms=1)
    removed = read_removed(tmp_path)
    assert removed is not None
    assert (removed.last_seq, removed.last_hash) == (10, "")


def test_what_was_cut_off_goes_with_the_records_before_it(tmp_path: Path) -> None:
    write_journal(tmp_path, [numbered(number) for number in range(1, 21)], rotate_records=10)
    for seq in (5, 15):
        (tmp_path / torn_name(seq)).write_bytes(b"torn")
    listing = list_folder(tmp_path)
    assert loose_bytes_in(tmp_path, listing, kept_in(tmp_path, listing, {})) >= 8
    remove(tmp_path, listing.sealed[:1], listing, now_ms=1)
    assert list_folder(tmp_path).torn == (torn_name(15),)
