"""Commands on a terminal: colours and progress of ours, and no control code of anybody else."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.brokers import Broker
from support.fleet import Fleet
from support.waiting import wait_for

HOSTILE = "pay\x1b[2Jments[bold]"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 1) as fleet:
        fleet.register(Broker(), [HOSTILE, "orders"])
        yield fleet


class Terminal:
    """A program whose input, output and errors are one terminal."""

    def __init__(self, namesrv_addr: str, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self._seen = bytearray()
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "routebook", *words],
            env={**kept, "NAMESRV_ADDR": namesrv_addr, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while piece := os.read(self._ours, 1 << 16):
                self._seen += piece
        except OSError:
            pass  # the program has closed the other end

    @property
    def screen(self) -> str:
        return self._seen.decode(errors="replace")

    def ended(self) -> int:
        code = self.process.wait(60)
        self._reader.join(60)
        os.close(self._ours)
        return code

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())


def test_a_table_is_coloured_and_names_are_not_obeyed(fleet: Fleet) -> None:
    terminal = Terminal(fleet.addresses[0], "topics", "--routes")

    assert terminal.ended() == 0
    assert "\x1b[1m" in terminal.screen  # a bold head
    assert "\x1b[2J" not in terminal.screen
    assert "pay\N{REPLACEMENT CHARACTER}[2Jments[bold]" in terminal.screen


def test_a_value_is_made_printable(fleet: Fleet) -> None:
    fleet.run("kv", "put", "ns", "key", HOSTILE)

    terminal = Terminal(fleet.addresses[0], "kv", "get", "ns", "key")

    assert terminal.ended() == 0
    assert "\x1b[2J" not in terminal.screen
    assert "ments[bold]" in terminal.screen


def test_draining_shows_how_far_it_is(fleet: Fleet) -> None:
    terminal = Terminal(fleet.addresses[0], "drain", "broker-a")

    assert terminal.ended() == 0
    assert "2/2" in terminal.screen
    assert "drained" in terminal.screen


def test_a_question_is_asked_and_answered(fleet: Fleet) -> None:
    terminal = Terminal(fleet.addresses[0], "topics", "delete", HOSTILE)
    wait_for("the question", lambda: "[y/N]" in terminal.screen)
    terminal.type("y\n")

    assert terminal.ended() == 0
    assert "\x1b[2J" not in terminal.screen
    assert fleet.run("topics").lines == ["orders"]


def test_the_last_view_stays_on_the_screen_with_the_error_below(fleet: Fleet) -> None:
    [port] = fleet.ports
    terminal = Terminal(fleet.addresses[0], "brokers", "--watch", "0.1", "--timeout", "0.5")
    wait_for("a broker", lambda: "10.0.0.1:10911" in terminal.screen)
    fleet.stop(port)
    both = re.compile(r"10\.0\.0\.1:10911(?:(?!acting master).)*Error: no NameServer", re.DOTALL)
    wait_for("the error below the broker", lambda: both.search(terminal.screen) is not None)
    terminal.process.send_signal(signal.SIGINT)

    assert terminal.ended() == 0
    assert terminal.screen.endswith("\x1b[?25h")  # the cursor is back
