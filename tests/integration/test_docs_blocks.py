"""Every block of README and docs is run here, or names the test that shows what it says.

A block of a page begins with its language:

``python``   is run (``test_docs.py``)
``sh``       commands without their output: their options must exist, ``serve`` accepts them
``console``  commands with their output: run below, or one of ``tests/golden/cli``
``json``     one of ``tests/golden/cli``
``text``     no code: diagrams, rows of tables, messages

Any may go on with ``by tests/...::test_...``: then it is an excerpt of what that test shows.
"""

import gzip
import json
import re
import shlex
import shutil
import signal
import tomllib
from contextlib import ExitStack
from pathlib import Path

import click
import pytest

from routebook.cli.main import cli
from support.documents import ROOT, Block, all_blocks, blocks_of, looks_like
from support.fleet import run_program
from support.journal_folders import write_journal
from support.night import SECOND, night, nth
from support.ports import free_port
from support.programs import Program
from support.waiting import wait_for

RUN_BELOW = ("README.md", "README.zh-CN.md", "docs/history.md", "docs/journal/commands.md")
COMPARED_ELSEWHERE = {"docs/journal/events.md": "tests/unit/journal/test_document.py"}
TOUR = [b for b in blocks_of(ROOT / "README.md") if b.language == "console" and not b.shown_by]
GOLDEN = {path.read_text() for path in ROOT.glob("tests/golden/cli/*")}


def is_shown(block: Block) -> bool:
    if block.shown_by or block.page in COMPARED_ELSEWHERE:
        return True
    match block.language:
        case "python" | "sh":
            return True
        case "console" | "json":
            return block.text in GOLDEN or (block.language == "console" and block.page in RUN_BELOW)
        case "text":
            return not re.search(r"^\$ |^(from|import) ", block.text, re.MULTILINE)
        case _:
            return False


def test_every_block_is_run_or_names_the_test_that_shows_it() -> None:
    unshown = [f"{b.page}: {b.language}: {b.text[:60]!r}" for b in all_blocks() if not is_shown(b)]
    assert unshown == []


def test_every_fence_is_one_this_file_knows() -> None:
    for page in {block.page for block in all_blocks()}:
        text = (ROOT / page).read_text()
        fences = len(re.findall(r"^```", text, re.MULTILINE))
        assert fences == 2 * len(blocks_of(ROOT / page)), f"{page} has a fence that is not read"


def test_the_tests_that_blocks_name_exist() -> None:
    named = {block.shown_by for block in all_blocks() if block.shown_by}
    assert named
    for test in named:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        assert not name or re.search(rf"def {name}\b", text), test


@pytest.mark.parametrize(
    "block", [block for block in all_blocks() if block.language in ("json", "toml")], ids=str
)
def test_data_can_be_read(block: Block) -> None:
    if block.language == "toml":
        tomllib.loads(block.text)
        return
    try:
        json.loads(block.text)
    except json.JSONDecodeError:  # then it is lines of it
        for line in block.text.splitlines():
            json.loads(line)


def programs() -> list[list[str]]:
    """Commands of the program in all pages."""
    commands = [words for block in all_blocks() for words in block.commands]
    return [words[1:] for words in commands if Path(words[0]).name == "routebook"]


def test_every_command_of_every_page_is_one_with_its_options() -> None:
    """``--help`` at the end has everything before it looked at, and nothing done."""
    commands = programs()
    assert len(commands) > 80
    for words in commands:
        ran = run_program(*words[: words.index("|") if "|" in words else None], "--help")
        assert ran.exit_code == 0, f"routebook {' '.join(words)}: {ran.stderr}"
        assert ran.stdout.startswith("Usage: routebook")


def test_every_command_of_the_program_is_told_of() -> None:
    told = (ROOT / "docs" / "cli.md").read_text()
    commands = cli.list_commands(click.Context(cli))
    assert len(commands) > 15
    assert [name for name in commands if f"routebook {name}" not in told] == []


# -- the tour of the README


