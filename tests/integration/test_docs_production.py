"""The files of docs/production.md do what the page says."""

import shlex

from routebook.settings import KEYS
from support.documents import ROOT, blocks_of
from support.fleet import run_program

BLOCKS = {block.language: block.text for block in blocks_of(ROOT / "docs" / "production.md")}


def test_the_configuration_is_accepted() -> None:
    keys = {line.partition("=")[0] for line in BLOCKS["properties"].splitlines()}
    assert "nodeId" in keys
    assert keys <= set(KEYS)


def test_the_unit_of_the_tables_runs_commands_that_exist() -> None:
    page = blocks_of(ROOT / "docs" / "pipeline" / "upkeep.md")
    service, timer = [block.text for block in page if block.language == "ini"]
    commands = [
        shlex.split(line.partition("=")[2])
        for line in service.splitlines()
        if line.startswith("ExecStart=")
    ]
    assert [words[1:3] for words in commands] == [
        ["spark", "ingest"],
        ["spark", "build"],
        ["spark", "report"],
    ]
    for words in commands:
        assert run_program(*words[1:], "--help").exit_code == 0
    assert "OnCalendar=" in timer
