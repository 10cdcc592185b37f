"""The writer with its threads and a real disk."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from routebook.journal.folder import ACTIVE, Span, list_folder, snapshot_name
from routebook.journal.reader import follow, node_of, read, segments
from routebook.journal.record import decode
from routebook.journal.verify import verify
from routebook.journal.writer import JournalSettings, JournalWriter
from support.journals import (
    DAY_MS,
    NODE,
    NOON_MS,
    Clock,
    every_event,
    failing,
    kinds,
    numbered,
    opened,
    seqs,
    sound,
    write_journal,
    writer_of,
    written,
)
from support.waiting import wait_for


@contextmanager
def real_time(folder: Path, **settings: int) -> Iterator[JournalWriter]:
    """A journal whose clock goes by itself."""
    writer = JournalWriter(
        JournalSettings(folder, **settings),  # type: ignore[arg-type]
        NODE,
        wall_ms=lambda: NOON_MS,
        mono_ms=lambda: time.monotonic_ns() // 1_000_000,
    )
    writer.open()
    yield writer
    writer.close()


def test_what_is_appended_is_what_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "journal"
    with opened(folder) as writer:
        records = [writer.append(event) for event in every_event()]
    assert [record.seq for record in read(folder)] == list(range(1, len(records) + 1))
    assert kinds(folder) == [type(event).__name__ for event in every_event()]
    assert [record.wall_ms for record in read(folder)] == [r.wall_ms for r in records if r]
    assert node_of(folder) == NODE
    sound(folder)


def test_an_orderly_stop_seals_everything_and_the_next_start_goes_on(tmp_path: Path) -> None:
    write_journal(tmp_path, [numbered(1), numbered(2)])
    listing = list_folder(tmp_path)
    assert (listing.sealed, listing.plain, listing.active) == ((Span(1, 2),), (), False)
    writer = writer_of(tmp_path)
    found = writer.open()
    assert (found.last_seq, found.unclean, found.next_seq) == (2, False, 3)
    writer.append(numbered(3))
    writer.close()
    assert seqs(read(tmp_path)) == [1, 2, 3]
    sound(tmp_path)


def test_a_node_that_records_nothing_leaves_nothing(tmp_path: Path) -> None:
    write_journal(tmp_path, [numbered(1)])
    write_journal(tmp_path, [])
    assert list_folder(tmp_path).sealed == (Span(1, 1),)
    sound(tmp_path)


def test_records_can_be_watched_in_a_plain_file(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.append(numbered(1))
        written(writer)
        lines = (tmp_path / ACTIVE).read_bytes().splitlines(keepends=True)
        assert [decode(line).event for line in lines] == [numbered(1)]


@pytest.mark.parametrize(
    "settings", [{"rotate_records": 10}, {"rotate_bytes": 2000}], ids=["records", "bytes"]
)
def test_full_segments_are_sealed(tmp_path: Path, settings: dict[str, int]) -> None:
    write_journal(tmp_path, map(numbered, range(1, 101)), **settings)
    spans = [manifest.span for manifest in segments(tmp_path)]
    assert len(spans) >= 10
    assert all(before.last_seq + 1 == after.first_seq for before, after in pairwise(spans))
    assert seqs(read(tmp_path)) == list(range(1, 101))
    sound(tmp_path)


def test_an_old_segment_is_sealed_before_the_next_record(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, rotate_age_s=3600) as writer:
        writer.append(numbered(1))
        written(writer)
        clock.mono_offset_ms += 3_600_000
        writer.append(numbered(2))
        written(writer)
        wait_for("the old segment", lambda: list_folder(tmp_path).sealed, until=bool)
        assert list_folder(tmp_path).sealed == (Span(1, 1),)


def test_an_old_segment_is_sealed_without_a_next_record(tmp_path: Path) -> None:
    with real_time(tmp_path, rotate_age_s=1) as writer:
        writer.append(numbered(1))
        wait_for("the old segment", lambda: list_folder(tmp_path).sealed)
    sound(tmp_path)


def test_sealing_is_told_in_another_thread(tmp_path: Path) -> None:
    told: list[tuple[Path, bool, str]] = []

    def on_sealed(path: Path) -> None:
        told.append((path, path.exists(), threading.current_thread().name))
        raise RuntimeError("whoever is told has trouble of its own")

    events = map(numbered, range(12))
    write_journal(tmp_path, events, rotate_records=5, on_sealed=on_sealed)
    paths = [tmp_path / span.packed for span in (Span(1, 5), Span(6, 10), Span(11, 12))]
    assert told == [(path, True, "journal-seal") for path in paths]
    sound(tmp_path)


def test_nothing_is_removed_before_there_is_a_snapshot(tmp_path: Path) -> None:
    there: list[tuple[Span, ...]] = []

    def on_sealed(path: Path) -> None:
        there.append(list_folder(tmp_path).sealed)
        if path.name == Span(6, 10).packed:
            (tmp_path / snapshot_name(10)).touch()

    events = map(numbered, range(12))
    write_journal(tmp_path, events, rotate_records=5, retain_bytes=1, on_sealed=on_sealed)
    assert there == [(Span(1, 5),), (Span(1, 5), Span(6, 10)), (Span(11, 12),)]


def test_retention_by_age_and_by_bytes(tmp_path: Path) -> None:
    for day, first in enumerate((1, 11, 21, 31)):
        clock = Clock(NOON_MS + day * DAY_MS)
        write_journal(tmp_path, map(numbered, range(first, first + 10)), clock=clock)
    two_days = {"retain_age_s": 2 * 86_400 + 60, "clock": Clock(NOON_MS + 3 * DAY_MS + 1000)}
    write_journal(tmp_path, [numbered(41)], **two_days)
    assert seqs(read(tmp_path))[0] == 11
    sound(tmp_path)

    (tmp_path / snapshot_name(30)).write_bytes(b"")
    write_journal(tmp_path, [numbered(42)], clock=Clock(NOON_MS + 3 * DAY_MS), retain_bytes=1)
    assert seqs(read(tmp_path))[0] == 31  # what comes after the snapshot is needed
    (tmp_path / snapshot_name(30)).unlink()
    sound(tmp_path)

    with opened(tmp_path, clock=Clock(NOON_MS + 3 * DAY_MS), retain_bytes=1) as writer:
        wait_for("old segments to go", writer.status, until=lambda status: not status.segments)
        writer.append(numbered(43))
    sound(tmp_path)


# -- what lasts


@pytest.mark.parametrize(("sync", "synced"), [("batch", 3), ("none", 0)])
def test_the_policy_says_when_records_are_synced(tmp_path: Path, sync: str, synced: int) -> None:
    with opened(tmp_path, sync=sync) as writer:
        for number in (1, 2, 3):
            writer.append(numbered(number))
        written(writer)
        status = wait_for(
            "the sync", writer.status, until=lambda status: status.synced_seq == synced
        )
        assert status.written_seq == 3
    assert writer.status().synced_seq == 3


def test_records_are_synced_after_the_interval(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, sync="interval", sync_interval_ms=50_000) as writer:
        writer.append(numbered(1))
        written(writer)
        assert writer.status().synced_seq == 0
        clock.mono_offset_ms += 50_000
        writer.append(numbered(2))
        wait_for("the sync", writer.status, until=lambda status: status.synced_seq == 2)


def test_the_interval_ends_without_a_next_record(tmp_path: Path) -> None:
    with real_time(tmp_path, sync_interval_ms=50) as writer:
        writer.append(numbered(1))
        wait_for("the sync", writer.status, until=lambda status: status.synced_seq == 1)


@pytest.mark.parametrize("moved", [False, True], ids=["removed", "moved"])
def test_an_active_segment_that_is_taken_away_is_put_back(tmp_path: Path, moved: bool) -> None:
    folder = tmp_path / "journal"
    with opened(folder, sync="batch") as writer:
        writer.append(numbered(1))
        wait_for("the sync", writer.status, until=lambda status: status.synced_seq == 1)
        if moved:
            (folder / ACTIVE).rename(tmp_path / "elsewhere")
        else:
            (folder / ACTIVE).unlink()
        writer.append(numbered(2))
        wait_for("the file", lambda: list_folder(folder).active)
    assert seqs(read(folder)) == [1, 2]
    sound(folder)


def test_what_somebody_put_in_place_of_the_active_segment_is_no_part_of_it(tmp_path: Path) -> None:
    with opened(tmp_path, sync="batch") as writer:
        writer.append(numbered(1))
        wait_for("the sync", writer.status, until=lambda status: status.synced_seq == 1)
        (tmp_path / ACTIVE).unlink()
        (tmp_path / ACTIVE).write_text("something else")
        writer.append(numbered(2))
        status = failing(writer)
        assert status.last_error == "cannot write the active segment: File exists"
        (tmp_path / ACTIVE).unlink()
    assert seqs(read(tmp_path)) == [1, 2]
    sound(tmp_path)


# -- time


def test_a_clock_set_back_leaves_records_in_order(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, rotate_records=4) as writer:
        for number in range(1, 13):
            if number in (6, 10):
                clock.wall_offset_ms -= DAY_MS
            writer.append(numbered(number))
    records = list(read(tmp_path))
    assert seqs(records) == list(range(1, 13))
    monotonic = [record.mono_ms for record in records]
    assert monotonic == sorted(monotonic)
    assert seqs(read(tmp_path, from_ms=NOON_MS)) == [1, 2, 3, 4, 5]
    assert seqs(read(tmp_path, from_ms=NOON_MS - DAY_MS, to_ms=NOON_MS - 1)) == [6, 7, 8, 9]
    assert seqs(read(tmp_path, to_ms=NOON_MS - DAY_MS)) == [10, 11, 12]
    sound(tmp_path)


# -- others at work in the same folder


def slept() -> bool:
    time.sleep(0.001)
    return True


def test_a_reader_that_follows_misses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    count = 3_000
    with opened(tmp_path, rotate_records=100) as writer:
        following = follow(tmp_path, from_seq=1, wait=slept)
        appended = threading.Thread(
            target=lambda: [writer.append(numbered(number)) for number in range(1, count + 1)]
        )
        appended.start()
        found = [decode(next(following).text).seq for _ in range(count)]
        appended.join()
    assert found == list(range(1, count + 1))


def test_verify_finds_nothing_while_a_node_writes(tmp_path: Path) -> None:
    stop = threading.Event()

    def append_all() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.append(numbered(number))
            if number % 50 == 0:
                time.sleep(0.001)

    with opened(tmp_path, rotate_records=200, retain_bytes=40_000) as writer:
        appending = threading.Thread(target=append_all)
        appending.start()
        try:
            for _ in range(5):
                report = verify(tmp_path)
                assert report.findings == ()
                assert report.being_written
                numbers = seqs(read(tmp_path))
                assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        finally:
            stop.set()
            appending.join()


def test_what_is_appended_after_the_end_is_lost(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    writer.open()
    writer.close()
    writer.close()
    assert writer.append(numbered(1)) is None
    assert writer.status().lost == 1


def test_a_journal_can_be_opened_again(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, max_queued=3)
    for start in (1, 4, 7):
        assert writer.open().next_seq == start
        for number in range(start, start + 3):
            assert writer.append(numbered(number)) is not None
        writer.close()
    assert seqs(read(tmp_path)) == list(range(1, 10))
    sound(tmp_path)
