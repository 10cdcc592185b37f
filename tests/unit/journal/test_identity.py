"""Whose journal a folder holds."""

from pathlib import Path

import pytest

from routebook.journal.errors import JournalError
from routebook.journal.folder import IDENTITY, list_folder
from routebook.journal.identity import find_identity, take_identity
from routebook.journal.manifest import read_manifest
from support.journals import NODE, lay, numbered, opened, span_of


def test_an_incarnation_stays_while_its_folder_does(tmp_path: Path) -> None:
    first = take_identity(tmp_path, "ns-1", "")
    again = take_identity(tmp_path, "ns-1", "shop")
    assert (again.node, again.fleet) == ("ns-1", "shop")
    assert again.incarnation == first.incarnation != ""


def test_a_folder_that_was_emptied_is_another_incarnation(tmp_path: Path) -> None:
    first = take_identity(tmp_path, "ns-1", "").incarnation
    (tmp_path / IDENTITY).unlink()
    assert take_identity(tmp_path, "ns-1", "").incarnation != first


def test_a_journal_from_before_there_were_incarnations_goes_on_without_one(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3))
    assert take_identity(tmp_path, "ns-1", "").incarnation == ""
    assert take_identity(tmp_path, "ns-1", "shop").incarnation == ""


def test_a_file_that_says_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / IDENTITY).write_text("{")
    with pytest.raises(JournalError, match=r"identity\.json does not say whose journal it is"):
        find_identity(tmp_path)


def test_a_manifest_says_whose_segment_it_is(tmp_path: Path) -> None:
    with opened(tmp_path, fleet="shop") as writer:
        writer.append(numbered(1))
        identity = writer.identity
    manifest = read_manifest(tmp_path, list_folder(tmp_path).sealed[0])
    assert (manifest.node, manifest.fleet) == (NODE, "shop")
    assert manifest.incarnation == identity.incarnation != ""
