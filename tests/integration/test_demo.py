"""``make demo`` up to its tables: the commands that make them take minutes, and have tests."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from routebook.events import BrokerLeft, NodeStarted, NodeStopped, RouteQueries
from routebook.journal.reader import read
from routebook.journal.verify import verify
from routebook_spark.commands.main import spark

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 15


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "scripts" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_leaves_journals_of_what_went_wrong_and_makes_a_report_of_them(
    demo: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "demo"
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(demo, "run", lambda *words: commands.append(words))
    monkeypatch.setattr(sys, "argv", ["demo", "--seconds", str(SECONDS), "--folder", str(folder)])

    assert demo.main() == 0

    journals = [folder / f"node-{number}" / "journal" for number in (1, 2, 3)]
    events = [[each.event for each in read(journal)] for journal in journals]
    assert all(verify(journal).sound for journal in journals)
    assert [sum(isinstance(each, NodeStarted) for each in told) for told in events] == [1, 2, 1]
    assert all(isinstance(told[-1], NodeStopped) for told in events)
    assert all(any(isinstance(each, BrokerLeft) for each in told) for told in events)
    assert all(any(isinstance(each, RouteQueries) for each in told) for told in events)

    assert [words[:2] for words in commands] == [
        ("spark", "ingest"),
        ("spark", "build"),
        ("spark", "report"),
    ]
    assert commands[0][2:5] == tuple(map(str, journals))
    for _, name, *words in commands:
        command = spark.get_command(click.Context(spark), name)
        assert command is not None
        command.make_context(name, list(words))  # or says what is wrong with them
    assert str(folder / "report.html") in capsys.readouterr().out
