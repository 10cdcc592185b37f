"""The fixtures, in a pytest of their own and, where that does not matter, in this one."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.agent import Topic
from routebook.client import NameServerClient, NameServerError
from routebook.testing import NotRegistered, Workbench
from support.leaks import open_sockets
from support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]

# Without the plugins of this environment, so that what passes needs none of them.
PYTEST = [sys.executable, "-m", "pytest", "-p", "routebook.pytest_plugin", "-W", "error", "-q"]


def pytest_process(folder: Path, *args: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PYTEST, "-p", "no:cacheprovider", *args],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output_of(process: "subprocess.Popen[str]") -> str:
    with process:
        return process.communicate(timeout=60)[0]


def run_pytest(folder: Path, source: str, *args: str, **environment: str) -> str:
    (folder / "test_example.py").write_text(source)
    return output_of(pytest_process(folder, *args, **environment))


def example() -> str:
    text = (ROOT / "docs" / "testing.md").read_text()
    [block] = re.findall(r"```python by \S+\n(.*?)```", text, re.DOTALL)
    return str(block)


# -- in a pytest of their own


def test_the_example_of_the_documentation_passes(tmp_path: Path) -> None:
    assert "3 passed" in run_pytest(tmp_path, example())


def test_sessions_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(example())
    processes = [pytest_process(tmp_path, f"--basetemp={tmp_path / name}") for name in "ab"]
    for process in processes:
        assert "3 passed" in output_of(process)


def test_a_project_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    source = """
import sys

def test_nothing_is_loaded():
    ours = {name for name in sys.modules if name.startswith("routebook")}
    package = {"routebook", "routebook.lazy", "routebook.version"}
    assert ours == {*package, "routebook.pytest_plugin"}
"""
    assert "1 passed" in run_pytest(tmp_path, source)


def test_fixtures_serve_coroutines_and_plain_functions_and_end_with_the_test(
    tmp_path: Path,
) -> None:
    source = """
import asyncio
import socket
from routebook.client import NameServerClient

used = []

def test_in_a_coroutine(routebook_node, routebook_brokers):
    async def body():
        broker = routebook_brokers(topics=["t"], nameservers=routebook_node.address)
        async with NameServerClient(routebook_node.address) as client:
            assert await client.topics() == ("t",)
            broker.kill()
            assert await client.cluster_view() is not None
            assert await client.find_route("t") is None
    asyncio.run(body())
    used.append(routebook_node.port)

def test_the_next_one_has_a_node_of_its_own(routebook_node):
    assert routebook_node.client().topics() == ()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", used[0])) != 0 or used[0] == routebook_node.port

def test_the_session_node_is_shared(routebook_session_node):
    routebook_session_node.client().put_kv("n", "k", "v")

def test_with_all_others(routebook_session_node):
    assert routebook_session_node.client().find_kv("n", "k") == "v"

def test_all_nodes_of_a_factory_differ(routebook_nodes):
    nodes = routebook_nodes(2) + routebook_nodes(1, need_wait_for_service=True)
    assert len({node.address for node in nodes}) == 3
    assert nodes[2].client().config()["needWaitForService"] == "true"
"""
    assert "5 passed" in run_pytest(tmp_path, source)


def test_the_environment_is_neither_read_nor_changed(tmp_path: Path) -> None:
    source = """
import os

def test_it(routebook_node, routebook_brokers):
    routebook_brokers(topics=["t"], nameservers=routebook_node.address)
    assert routebook_node.client().topics() == ("t",)
    assert os.environ["NAMESRV_ADDR"] == "nobody.invalid:1"
"""
    assert "1 passed" in run_pytest(tmp_path, source, NAMESRV_ADDR="nobody.invalid:1")


def test_a_failing_test_still_ends_everything(tmp_path: Path) -> None:
    source = """
import threading

def test_that_fails(routebook_nodes, routebook_brokers):
    nodes = routebook_nodes(2)
    nodes[1].stop()
    routebook_brokers(topics=["t"], nameservers=nodes.addresses)
    assert False, "on purpose"
