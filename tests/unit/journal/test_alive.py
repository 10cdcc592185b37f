"""The last sign of life of a node is found by whoever looks into its folder."""

from pathlib import Path

import pytest

from routebook.journal.alive import Alive, SignsOfLife, find_alive, remove_alive
from routebook.journal.folder import ALIVE, list_folder

FIRST, LATER = Alive(1, 7, 1_700_000_000_000, 12_000), Alive(1, 2**60, 2**50, 2**50)


@pytest.fixture
def signs(tmp_path: Path) -> SignsOfLife:
    return SignsOfLife(tmp_path)


def test_the_last_sign_is_found(tmp_path: Path, signs: SignsOfLife) -> None:
    assert find_alive(tmp_path) is None
    signs.write(LATER)
    size = (tmp_path / ALIVE).stat().st_size
    signs.write(FIRST)
    assert find_alive(tmp_path) == FIRST
    assert (tmp_path / ALIVE).stat().st_size == size
    assert list_folder(tmp_path).foreign == ()
    remove_alive(tmp_path)
    remove_alive(tmp_path)
    assert find_alive(tmp_path) is None


def test_a_file_that_was_removed_is_made_again(tmp_path: Path, signs: SignsOfLife) -> None:
    signs.write(FIRST)
    remove_alive(tmp_path)
    signs.write(LATER)
    assert find_alive(tmp_path) == LATER


def test_a_sign_that_cannot_be_given_is_left_out(tmp_path: Path) -> None:
    signs = SignsOfLife(tmp_path / "nowhere")
    signs.write(FIRST)
    signs.close()
    assert find_alive(tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"v":1,"seq":"x"}', "\x00" * 112])
def test_what_does_not_read_is_no_sign(tmp_path: Path, text: str) -> None:
    (tmp_path / ALIVE).write_text(text)
    assert find_alive(tmp_path) is None


def test_a_sign_of_a_later_version_is_none(tmp_path: Path) -> None:
    (tmp_path / ALIVE).write_text('{"v":2,"seq":1,"wall_ms":1,"mono_ms":1}')
    assert find_alive(tmp_path) is None
