"""docs/journal tells of every event and every member, with lines that were really written."""

import json
import re
from pathlib import Path

import pytest

from routebook.journal.folder import list_folder
from routebook.journal.reader import Range, read_lines
from routebook.journal.record import VERSION, event_types
from routebook.journal.schema import journal_schema

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "journal.md").read_text()
RECORDED = ROOT / "tests" / "golden" / "journal" / f"v{VERSION}" / "journal"
EVENTS = (ROOT / "docs" / "journal" / "events.md").read_text()


def section(name: str) -> str:
    return EVENTS.partition(f"## {name}\n")[2].partition("\n## ")[0]


def test_there_is_a_section_for_every_event() -> None:
    assert sorted(re.findall(r"^## (\w+)$", EVENTS, re.MULTILINE)) == sorted(event_types())


@pytest.mark.parametrize("name", event_types())
def test_a_section_shows_a_line_that_was_written(name: str) -> None:
    """``python tests/golden/journal/record.py --again`` puts them there."""
    recorded = {line.text.decode().rstrip("\n") for line in read_lines(RECORDED, Range())}
    shown = re.findall(r"```json\n(.*)\n```", section(name))
    assert len(shown) == 1
    assert shown[0] in recorded
    assert json.loads(shown[0])["type"] == name


@pytest.mark.parametrize("name", event_types())
def test_a_section_tells_of_every_member(name: str) -> None:
    introduction = EVENTS.partition("\n## ")[0]
    members = journal_schema()["$defs"][name]["properties"]
    prose = introduction + section(name).partition("```json")[0]
    assert [member for member in members if f"`{member}`" not in prose] == []


def test_every_cause_and_every_kind_of_file_is_told_of() -> None:
    for cause in journal_schema()["$defs"]["Cause"]["enum"]:
        assert f"`{cause}`" in EVENTS
    files = re.findall(r"^\| `([\w.-]+)` \|", DOCUMENT.partition("## A record")[0], re.MULTILINE)
    assert len(files) == 10
    assert {path.name for path in RECORDED.iterdir()} >= {"active.jsonl", "lock"}
    assert list_folder(RECORDED).foreign == ()
