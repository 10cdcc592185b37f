"""Disks that fail, folders that cannot be had, processes that are killed."""

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from killrounds.full_disk import on_a_disk_of_its_own
from killrounds.rounds import kill_rounds
from routebook.events import Cause, Event, JournalRecovered, NodeStalled, RecordsLost
from routebook.journal.errors import FolderInUse, JournalError
from routebook.journal.folder import ACTIVE, Span, list_folder
from routebook.journal.reader import read
from routebook.journal.sealer import Sealer
from routebook.journal.segment import Summary
from routebook.journal.verify import verify
from routebook.journal.writer import LEAP, JournalSettings
from support.journals import (
    DAY_MS,
    NOON_MS,
    Clock,
    failing,
    kinds,
    numbered,
    opened,
    run,
    seqs,
    sound,
    topics_changed,
    write_journal,
    writer_of,
    written,
)
from support.waiting import wait_for

# -- what cannot be written


def test_what_does_not_fit_on_a_full_disk_is_counted_and_writing_goes_on_when_there_is_room() -> (
    None
):
    """On a real one of 1 MiB, in a name space where it may be mounted.

    Which thread finds it full first, the one that writes or the one that seals, is chance.
    """
    said = on_a_disk_of_its_own()
    assert re.search(r"lost and told so; cannot (write|seal) .*: No space left", said), said


