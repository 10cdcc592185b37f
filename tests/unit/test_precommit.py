"""The hooks before a commit: programs of this environment, and one for the ends of files."""

import re
from pathlib import Path

import pytest
from scripts.file_ends import mended

ROOT = Path(__file__).resolve().parents[2]


def test_every_hook_is_a_program_that_make_installs() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (.*)", text) == ["local"]
    programs = [entry.split()[0] for entry in re.findall(r"entry: (.*)", text)]
    assert len(programs) == len(re.findall(r"- id:", text)) == 5
    makefile = (ROOT / "Makefile").read_text()
    for program in programs:
        folder, name = program.rsplit("/", 1)
        assert folder == ".venv/bin"
        assert f"$(BIN)/{name}" in makefile


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("one\ntwo\n", "one\ntwo\n"),
        ("one", "one\n"),
        ("one\n\n\n", "one\n"),
        ("one  \n\ttwo\t\n", "one\n\ttwo\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("", ""),
        ("\n", ""),
    ],
    ids=["whole", "no-newline", "blank-lines", "blanks", "windows", "empty", "only-newline"],
)
def test_files_end_with_one_newline_and_lines_without_blanks(text: str, ends: str) -> None:
    assert mended(text) == ends
