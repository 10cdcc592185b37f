"""Journals of older versions still read, and mean what they meant to those who wrote them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from routebook.journal.reader import read
from routebook.journal.record import VERSION
from routebook.journal.verify import verify
from support.journals import meaning, writer_of

GOLDEN = Path(__file__).parents[2] / "golden" / "journal"
VERSIONS = sorted(path.name for path in GOLDEN.glob("v*"))


def known(found: Any, expected: Any) -> Any:
    """``found`` without the members that have been added since ``expected`` was written."""
    if isinstance(expected, dict):
        return {name: known(found[name], value) for name, value in expected.items()}
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=False)  # named tuples grow too, at their ends
        return [known(item, value) for item, value in pairs]
    return found


def test_every_version_has_a_recorded_journal() -> None:
    assert [f"v{number}" for number in range(1, VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_journal_means_what_it_meant(version: str) -> None:
    expected = json.loads((GOLDEN / version / "expected.json").read_text())
    found = meaning(GOLDEN / version / "journal")
    assert len(found) == len(expected)
    assert [known(item, value) for item, value in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_journal_verifies(version: str) -> None:
    report = verify(GOLDEN / version / "journal")
    assert [str(finding) for finding in report.findings] == [
        "active.jsonl line 3: is cut off after 13 bytes"
    ]
    assert report.leaps == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_goes_on_with_an_old_journal(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    shutil.copytree(GOLDEN / version / "journal", folder)
    records = len(list(read(folder)))
    writer = writer_of(folder)
    assert writer.open().torn_bytes == 13
    writer.close()
    assert verify(folder).findings == ()
    assert len(list(read(folder))) == records + 1