class Jam:
    """As long as it is there nothing can be written: the active segment is a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ACTIVE
        self._path.mkdir()

    def clear(self) -> None:
        self._path.rmdir()


def test_trouble_with_the_disk_loses_nothing_that_is_queued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as writer:
        jam = Jam(tmp_path)
        records = [writer.append(numbered(number)) for number in range(1, 1001)]
        assert all(records)
        status = failing(writer)
        assert status.queued == 1000
        assert status.last_error == "cannot write the active segment: File exists"
        wait_for("more tries", writer.status, until=lambda status: status.errors >= 2)
        jam.clear()
        written(writer)
        status = wait_for("the end of it", writer.status, until=lambda s: not s.failing)
        assert (status.lost, status.queued) == (0, 0)
        assert status.last_error is not None  # what it was
    assert seqs(read(tmp_path)) == list(range(1, 1001))
    sound(tmp_path)
    levels = [record.levelno for record in caplog.records if "journal trouble" in record.message]
    assert levels == [logging.ERROR, logging.WARNING]  # once, and when it is over


def test_what_does_not_fit_into_the_queue_is_counted_and_told(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, max_queued=10) as writer:
        jam = Jam(tmp_path)
        taken = [writer.append(numbered(number)) for number in range(1, 31)]
        assert [record is not None for record in taken] == [True] * 10 + [False] * 20
        assert (writer.status().lost, writer.status().last_seq) == (20, 10)
        failing(writer)
        jam.clear()
        written(writer)
        clock.wall_offset_ms += DAY_MS
        after = writer.append(numbered(31))
    assert after is not None
    assert after.seq == 12
    records = list(read(tmp_path))
    assert seqs(records) == list(range(1, 13))
    lost = records[10].event
    assert isinstance(lost, RecordsLost)
    assert (lost.count, lost.revision) == (20, 10)
    assert NOON_MS < lost.since_ms < NOON_MS + DAY_MS
    sound(tmp_path)


def test_a_loss_begins_with_the_stall_whose_record_is_lost(tmp_path: Path) -> None:
    stalled = NodeStalled(
        revision=1,
        cause=Cause.STALL,
        peer="",
        from_ms=NOON_MS - 5000,
        to_ms=NOON_MS,
        longest_ms=5000,
        clock_ms=0,
    )
    with opened(tmp_path, max_queued=1) as writer:
        jam = Jam(tmp_path)
        taken = [writer.append(each) for each in (numbered(1), numbered(2), stalled, numbered(3))]
        assert [record is not None for record in taken] == [True, False, False, False]
        jam.clear()
    lost = list(read(tmp_path))[-1].event
    assert isinstance(lost, RecordsLost)
    assert (lost.count, lost.since_ms) == (3, NOON_MS - 5000)


def test_a_loss_is_told_at_the_end_if_nothing_follows(tmp_path: Path) -> None:
    with opened(tmp_path, max_queued=1) as writer:
        jam = Jam(tmp_path)
        assert writer.append(numbered(1)) is not None
        assert writer.append(numbered(2)) is None
        jam.clear()
        written(writer)
    assert kinds(tmp_path) == ["KvChanged", "RecordsLost"]


def test_topics_weigh_in_the_queue(tmp_path: Path) -> None:
    many = topics_changed(*(f"topic-{number}" for number in range(800)))
    with opened(tmp_path, max_queued=250) as writer:
        jam = Jam(tmp_path)
        assert [writer.append(many) is not None for _ in range(3)] == [True, True, False]
        assert writer.append(numbered(1)) is not None
        jam.clear()


def test_an_event_heavier_than_the_queue_is_taken_by_an_empty_one(tmp_path: Path) -> None:
    many = topics_changed(*(f"topic-{number}" for number in range(800)))
    with opened(tmp_path, max_queued=10) as writer:
        assert writer.append(many) is not None
        written(writer)
        assert writer.append(many) is not None


def test_a_stop_in_the_midst_of_trouble_takes_limited_time_and_is_told_later(
    tmp_path: Path,
) -> None:
    writer = writer_of(tmp_path)
    writer.open()
    writer.append(numbered(1))
    written(writer)
    (tmp_path / ACTIVE).rename(tmp_path / "elsewhere")
    (tmp_path / ACTIVE).mkdir()
    writer.append(numbered(2))
    writer.close(timeout_s=0.3)
    (tmp_path / ACTIVE).rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / ACTIVE)

    again = writer_of(tmp_path)
    found = again.open()
    assert (found.unclean, found.next_seq) == (True, 2 * LEAP + 1)
    again.close()
    assert kinds(tmp_path)[-1] == "JournalRecovered"


def test_an_event_that_cannot_be_written_is_told_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Nonsense(Event):
        what: object

    common = numbered(2)
    nonsense = Nonsense(revision=2, cause=common.cause, peer="", what=object())
    with opened(tmp_path) as writer:
        for event in (numbered(1), nonsense, numbered(3)):
            writer.append(event)
        written(writer)
        assert writer.status().lost == 1
    assert kinds(tmp_path) == ["KvChanged", "RecordsLost", "KvChanged"]
    sound(tmp_path)
    assert "record 2 of type Nonsense" in caplog.text


def test_a_file_system_that_is_full_is_waited_for(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: a line is cut where it is reached."""
    run(
        """
        import resource
        from support.journals import opened, numbered, written
        from support.waiting import wait_for

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
        with opened(folder, max_queued=100) as writer:
            taken = [writer.append(numbered(number)) for number in range(1, 151)]
            wait_for("trouble", writer.status, until=lambda status: status.failing)
            status = writer.status()
            assert "File too large" in status.last_error, status
            assert status.lost >= 20, status
            content = (folder / "active.jsonl").read_bytes()
            assert len(content) == 5_000 and not content.endswith(b"\\n")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            written(writer)
            assert writer.append(numbered(1000))
        """,
        tmp_path,
    )
    events = [record.event for record in read(tmp_path)]
    lost = sum(event.count for event in events if isinstance(event, RecordsLost))
    assert len(events) - 1 + lost == 151
    sound(tmp_path)


def test_sealing_waits_for_a_file_system_that_is_full(tmp_path: Path) -> None:
    with opened(tmp_path, rotate_records=50) as writer:
        blocked = tmp_path / f"{Span(1, 50).packed}.tmp"
        blocked.mkdir()
        for number in range(1, 102):
            writer.append(numbered(number))
        status = failing(writer)
        assert status.last_error == "cannot seal a segment: Is a directory"
        written(writer)  # sealing holds up nobody
        assert list_folder(tmp_path).plain == (Span(1, 50), Span(51, 100))
        assert seqs(read(tmp_path)) == list(range(1, 102))
        blocked.rmdir()
        wait_for("sealing", lambda: list_folder(tmp_path).plain, until=lambda plain: not plain)
    sound(tmp_path)


# -- folders that cannot be used


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.append(numbered(1))
        said = run(
            """
            from routebook.journal.errors import FolderInUse
            from support.journals import writer_of
            try:
                writer_of(folder).open()
            except FolderInUse as error:
                print(error)
            """,
            tmp_path,
        )
    assert said == (
        f"the journal {tmp_path} is written by process {os.getpid()}; one folder serves one node\n"
    )
    assert seqs(read(tmp_path)) == [1]
    sound(tmp_path)


