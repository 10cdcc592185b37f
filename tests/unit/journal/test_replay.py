from pathlib import Path

import pytest

from routebook.events import Event, QueueChange
from routebook.journal.errors import JournalError
from routebook.journal.record import CHAIN_START, hash_of
from routebook.journal.replay import newest, replay
from routebook.journal.snapshot import make_snapshot
from routebook.journal.snapshot_file import BadSnapshot, Snapshot
from routebook.journal.view import View
from support.journals import chained, lay, record, recovered
from support.telling import (
    SHAPE,
    full_day,
    lost,
    played,
    records_of,
    refuse,
    thirds,
    topics_changed,
)

# -- finding


def test_the_newest_snapshot_is_found(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, third)
    for upto in (first[-1].seq, second[-1].seq, third[-1].seq):
        assert make_snapshot(tmp_path, upto=upto, told=refuse) is not None
    found = newest(tmp_path, refused=refuse)
    assert found is not None
    assert found.view == played([*first, *second, *third])


def test_a_snapshot_not_after_a_record_is_found(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, third)
    for upto in (first[-1].seq, second[-1].seq):
        make_snapshot(tmp_path, upto=upto, told=refuse)
    found = newest(tmp_path, upto=second[-1].seq - 1, refused=refuse)
    assert found is not None
    assert found.view.seq == first[-1].seq
    assert newest(tmp_path, upto=first[-1].seq - 1, refused=refuse) is None


def test_a_damaged_snapshot_is_refused_and_the_one_before_it_used(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, active=third)
    make_snapshot(tmp_path, upto=first[-1].seq, told=refuse)
    path = make_snapshot(tmp_path, told=refuse)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-9])
    refused: list[BadSnapshot] = []
    found = newest(tmp_path, refused=refused.append)
    assert found is not None
    assert found.view.seq == first[-1].seq
    assert path.name in str(refused[0])
    whole = replay(tmp_path, found, damaged=refuse)
    assert whole.view == played([*first, *second, *third])


@pytest.mark.parametrize("how", ["sealed-before-it", "active-after-it"])
def test_a_snapshot_of_another_journal_is_refused(tmp_path: Path, how: str) -> None:
    records = records_of(full_day())
    lay(tmp_path / "other", [record(seq) for seq in range(1, len(records) + 1)])
    path = make_snapshot(tmp_path / "other", told=refuse)
    assert path is not None
    if how == "sealed-before-it":
        ours = lay(tmp_path / "ours", records)
    else:
        ours = tmp_path / "ours"
        ours.mkdir()
        after = records_of([lost()], first_seq=records[-1].seq + 1)
        lines = chained(after, hash_of(chained(records)[-1]) or b"")
        (ours / "active.jsonl").write_bytes(b"".join(lines))
    path.rename(ours / path.name)
    refused: list[BadSnapshot] = []
    assert newest(ours, refused=refused.append) is None
    assert str(refused[0]) == f"{path.name} was made from another journal"


def test_a_snapshot_is_believed_after_its_segments_were_removed(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, active=third)
    make_snapshot(tmp_path, told=refuse)
    for path in tmp_path.glob("0*"):
        path.unlink()
    found = newest(tmp_path, refused=refuse)
    assert found is not None
    assert replay(tmp_path, found, damaged=refuse).view == played([*first, *second, *third])


# -- replaying


def test_a_replay_of_the_folder_is_a_replay_of_its_records(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, closed=second, active=third)
    end = replay(tmp_path, damaged=refuse)
    assert end.view == played([*first, *second, *third])
    assert end.hash == hash_of(chained([*first, *second, *third])[-1])


def test_a_replay_ends_where_it_is_told_to(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, active=[*second, *third])
    end = replay(tmp_path, to_seq=second[0].seq, damaged=refuse)
    assert end.view == played([*first, second[0]])


def test_an_empty_folder_is_replayed_into_an_empty_view(tmp_path: Path) -> None:
    assert replay(tmp_path, damaged=refuse) == Snapshot(View(), CHAIN_START)


def test_the_leap_after_a_kill_is_no_gap(tmp_path: Path) -> None:
    first, second, _ = thirds()
    after = [record(2**20, recovered(first[-1].seq)), record(2**20 + 1, second[0].event)]
    lay(tmp_path, first, active=after)
    assert not replay(tmp_path, damaged=refuse).view.unsure


@pytest.mark.parametrize("missing", [0, 1], ids=["from-the-start", "in-the-middle"])
def test_a_missing_segment_makes_the_view_unsure(tmp_path: Path, missing: int) -> None:
    parts = thirds()
    lay(tmp_path, *parts)
    gone = parts[missing]
    for path in tmp_path.glob(f"{gone[0].seq:012d}-*"):
        path.unlink()
    told: list[JournalError] = []
    view = replay(tmp_path, damaged=told.append).view
    assert view.unsure
    assert str(told[0]) == f"records {gone[0].seq} to {gone[-1].seq} are missing"
    assert view.seq == parts[2][-1].seq


@pytest.mark.parametrize("event", [lost(), topics_changed(QueueChange("t", None, SHAPE))])
def test_a_line_that_cannot_be_read_makes_the_view_unsure(tmp_path: Path, event: Event) -> None:
    lines = chained([record(1), record(2, event), record(3)])
    lines[1] = lines[1].replace(b'"data":{', b'"data":{"revision":"x",', 1)
    (tmp_path / "active.jsonl").write_bytes(b"".join(lines))
    told: list[JournalError] = []
    view = replay(tmp_path, damaged=told.append).view
    assert (view.unsure, view.seq, len(told)) == (True, 3, 1)


def test_a_line_of_a_newer_schema_makes_the_view_unsure(tmp_path: Path) -> None:
    lines = chained([record(1), record(2, topics_changed(QueueChange("t", None, SHAPE)))])
    lines[1] = lines[1].replace(b'{"v":1,', b'{"v":7,', 1)
    (tmp_path / "active.jsonl").write_bytes(b"".join(lines))
    told: list[JournalError] = []
    assert replay(tmp_path, damaged=told.append).view.unsure
    assert "schema version 7" in str(told[0])
