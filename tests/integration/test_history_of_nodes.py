"""``routebook history -n``: the latest records of running nodes."""

import json
from pathlib import Path

from click.testing import CliRunner

from routebook.cli.main import cli
from routebook.testing import Workbench


def ask(*words: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(cli, ["history", *words])
    return ran.exit_code, ran.stdout, ran.stderr


def test_running_nodes_tell_what_happened(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        broker = bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
        broker.kill()
        code, told, _ = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 0
        assert told.count("broker-a (") >= 1
        assert told.count("left: its connection was closed by the peer; it had 1 topic.") == 2
        code, told, _ = ask("topic", "orders", "--json", "-n", nodes[0].address)
        assert code == 0
        assert json.loads(told)["topic"] == "orders"
        code, _, said = ask("explain", "nobody", "-n", nodes.addresses)
        assert code == 1
        assert "nothing about nobody is known" in said


def test_a_node_that_cannot_be_asked_is_said_so(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        bench.broker("broker-a", topics=["orders"], nameservers=nodes[0].address)
        nodes[1].stop()
        code, told, said = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 0
        assert "broker-a" in told
        assert f"Warning: {nodes[1].address}: cannot connect" in said
        nodes[0].stop()
        code, _, said = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 3
        assert nodes[0].address in said


def test_folders_and_nodes_are_not_asked_together(tmp_path: Path) -> None:
    code, _, said = ask("explain", "x", "-n", "127.0.0.1:1", "--journal", str(tmp_path))
    assert code == 2
    assert "--journal or -n, not both" in said