def test_a_folder_is_free_when_its_process_has_died(tmp_path: Path) -> None:
    script = """
        from support.journals import writer_of, numbered
        import os
        writer = writer_of(folder)
        writer.open()
        os._exit(0)
        """
    run(script, tmp_path)
    writer = writer_of(tmp_path)
    assert writer.open().unclean
    with pytest.raises(FolderInUse):
        writer_of(tmp_path).open()
    writer.close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("file/journal", "Not a directory", id="below-a-file"),
        pytest.param("file", "File exists", id="a-file"),
        pytest.param("/proc/routebook/journal", "No such file or directory", id="not-writable"),
        pytest.param("locked", "Is a directory", id="no-lock-to-be-had"),
        pytest.param("mended", "Is a directory", id="an-active-segment-that-is-none"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked" / "lock").mkdir(parents=True)
    (tmp_path / "mended" / ACTIVE).mkdir(parents=True)
    with pytest.raises(JournalError) as refused:
        writer_of(tmp_path / path).open()
    assert str(tmp_path / path) in str(refused.value) or ACTIVE in str(refused.value)
    assert str(refused.value).endswith(reason)


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "active.jsonl~").touch()
    for _ in range(2):
        write_journal(tmp_path, [numbered(1)], retain_bytes=1)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    report = verify(tmp_path)
    assert report.sound
    assert {finding.file for finding in report.findings} == {"notes.txt", "folder", "active.jsonl~"}


def test_settings_that_could_repeat_a_number_are_refused() -> None:
    with pytest.raises(ValueError, match="less than 1048576 together"):
        JournalSettings(Path(), rotate_records=2**19, max_queued=2**19)


# -- kill -9


def test_a_killed_node_leaves_a_journal_that_goes_on(tmp_path: Path) -> None:
    """A few rounds of ``python -m tests.killrounds``."""
    toll = kill_rounds(tmp_path / "journal", rounds=5, seed=20)
    assert toll.records > 0


def test_a_torn_line_is_cut_off_and_told(tmp_path: Path) -> None:
    script = """
        from support.journals import writer_of, numbered, written
        import os
        writer = writer_of(folder)
        writer.open()
        for number in (1, 2, 3):
            writer.append(numbered(number))
        written(writer)
        os._exit(0)
        """
    run(script, tmp_path)
    active = tmp_path / ACTIVE
    active.write_bytes(active.read_bytes()[:-40])
    assert seqs(read(tmp_path)) == [1, 2]
    torn = len(active.read_bytes().splitlines()[-1])
    writer = writer_of(tmp_path)
    found = writer.open()
    assert (found.last_seq, found.unclean, found.torn_bytes) == (2, True, torn)
    writer.append(numbered(4))
    writer.close()
    records = list(read(tmp_path))
    assert seqs(records) == [1, 2, 2 * LEAP, 2 * LEAP + 1]
    event = records[2].event
    assert isinstance(event, JournalRecovered)
    assert (event.last_seq, event.torn_bytes) == (2, torn)
    assert event.revision == found.revision == 2 + found.leap
    assert found.leap >= 2 * LEAP - 2
    sound(tmp_path)


def test_a_closed_segment_that_vanishes_is_said_once_and_what_follows_is_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Sealer.put

    def put_less(sealer: Sealer, closed: Summary | Span) -> None:
        if isinstance(closed, Summary) and closed.first_seq == 11:
            (tmp_path / closed.span.plain).unlink()
        put(sealer, closed)

    monkeypatch.setattr(Sealer, "put", put_less)
    with opened(tmp_path, rotate_records=10) as writer:
        for number in range(1, 41):
            writer.append(numbered(number))
        written(writer)
        status = wait_for("the last", writer.status, until=lambda s: s.segments >= 3)
        assert not status.failing
        assert status.last_error is not None
    assert [span.first_seq for span in list_folder(tmp_path).sealed] == [1, 21, 31]
    said = [record.message for record in caplog.records if "vanished" in record.message]
    assert said == [
        "journal: 000000000011-000000000020.jsonl vanished before it was sealed: records 11 to 20"
        " are missing from the journal"
    ]
    found = verify(tmp_path).findings
    assert any("records 11 to 20 are missing" in str(finding) for finding in found)