"""
    output = run_pytest(tmp_path, source)
    assert "1 failed" in output
    assert "on purpose" in output
    assert "error" not in output.lower().replace("assertionerror", "")


def test_the_package_declares_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"routebook": "routebook.pytest_plugin"}


# -- what the fixtures hand out


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path) as bench:
        yield bench


def test_a_node_comes_back_on_its_port_with_its_pairs_and_without_its_routes(
    bench: Workbench,
) -> None:
    node = bench.nodes(1)[0]
    broker = bench.broker(topics=["t"], nameservers=node.address)
    client = node.client()
    client.put_kv("n", "k", "v")
    address = node.address
    broker.kill()

    node.stop()
    assert not node.running
    with pytest.raises(NameServerError):
        client.topics(timeout_s=0.2)
    node.start()

    assert node.address == address
    assert client.find_kv("n", "k") == "v"
    assert client.topics() == ()
    broker.start()
    assert client.topics() == ("t",)


def test_a_broker_finds_back_to_a_node_that_was_down(bench: Workbench) -> None:
    nodes = bench.nodes(2)
    nodes[1].stop()
    bench.broker(topics=["t"], nameservers=nodes.addresses)
    assert nodes[0].client().topics() == ("t",)

    nodes[1].start()
    wait_for("the registration", lambda: nodes[1].client().topics() == ("t",))


def test_a_killed_broker_is_gone_from_all_nodes_when_the_call_returns(bench: Workbench) -> None:
    nodes = bench.nodes(3)
    clients = [node.client() for node in nodes]
    broker = bench.broker(topics=["t"], nameservers=nodes.addresses)
    for _ in range(5):
        broker.kill()
        assert [client.find_route("t") for client in clients] == [None, None, None]
        broker.start()
        assert all(client.find_route("t") for client in clients)


def test_topics_and_permissions_are_known_when_the_call_returns(bench: Workbench) -> None:
    node = bench.nodes(1)[0]
    client = node.client()
    broker = bench.broker("b", topics=["t"], nameservers=node.address, cluster="c")

    broker.put_topic(Topic("u", read_queues=2, write_queues=1))
    [queues] = client.route("u").queues
    assert (queues.read_queues, queues.write_queues, queues.perm) == (2, 1, 6)
    broker.set_permission(4)
    assert [q.perm for topic in "tu" for q in client.route(topic).queues] == [4, 4]
    broker.remove_topic("u")
    assert [q.perm for q in client.route("u").queues] == [0]
    broker.leave()
    assert client.topics() == ()
    assert client.cluster_view().clusters == {}


def test_a_hanging_broker_stays_listed_until_its_time_is_over(bench: Workbench) -> None:
    node = bench.nodes(1)[0]
    client = node.client()
    patient = bench.broker("patient", topics=["t"], nameservers=node.address)
    hasty = bench.broker("hasty", topics=["u"], nameservers=node.address, heartbeat_timeout_ms=100)
    patient.hang()
    hasty.hang()

    wait_for("the hasty one to be dropped", lambda: client.find_route("u") is None)
    assert client.find_route("t") is not None


def test_brokers_have_addresses_of_their_own(bench: Workbench) -> None:
    node = bench.nodes(1)[0]
    brokers = [bench.broker(f"b{i}", nameservers=node.address) for i in range(3)]
    slave = bench.broker("b0", nameservers=node.address, broker_id=1)
    listening = bench.broker("open", nameservers=node.address, listen=True)

    assert len({broker.addr for broker in [*brokers, slave, listening]}) == 5
    assert listening.addr.startswith("127.0.0.1:")
    group = node.client().broker_group("DefaultCluster", "b0")
    assert group is not None
    assert group.addrs == {0: brokers[0].addr, 1: slave.addr}


def test_a_broker_that_no_node_takes_is_an_error_that_says_why(bench: Workbench) -> None:
    with pytest.raises(NotRegistered, match=r"broker-a: 127\.0\.0\.1:1: connection refused"):
        bench.broker(nameservers="127.0.0.1:1")


def test_nodes_answer_coroutines_of_the_test_while_it_blocks_on_them(bench: Workbench) -> None:
    nodes = bench.nodes(2)

    async def body() -> tuple[str, ...]:
        async with NameServerClient(nodes.addresses) as client:
            broker = bench.broker(topics=["t"], nameservers=nodes.addresses)
            before = await client.topics()
            nodes[0].stop()
            nodes[1].stop()
            nodes[1].start()
            broker.start()
            assert await client.topics() == before
            return before

    assert asyncio.run(body()) == ("t",)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    threads, sockets = threading.active_count(), open_sockets()
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        bench.broker(topics=["t"], nameservers=nodes.addresses, listen=True)
        bench.broker("hung", topics=["t"], nameservers=nodes.addresses).hang()
        nodes[0].client().topics()
    # Those of an earlier test may still have been there when they were counted.
    wait_for("threads to end", lambda: threading.active_count() <= threads)
    assert open_sockets() == sockets
