"""Progress of long work, for whoever sits at a terminal."""

import io

import pytest
from rich.console import Console

from routebook.cli import progress


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, wanted: bool = True) -> str:
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=80)
    monkeypatch.setattr(progress, "console", lambda stderr: screen)
    with progress.progress_shown(wanted=wanted) as told:
        told("routes", 3, 7)
        told("routes", 7, 7)
        told("addresses", 1, 2)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_terminal_shows_each_stage_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = shown(monkeypatch, terminal=True)
    assert "routes" in drawn
    assert "7/7" in drawn
    assert "addresses" in drawn
    assert "1/2" in drawn


@pytest.mark.parametrize(("terminal", "wanted"), [(False, True), (True, False)])
def test_nothing_is_drawn_elsewhere_or_when_not_wanted(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, wanted: bool
) -> None:
    assert shown(monkeypatch, terminal=terminal, wanted=wanted) == ""
