"""The gateway of a node as a process: killed, stopped, without its port, without its node."""

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from routebook.client import NameServerClient
from routebook.client.sync import SyncNameServerClient
from routebook.server import gateway_process
from support import raw
from support.gateways import Page, fetch
from support.nodes import NodeProcess, local_node
from support.ports import free_port
from support.programs import Program
from support.waiting import eventually, wait_for


class Served(NodeProcess):
    """A node with a gateway on a port of its own."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.http_port = free_port()
        super().__init__(folder, "--gateway-port", str(self.http_port), *args)

    def get(self, path: str) -> Page | None:
        """The answer, None while nobody gives one."""
        try:
            return fetch(f"http://127.0.0.1:{self.http_port}/", path)
        except OSError:
            return None

    def until(self, path: str, status: int) -> Page:
        page = wait_for(
            f"{status} from {path}",
            lambda: self.get(path),
            until=lambda seen: seen is not None and seen.status == status,
        )
        assert page is not None
        return page

    def gateway(self) -> dict[str, Any]:
        with SyncNameServerClient(f"127.0.0.1:{self.port}") as client:
            told: dict[str, Any] = client.health()["gateway"]
        return told


@contextmanager
def asked_all_the_time(port: int) -> Iterator[list[int]]:
    """Route queries one after the other, until the block ends; the codes of the answers.

    Whatever fails, fails the test.
    """
    codes: list[int] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            with raw.BlockingPeer(port) as peer:
                while not done.is_set():
                    codes.append(peer.call(raw.ROUTE, topic="orders").code)
        except BaseException as error:  # noqa: BLE001 - of another thread: it is told below
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield codes
    finally:
        done.set()
        thread.join()
    assert not failures, failures
    assert set(codes) == {raw.TOPIC_NOT_EXIST}


def is_gone(pid: int) -> bool:
    """Or nothing but its exit code is left, for a parent that is somebody else's."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_a_gateway_that_is_killed_returns_and_no_query_fails(tmp_path: Path) -> None:
    with Served(tmp_path) as node:
        node.until("/readyz", 200)
        before = node.gateway()
        assert (before["state"], before["restarts"], before["trouble"]) == ("listening", 0, None)
        with asked_all_the_time(node.port) as codes:
            os.kill(before["pid"], signal.SIGKILL)
            wait_for("its end", lambda: is_gone(before["pid"]))
            node.until("/readyz", 200)
            some = len(codes)
            wait_for("more answers", lambda: len(codes) > some)
        after = node.gateway()
        assert (after["state"], after["restarts"]) == ("listening", 1)
        assert after["pid"] != before["pid"]
        assert "ended with code -9" in after["trouble"]
        assert node.stop() == 0
    assert is_gone(after["pid"])


def test_a_gateway_that_is_stopped_goes_on_and_no_query_fails(tmp_path: Path) -> None:
    with Served(tmp_path) as node:
        node.until("/readyz", 200)
        pid = node.gateway()["pid"]
        with asked_all_the_time(node.port) as codes:
            os.kill(pid, signal.SIGSTOP)
            some = len(codes)
            wait_for("a thousand answers more", lambda: len(codes) > some + 1000)
            os.kill(pid, signal.SIGCONT)
            node.until("/livez", 200)
        assert node.gateway()["pid"] == pid


