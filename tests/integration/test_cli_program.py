"""The program as a process: pipes, Ctrl-C, watching, shell completion; and all its commands."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from routebook.cli.main import COMMANDS, cli
from routebook.cli.nameservers import asking_options
from support.brokers import Broker
from support.fleet import Fleet, run_program
from support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "cli.md", *sorted((ROOT / "docs" / "cli").glob("*.md"))]
DOCUMENT = "\n".join(page.read_text() for page in PAGES)
PROGRAM = [sys.executable, "-m", "routebook"]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        fleet.register(Broker(), ["orders", "payments"])
        yield fleet


def environment(namesrv_addr: str, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NAMESRV_ADDR", "COLUMNS")}
    return {**kept, "NAMESRV_ADDR": namesrv_addr, **more}


# -- commands


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_loads_and_explains_itself(name: str) -> None:
    ran = run_program(name, "--help")

    assert ran.exit_code == 0
    assert ran.lines[0].startswith(f"Usage: routebook {name} ")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert (command.help or "").strip()


def test_the_overview_names_each_command() -> None:
    listed = run_program("--help").stdout

    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", listed, re.MULTILINE)


def test_the_overview_loads_no_command() -> None:
    script = (
        "import sys\nfrom routebook.cli.main import cli\n"
        "try: cli(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m in ('asyncio', 'rich', 'routebook.client')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_wrong_usage() -> None:
    assert run_program("rout").exit_code == 2


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_document_names_each_command(name: str) -> None:
    assert f"routebook {name}" in DOCUMENT


def leaves(name: str) -> Iterator[tuple[str, click.Command]]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    yield name, command
    if isinstance(command, click.Group):
        for sub, subcommand in command.commands.items():
            yield f"{name} {sub}", subcommand


@pytest.mark.parametrize(
    "name", ["route", "topics", "brokers", "clusters", "kv", "config", "drain", "undrain"]
)
def test_the_document_has_every_option_and_subcommand(name: str) -> None:
    for words, command in leaves(name):
        assert f"routebook {words}" in DOCUMENT
        for param in command.params:
            if isinstance(param, click.Option):
                longest = max(param.opts, key=len)
                named = [option for option in param.opts if f"`{option}" in DOCUMENT]
                assert named, f"{longest} of {words}"


def test_every_asking_option_reaches_its_parameter() -> None:
    """The list of names that ``asking_options`` keeps for itself is the list of its options."""

    @click.command()
    @asking_options
    def probe(**others: Any) -> None:
        assert set(others) == {"asking"}

    probe.main(["-n", "127.0.0.1:1"], standalone_mode=False)


# -- pipes


@pytest.mark.parametrize(
    "words",
    [["topics"], ["topics", "--routes"], ["topics", "--json"], ["topics", "--watch"]],
    ids=["list", "table", "json", "watching"],
)
def test_a_reader_that_went_away_ends_the_program_without_a_word(
    fleet: Fleet, words: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [*PROGRAM, *words],
            env=environment(fleet.addresses[0]),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)

    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_terminal_without_utf_8_is_no_reason_to_fail(fleet: Fleet) -> None:
    fleet.register(Broker("brökër", addr="10.0.0.9:10911"), ["naïve", "orders"])

    for words in (["topics"], ["brokers"], ["brokers", "--json"]):
        ran = subprocess.run(
            [*PROGRAM, *words],
            env=environment(fleet.addresses[0], PYTHONIOENCODING="ascii"),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")


# -- watching


class Watching:
    """``routebook … --watch`` in a process, its output read line by line."""

    def __init__(self, namesrv_addr: str, *words: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*PROGRAM, *words, "--watch", "0.1"],
            env=environment(namesrv_addr),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def sees(self, what: str, since: int = 0) -> int:
        """Wait for a line with ``what`` in it; the number of lines so far."""
        wait_for(what, lambda: [line for line in self.lines[since:] if what in line])
        return len(self.lines)

    def interrupted(self) -> tuple[int, str]:
        """Exit code and standard error after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        stderr = self.process.stderr.read()
        code = self.process.wait(60)
        self._reader.join(60)
        self.process.stderr.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code, stderr


def test_watching_goes_on_until_ctrl_c(fleet: Fleet) -> None:
    watching = Watching(";".join(fleet.addresses), "topics")
    seen = watching.sees("payments")
    fleet.register(Broker("broker-b", addr="10.0.0.9:10911"), ["news", "orders"])
    watching.sees("news", since=seen)

    assert watching.interrupted() == (0, "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", watching.lines[0])


