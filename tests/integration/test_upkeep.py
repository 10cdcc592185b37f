"""What runs in the background goes on after an error of any type, and the node says so."""

import sys
import threading
from pathlib import Path

import pytest

from routebook.events import RecordsLost
from routebook.handlers import dispatch
from routebook.handlers.services import Services
from routebook.handlers.watch import told_route
from routebook.journal import writer_thread
from routebook.journal.reader import read
from routebook.journal.record import Record, encode
from routebook.journal.sealer import Sealer
from routebook.server import tls, windows
from routebook.server.kv_claim import KvClaim
from routebook.settings import TlsSettings
from routebook.slices import Slices
from routebook.watch.kept_routes import Route
from support import raw
from support.brokers import Broker
from support.certificates import authority, identity
from support.journals import Clock, numbered, opened, seqs, sound, written
from support.memories import health as health_of
from support.memories import journal_of, stopping_first
from support.nodes import NodeProcess, local_node
from support.raw import Peer
from support.waiting import soon, wait_for

WATCH = 19_005


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


def test_a_record_whose_encoding_fails_with_an_error_of_any_type_is_told_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(record: Record, before: bytes) -> bytes:
        if record.seq == 2 and not isinstance(record.event, RecordsLost):
            raise Odd("no line")
        return encode(record, before)

    monkeypatch.setattr(writer_thread, "encode", odd)
    with opened(tmp_path) as writer:
        for number in (1, 2, 3):
            writer.append(numbered(number))
        written(writer)
        assert writer.status().lost == 1
    assert seqs(read(tmp_path)) == [1, 2, 3]
    sound(tmp_path)


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

        sum_up = windows.sum_up
        monkeypatch.setattr(windows, "sum_up", fails)
        health = await soon("the failure", node.health, until=lambda health: not health["ok"])
        assert health["tasks"] == {
            "failing": {"summing up a window": "Odd: no sum"},
            "errors": 1,
            "last_error": "summing up a window: Odd: no sum",
        }
        monkeypatch.setattr(windows, "sum_up", sum_up)
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


async def test_pairs_are_written_on_after_an_error_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as one, Peer(node.port) as two:

        def fails(claim: KvClaim, text: bytes) -> None:
            raise Odd("no file")

        writes = KvClaim.write
        monkeypatch.setattr(KvClaim, "write", fails)
        for peer, key in ((one, "a"), (two, "b")):
            peer.send_soon(raw.request(raw.PUT_KV, {"namespace": "n", "key": key, "value": "v"}))
        codes = [(await peer.read()).code for peer in (one, two)]
        assert codes == [raw.SYSTEM_ERROR] * 2
        told = node.health()["tasks"]
        assert told["last_error"] == "writing the key-value file: Odd: no file"  # type: ignore[index]
        monkeypatch.setattr(KvClaim, "write", writes)
        assert (await one.call(raw.PUT_KV, namespace="n", key="c", value="v")).code == raw.SUCCESS
        assert (await two.call(raw.GET_KV, namespace="n", key="a")).code == raw.QUERY_NOT_FOUND
    assert "writing the key-value file failed" in caplog.text


def test_a_log_that_cannot_be_written_shows_in_health_and_the_node_goes_on(tmp_path: Path) -> None:
    full = ["sh", "-c", 'exec "$@" 2>/dev/full', "sh"]
    with NodeProcess(tmp_path, begun_by=full) as node, node.connect() as peer:
        assert peer.call(raw.REGISTER, brokerName="x").code == raw.SYSTEM_ERROR  # a line of the log
        told = wait_for(
            "the error", lambda: health_of(peer)["tasks"], until=lambda tasks: tasks["errors"]
        )
        assert told["last_error"].startswith("writing the log: OSError: [Errno 28]")
        assert node.stop() == 0


async def test_what_nobody_waits_for_goes_on_after_an_error_of_any_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def odd() -> Slices[None]:
        yield
        raise Odd("no work")

    def sound_work() -> Slices[None]:
        yield
        done.append("sound")

    async with local_node(tmp_path) as node:
        node._services.carry_on(odd())
        node._services.carry_on(sound_work())
        await soon("the next", lambda: done, until=bool)
        told = node.health()["tasks"]
    assert told["last_error"] == "what nobody waited for: Odd: no work"  # type: ignore[index]
    assert "something that nobody waited for failed" in caplog.text


async def test_watchers_are_told_on_after_an_error_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [Odd("a route that cannot be told")]

    def odd_at_first(topic: str, services: Services) -> Slices[Route]:
        if errors:
            raise errors.pop()
        return (yield from told_route(topic, services))

    monkeypatch.setattr("routebook.app.told_route", odd_at_first)
    async with local_node(tmp_path) as node, Peer(node.port) as unlucky, Peer(node.port) as other:
        await Broker().register(other, ["orders", "stock"])
        assert (await unlucky.call(WATCH, b'{"topics":{"orders":""}}')).code == raw.SUCCESS
        await unlucky.hung_up()  # so that it begins anew, elsewhere or here
        assert (await other.call(WATCH, b'{"topics":{"orders":""}}')).code == raw.SUCCESS
        assert b'"topic":"orders"' in (await other.read()).body
        assert "a route that cannot be told" in str(node.health()["tasks"])


async def test_a_request_that_fails_for_a_mistake_of_ours_shows_in_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise LookupError("no answer")

    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        monkeypatch.setitem(dispatch.HANDLERS, raw.CLUSTER_INFO, fails)
        assert (await peer.call(raw.CLUSTER_INFO)).code == raw.SYSTEM_ERROR
        told = node.health()["tasks"]
    assert told == {"failing": {}, "errors": 1, "last_error": "request 106: LookupError: no answer"}


def test_sealing_goes_on_after_an_error_of_whoever_is_told_of_it(tmp_path: Path) -> None:
    told: list[Path] = []

    def odd(path: Path) -> None:
        told.append(path)
        raise Odd("not mine")

    with opened(tmp_path, rotate_records=10, on_sealed=odd) as writer:
        for number in range(1, 32):
            writer.append(numbered(number))
        wait_for("sealing", writer.status, until=lambda status: status.segments == 3)
        wait_for("the errors", writer.status, until=lambda status: status.errors == 3)
        assert writer.status().last_error == "not mine"
    sound(tmp_path)


async def test_a_snapshot_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with stopping_first(tmp_path, journal_rotate_seconds=1) as (node, _):
        health = await soon("the failure", node.health, until=lambda health: not health["ok"])
        assert health["tasks"]["failing"] == {"making a snapshot": "exit code 1"}  # type: ignore[index]
    assert list(journal_of(tmp_path).glob("*.manifest.json"))