async def test_a_gateway_that_says_nothing_for_long_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_process, "SILENCE_S", 2.5)

    def state(seen: dict[str, Any]) -> object:
        return seen["gateway"]["state"]

    async with (
        local_node(tmp_path, gateway_port=free_port()) as node,
        NameServerClient(node.address) as client,
    ):
        told = await eventually("it", client.health, until=lambda h: state(h) == "listening")
        pid = told["gateway"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        told = await eventually(
            "another one",
            client.health,
            until=lambda h: state(h) == "listening" and h["gateway"]["pid"] != pid,
        )
        assert "it said nothing for 2.5 s" in told["gateway"]["trouble"]
        assert is_gone(pid)


def test_a_node_that_is_stopped_does_not_live_after_ten_seconds(tmp_path: Path) -> None:
    with Served(tmp_path) as node:
        node.until("/livez", 200)
        node.signal(signal.SIGSTOP)
        try:
            page = node.until("/livez", 503)
        finally:
            node.signal(signal.SIGCONT)
        assert re.search(r"the node has not answered for 1[01] s", page.text), page.text
        node.until("/livez", 200)
        node.until("/readyz", 200)


def test_a_gateway_ends_with_its_node(tmp_path: Path) -> None:
    with Served(tmp_path) as node:
        node.until("/readyz", 200)
        pid = node.gateway()["pid"]
        node.kill()
        wait_for("the end of the gateway", lambda: is_gone(pid))


def test_ctrl_c_is_for_the_node(tmp_path: Path) -> None:
    with Served(tmp_path) as node:
        node.until("/readyz", 200)
        pid = node.gateway()["pid"]
        os.kill(pid, signal.SIGINT)  # as a terminal sends it to both
        node.until("/livez", 200)
        assert node.gateway()["pid"] == pid


def test_a_node_whose_gateway_has_no_port_serves_and_says_so_once(tmp_path: Path) -> None:
    with Served(tmp_path / "first") as first:
        first.until("/readyz", 200)
        with Served(tmp_path / "second", "--gateway-port", str(first.http_port)) as second:
            second.wait_for_log("which is in use")
            told = second.gateway()
            assert (told["state"], told["address"]) == ("waiting", None)
            assert "need a --gateway-port each, or 0 for none" in told["trouble"]
            with second.connect() as peer:
                assert peer.call(raw.ROUTE, topic="orders").code == raw.TOPIC_NOT_EXIST
            assert first.stop() == 0
            second.wait_for_output(
                f"page, HTTP API and metrics on http://127.0.0.1:{first.http_port}/"
            )
            assert len(second.lines_with("which is in use")) == 1
            assert second.gateway()["restarts"] == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(
            ("--gateway-bind", "0.0.0.0"),
            "gatewayBind=0.0.0.0 lets other machines read everything: set httpReadToken, or"
            " httpOpen=true if everybody may",
            id="public-bind",
        ),
        pytest.param(
            ("--gateway-port", "0", "--address-service-port", "8080"),
            "addressServicePort is served by the gateway: set gatewayPort too",
            id="addresses-without-gateway",
        ),
    ],
)
def test_a_node_refuses_to_start_with(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    node = Program(tmp_path, "serve", "--listen-port", "0", *options, ready="ready on")
    assert node.run() == 2
    assert sentence in node.stderr


SAYS_WHO = """
import sys, socket
from support import raw
sys.stdin.buffer.read()
with socket.socket(fileno=int(sys.argv[-1])) as node:
    node.sendall(raw.request(19003, {"routebookPeer": "admin@10.1.2.3:456"}))
    node.sendall(raw.request(217, {"topic": "t", "routebookPeer": "admin@10.1.2.3:456"}, raw.TOPIC))
    while node.recv(4096):
        pass
"""


async def test_what_is_done_for_others_is_recorded_with_their_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only over the pair of sockets: from anybody else it means nothing."""
    tests = str(Path(raw.__file__).parents[1])
    body = '{"queueDatas":[{"brokerName":"nobody","readQueueNums":1,"writeQueueNums":1,"perm":6}]}'
    script = SAYS_WHO.replace("raw.TOPIC", repr(body.encode()))
    command = (sys.executable, "-c", f"import sys; sys.path.insert(0, {tests!r}){script}")
    monkeypatch.setattr(gateway_process, "COMMAND", command)
    async with (
        local_node(tmp_path, gateway_port=free_port()) as node,
        NameServerClient(node.address) as client,
    ):

        async def refused() -> list[str]:
            lines = [line.decode() for line in await client.recent()]
            return [line for line in lines if "REGISTER_TOPIC" in line]

        [line] = await eventually("the refusal", refused)
        assert '"peer":"admin@10.1.2.3:456"' in line
        with socket.create_connection((node.host, node.port)) as stranger:
            fields = {"topic": "t2", "routebookPeer": "admin@10.1.2.3:456"}
            stranger.sendall(raw.request(217, fields, body.encode()))
            [_, line] = await eventually("the other", refused, until=lambda seen: len(seen) == 2)
            assert '"peer":"127.0.0.1:' in line
