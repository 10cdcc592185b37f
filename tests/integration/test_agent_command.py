"""``routebook agent``: a process that keeps services registered, and is told things by signals."""

import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from routebook import __version__
from routebook.agent.config import load
from routebook.agent.settings import SETTING_NAMES, BrokerSettings
from routebook.client import TopicRoute
from routebook.client.sync import SyncNameServerClient
from routebook.testing import LocalNode, Workbench
from support.certificates import authority, identity
from support.nodes import NodeProcess
from support.programs import Program
from support.waiting import wait_for

READY = "agent ready"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path / "nodes") as bench:
        yield bench


@pytest.fixture
def node(bench: Workbench) -> LocalNode:
    return bench.nodes(1)[0]


def broker_text(
    name: str = "orders-service",
    *,
    addr: str = "10.0.0.5:8080",
    topics: str = '{name = "orders"}',
    more: str = "",
) -> str:
    return f'[[broker]]\nname = "{name}"\naddr = "{addr}"\ntopics = [{topics}]\n{more}\n'


class AgentFile:
    """A brokers.toml that is written again and again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "brokers.toml"

    def write(self, nameservers: str | None, *brokers: str) -> None:
        head = "" if nameservers is None else f'nameservers = "{nameservers}"\n'
        self.path.write_text(head + "\n".join(brokers or [broker_text()]))


@pytest.fixture
def file(tmp_path: Path) -> AgentFile:
    return AgentFile(tmp_path)


def agent(file: AgentFile, *options: str | Path, **environment: str) -> Program:
    return Program(
        file.path.parent / "agent",
        *("agent", "--config", file.path, *options),
        ready=READY,
        environment=environment,
    )


def reload(program: Program) -> None:
    """Have the file read again, and wait until that is done."""
    done = program.stderr.count("is in effect")
    program.signal(signal.SIGHUP)
    wait_for(
        "the file to be in effect",
        lambda: program.stderr,
        until=lambda text: text.count("is in effect") > done,
    )


def perms(client: SyncNameServerClient, topic: str) -> list[int]:
    route: TopicRoute | None = client.find_route(topic)
    return [] if route is None else [queues.perm for queues in route.queues]


# -- starting and leaving


def test_it_registers_says_so_and_unregisters_when_it_is_told_to_stop(
    tmp_path: Path, file: AgentFile
) -> None:
    with NodeProcess(tmp_path / "node") as node:
        file.write(f"127.0.0.1:{node.port}")
        with agent(file) as program, SyncNameServerClient(f"127.0.0.1:{node.port}") as client:
            assert program.stdout.splitlines() == [
                f"routebook {__version__} agent ready (brokers: 1, nodes: 1, registered: 1 of 1)"
            ]
            group = client.route("orders").group("orders-service")
            assert group is not None
            assert group.master == "10.0.0.5:8080"
            assert program.stop() == 0
            assert client.find_route("orders") is None
        [left] = node.lines_with("BrokerLeft")
    assert '"cause":"unregister"' in left
    assert program.stdout.splitlines()[1:] == ["leaving", "stopped"]
    assert "unregistered from 1 of 1 nodes" in program.stderr


def test_it_takes_write_permission_away_before_it_leaves_and_a_second_signal_ends_the_wait(
    file: AgentFile, node: LocalNode
) -> None:
    file.write(node.address)
    with agent(file, "--leave-wait", "3600") as program:
        client = node.client()
        assert perms(client, "orders") == [6]
        program.signal(signal.SIGTERM)
        wait_for("the topic to be read-only", lambda: perms(client, "orders") == [4])
        program.signal(signal.SIGTERM)
        assert program.ended() == 1


def test_it_waits_as_long_as_it_is_told_and_then_leaves(file: AgentFile, node: LocalNode) -> None:
    file.write(node.address)
    with agent(file, "--leave-wait", "0.2") as program:
        assert program.stop() == 0
    assert node.client().topics() == ()
    off, left = (
        program.stderr.index(text) for text in ("write permission is off", "unregistered from")
    )
    assert off < left


def test_it_starts_while_nodes_are_down_and_finds_them_when_they_come(
    file: AgentFile, bench: Workbench
) -> None:
    nodes = bench.nodes(2)
    for node in nodes:
        node.stop()
    file.write(nodes.addresses)
    with agent(file) as program:
        assert "registered: 0 of 2" in program.stdout
        nodes[0].start()
        client = nodes[0].client()
        wait_for("the registration", lambda: perms(client, "orders") == [6])
        assert program.stop() == 0
        assert client.topics() == ()


def test_a_stop_while_it_starts_is_heard(file: AgentFile) -> None:
    # A node that accepts and never answers would keep it starting for 24 seconds.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file.write(f"127.0.0.1:{silent.getsockname()[1]}")
        program = agent(file)
        program.launch()
        accepted, _ = silent.accept()
        with accepted:
            program.signal(signal.SIGTERM)
            assert program.ended() == 0
    assert READY not in program.stdout


# -- what nodes do meanwhile


def test_losses_and_returns_are_logged_for_each_node(file: AgentFile, bench: Workbench) -> None:
    nodes = bench.nodes(2)
    file.write(nodes.addresses)
    with agent(file) as program:
        for node in nodes:
            program.wait_for_log(f"orders-service: registered with {node.address}")
        nodes[1].stop()
        program.wait_for_log(f"orders-service: lost at {nodes[1].address}")
        nodes[1].start()
        program.wait_for_log(f"orders-service: back at {nodes[1].address}")
        assert perms(nodes[1].client(), "orders") == [6]
        assert f"lost at {nodes[0].address}" not in program.stderr


def test_sigusr1_logs_how_things_stand(file: AgentFile, node: LocalNode) -> None:
    file.write(node.address)
    with agent(file) as program:
        program.signal(signal.SIGUSR1)
        program.wait_for_log(f"status: orders-service at {node.address}: registered, version 0")


# -- the file changes


def test_topics_and_permissions_follow_the_file(file: AgentFile, node: LocalNode) -> None:
    file.write(node.address, broker_text(topics='{name = "a"}, {name = "b", read = 4}'))
    client = node.client()
    with agent(file) as program:
        file.write(node.address, broker_text(topics='{name = "b", read = 2}, {name = "c"}'))
        reload(program)
        assert perms(client, "a") == [0]
        assert [queues.read_queues for queues in client.route("b").queues] == [2]
        assert perms(client, "c") == [6]

        file.write(
            node.address,
            broker_text(topics='{name = "b", read = 2}, {name = "c"}', more='permission = "r"'),
        )
        reload(program)
        assert perms(client, "b") == perms(client, "c") == [4]


def test_brokers_come_and_go_with_the_file(file: AgentFile, node: LocalNode) -> None:
    file.write(node.address, broker_text("a", addr="10.0.0.1:1"))
    client = node.client()
    with agent(file) as program:
        file.write(
            node.address, broker_text("a", addr="10.0.0.1:1"), broker_text("b", addr="10.0.0.2:1")
        )
        reload(program)
        assert list(client.cluster_view().brokers) == ["a", "b"]

        file.write(node.address, broker_text("b", addr="10.0.0.2:1"))
        reload(program)
        assert list(client.cluster_view().brokers) == ["b"]
        assert "a: unregistered from 1 of 1 nodes" in program.stderr


def test_a_setting_that_needs_a_new_agent_takes_effect_without_a_gap(
    tmp_path: Path, file: AgentFile
) -> None:
    with NodeProcess(tmp_path / "node") as node:
        address = f"127.0.0.1:{node.port}"
        file.write(address)
        with agent(file) as program, SyncNameServerClient(address) as client:
            file.write(address, broker_text(more='zone = "z1"'))
            reload(program)
            assert client.cluster_view().brokers["orders-service"].zone == "z1"
            assert node.lines_with("BrokerLeft") == []


def test_a_broker_with_a_new_name_leaves_under_the_old_one(
    file: AgentFile, node: LocalNode
) -> None:
    file.write(node.address, broker_text("old"))
    with agent(file) as program:
        file.write(node.address, broker_text("new"))
        reload(program)
        assert list(node.client().cluster_view().brokers) == ["new"]
        assert program.stop() == 0
    assert node.client().cluster_view().brokers == {}


def test_nodes_come_and_go_with_the_file(file: AgentFile, bench: Workbench) -> None:
    nodes = bench.nodes(3)
    addresses = [node.address for node in nodes]
    file.write(";".join(addresses[:2]))
    with agent(file) as program:
        file.write(";".join(addresses[1:]))
        reload(program)
        assert [node.client().topics() for node in nodes] == [(), ("orders",), ("orders",)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[[broker", "is not TOML", id="no-toml"),
        pytest.param("[[broker]]\nname = 'x'\n", "addr is missing", id="incomplete"),
        pytest.param(None, "cannot be read", id="gone"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    file: AgentFile, node: LocalNode, text: str | None, complaint: str
) -> None:
    file.write(node.address)
    with agent(file) as program:
        if text is None:
            file.path.unlink()
        else:
            file.path.write_text(text)
        program.signal(signal.SIGHUP)
        program.wait_for_log("nothing has changed: ")
        assert complaint in program.stderr
        assert perms(node.client(), "orders") == [6]

        file.write(node.address, broker_text(topics='{name = "later"}'))
        reload(program)
        assert perms(node.client(), "later") == [6]


# -- options


def test_the_option_is_stronger_than_the_file_and_the_file_than_the_environment(
    file: AgentFile, bench: Workbench
) -> None:
    nodes = by_option, by_file, by_environment = bench.nodes(3)
    clients = [node.client() for node in nodes]
    variable = by_environment.address
    file.write(by_file.address)
    with agent(file, "-n", by_option.address, NAMESRV_ADDR=variable):
        assert [client.topics() for client in clients] == [("orders",), (), ()]
    wait_for("the killed agent to be noticed", lambda: clients[0].topics() == ())
    with agent(file, NAMESRV_ADDR=variable):
        assert [client.topics() for client in clients] == [(), ("orders",), ()]
    file.write(None)
    with agent(file, NAMESRV_ADDR=variable):
        assert by_environment.client().topics() == ("orders",)


def test_tls_of_the_file_and_of_options_is_used(tmp_path: Path, file: AgentFile) -> None:
    signer = authority(tmp_path, "ca")
    mine = identity(tmp_path, "node", signer)
    tls = ["--tls-server-mode", "enforcing", "--tls-server-cert-path", str(mine.cert)]
    with NodeProcess(tmp_path / "node", *tls, "--tls-server-key-path", mine.key) as node:
        address = f"127.0.0.1:{node.port}"
        file.path.write_text(
            f'nameservers = "{address}"\n[tls]\ntrust = "{signer.cert.name}"\n' + broker_text()
        )
        with agent(file) as program:
            assert "registered: 1 of 1" in program.stdout
        file.write(address)
        with agent(file, "--tls", "--tls-trust", signer.cert) as program:
            assert "registered: 1 of 1" in program.stdout


def test_check_tells_whether_a_file_is_right(file: AgentFile) -> None:
    file.write("127.0.0.1:1", broker_text(topics='{name = "a"}, {name = "b"}'))
    program = agent(file, "--check")
    assert program.run() == 0
    assert program.stdout == f"{file.path} is right (brokers: 1, topics: 2)\n"

    for text, complaint in [
        (broker_text(more="colour = 'red'"), "broker orders-service: nobody knows 'colour'"),
        ("[tls]\ntrust = 'nowhere.pem'\n" + broker_text(), "tls: the files cannot be used"),
    ]:
        file.path.write_text(text)
        program = agent(file, "--check")
        assert program.run() == 2
        [line] = program.stderr.splitlines()
        assert complaint in line


def test_without_any_nameserver_it_does_not_start(file: AgentFile) -> None:
    file.write(None)
    program = agent(file, ROCKETMQ_NAMESRV_DOMAIN="127.0.0.1:1")
    assert program.run() == 3
    assert "no NameServer is known" in program.stderr.splitlines()[-1]


# -- the documentation

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "agent.md").read_text()


def test_the_file_of_the_documentation_is_right(tmp_path: Path) -> None:
    [block] = re.findall(r"```toml.*?\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "brokers.toml").write_text(block)
    [broker] = load(tmp_path / "brokers.toml").brokers
    assert [(topic.name, topic.perm) for topic in broker.topics] == [
        ("orders", 6),
        ("order-history", 4),
    ]


def test_the_documentation_has_every_key_of_a_broker_with_its_default() -> None:
    table = DOCUMENT.split("### `[[broker]]`")[1].split("###")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert rows.keys() == {*SETTING_NAMES, "topics"}
    for field in fields(BrokerSettings):
        if isinstance(field.default, bool):
            assert rows[field.name] == str(field.default).lower()
        elif isinstance(field.default, int | float) and field.name != "permission":
            assert float(rows[field.name]) == field.default