def test_an_outage_is_shown_and_does_not_end_the_watching(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1) as fleet:
        [port] = fleet.ports
        watching = Watching(fleet.addresses[0], "topics", "--json", "--timeout", "0.5")
        seen = watching.sees('"topics": []')
        fleet.stop(port)
        seen = watching.sees('"error": "no NameServer answered', since=seen)
        fleet.start(0, port=port)
        watching.sees('"topics": []', since=seen)
        code, stderr = watching.interrupted()

    assert (code, stderr) == (0, "")
    for line in watching.lines:
        json.loads(line)


def test_watching_can_begin_before_there_is_anything_to_see(fleet: Fleet) -> None:
    watching = Watching(fleet.addresses[0], "route", "news")
    seen = watching.sees("Error: no route for news")
    fleet.register(Broker("broker-b", addr="10.0.0.9:10911"), ["news", "orders"])
    watching.sees("10.0.0.9:10911", since=seen)

    assert watching.interrupted() == (0, "")


def test_watching_asks_the_same_node_over_one_connection(tmp_path: Path) -> None:
    with Fleet(tmp_path, 3) as fleet:
        watching = Watching(";".join(fleet.addresses), "topics", "--json")
        wait_for("ten looks", lambda: len(watching.lines) >= 10)
        watching.interrupted()

    assert len({json.loads(line)["node"] for line in watching.lines}) == 1


# -- Ctrl-C and deadlines


def test_ctrl_c_while_a_node_is_silent_ends_at_once_with_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        program = subprocess.Popen(
            [*PROGRAM, "topics", "--timeout", "600"],
            env=environment(address),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1)  # it has asked
            program.send_signal(signal.SIGINT)
            output = program.communicate(timeout=60)

    assert (program.returncode, *output) == (130, b"", b"")


def test_a_resolver_that_hangs_does_not_hold_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    real, hanging = socket.getaddrinfo, threading.Event()

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "slow.example":
            if not kwargs.get("flags", 0) & socket.AI_NUMERICHOST:
                hanging.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    ran = run_program("topics", "--timeout", "0.2", namesrv_addr="slow.example:9876")
    finished_first = not hanging.is_set()
    hanging.set()

    assert finished_first
    assert ran.exit_code == 3
    assert "slow.example:9876" in ran.stderr


# -- completion


def completions(words: str, namesrv_addr: str) -> list[str]:
    """What bash is offered after ``words``."""
    ran = subprocess.run(
        PROGRAM,
        env=environment(
            namesrv_addr,
            _ROUTEBOOK_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return [line.partition(",")[2] for line in ran.stdout.splitlines() if line]


def test_the_script_for_bash_is_one_that_bash_takes() -> None:
    script = subprocess.run(
        PROGRAM,
        env=environment("", _ROUTEBOOK_COMPLETE="bash_source"),
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout

    assert b"routebook" in script
    subprocess.run(["bash", "-n"], input=script, check=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("routebook ro", ["route"], id="commands"),
        pytest.param("routebook kv ", ["delete", "get", "list", "put"], id="subcommands"),
        pytest.param("routebook topics --rou", ["--routes"], id="options"),
        pytest.param("routebook route ", ["orders", "payments"], id="topics"),
        pytest.param("routebook route pay", ["payments"], id="topics-by-start"),
        pytest.param("routebook topics delete o", ["orders"], id="topics-of-a-subcommand"),
        pytest.param("routebook drain ", ["broker-a"], id="brokers"),
        pytest.param("routebook topics --cluster ", ["DefaultCluster"], id="clusters"),
    ],
)
def test_names_are_completed(fleet: Fleet, words: str, expected: list[str]) -> None:
    assert sorted(completions(words, fleet.addresses[0])) == expected


def test_names_are_completed_from_the_nodes_typed_before(fleet: Fleet) -> None:
    words = f"routebook route -n {fleet.addresses[0]} "

    assert completions(words, "127.0.0.1:1") == ["orders", "payments"]


@pytest.mark.parametrize("namesrv_addr", ["127.0.0.1:1", "nonsense", ""])
def test_completion_is_silent_when_nobody_can_be_asked(namesrv_addr: str) -> None:
    assert completions("routebook route ", namesrv_addr) == []


def test_a_name_that_a_shell_would_run_is_not_completed(fleet: Fleet) -> None:
    hostile = ["$(reboot)", "`reboot`", "a b", "-n", "x;y", "x\nplain,z", "%RETRY%group"]
    fleet.register(Broker("broker-b", addr="10.0.0.9:10911"), hostile)

    assert completions("routebook route ", fleet.addresses[0]) == [
        *["%RETRY%group", "orders", "payments"]
    ]
