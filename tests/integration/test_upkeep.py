"""What runs in the background goes on after an error of any type, and the node says so."""

import sys
import threading
from pathlib import Path

import pytest

from routebook import app
from routebook.journal.reader import read
from routebook.journal.sealer import Sealer
from routebook.server import tls, windows
from routebook.settings import TlsSettings
from support.certificates import authority, identity
from support.journals import Clock, numbered, opened, seqs, sound, written
from support.memories import journal_of, stopping_first
from support.nodes import local_node
from support.waiting import soon, wait_for


class Odd(BaseException):
    """Of no type that anybody expects."""


class OddClock(Clock):
    """Raises ``Odd`` in the thread that writes, when it is told to."""

    odd = False

    def mono_ms(self) -> int:
        if self.odd and threading.current_thread().name == "journal":
            self.odd = False
            raise Odd("a clock that stands on its head")
        return super().mono_ms()


def test_the_journal_is_written_on_after_an_error_of_any_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = OddClock()
    with opened(tmp_path, clock=clock) as writer:
        writer.append(numbered(1))
        written(writer)
        clock.odd = True
        writer.append(numbered(2))
        wait_for("the error", writer.status, until=lambda status: status.errors == 1)
        writer.append(numbered(3))
        written(writer)
        status = wait_for("the end of it", writer.status, until=lambda s: not s.failing)
        assert "a clock that stands on its head" in str(status.last_error)
    assert seqs(read(tmp_path)) == [1, 2, 3]
    sound(tmp_path)
    assert "journal: writing failed" in caplog.text


def test_sealing_goes_on_after_an_error_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_house = Sealer._keep_house
    raised: list[bool] = []

    def odd_house(sealer: Sealer) -> None:
        if not raised:
            raised.append(True)
            raise Odd("no house")
        keep_house(sealer)

    monkeypatch.setattr(Sealer, "_keep_house", odd_house)
    with opened(tmp_path, rotate_records=10) as writer:
        for number in range(1, 32):
            writer.append(numbered(number))
        wait_for("sealing", writer.status, until=lambda status: status.segments == 3)
        assert writer.status().errors == 1
        assert not writer.status().failing


async def test_a_window_that_cannot_be_summed_up_is_said_and_the_next_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with local_node(tmp_path, journal_window_seconds=1) as node:

        def fails(*args: object, **kwargs: object) -> None:
            raise Odd("no sum")

        monkeypatch.setattr(app, "sum_up", fails)
        health = await soon("the failure", node.health, until=lambda health: not health["ok"])
        assert health["tasks"] == {
            "failing": {"summing up a window": "Odd: no sum"},
            "errors": 1,
            "last_error": "summing up a window: Odd: no sum",
        }
        monkeypatch.setattr(app, "sum_up", windows.sum_up)
        health = await soon("the next", node.health, until=lambda health: bool(health["ok"]))
        assert health["tasks"]["errors"] >= 1  # type: ignore[index]


async def test_tls_files_are_followed_on_after_an_error_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = identity(tmp_path, "node", authority(tmp_path, "authority"))
    files = {"tls_server_cert_path": made.cert, "tls_server_key_path": made.key}
    stamps = tls._stamps
    async with local_node(tmp_path, **files) as node:

        def fails(settings: TlsSettings) -> None:
            raise Odd("no look")

        monkeypatch.setattr(tls, "_stamps", fails)
        health = await soon("the failure", node.health, until=lambda health: not health["ok"])
        assert health["tasks"]["failing"] == {  # type: ignore[index]
            "looking for new TLS files": "Odd: no look"
        }
        monkeypatch.setattr(tls, "_stamps", stamps)
        await soon("the next look", node.health, until=lambda health: bool(health["ok"]))


async def test_a_snapshot_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with stopping_first(tmp_path, journal_rotate_seconds=1) as (node, _):
        health = await soon("the failure", node.health, until=lambda health: not health["ok"])
        assert health["tasks"]["failing"] == {"making a snapshot": "exit code 1"}  # type: ignore[index]
    assert list(journal_of(tmp_path).glob("*.manifest.json"))
