import json
import os
from pathlib import Path

import pytest

from routebook.journal.errors import FolderInUse, JournalError
from routebook.journal.lock import Note, lock_folder, note_in


def test_a_folder_is_locked_for_one(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    with pytest.raises(FolderInUse, match=rf"written by process {os.getpid()};") as refused:
        lock_folder(tmp_path)
    assert refused.value.pid == os.getpid()
    lock.release()
    lock_folder(tmp_path).release()


def test_an_orderly_stop_leaves_what_the_journal_ends_with(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    assert lock.before is None
    lock.stopped(52_000, bytes(range(8)))
    lock.release()
    again = lock_folder(tmp_path)
    assert again.before == Note(last_seq=52_000, last_hash="0001020304050607")
    again.release()


def test_whoever_does_not_stop_in_order_leaves_its_pid_and_its_first_number(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    lock.began(17)
    lock.release()
    again = lock_folder(tmp_path)
    assert again.before == Note(pid=os.getpid(), first_seq=17)
    assert again.before.last_seq is None
    again.release()


def test_whoever_gave_no_number_away_leaves_what_the_one_before_said(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    lock.stopped(9, bytes(8))
    lock.release()
    lock_folder(tmp_path).release()
    again = lock_folder(tmp_path)
    assert again.before == Note(pid=os.getpid(), last_seq=9, last_hash="00" * 8)
    again.release()


def test_a_note_never_needs_more_room_than_the_first(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    size = (tmp_path / "lock").stat().st_size
    lock.stopped(2**63, b"\xff" * 8)
    assert (tmp_path / "lock").stat().st_size == size
    assert json.loads((tmp_path / "lock").read_text())["last_seq"] == 2**63
    lock.release()


def test_others_can_see_whether_the_lock_is_held(tmp_path: Path) -> None:
    assert note_in(tmp_path) == (None, False)
    lock = lock_folder(tmp_path)
    lock.began(1)
    assert note_in(tmp_path) == (Note(pid=os.getpid(), first_seq=1), True)
    lock.release()
    assert note_in(tmp_path) == (Note(pid=os.getpid(), first_seq=1), False)


def test_a_lock_that_makes_no_sense_is_one_of_a_node_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("half a no")
    lock = lock_folder(tmp_path)
    assert lock.before == Note()
    lock.release()


def test_a_lock_that_is_no_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"cannot read .*lock: Not a directory"):
        note_in(tmp_path / "file")
