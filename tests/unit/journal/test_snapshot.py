import gzip
from fcntl import LOCK_EX, flock
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from routebook.journal.errors import JournalError
from routebook.journal.folder import snapshot_name
from routebook.journal.snapshot import MAX_SNAPSHOTS, main, make_snapshot, superfluous
from routebook.journal.snapshot_file import BadSnapshot, Snapshot, decode, encode, load, write
from routebook.journal.view import View
from support.desk import Desk
from support.journals import lay
from support.telling import (
    full_day,
    group_restated,
    lost,
    played,
    records_of,
    refuse,
    restated,
    thirds,
    view_of,
)

HASH = bytes.fromhex("0123456789abcdef")


# -- what is written is what is read


def test_a_snapshot_is_read_as_it_was_written() -> None:
    written = Snapshot(played(records_of(full_day())), HASH)
    read = decode(b"".join(encode(written)))
    assert read == written
    assert read.view.static_mappings("static") == written.view.static_mappings("static")


def test_what_goes_on_from_a_snapshot_is_what_would_have_gone_on() -> None:
    records = records_of(full_day())
    for count in range(len(records)):
        read = decode(b"".join(encode(Snapshot(played(records[:count]), HASH)))).view
        for item in records[count:]:
            read.apply(item)
        assert read == played(records)
        assert not read.contradictions


def test_a_restatement_goes_on_across_a_snapshot() -> None:
    two = [group_restated("broker-a"), group_restated("broker-b")]
    before = view_of([lost(), group_restated("broker-x"), *two, restated(3), lost(), two[0]])
    read = decode(b"".join(encode(Snapshot(before, HASH)))).view
    view_of([two[1], restated(2)], read)
    assert [broker.broker for broker in read.brokers()] == ["broker-a", "broker-b"]
    assert not read.unsure


def test_topics_and_shapes_of_a_snapshot_are_held_once() -> None:
    desk = Desk()
    for number in (1, 2):
        desk.register(f"broker-{number}", addr=f"10.0.0.{number}:10911")
    read = decode(b"".join(encode(Snapshot(view_of(desk.events), HASH)))).view
    first, second = (group.queues for group in read.groups.listed())
    assert [*map(id, first), *map(id, first.values())] == [
        *map(id, second),
        *map(id, second.values()),
    ]


def test_a_topic_is_written_once_however_many_brokers_have_it() -> None:
    desk = Desk()
    for number in range(1, 9):
        desk.register(f"broker-{number}", addr=f"10.0.0.{number}:10911")
    text = b"".join(encode(Snapshot(view_of(desk.events), HASH)))
    assert text.count(b'"payments"') == 1


# -- damage


def damaged(content: bytes, *, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    content = b"".join(encode(Snapshot(view_of(full_day()), HASH)))
    for at in range(0, len(content) - 1, 7):
        with pytest.raises(BadSnapshot):
            decode(damaged(content, at=at))
        with pytest.raises(BadSnapshot):
            decode(content[:at])


def test_a_packed_snapshot_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, Snapshot(played(records_of(full_day())), HASH))
    content = path.read_bytes()
    for size in (0, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(BadSnapshot, match=path.name):
            load(path)


def test_a_snapshot_of_a_newer_version_is_refused_with_both_numbers() -> None:
    head, _ = encode(Snapshot(View(), HASH))
    newer = head.replace(b'"v":1', b'"v":9')
    foot = b'{"sha256":"%b"}\n' % sha256(newer).hexdigest().encode()
    with pytest.raises(BadSnapshot, match="version 9 is of a newer Routebook"):
        decode(newer + foot)


def test_a_snapshot_under_another_name_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, Snapshot(played(records_of(full_day())), HASH))
    other = path.rename(tmp_path / snapshot_name(3))
    with pytest.raises(BadSnapshot, match=r"made after record \d+"):
        load(other)


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / snapshot_name(3)
    for content in (b"", b"text", gzip.compress(b""), gzip.compress(b"[]\n{}\n")):
        path.write_bytes(content)
        with pytest.raises(BadSnapshot):
            load(path)


# -- writing


def test_the_same_view_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    snapshot = Snapshot(played(records_of(full_day())), HASH)
    first = write(tmp_path, snapshot).read_bytes()
    assert write(tmp_path, snapshot).read_bytes() == first


def test_a_snapshot_that_another_process_is_writing_is_left_to_it(tmp_path: Path) -> None:
    snapshot = Snapshot(played(records_of(full_day())), HASH)
    temporary = tmp_path / f"{snapshot_name(snapshot.view.seq)}.tmp"
    with temporary.open("wb") as file:
        flock(file, LOCK_EX)
        with pytest.raises(BlockingIOError):
            write(tmp_path, snapshot)
        assert make_snapshot(tmp_path, told=refuse) is None
        assert temporary.exists()
    assert make_snapshot(tmp_path, told=refuse) is None
    assert not temporary.exists()


# -- making


def test_a_snapshot_is_made_of_the_sealed_segments(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, active=third)
    path = make_snapshot(tmp_path, told=refuse)
    assert path is not None
    assert path.name == snapshot_name(second[-1].seq)
    assert load(path).view == played([*first, *second])


def test_nothing_is_made_of_nothing_new(tmp_path: Path) -> None:
    first, second, _ = thirds()
    assert make_snapshot(lay(tmp_path, active=first), told=refuse) is None
    (tmp_path / "active.jsonl").unlink()
    lay(tmp_path, first, second)
    assert make_snapshot(tmp_path, told=refuse) is not None
    assert make_snapshot(tmp_path, told=refuse) is None


def test_snapshots_are_kept_for_looking_back(tmp_path: Path) -> None:
    parts = thirds()
    lay(tmp_path, *parts)
    for part in parts:
        make_snapshot(tmp_path, upto=part[-1].seq, told=refuse)
    assert sorted(path.name for path in tmp_path.glob("snapshot-*")) == [
        snapshot_name(part[-1].seq) for part in parts
    ]


def test_many_snapshots_are_thinned_evenly_and_the_ends_stay() -> None:
    there = list(range(10, 10 * (MAX_SNAPSHOTS + 3), 10))
    removed = superfluous(there)
    kept = [seq for seq in there if seq not in removed]
    assert len(kept) == MAX_SNAPSHOTS
    assert kept[0] == there[0]
    assert kept[-2:] == there[-2:]
    assert max(after - before for before, after in pairwise(kept)) == 20
    assert superfluous(kept) == []


def test_a_snapshot_is_made_of_a_good_one_when_the_last_is_damaged(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, second, third)
    make_snapshot(tmp_path, upto=first[-1].seq, told=refuse)
    bad = make_snapshot(tmp_path, upto=second[-1].seq, told=refuse)
    assert bad is not None
    bad.write_bytes(b"")
    told: list[JournalError] = []
    made = make_snapshot(tmp_path, told=told.append)
    assert made is not None
    assert load(made).view == played([*first, *second, *third])
    assert len(told) == 1
    assert sorted(path.name for path in tmp_path.glob("snapshot-*")) == [
        snapshot_name(first[-1].seq),
        snapshot_name(third[-1].seq),
    ]


def test_a_folder_that_is_none_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nowhere")]) == 1
    assert main([]) == 2
    assert capsys.readouterr().err == (
        f"journal: cannot read the journal {tmp_path}/nowhere: No such file or directory\n"
        "usage: python -m routebook.journal.snapshot FOLDER\n"
    )
