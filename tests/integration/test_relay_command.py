"""``routebook relay``: the relay as a process."""

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook import __version__
from routebook.client import Dialing, NameServerError, Refused, Tls
from routebook.client.sync import SyncNameServerClient
from routebook.testing import LocalNode, NotRegistered, Workbench
from support.certificates import authority, identity
from support.programs import Program
from support.waiting import wait_for


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path / "nodes") as bench:
        yield bench


@pytest.fixture
def node(bench: Workbench) -> LocalNode:
    node = bench.nodes(1)[0]
    bench.broker(topics=["orders"], nameservers=node.address)
    return node


def relay(folder: Path, nameservers: str, *options: str | Path) -> Program:
    listen = ["--listen-port", "0", "--bind-address", "127.0.0.1"]
    return Program(
        folder / "relay", "relay", "-n", nameservers, *listen, *options, ready="relay ready"
    )


def address_of(program: Program) -> str:
    found = re.search(r"ready on (\S+)", program.stdout)
    assert found is not None
    return found[1]


def test_it_says_where_it_listens_and_stops_when_told(tmp_path: Path, node: LocalNode) -> None:
    with relay(tmp_path, node.address) as program:
        [line] = program.stdout.splitlines()
        assert program.stop() == 0

    assert re.fullmatch(
        rf"routebook {re.escape(__version__)} relay ready on 127\.0\.0\.1:\d+"
        r" \(NameServers: the option -n\)",
        line,
    )
    assert program.stdout.splitlines()[1:] == ["stopping", "stopped"]


def test_it_answers_what_nameservers_say_also_when_they_are_gone(
    tmp_path: Path, node: LocalNode
) -> None:
    with (
        relay(tmp_path, node.address, "--poll", "0.2") as program,
        SyncNameServerClient(address_of(program)) as client,
    ):
        route = client.route("orders")
        assert route == node.client().route("orders")
        assert client.topics() == ("orders",)

        node.stop()
        program.wait_for_log("no NameServer answered")
        assert client.route("orders") == route
        assert program.stop() == 0


def test_it_starts_while_all_nameservers_are_down_and_finds_them_when_they_come(
    tmp_path: Path, node: LocalNode
) -> None:
    node.stop()
    with (
        relay(tmp_path, node.address) as program,
        SyncNameServerClient(address_of(program)) as client,
    ):
        with pytest.raises(Refused, match="this relay has never seen"):
            client.route("orders")
        node.start()
        wait_for("the topic", lambda: _topics(client) == ("orders",))


def _topics(client: SyncNameServerClient) -> tuple[str, ...]:
    try:
        return client.topics()
    except NameServerError:
        return ()


def test_it_refuses_registrations(tmp_path: Path, bench: Workbench, node: LocalNode) -> None:
    with (
        relay(tmp_path, node.address) as program,
        pytest.raises(NotRegistered, match=f"this is a relay: .* {re.escape(node.address)}"),
    ):
        bench.broker("broker-b", nameservers=address_of(program))


def test_sigusr1_logs_how_things_stand(tmp_path: Path, node: LocalNode) -> None:
    with (
        relay(tmp_path, node.address) as program,
        SyncNameServerClient(address_of(program)) as client,
    ):
        client.route("orders")
        client.route("orders")
        program.signal(signal.SIGUSR1)
        program.wait_for_log("status: 1 topics, ")
        assert " 1 hits, 1 misses, 0 refused" in program.stderr


def test_it_takes_tls_with_a_certificate(tmp_path: Path, node: LocalNode) -> None:
    signer = authority(tmp_path, "ca")
    mine = identity(tmp_path, "relay", signer)
    dialing = Dialing(tls=Tls(trust=signer.cert))
    files = ["--listen-cert", str(mine.cert), "--listen-key", str(mine.key)]
    with (
        relay(tmp_path, node.address, *files) as program,
        SyncNameServerClient(address_of(program), dialing=dialing) as client,
    ):
        assert client.topics() == ("orders",)


def test_what_it_cannot_start_with_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        program = Program(
            tmp_path,
            *("relay", "-n", "127.0.0.1:1", "--bind-address", "127.0.0.1", "--listen-port", port),
            ready="",
        )
        assert program.run() == 2
    [line] = program.stderr.splitlines()
    assert line.startswith(f"Error: 127.0.0.1:{port} is in use")


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    mine = authority(tmp_path, "ca")
    program = relay(tmp_path, "127.0.0.1:1", "--listen-cert", mine.cert)
    assert program.run() == 2
    assert "--listen-cert and --listen-key go together" in program.stderr
