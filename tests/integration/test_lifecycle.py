"""Starting, refusing to start, draining and stopping, seen from outside the process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook import __version__
from routebook.settings import SettingsError
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer, Hangup, Peer
from support.waiting import wait_for

# -- starting


def test_the_readiness_line_tells_address_version_and_where_the_settings_come_from(
    tmp_path: Path,
) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text("enableTopicList=false\n")
    variables = {"ROUTEBOOK_DATA_DIR": str(tmp_path / "data")}
    with NodeProcess(tmp_path, "-c", file, environment=variables) as node:
        [line] = node.stdout.splitlines()
        with node.connect() as peer:  # ready means ready
            assert peer.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST

    assert line == (
        f"routebook {__version__} ready on 127.0.0.1:{node.port}"
        f" (configuration: defaults, {file}, environment, command line)"
    )


def test_a_node_without_any_setting_listens_on_the_usual_port(tmp_path: Path) -> None:
    node = NodeProcess(
        tmp_path, "-p", "--listen-port", "9876", "--kv-config-path", "", "--data-dir", ""
    )
    assert node.run() == 0
    shown = dict(line.split("=", 1) for line in node.stdout.splitlines())

    assert shown["listenPort"] == "9876"
    assert shown["kvConfigPath"] == str(tmp_path / "namesrv" / "kvConfig.json")
    assert shown["dataDir"] == str(tmp_path / "namesrv" / "routebook")


async def test_the_backlog_of_the_listening_socket_is_the_one_asked_for(tmp_path: Path) -> None:
    async with local_node(tmp_path, server_socket_backlog=7) as node:
        assert most_waiting(node.port) == 7


def most_waiting(port: int) -> int:
    """Connections that may wait to be accepted by the socket here that listens on ``port``."""
    for path in Path("/proc/self/fd").iterdir():
        try:
            found = socket.socket(fileno=os.dup(int(path.name)))
        except OSError:
            continue  # no socket, or gone
        with found:
            if found.family != socket.AF_INET or found.getsockname()[1] != port:
                continue
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                told = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
                return int.from_bytes(told[28:], sys.byteorder)  # tcpi_sacked, of one that listens
    raise AssertionError(f"nobody listens on {port}")


def test_print_config_shows_all_settings_sorted_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPort=1\nsomebody.elses=key\ntls.server.keyPassword=secret\n")
    node = NodeProcess(tmp_path, "-c", file, "-p", "--listen-port", "7")

    assert node.run() == 0

    names = [line.split("=", 1)[0] for line in node.stdout.splitlines()]
    assert names == sorted(names)
    assert {"listenPort=7", "somebody.elses=key", "enableTopicList=true"} <= set(
        node.stdout.splitlines()
    )
    assert "secret" not in node.log
    assert not node.data_dir.exists()


@pytest.mark.parametrize(
    ("file", "variable", "flag", "expected"),
    [
        pytest.param(None, None, None, "45", id="default"),
        pytest.param("1", None, None, "1", id="file"),
        pytest.param("1", "2", None, "2", id="environment-over-file"),
        pytest.param("1", "2", "3", "3", id="flag-over-all"),
        pytest.param(None, "2", "3", "3", id="flag-over-environment"),
        pytest.param("1", None, "3", "3", id="flag-over-file"),
    ],
)
def test_later_sources_override_earlier_ones(
    tmp_path: Path, file: str | None, variable: str | None, flag: str | None, expected: str
) -> None:
    args: list[str | Path] = ["-p"]
    if file is not None:
        (tmp_path / "namesrv.properties").write_text(f"waitSecondsForService={file}\n")
        args += ["-c", tmp_path / "namesrv.properties"]
    if flag is not None:
        args += ["--wait-seconds-for-service", flag]
    variables = {} if variable is None else {"ROUTEBOOK_WAIT_SECONDS_FOR_SERVICE": variable}
    node = NodeProcess(tmp_path, *args, environment=variables)

    assert node.run() == 0
    assert f"waitSecondsForService={expected}" in node.stdout.splitlines()


def test_ignored_and_unknown_settings_are_reported_once_and_unknown_ones_shown(
    tmp_path: Path,
) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text("serverWorkerThreads=4\nuseEpollNativeSelector=true\nmy.own.key = a b\n")
    with NodeProcess(tmp_path, "-c", file) as node:
        with node.connect() as peer:
            shown = peer.call(raw.GET_CONFIG).body.decode().splitlines()
        wait_for("the report", lambda: node.lines_with("my.own.key"))

        assert len(node.lines_with("serverWorkerThreads")) == 1
        assert len(node.lines_with("useEpollNativeSelector")) == 1
        assert len(node.lines_with("my.own.key")) == 1
        assert {"my.own.key=a b", "serverWorkerThreads=4", f"listenPort={node.port}"} <= set(shown)
        names = [line.split("=", 1)[0] for line in shown]
        assert names == sorted(names)


# -- refusing to start


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def check_refusal(node: NodeProcess, *sentence: str) -> None:
    """One sentence, exit code 2, no traceback."""
    assert node.run() == 2
    [line] = node.stderr.splitlines()
    for words in sentence:
        assert words in line
    assert node.stdout == ""


def test_a_port_in_use_is_said_so(tmp_path: Path, taken_port: int) -> None:
    node = NodeProcess(tmp_path, "--listen-port", str(taken_port))

    check_refusal(node, f"127.0.0.1:{taken_port} is in use", "--listen-port")


def test_an_address_of_another_machine_is_said_so(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--bind-address", "192.0.2.1")

    check_refusal(node, "cannot listen on 192.0.2.1:0", "--bind-address")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param("listenPort=many", ["listenPort", "'many'"], id="port-no-number"),
        pytest.param("listenPort=65536", ["listenPort", "65535"], id="port-too-large"),
        pytest.param("enableTopicList=maybe", ["enableTopicList", "true or false"], id="boolean"),
        pytest.param("maxConnections=-1", ["maxConnections", "'-1'"], id="negative"),
        pytest.param("tls.server.mode=on", ["tls.server.mode", "enforcing"], id="choice"),
        pytest.param("trustedProxies=10.0.0.0/99", ["trustedProxies", "10.0.0.0/8"], id="network"),
        pytest.param(
            "enableControllerInNamesrv=true", ["enableControllerInNamesrv=true", "controller"],
            id="controller",
        ),
        pytest.param("tls.server.mode=enforcing", ["certPath", "keyPath"], id="tls-without-files"),
        pytest.param(
            "tls.server.certPath=/nowhere/cert.pem\\ntls.server.keyPath=/nowhere/key.pem",
            ["/nowhere/cert.pem cannot be read"],
            id="tls-file-missing",
        ),
        pytest.param("listenPort=\\u12", ["namesrv.properties", "properties"], id="bad-escape"),
    ],
)  # fmt: skip
def test_a_setting_a_node_cannot_have_is_said_so(
    tmp_path: Path, line: str, sentence: list[str]
) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text(line.replace("\\n", "\n") + "\n")
    node = NodeProcess(tmp_path, "-c", file, port_from_file=True)

    check_refusal(node, *sentence)


def test_a_bad_value_is_named_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text("enableTopicList=maybe\n")
    check_refusal(NodeProcess(tmp_path, "-c", file), str(file), "enableTopicList")
    check_refusal(
        NodeProcess(tmp_path, environment={"ROUTEBOOK_ENABLE_TOPIC_LIST": "maybe"}),
        "environment",
        "enableTopicList",
    )
    check_refusal(
        NodeProcess(tmp_path, "--enable-topic-list", "maybe"), "command line", "enableTopicList"
    )


def test_a_missing_settings_file_is_said_so(tmp_path: Path) -> None:
    missing = tmp_path / "missing.properties"

    check_refusal(NodeProcess(tmp_path, "-c", missing), f"{missing} cannot be read")


def test_an_unreadable_key_is_said_so(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("this is no PEM\n")
    node = NodeProcess(
        tmp_path,
        "--tls-server-cert-path",
        tmp_path / "cert.pem",
        "--tls-server-key-path",
        tmp_path / "key.pem",
    )

    check_refusal(node, str(tmp_path / "cert.pem"), "cannot be used")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('{"configTable":{"ns":{"key":"val', 1, id="cut-short"),
        pytest.param('{"configTable":\n {"ns":\n  {"a":"b" oops}}}', 3, id="third-line"),
        pytest.param('{"configTable":\n["not a table"]}', 1, id="another-shape"),
        pytest.param('{"configTable":{"ns":"not a table"}}', 1, id="namespace-no-table"),
        pytest.param("[" * 100_000, 1, id="too-deep"),
        pytest.param("\x00" * 64, 1, id="zeros"),
    ],
)
def test_a_damaged_kv_file_is_named_with_its_line_and_left_alone(
    tmp_path: Path, text: str, line: int
) -> None:
    node = NodeProcess(tmp_path)
    node.kv_path.write_text(text)

    check_refusal(node, f"{node.kv_path} line {line} is damaged", "was not changed")

    assert node.kv_path.read_text() == text
    assert [path.name for path in tmp_path.iterdir() if "kvConfig" in path.name] == [
        "kvConfig.json"
    ]


def test_a_kv_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    damaged = b'{"configTable":\n{"ns":{"k":"\xff\xfe"}}}'
    node.kv_path.write_bytes(damaged)

    check_refusal(node, f"{node.kv_path} line 2 is damaged")
    assert node.kv_path.read_bytes() == damaged


def test_an_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--no-such-option")

    assert node.run() == 2
    assert "Traceback" not in node.stderr


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["--version"]])
def test_help_and_version_are_there(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "routebook", *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "routebook" in done.stdout


# -- stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_lets_answers_finish_and_exits_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as peer, node.connect() as idle:
        puts = [
            raw.request(raw.PUT_KV, {"namespace": "ns", "key": f"k{n}", "value": f"v{n}"}, opaque=n)
            for n in range(300)
        ]
        peer.send(b"".join(puts))
        first = peer.read()  # the rest is in flight
        node.signal(number)

        answers = [first, *raw.answers_in(peer.hung_up())]
        assert idle.hung_up() == b""
        assert node.ended() == 0

    assert sorted(answer.opaque for answer in answers) == list(range(300))
    assert {answer.code for answer in answers} == {raw.SUCCESS}
    kept = json.loads(node.kv_path.read_bytes())["configTable"]["ns"]
    assert kept == {f"k{n}": f"v{n}" for n in range(300)}
    assert node.stdout.splitlines()[1:] == ["stopping", "stopped"]
    assert "Traceback" not in node.stderr


def test_a_large_registration_under_way_is_finished_before_the_node_stops(tmp_path: Path) -> None:
    topics = [f"topic-{number}" for number in range(60_000)]
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        peer.send(Broker().registration(topics))
        wait_for("the first topics", lambda: node.lines_with("TopicsChanged"))
        node.signal(signal.SIGTERM)

        assert peer.read().code == raw.SUCCESS
        assert peer.hung_up() == b""
        assert node.ended() == 0


def test_a_peer_that_does_not_read_cannot_keep_a_node_from_stopping(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as broker, node.connect() as deaf:
        topics = [f"{'long' * 20}-{number}" for number in range(5_000)]
        broker.ask(raw.REGISTER, Broker().fields, registration_body(topics))
        deaf.send(raw.request(raw.ALL_TOPICS) * 200)
        assert broker.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST

        assert node.stop() == 0


def graceful(tmp_path: Path) -> NodeProcess:
    return NodeProcess(
        tmp_path,
        "--enable-shutdown-gracefully",
        "true",
        "--shutdown-wait-time-seconds",
        "60",
    )


def draining(node: NodeProcess) -> None:
    node.signal(signal.SIGTERM)
    wait_for("the node to stop accepting", lambda: node.lines_with("go away"))


def test_a_graceful_stop_sends_those_away_who_understand_it(tmp_path: Path) -> None:
    with graceful(tmp_path) as node, node.connect() as peer, node.connect() as older:
        assert older.ask(raw.REGISTER, Broker().fields, registration_body()).code == raw.SUCCESS
        draining(node)

        for version in (476, 513):
            answer = peer.call(raw.ROUTE, topic="T", version=version)
            assert (answer.code, answer.remark) == (raw.GO_AWAY, "please go away")
        for version in (0, 407, 475):
            route = older.call(raw.ROUTE, topic="orders", version=version)
            assert route.code == raw.SUCCESS
        # Oneway requests are not answered, not even with this.
        peer.send(raw.request(raw.ROUTE, {"topic": "T"}, flag=raw.ONEWAY, opaque=99))
        assert peer.call(raw.ROUTE, topic="T").code == raw.GO_AWAY
        with pytest.raises((ConnectionRefusedError, Hangup)), BlockingPeer(node.port) as late:
            late.call(raw.ROUTE, topic="T")
        assert node.process.poll() is None

        peer.socket.close()
        older.socket.close()
        # Nobody is left, so it does not wait any longer.
        assert node.ended() == 0


def test_without_the_setting_nobody_is_sent_away(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        node.signal(signal.SIGTERM)

        assert peer.hung_up() == b""
        assert node.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_second_signal_exits_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with graceful(tmp_path) as node, node.connect():
        draining(node)
        assert node.process.poll() is None

        node.signal(number)

        assert node.ended(timeout_s=10) == 1
        assert "Traceback" not in node.log


def test_a_port_is_free_again_at_once(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        peer.call(raw.ROUTE, topic="nobody")
        assert node.stop() == 0
        with NodeProcess(tmp_path, "--listen-port", str(node.port)) as again:
            assert again.port == node.port


# -- embedding


async def test_nodes_live_side_by_side_in_one_program(tmp_path: Path) -> None:
    async with local_node(tmp_path / "a") as one, local_node(tmp_path / "b") as two:
        async with Peer(one.port) as to_one, Peer(two.port) as to_two:
            await Broker().register(to_one)
            assert (await to_one.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
            assert (await to_two.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST
        assert re.fullmatch(r"127\.0\.0\.1:\d+", one.address)


async def test_leaving_the_block_closes_port_and_connections(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node:
        port = node.port
        peer = Peer(port)
        await peer.__aenter__()
        assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST

    assert await peer.hung_up() == b""
    await peer.close()
    with pytest.raises(ConnectionRefusedError):
        await Peer(port).__aenter__()


async def test_an_embedded_node_says_why_it_cannot_start(tmp_path: Path, taken_port: int) -> None:
    with pytest.raises(SettingsError, match="is in use"):
        async with local_node(tmp_path, listen_port=taken_port):
            pass
