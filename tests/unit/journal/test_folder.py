from pathlib import Path

import pytest

from routebook.journal.errors import JournalError
from routebook.journal.folder import Span, list_folder, snapshot_name, write_whole


def test_files_are_told_apart_by_their_names(tmp_path: Path) -> None:
    for name in (
        "active.jsonl",
        "lock",
        "removed.json",
        "000000000001-000000000010.jsonl.gz",
        "000000000001-000000000010.manifest.json",
        "000000000011-000000000020.jsonl.gz",
        "000000000011-000000000020.jsonl",
        "1000000000000-1000000000001.jsonl",
        "snapshot-000000000010.json.gz",
        "torn-000000000010.bin",
        "000000000021-000000000030.jsonl.gz.tmp",
        "notes.txt",
        "active.jsonl.bak",
        "000000000005-000000000004.jsonl",
        "0000000000001-0000000000002.jsonl",
        "000000000000-000000000002.jsonl",
        "snapshot-0000000000010.json.gz",
        "other.tmp",
    ):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    listing = list_folder(tmp_path)
    assert listing.active
    assert listing.packed == (Span(1, 10), Span(11, 20))
    assert listing.manifests == listing.sealed == (Span(1, 10),)
    assert listing.plain == (Span(11, 20), Span(10**12, 10**12 + 1))
    assert listing.snapshots == (10,)
    assert listing.torn == ("torn-000000000010.bin",)
    assert listing.temporary == ("000000000021-000000000030.jsonl.gz.tmp",)
    assert listing.last_seq == 10**12 + 1
    assert set(listing.foreign) == {
        "notes.txt",
        "active.jsonl.bak",
        "000000000005-000000000004.jsonl",
        "0000000000001-0000000000002.jsonl",
        "000000000000-000000000002.jsonl",
        "snapshot-0000000000010.json.gz",
        "other.tmp",
        "folder",
    }


def test_names_sort_like_their_numbers() -> None:
    names = [Span(first, first + 9).packed for first in (1, 90, 1_000, 999_999_999_991)]
    assert names == sorted(names)
    assert snapshot_name(52_000) == "snapshot-000000052000.json.gz"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_folder_that_is_none_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=rf"cannot read the journal .*{name}: \w+"):
        list_folder(tmp_path / name)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "removed.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["removed.json"]


def test_a_file_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_whole(tmp_path / "removed.json", "text")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
