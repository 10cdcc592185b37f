"""Every file of examples/ does what it says; those of Spark are run in tests/spark.

The types of these files are checked with all others; here are those of what the documents show.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.testing import LocalNodes, Workbench
from support.misbehaving import unused_port

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OF_SPARK = {"notebook.py", "spark.py"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path) as bench:
        yield bench


@pytest.fixture
def nodes(bench: Workbench) -> LocalNodes:
    return bench.nodes(2)


def start(name: str, *args: str, nameservers: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, EXAMPLES / name, *args],
        env={**os.environ, "NAMESRV_ADDR": nameservers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(name: str, *args: str, nameservers: str = "") -> str:
    with start(name, *args, nameservers=nameservers) as program:
        output, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    return output


def test_the_client_shows_a_route_and_whether_nodes_agree(
    bench: Workbench, nodes: LocalNodes
) -> None:
    broker = bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
    shown = run("client.py", "orders", nameservers=nodes.addresses).splitlines()
    assert shown[0] == f"broker-a at {broker.addr}: 8 queues to send to"
    assert sorted(shown[1:]) == sorted(f"{node.address}: the same" for node in nodes)


def test_the_client_says_that_there_is_no_such_topic(nodes: LocalNodes) -> None:
    with start("client.py", "orders", nameservers=nodes.addresses) as program:
        output, errors = program.communicate(timeout=60)
    assert (program.returncode, output) == (1, "")
    assert errors.startswith("no broker holds it: ")


def test_the_script_lists_topics_and_keeps_a_value(bench: Workbench, nodes: LocalNodes) -> None:
    bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
    shown = run("script.py", nodes[0].address)
    assert "orders on broker-a\n" in shown
    assert shown.endswith("deployed: 1.4.2\n")


def test_the_cache_chooses_another_broker_when_one_fails(
    bench: Workbench, nodes: LocalNodes
) -> None:
    dead = f"127.0.0.1:{unused_port()}"
    nameservers = nodes.addresses
    bench.broker("broker-a", topics=["orders"], nameservers=nameservers, addr=dead)
    alive = bench.broker("broker-b", topics=["orders"], nameservers=nameservers, listen=True)
    for _ in range(20):  # it begins with either
        shown = run("cache.py", "orders", nameservers=nameservers)
        assert "the route changed, orders: " in shown
        assert shown.endswith(f" of broker-b at {alive.addr}\n")
        if f"broker-a at {dead} failed: " in shown:
            return
    pytest.fail("the dead broker was never tried")


def test_the_agent_registers_a_service_until_it_ends(nodes: LocalNodes) -> None:
    clients = [node.client() for node in nodes]
    with start("agent.py", "127.0.0.1:8080", nameservers=nodes.addresses) as program:
        assert program.stdout is not None
        assert [program.stdout.readline().split(" ", 1)[1] for _ in nodes] == ["has it\n"] * 2
        for client in clients:
            group = client.route("orders").group("invoices")
            assert group is not None
            assert (group.cluster, group.master) == ("services", "127.0.0.1:8080")
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=60) == ("no NameServer lists it any more\n", "")
    assert [client.find_route("orders") for client in clients] == [None, None]


def test_a_node_is_embedded() -> None:
    shown = run("embedding.py").splitlines()
    assert shown[0].startswith("listening on 127.0.0.1:")
    assert shown[1:] == ["orders is on 127.0.0.1:10911", "brokers: 1"]


def test_the_tests_of_the_example_pass() -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            EXAMPLES / "test_orders.py",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout


def test_every_example_is_run_and_has_its_row() -> None:
    here = Path(__file__).read_text()
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert {name for name in names - OF_SPARK if f'"{name}"' not in here} == set()
    table = (EXAMPLES / "README.md").read_text()
    assert {name for name in names if f"| [{name}]({name}) |" not in table} == set()


def test_what_the_documents_show_is_typed_as_strictly_as_the_code(tmp_path: Path) -> None:
    files = []
    for document in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        blocks = re.findall(r"```python(?: by .*?)?\n(.*?)```", document.read_text(), re.DOTALL)
        for number, code in enumerate(blocks):
            files.append(tmp_path / f"{document.parent.name}_{document.stem}_{number}.py")
            files[-1].write_text(code)
    assert len(files) > 10
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
