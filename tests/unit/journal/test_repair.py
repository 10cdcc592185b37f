from pathlib import Path

import pytest

from routebook.journal.folder import ACTIVE, Span, list_folder, snapshot_name
from routebook.journal.lock import Note
from routebook.journal.manifest import Removed, write_removed
from routebook.journal.record import CHAIN_START, hash_of
from routebook.journal.repair import Found, repair
from support.journals import chained, lay, record, span_of

KILLED = Note(pid=1234)


def hash_at(last_seq: int) -> bytes:
    """The hash of the last of so many numbered records."""
    return hash_of(chained(span_of(1, last_seq))[-1]) or b""


def cut_active(folder: Path, tail: bytes) -> None:
    with (folder / ACTIVE).open("ab") as file:
        file.write(tail)


def test_an_empty_folder_begins_at_the_beginning(tmp_path: Path) -> None:
    assert repair(tmp_path, None) == Found(
        last_seq=0,
        given_seq=0,
        first_given_seq=0,
        last_hash=CHAIN_START,
        unclean=False,
        torn_bytes=0,
        revision=0,
        wall_ms=0,
        closed=(),
    )


def test_after_an_orderly_stop_the_numbers_go_on(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), span_of(11, 20))
    found = repair(tmp_path, Note(last_seq=20, last_hash=hash_at(20).hex()))
    assert (found.last_seq, found.last_hash, found.unclean) == (20, hash_at(20), False)


def test_the_active_segment_of_a_killed_node_is_closed(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), active=span_of(11, 14))
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.last_hash) == (14, hash_at(14))
    assert (found.unclean, found.torn_bytes, found.revision) == (True, 0, 14)
    assert found.closed == list_folder(tmp_path).plain == (Span(11, 14),)
    assert not list_folder(tmp_path).active


def test_an_active_segment_without_a_lock_is_one_of_a_killed_node(tmp_path: Path) -> None:
    assert repair(lay(tmp_path, active=span_of(1, 2)), None).unclean


@pytest.mark.parametrize("left", [1, 60, -1])
def test_a_line_that_was_being_written_is_cut_off(tmp_path: Path, left: int) -> None:
    lay(tmp_path, active=span_of(1, 4))
    torn = chained(span_of(1, 5))[-1][:left]
    cut_active(tmp_path, torn)
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.torn_bytes) == (4, len(torn))
    assert (tmp_path / Span(1, 4).plain).read_bytes() == b"".join(chained(span_of(1, 4)))
    assert list_folder(tmp_path).torn == ()


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(
            b"\0" * 4096 + b"\n" + b"".join(chained(span_of(6, 7))), id="zeros-then-lines"
        ),
        pytest.param(b"".join(chained(span_of(7, 8))), id="a-number-left-out"),
        pytest.param(b"".join(chained(span_of(4, 5))), id="numbers-again"),
        pytest.param(b"no record\n", id="no-record"),
        pytest.param(b'{"v":1,"seq":5,"wall_ms":1}\n', id="no-hash"),
    ],
)
def test_what_does_not_follow_is_cut_off_and_kept_aside(tmp_path: Path, tail: bytes) -> None:
    lay(tmp_path, active=span_of(1, 4))
    cut_active(tmp_path, tail)
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.torn_bytes) == (4, len(tail))
    assert (tmp_path / "torn-000000000004.bin").read_bytes() == tail


def test_a_line_that_was_changed_stays_for_verify_to_tell(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 4))
    active = tmp_path / ACTIVE
    active.write_bytes(active.read_bytes().replace(b"key-2", b"kez-2"))
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.torn_bytes) == (4, 0)


def test_an_active_segment_of_numbers_long_sealed_is_set_aside(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    lines = b"".join(chained(span_of(5, 6)))
    (tmp_path / ACTIVE).write_bytes(lines)
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.last_hash, found.revision) == (10, hash_at(10), 10)
    assert (tmp_path / "torn-000000000010.bin").read_bytes() == lines
    assert not list_folder(tmp_path).active


def test_an_active_segment_without_a_record_goes(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    (tmp_path / ACTIVE).touch()
    assert repair(tmp_path, KILLED).last_seq == 10
    assert not list_folder(tmp_path).active


def test_a_node_killed_while_it_sealed_has_that_done_again(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), closed=span_of(11, 20))
    (tmp_path / f"{Span(11, 20).packed}.tmp").write_bytes(b"half")
    (tmp_path / Span(11, 20).packed).write_bytes(b"without a manifest")
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.closed) == (20, (Span(11, 20),))
    assert list_folder(tmp_path).temporary == ()


def test_a_node_killed_after_it_sealed_keeps_what_is_sealed(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    (tmp_path / Span(1, 10).plain).write_bytes(b"".join(chained(span_of(1, 10))))
    assert repair(tmp_path, KILLED).closed == ()
    listing = list_folder(tmp_path)
    assert (listing.plain, listing.sealed) == ((), (Span(1, 10),))


def test_a_node_killed_while_it_removed_has_that_done(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), span_of(11, 20))
    (tmp_path / Span(1, 10).manifest).unlink()
    write_removed(
        tmp_path,
        Removed(last_seq=10, last_hash="00", manifest_sha256="", segments=1, at_ms=0),
    )
    repair(tmp_path, KILLED)
    assert list_folder(tmp_path).packed == (Span(11, 20),)


def test_a_snapshot_that_is_being_made_is_left_alone(tmp_path: Path) -> None:
    name = snapshot_name(10) + ".tmp"
    (tmp_path / name).touch()
    (tmp_path / "notes.txt").touch()
    repair(tmp_path, None)
    assert (list_folder(tmp_path).temporary, list_folder(tmp_path).foreign) == (
        (name,),
        ("notes.txt",),
    )


@pytest.mark.parametrize("witness", ["lock", "snapshot", "removed"])
def test_numbers_go_on_although_the_segments_are_gone(tmp_path: Path, witness: str) -> None:
    before = None
    if witness == "lock":
        before = Note(last_seq=50, last_hash="0102030405060708")
    elif witness == "snapshot":
        (tmp_path / snapshot_name(50)).touch()
    else:
        removed = Removed(
            last_seq=50, last_hash="0102030405060708", manifest_sha256="", segments=1, at_ms=0
        )
        write_removed(tmp_path, removed)
    assert repair(tmp_path, before).last_seq == 50


def test_a_bad_manifest_at_the_end_is_made_up_for_by_the_lines(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    (tmp_path / Span(1, 10).manifest).write_text("{")
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.last_hash) == (10, hash_at(10))
    (tmp_path / Span(1, 10).packed).write_bytes(b"damaged too")
    found = repair(tmp_path, KILLED)
    assert (found.last_seq, found.last_hash, found.revision) == (10, CHAIN_START, 0)


def test_numbers_may_leap_between_segments(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10), active=[record(2**21), record(2**21 + 1)])
    assert repair(tmp_path, KILLED).last_seq == 2**21 + 1


def test_numbers_given_away_by_a_node_that_wrote_none_of_them_are_known(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    found = repair(tmp_path, Note(pid=1234, first_seq=2**21))
    assert (found.last_seq, found.given_seq) == (10, 2**21)


def test_a_note_of_retention_that_cannot_be_read_stops_nobody(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 10))
    (tmp_path / "removed.json").write_text("half a no")
    assert repair(tmp_path, None).last_seq == 10
