"""Journals on disk: found moments, views to begin with, and what is left of damaged ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from routebook.events import Cause, RouteQueries
from routebook.history.finding.journals import AfterJournal, Base, BeforeJournal, Journal
from routebook.history.finding.line_filter import about_broker, about_tables
from routebook.history.finding.witness import (
    MadeUp,
    NothingRecorded,
    RecordsMissing,
    missing_records,
)
from routebook.history.times import AtSeq, AtTime, parse
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE, list_folder, snapshot_name
from routebook.journal.record import Record, encode
from routebook.journal.view import View
from routebook.words import time_of_day
from support.journal_folders import write_journal
from support.stories import Story, ms


def day() -> Story:
    """Records 1 to 9, of which 3, 4 and 5 are a registration."""
    story = Story().at("03:00:00").start()
    story.at("03:01:00").heartbeats("broker-z", host=26)
    story.at("03:12:04").register()
    story.at("03:20:00").heartbeats()
    story.at("03:40:11").lose()
    story.at("03:50:00").heartbeats("broker-z", host=26)
    story.at("03:55:00").heartbeats("broker-z", host=26)
    return story


def opened(folder: Path) -> Journal:
    return Journal(folder, lambda stage, done, total: None)


def view_at(journal: Journal, seq: int) -> Base:
    base = next(journal.bases(seq))
    for record in journal.records(after_seq=base.view.seq, to_seq=seq, wanted=about_tables):
        base.view.apply(record)
    return base


def everything(journal: Journal, after_seq: int = 0) -> list[Record]:
    """All that was recorded; these journals are quiet for longer than a node can be."""
    read = journal.records(after_seq=after_seq, to_seq=journal.last.seq, wanted=lambda line: True)
    return [record for record in read if not isinstance(record.event, NothingRecorded)]


@pytest.mark.parametrize(
    "sealed_at", [(), (2,), (2, 4, 6), (9,)], ids=["active", "one", "three", "all-sealed"]
)
def test_all_records_are_read_whatever_they_are_kept_in(
    tmp_path: Path, sealed_at: tuple[int, ...]
) -> None:
    records = day().records
    journal = opened(write_journal(tmp_path, records, sealed_at=sealed_at))

    assert everything(journal) == records
    assert everything(journal, after_seq=4) == records[4:]
    assert (journal.node, journal.first.seq, journal.last.seq) == ("ns-1-0a1b2c3d", 1, 9)
    assert not journal.damage


def test_a_closed_segment_that_is_not_sealed_yet_is_read(tmp_path: Path) -> None:
    records = day().records
    write_journal(tmp_path, records, sealed_at=(2, 4))
    (tmp_path / ACTIVE).rename(tmp_path / "000000000005-000000000009.jsonl")
    assert everything(opened(tmp_path)) == records


def test_only_what_is_wanted_is_read_and_what_came_before_a_break(tmp_path: Path) -> None:
    story = day()
    story.be_killed(down_s=60)
    journal = opened(write_journal(tmp_path, story.records, sealed_at=(4, 9)))

    read = journal.records(after_seq=0, to_seq=journal.last.seq, wanted=about_broker("broker-a"))

    seqs = [r.seq for r in read if not isinstance(r.event, NothingRecorded)]
    assert seqs == [1, 3, 4, 5, 6, 7, 9, 2**20, 2**20 + 1]


def test_how_far_the_reading_is_is_told(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(2, 4, 6))
    told: list[tuple[str, int, int]] = []
    journal = Journal(tmp_path, lambda stage, done, total: told.append((stage, done, total)))

    everything(journal)

    assert [stage for stage, _, _ in told] == ["ns-1-0a1b2c3d"] * 3
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1] == told[-1][2]


# -- moments


@pytest.mark.parametrize("sealed_at", [(), (2, 4, 6), (9,)])
@pytest.mark.parametrize(
    ("moment", "seq"),
    [
        ("2026-11-15T03:00:00Z", 1),
        ("2026-11-15T03:12:03.999Z", 2),
        ("2026-11-15T03:12:04Z", 5),
        ("2026-11-15T03:30:00Z", 6),
        ("2027-01-01", 9),
        ("seq:4", 4),
        ("seq:0", 0),
        ("9", 9),
    ],
)
def test_a_moment_is_just_after_a_record(
    tmp_path: Path, sealed_at: tuple[int, ...], moment: str, seq: int
) -> None:
    journal = opened(write_journal(tmp_path, day().records, sealed_at=sealed_at))
    assert journal.seq_at(parse(moment, now_ms=0)) == seq


def test_a_moment_before_the_journal_is_refused_with_when_it_begins(tmp_path: Path) -> None:
    journal = opened(write_journal(tmp_path, day().records))
    with pytest.raises(BeforeJournal) as refused:
        journal.seq_at(AtTime(ms("02:59:59")))
    assert str(refused.value) == (
        "2026-11-15T02:59:59Z is too early: the journal of ns-1-0a1b2c3d begins at"
        " 2026-11-15T03:00:00Z with number 1"
    )


def test_a_number_after_the_last_is_refused_with_where_the_journal_ends(tmp_path: Path) -> None:
    journal = opened(write_journal(tmp_path, day().records))
    with pytest.raises(AfterJournal) as refused:
        journal.seq_at(AtSeq(10))
    assert str(refused.value) == (
        "sequence number 10 is not there yet: the journal of ns-1-0a1b2c3d ends with number 9, at"
        " 2026-11-15T03:55:00Z"
    )


@pytest.mark.parametrize("sealed_at", [(), (2, 4, 6)])
def test_a_time_that_came_twice_is_the_later_one(
    tmp_path: Path, sealed_at: tuple[int, ...]
) -> None:
    story = day()
    story.clock_ahead_ms = -1_800_000
    story.at("03:58:00").heartbeats().at("04:20:00").heartbeats()  # shown as 03:28 and 03:50
    journal = opened(write_journal(tmp_path, story.records, sealed_at=sealed_at))

    assert journal.seq_at(AtTime(ms("03:30:00"))) == 10


# -- views


def test_the_nearest_snapshot_is_begun_with_and_the_beginning_is_the_last_resort(
    tmp_path: Path,
) -> None:
    records = day().records
    journal = opened(write_journal(tmp_path, records, sealed_at=(2, 4, 6), snapshots_at=(2, 4, 6)))

    assert [base.view.seq for base in journal.bases(5)] == [4, 2, 0]
    assert [base.view.seq for base in journal.bases(4)] == [2, 0]
    assert [base.view.seq for base in journal.bases(1)] == [0]


def test_farther_snapshots_are_tried_in_ever_larger_steps(tmp_path: Path) -> None:
    story = Story().start()
    for _ in range(20):
        story.wait(1).heartbeats()
    journal = opened(write_journal(tmp_path, story.records, snapshots_at=range(1, 21)))
    assert [base.view.seq for base in journal.bases(21)] == [20, 19, 15, 0]


def test_a_view_is_the_same_with_and_without_snapshots(tmp_path: Path) -> None:
    records = day().records
    plain = opened(write_journal(tmp_path / "plain", records))
    quick = opened(
        write_journal(tmp_path / "quick", records, sealed_at=(4, 6), snapshots_at=(4, 6))
    )
    for seq in range(10):
        ours, theirs = view_at(plain, seq).view, view_at(quick, seq).view
        assert ours.groups == theirs.groups


def test_a_snapshot_that_cannot_be_read_is_noted_and_passed_over(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(2, 4, 6), snapshots_at=(2, 6))
    (tmp_path / snapshot_name(6)).write_bytes(b"not a snapshot")
    journal = opened(tmp_path)

    assert [base.view.seq for base in journal.bases(8)] == [2, 0]
    assert [s.split(" cannot")[0] for s in journal.damage.sentences()] == [snapshot_name(6)]


def without_beginning(folder: Path, *, snapshots_at: tuple[int, ...]) -> Journal:
    write_journal(folder, day().records, sealed_at=(4, 6), snapshots_at=snapshots_at)
    first = list_folder(folder).sealed[0]
    (folder / first.packed).unlink()
    (folder / first.manifest).unlink()
    return opened(folder)


def test_when_retention_took_the_beginning_the_snapshot_in_its_place_is_begun_with(
    tmp_path: Path,
) -> None:
    base = without_beginning(tmp_path, snapshots_at=(4,)).beginning()
    assert (base.view.seq, base.partial) == (4, False)


def test_without_that_snapshot_only_part_is_known(tmp_path: Path) -> None:
    journal = without_beginning(tmp_path, snapshots_at=(6,))
    assert journal.beginning().partial
    assert view_at(journal, 5).partial
    assert not view_at(journal, 7).partial
    assert journal.oldest_known().view.seq == 6


def test_without_any_snapshot_the_oldest_known_view_is_partial_too(tmp_path: Path) -> None:
    assert without_beginning(tmp_path, snapshots_at=()).oldest_known().partial


def test_a_snapshot_of_another_journal_is_noted_and_passed_over(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(4,), snapshots_at=(4,))
    other = Story(node="ns-9").start().register(topics=["a", "b"])
    write_journal(tmp_path / "other", other.records, snapshots_at=(4,))
    (tmp_path / "other" / snapshot_name(4)).rename(tmp_path / snapshot_name(4))
    journal = opened(tmp_path)

    assert [base.view.seq for base in journal.bases(9)] == [0]
    assert journal.damage.sentences() == [f"{snapshot_name(4)} was made from another journal"]


# -- damage


def test_a_missing_folder_an_empty_one_and_one_of_strangers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory"):
        opened(tmp_path / "nowhere")
    with pytest.raises(JournalError, match=r"holds no records$"):
        opened(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(JournalError, match=r"holds no records$"):
        opened(tmp_path)


def test_a_folder_of_rubbish_is_refused(tmp_path: Path) -> None:
    (tmp_path / ACTIVE).write_text("rubbish\n" * 3)
    with pytest.raises(JournalError, match=r"holds no records that can be read$"):
        opened(tmp_path)


def test_a_segment_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    story = Story().start()
    for number in range(2000):
        story.wait(1).heartbeats(gaps_s=(number % 97,))
    story.register()
    records = story.records
    write_journal(tmp_path, records, sealed_at=(1, 1500))
    packed = tmp_path / list_folder(tmp_path).sealed[1].packed
    packed.write_bytes(packed.read_bytes()[:-2000])
    journal = opened(tmp_path)

    read = everything(journal)

    [missing] = [record for record in read if isinstance(record.event, RecordsMissing)]
    assert isinstance(missing.event, RecordsMissing)
    place = read.index(missing)
    assert read[:place] == records[:place]
    assert read[place + 1 :] == records[1500:]
    assert missing.event.count == 1500 - place
    assert missing.event.since_ms == records[place - 1].wall_ms
    assert journal.damage.sentences() == [
        f"{packed.name} cannot be unpacked: it ends too early",
        f"records {place + 1} to 1500 are missing",
    ]


def test_a_byte_that_is_flipped_is_noticed(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(4,))
    packed = tmp_path / list_folder(tmp_path).sealed[0].packed
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 0x10
    packed.write_bytes(content)
    journal = opened(tmp_path)

    read = everything(journal)

    assert [record.seq for record in read][-5:] == [5, 6, 7, 8, 9]
    assert any(packed.name in sentence for sentence in journal.damage.sentences())


def test_a_segment_that_is_gone_is_noticed(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(2, 4, 6))
    gone = list_folder(tmp_path).sealed[1]
    (tmp_path / gone.packed).unlink()
    (tmp_path / gone.manifest).unlink()
    journal = opened(tmp_path)

    read = everything(journal)

    assert [record.seq for record in read] == [1, 2, 2, 5, 6, 7, 8, 9]
    assert isinstance(read[2].event, RecordsMissing)
    assert journal.damage.sentences() == ["records 3 to 4 are missing"]


def test_numbers_that_leap_because_the_node_was_killed_are_not_missing(tmp_path: Path) -> None:
    story = day().be_killed(down_s=60)
    journal = opened(write_journal(tmp_path, story.records, sealed_at=(4, 9)))
    assert everything(journal) == story.records
    assert not journal.damage


def test_a_line_that_is_no_record_is_noted_and_passed_over(tmp_path: Path) -> None:
    records = day().records
    write_journal(tmp_path, records, sealed_at=(4,))
    lines = (tmp_path / ACTIVE).read_bytes().splitlines(keepends=True)
    lines[1] = b'{"v":1,"seq":6,"wall_ms":"soon"}\n'
    (tmp_path / ACTIVE).write_bytes(b"".join(lines))
    journal = opened(tmp_path)

    assert everything(journal) == [*records[:5], *records[6:]]
    assert [sentence[:21] for sentence in journal.damage.sentences()] == ["active.jsonl line 2: "]


def test_a_journal_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records)
    content = (tmp_path / ACTIVE).read_bytes()
    (tmp_path / ACTIVE).write_bytes(content.replace(b'{"v":1,', b'{"v":2,'))
    with pytest.raises(JournalError) as refused:
        opened(tmp_path)
    assert str(refused.value) == (
        "schema version 2 was written by a newer Routebook; this one reads up to 1"
    )


def test_records_of_a_newer_schema_are_noted_once(tmp_path: Path) -> None:
    records = day().records
    write_journal(tmp_path, records)
    first, *others = (tmp_path / ACTIVE).read_bytes().splitlines(keepends=True)
    newer = [line.replace(b'{"v":1,', b'{"v":2,') for line in others]
    (tmp_path / ACTIVE).write_bytes(b"".join([first, *newer]))
    journal = opened(tmp_path)

    assert everything(journal) == records[:1]
    assert len(journal.damage.sentences()) == 1


def test_of_much_damage_the_first_sentences_are_told(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records)
    with (tmp_path / ACTIVE).open("ab") as active:
        active.writelines(b"rubbish %d\n" % number for number in range(15))
    journal = opened(tmp_path)
    assert len(journal.damage.sentences()) == 11
    assert journal.damage.sentences()[-1] == "and 5 more"


def test_what_is_not_about_tables_does_not_change_a_view(tmp_path: Path) -> None:
    story = day()
    journal = opened(write_journal(tmp_path, story.records, sealed_at=(4,)))
    view = View()
    for record in journal.records(after_seq=0, to_seq=9, wanted=about_tables):
        view.apply(record)
    assert replace(view, seq=9, wall_ms=0) == replace(story.view(), wall_ms=0)


# -- what nobody wrote


def quiet_times(journal: Journal, after_seq: int = 0, known: str | None = None) -> list[str]:
    read = journal.records(
        after_seq=after_seq,
        to_seq=journal.last.seq,
        wanted=lambda line: False,
        known_ms=ms(known) if known else None,
    )
    return [
        f"{type(record.event).__name__} {time_of_day(record.event.since_ms)}"
        for record in read
        if isinstance(record.event, MadeUp)
    ]


@pytest.mark.parametrize("sealed_at", [(), (2, 4, 6), (9,)])
def test_where_a_node_was_quiet_for_too_long_a_record_is_made_up(
    tmp_path: Path, sealed_at: tuple[int, ...]
) -> None:
    story = day().wait(60)
    story.clock_ahead_ms = 86_400_000
    journal = opened(write_journal(tmp_path, story.heartbeats().records, sealed_at=sealed_at))
    assert quiet_times(journal) == [
        "NothingRecorded 03:01:00Z",
        "NothingRecorded 03:12:04Z",
        "NothingRecorded 03:20:00Z",
        "NothingRecorded 03:40:11Z",
        "NothingRecorded 03:50:00Z",
        "ClockJumped 03:55:00Z",
    ]


@pytest.mark.parametrize("sealed_at", [(), (2, 4, 6), (9,)])
def test_nothing_is_made_up_of_what_comes_after_the_last_record_asked_for(
    tmp_path: Path, sealed_at: tuple[int, ...]
) -> None:
    journal = opened(write_journal(tmp_path, day().records, sealed_at=sealed_at))
    read = list(journal.records(after_seq=0, to_seq=5, wanted=lambda line: True))
    assert [r.seq for r in read] == [1, 2, 2, 3, 4, 5]


@pytest.mark.parametrize("after_seq", [1, 2])
def test_records_that_are_missing_right_at_the_beginning_are_noticed_too(
    tmp_path: Path, after_seq: int
) -> None:
    write_journal(tmp_path, day().records, sealed_at=(2, 4, 6))
    gone = list_folder(tmp_path).sealed[1]
    (tmp_path / gone.packed).unlink()
    (tmp_path / gone.manifest).unlink()
    read = opened(tmp_path).records(
        after_seq=after_seq, to_seq=9, wanted=about_tables, known_ms=ms("03:01:00")
    )
    first = next(record for record in read if isinstance(record.event, RecordsMissing))
    assert (first.seq, first.event) == (2, missing_records(2, ms("03:01:00")))


def test_what_came_before_the_first_record_read_may_be_told(tmp_path: Path) -> None:
    write_journal(tmp_path, day().records, sealed_at=(2, 4, 6))
    assert quiet_times(opened(tmp_path), after_seq=6)[0] == "NothingRecorded 03:20:00Z"
    for gone in list_folder(tmp_path).sealed:
        (tmp_path / gone.packed).unlink()
        (tmp_path / gone.manifest).unlink()
    journal = opened(tmp_path)
    assert quiet_times(journal, after_seq=6)[0] == "NothingRecorded 03:40:11Z"
    assert quiet_times(journal, after_seq=6, known="03:20:00")[0] == "NothingRecorded 03:20:00Z"


def test_a_window_may_be_longer_than_a_minute(tmp_path: Path) -> None:
    story = Story().at("03:00:00").start().register()
    lines = [encode(record) for record in story.at("03:01:00").heartbeats().records]
    lines += [encode(record) for record in story.at("03:10:00").heartbeats().records[-1:]]
    content = b"".join(lines).replace(b'"window_ms":60000', b'"window_ms":300000')
    (tmp_path / ACTIVE).write_bytes(content)
    assert quiet_times(opened(tmp_path)) == []


# -- the end of a journal


@pytest.mark.parametrize(
    ("content", "alive_ms"),
    [
        (b'{"v":1,"seq":9,"wall_ms":%d,"mono_ms":5}' % ms("03:55:07"), ms("03:55:07")),
        (b'{"v":1,"seq":8,"wall_ms":%d,"mono_ms":5}' % ms("03:54:59"), ms("03:55:00")),
        (b'{"v":1,"seq":99,"wall_ms":%d,"mono_ms":5}' % ms("03:55:07"), None),
        (b'{"v":9,"seq":9,"wall_ms":%d,"mono_ms":5}' % ms("03:55:07"), None),
        (b"", None),
        (b"\0\0", None),
    ],
    ids=["after-the-last", "before-it", "of-another-journal", "newer", "empty", "torn"],
)
def test_a_sign_of_life_is_taken_where_it_belongs_to_the_journal(
    tmp_path: Path, content: bytes, alive_ms: int | None
) -> None:
    write_journal(tmp_path, day().records)
    (tmp_path / "alive.json").write_bytes(content)
    journal = opened(tmp_path)
    assert (journal.alive_ms, journal.stopped) == (alive_ms, False)


@pytest.mark.parametrize("sealed_at", [(), (3,), (4,)], ids=["active", "boundary", "sealed"])
def test_a_clock_set_just_after_the_record_to_go_on_from_is_noticed(
    tmp_path: Path, sealed_at: tuple[int, ...]
) -> None:
    story = Story().at("03:00:00").start().at("03:00:10").heartbeats().heartbeats()
    story.clock_ahead_ms = 40_000
    story.at("03:00:20").heartbeats()
    journal = opened(write_journal(tmp_path, story.records, sealed_at=sealed_at))
    read = journal.records(after_seq=3, to_seq=4, wanted=lambda line: True, known_ms=ms("03:00:10"))
    assert [type(record.event).__name__ for record in read] == ["ClockJumped", "HeartbeatGaps"]


def test_one_short_window_says_nothing_of_those_before_it(tmp_path: Path) -> None:
    story = Story().at("03:00:00").start().at("03:00:10").register()
    queries = RouteQueries(
        revision=0, cause=Cause.WINDOW, peer="", window_ms=195, topics=(), others=0
    )
    story.at("03:10:00").add(queries).at("03:10:43").heartbeats()
    journal = opened(write_journal(tmp_path, story.records))
    last = story.records[-1].seq
    read = journal.records(
        after_seq=last - 1, to_seq=last, wanted=lambda line: True, known_ms=ms("03:10:00")
    )
    assert [type(record.event).__name__ for record in read] == ["HeartbeatGaps"]