class Tour:
    """The terminals of somebody who follows the README."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._http_port = free_port()
        ports = ("--listen-port", "0", "--gateway-port", str(self._http_port))
        options = (*ports, "--node-id", "ns-1-0a1b2c3d")
        serve = Program(folder / "node", "serve", *options, ready="ready on")
        self._folder, self._opened = folder, opened
        self._simulation: Program | None = None
        self.node = opened.enter_context(serve)
        self._port = self.node.stdout.partition("0.0.0.0:")[2].split()[0]

    def follow(self, command: str) -> str:
        """What the command prints, with the port the README has."""
        program, *words = command.replace(":9876", f":{self._port}").split()
        match program, words[0]:
            case "make", "run":
                assert "$(BIN)/routebook serve $(ARGS)" in (ROOT / "Makefile").read_text()
                self.node.wait_for_output("page, HTTP API and metrics on")
                said = self.node.stdout.replace(", command line", "")
                return "setting up\n" + said.replace(f":{self._http_port}/", ":19876/")
            case "source", path:
                assert path == ".venv/bin/activate"
                return ""
            case "routebook", "simulate":
                simulate = Program(self._folder / "brokers", *words, ready=" up ")
                brokers = self._simulation = self._opened.enter_context(simulate)
                wait_for("all brokers", lambda: brokers.stdout.count(" up ") == 3)
                # They register side by side; the README has them in order.
                return "\n".join(sorted(brokers.stdout.splitlines(), key=lambda line: line[5:]))
            case "routebook", "history":
                self._press_ctrl_c()
        assert program == "routebook"
        ran = run_program(*words)
        return (ran.stdout + ran.stderr).replace(f":{self._port}", ":9876")

    def _press_ctrl_c(self) -> None:
        assert self._simulation is not None
        self._simulation.signal(signal.SIGINT)
        assert self._simulation.ended() == 0
        wait_for("all to leave", lambda: self.node.stderr.count('"event":"BrokerLeft"') == 3)


def test_the_tour_works_as_printed(tmp_path: Path) -> None:
    with ExitStack() as opened:
        tour = Tour(tmp_path, opened)
        for block in TOUR:
            for command, shown in block.sessions:
                printed = tour.follow(command)
                assert looks_like(printed, shown), f"{command} printed\n{printed}"
            if not block.sessions:  # lines of the log
                assert any(looks_like(line, block.text) for line in tour.node.stderr.splitlines())
    followed = {words[1] for block in TOUR for words in block.commands}
    assert {"simulate", "route", "doctor", "drain", "history"} <= followed


def test_the_chinese_readme_has_the_blocks_of_the_other_one() -> None:
    blocks, chinese = blocks_of(ROOT / "README.md"), blocks_of(ROOT / "README.zh-CN.md")
    # Comments are translated.
    uncommented = [
        [(b.language, b.shown_by, re.sub(r" +# .*", "", b.text)) for b in readme]
        for readme in (blocks, chinese)
    ]
    assert uncommented[0] == uncommented[1]


def test_the_chinese_readme_leads_where_the_other_one_does() -> None:
    led = [
        set(re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text()))
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert led[0] - {"README.zh-CN.md"} == led[1] - {"README.md"}


# -- history and journals


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of a night, ns-1 and ns-2, and one that was tampered with."""
    folder = tmp_path_factory.mktemp("journals")
    write_journal(
        folder / "ns-1", night().records, sealed_at=(nth(4), nth(9)), snapshots_at=(nth(9),)
    )
    write_journal(folder / "ns-2", night(SECOND, flaky=False).records)
    shutil.copytree(folder / "ns-1", folder / "damaged")
    segment = min((folder / "damaged").glob("*.jsonl.gz"))
    lines = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"mono_ms":', b'"mono_ms":1')
    segment.write_bytes(gzip.compress(b"".join(lines)))
    (folder / "damaged" / "notes.txt").write_text("not ours")
    return folder


def sessions_of(page: str) -> list[tuple[str, str]]:
    blocks = [block for block in blocks_of(ROOT / page) if block.language == "console"]
    return [session for block in blocks for session in block.sessions]


@pytest.mark.parametrize(
    ("command", "shown"),
    [*sessions_of("docs/history.md"), *sessions_of("docs/journal/commands.md")],
)
def test_a_page_about_the_past_shows_what_the_program_says(
    journals: Path, command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(journals)
    ran = run_program(*shlex.split(command)[1:])
    # How small files get is up to the library that packs them.
    without_sizes = [
        re.sub(r"(bytes +)\d+ on disk", r"\1- on disk", text)
        for text in (ran.stdout + ran.stderr, shown)
    ]
    assert without_sizes[0] == without_sizes[1]
