import os
import stat
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import pytest

from routebook.disk import TEMPORARY, folder_size, new_file, size_of, write_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "list"
    write_file(path, b"old")

    with new_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"

    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["list"]


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "list"
    write_file(path, b"old")

    with pytest.raises(TypeError), new_file(path) as file:
        file.writelines([b"half", "text"])  # type: ignore[list-item]

    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["list"]


def test_it_is_forced_to_disk_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "list"
    synced: list[tuple[bool, bool]] = []  # a folder, and whether the file was there

    def noted(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    write_file(path, b"text")

    assert synced == [(False, False), (True, True)]


def test_what_another_is_writing_is_not_touched(tmp_path: Path) -> None:
    path, temporary = tmp_path / "list", tmp_path / f"list{TEMPORARY}"
    with temporary.open("wb") as other:
        flock(other, LOCK_EX)
        other.write(b"theirs")
        other.flush()
        with (
            pytest.raises(BlockingIOError),
            new_file(path, temporary=temporary, lock=LOCK_EX | LOCK_NB),
        ):
            pass
        assert temporary.read_bytes() == b"theirs"


def test_what_a_killed_process_left_is_begun_anew(tmp_path: Path) -> None:
    path, temporary = tmp_path / "list", tmp_path / f"list{TEMPORARY}"
    temporary.write_bytes(b"half of something long")

    with new_file(path, temporary=temporary, lock=LOCK_EX) as file:
        file.write(b"short")

    assert path.read_bytes() == b"short"
    assert names(tmp_path) == ["list"]


def test_one_that_was_renamed_between_its_making_and_its_lock_is_left_alone(
    tmp_path: Path,
) -> None:
    """Its name belongs to another process by then, and so does what is in it."""
    path, temporary = tmp_path / "list", tmp_path / f"list{TEMPORARY}"
    renamed: list[Path] = []

    def slow(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, 0o600)
        if not renamed:
            os.write(descriptor, b"theirs")
            renamed.append(temporary.rename(tmp_path / "theirs"))
        return descriptor

    with new_file(path, temporary=temporary, opener=slow, lock=LOCK_EX) as file:
        file.write(b"ours")

    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert path.read_bytes() == b"ours"


def test_sizes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"123")
    assert size_of(tmp_path / "a") == 5
    assert size_of(tmp_path / "none") == 0
    assert folder_size(tmp_path) == 8
