"""``routebook doctor`` on real nodes: silent when all is well, and what it finds when not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from routebook.agent import Topic
from routebook.audit.doctor import NAMES
from routebook.cli.main import cli
from routebook.testing import LocalNodes, Workbench
from support import raw
from support.brokers import Broker
from support.fleet import Fleet
from support.health import hold
from support.raw import BlockingPeer

# A host of its own, as far as the doctor can see, and one that this machine answers for.
HOST = "127.0.0.2:0"
TOPICS = ["orders", "payments"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path) as bench:
        yield bench


@pytest.fixture
def nodes(bench: Workbench) -> LocalNodes:
    """Two nodes and two brokers that nothing is wrong with."""
    nodes = bench.nodes(2)
    for name in ("broker-a", "broker-b"):
        system = [Topic(name, perm=7), Topic("%RETRY%readers", read_queues=1, write_queues=1)]
        bench.broker(
            name, nameservers=nodes.addresses, topics=[*TOPICS, *system], addr=HOST, listen=True
        )
    return nodes


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ("doctor", *words))


def findings(nodes: LocalNodes, *more: str) -> list[dict[str, Any]]:
    result = run("-n", nodes.addresses, "--json", "--settle", "0", "--fail-on", "never", *more)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def told(nodes: LocalNodes, *more: str) -> list[tuple[str, str, str]]:
    return [(f["severity"], f["check"], f["subject"]) for f in findings(nodes, *more)]


def test_nothing_is_found_in_a_healthy_cluster(nodes: LocalNodes) -> None:
    result = run("-n", nodes.addresses, "--fail-on", "info")
    assert result.output == "2 nodes, 2 brokers, 5 topics: nothing wrong\n"
    assert result.exit_code == 0


def test_a_finding_has_severity_evidence_and_remedy(nodes: LocalNodes) -> None:
    nodes[0].client().wipe_write_permission("broker-a")
    nodes[1].client().wipe_write_permission("broker-a")
    result = run("-n", nodes.addresses)
    first, second = sorted(node.address for node in nodes)
    assert result.stdout == (
        "warning broker broker-a [drained-broker]\n"
        f"    2 topics, none of them writable there, says {first}\n"
        f"    2 topics, none of them writable there, says {second}\n"
        "    Remedy: If the drain is over, stop the broker; else `routebook undrain broker-a`,"
        " and set its brokerPermission to 6.\n"
        "\n"
        "2 nodes, 2 brokers, 5 topics: 1 warning\n"
    )


@pytest.mark.parametrize(
    ("fail_on", "exit_code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)]
)
def test_the_exit_code_says_whether_a_finding_was_bad_enough(
    nodes: LocalNodes, fail_on: str, exit_code: int
) -> None:
    for node in nodes:
        node.client().wipe_write_permission("broker-a")
    result = run("-n", nodes.addresses, "--fail-on", fail_on)
    assert result.exit_code == exit_code
    assert result.stderr == ("Error: 1 warning found\n" if exit_code else "")


def test_an_error_fails_unless_told_otherwise(bench: Workbench, nodes: LocalNodes) -> None:
    bench.broker("broker-c", nameservers=nodes.addresses, topics=TOPICS, addr="127.0.0.2:1")
    result = run("-n", nodes.addresses)
    assert result.exit_code == 1
    assert "error broker broker-c (DefaultCluster) [unreachable]\n" in result.stdout
    assert "    id 0 at 127.0.0.2:1: connection refused\n" in result.stdout


def test_nobody_is_connected_to_without_probing(bench: Workbench, nodes: LocalNodes) -> None:
    bench.broker("broker-c", nameservers=nodes.addresses, topics=TOPICS, addr="127.0.0.2:1")
    assert told(nodes) == [("error", "unreachable", "broker broker-c (DefaultCluster)")]
    assert told(nodes, "--no-probe") == []


def test_a_broker_on_one_node_only_that_cannot_be_reached_looks_like_a_ghost(
    bench: Workbench, nodes: LocalNodes
) -> None:
    bench.broker("broker-c", nameservers=nodes[0].address, topics=TOPICS, addr="127.0.0.2:1")
    unreachable, partly = findings(nodes)
    assert unreachable["check"] == "unreachable"
    assert (partly["check"], partly["severity"]) == ("not-on-all-nodes", "warning")
    assert "no address of it takes a connection: it looks like a ghost" in partly["evidence"]
    assert "2 topics affected" in partly["evidence"]


def test_a_difference_that_passes_is_not_found(bench: Workbench, nodes: LocalNodes) -> None:
    nodes[0].client().wipe_write_permission("broker-a")
    assert ("warning", "nodes-disagree", "all nodes") in told(nodes)
    lasting = told(nodes, "--settle", "0.001")
    assert ("warning", "nodes-disagree", "all nodes") in lasting
    nodes[0].client().add_write_permission("broker-a")
    assert told(nodes) == []


def test_one_name_in_two_clusters_is_found_though_the_table_hides_it(
    bench: Workbench, nodes: LocalNodes
) -> None:
    bench.broker(
        "broker-a", nameservers=nodes.addresses, topics=TOPICS, addr=HOST, listen=True, cluster="c2"
    )
    (found,) = findings(nodes)
    assert (found["check"], found["subject"]) == ("name-in-two-clusters", "broker broker-a")
    addresses = [line for line in found["evidence"] if " at 127.0.0.2:" in line]
    assert len(addresses) == 2


def test_one_address_under_two_names_is_found_across_nodes(
    bench: Workbench, nodes: LocalNodes
) -> None:
    addr = "127.0.0.2:1"
    bench.broker("old", nameservers=nodes[0].address, topics=TOPICS, addr=addr)
    bench.broker("new", nameservers=nodes[1].address, topics=TOPICS, addr=addr)
    assert told(nodes, "--no-probe") == [
        ("error", "one-address-two-identities", f"address {addr}"),
        ("warning", "not-on-all-nodes", "broker new"),
        ("warning", "not-on-all-nodes", "broker old"),
    ]


@pytest.mark.parametrize(
    ("acting", "severity"), [(False, "error"), (True, "warning")], ids=["gone", "acting"]
)
def test_a_group_without_master_is_found(bench: Workbench, acting: bool, severity: str) -> None:
    nodes = bench.nodes(2, support_acting_master=acting)
    bench.broker("broker-a", nameservers=nodes.addresses, topics=TOPICS, addr=HOST, listen=True)
    bench.broker(
        "broker-b",
        nameservers=nodes.addresses,
        topics=["invoices", *TOPICS],
        addr=HOST,
        listen=True,
        broker_id=1,
        acting_master=acting,
    )
    found = findings(nodes)
    assert [(f["severity"], f["check"]) for f in found] == [
        (severity, "no-master"),
        ("info", "single-broker-topics"),
    ]
    assert "no broker takes messages for 1 topic: invoices" in found[0]["evidence"]


def test_topics_nobody_can_write_or_read_in_full_are_found(
    bench: Workbench, nodes: LocalNodes
) -> None:
    odd = {
        "closed": Topic("closed", perm=4),
        "shy": Topic("shy", perm=2),
        "half": Topic("half", read_queues=2, write_queues=8),
        "empty": Topic("empty", read_queues=0, write_queues=0),
    }
    for name, sizes in (("broker-c", 16), ("broker-d", 4)):
        skewed = Topic("skewed", read_queues=sizes, write_queues=sizes)
        bench.broker(
            name,
            nameservers=nodes.addresses,
            topics=[*odd.values(), skewed],
            addr=HOST,
            listen=True,
        )
    assert told(nodes) == [
        ("error", "unread-queues", "topic half"),
        ("warning", "topics-without-queues", "topic empty"),
        ("warning", "write-only-topics", "topic shy"),
        ("warning", "skewed-queues", "topic skewed"),
        ("info", "deliberate-read-only-topics", "topic closed"),
    ]


def test_a_thousand_topics_on_one_broker_are_one_finding(
    bench: Workbench, nodes: LocalNodes
) -> None:
    topics = [f"topic-{number:04}" for number in range(1000)]
    bench.broker("broker-c", nameservers=nodes.addresses, topics=topics, addr=HOST, listen=True)
    assert told(nodes) == [("info", "single-broker-topics", "1000 topics")]


def test_a_node_on_the_host_of_a_broker_and_the_only_node_are_found(bench: Workbench) -> None:
    nodes = bench.nodes(1)
    for name in ("broker-a", "broker-b"):
        bench.broker(name, nameservers=nodes.addresses, topics=TOPICS, listen=True)
    node = f"node {nodes[0].address}"
    assert told(nodes) == [
        ("warning", "node-on-broker-host", node),
        ("info", "single-nameserver", node),
    ]


def test_a_node_that_is_down_is_an_error_and_the_others_are_examined(nodes: LocalNodes) -> None:
    nodes[1].stop()
    assert told(nodes) == [("error", "node-unreachable", f"node {nodes[1].address}")]


def test_no_node_at_all_ends_with_3_whatever_was_asked_for(nodes: LocalNodes) -> None:
    for node in nodes:
        node.stop()
    result = run("-n", nodes.addresses, "--fail-on", "never")
    assert result.exit_code == 3
    assert result.stdout.count("[node-unreachable]") == 2


def test_names_and_addresses_from_the_network_cannot_move_the_cursor(nodes: LocalNodes) -> None:
    evil = Broker("evil\x1b[2J", addr="1.2.3.4\x1b[1A:\n1")
    with BlockingPeer(nodes[0].port) as peer:
        peer.send(evil.registration(["t\x1b[1A\nu", "v"]))
        assert peer.read().code == raw.SUCCESS
        result = run("-n", nodes.addresses, "--settle", "0")
    assert result.exit_code == 1
    assert "[malformed-address]" in result.stdout
    assert "\x1b" not in result.output


# -- what nodes say of themselves, and what is left out


def test_no_broker_at_all_is_an_error(bench: Workbench) -> None:
    nodes = bench.nodes(2)
    result = run("-n", nodes.addresses)
    assert result.exit_code == 1
    assert "error all nodes [no-brokers]\n" in result.stdout


def test_a_guard_that_holds_all_brokers_is_an_error(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1) as fleet:
        hold(fleet, on=fleet.ports)

        ran = fleet.run("doctor", "--no-probe")

    assert ran.exit_code == 1
    assert "[guard-holds-brokers]" in ran.stdout
    assert "12 of 12 brokers are silent past their time and still in its routes" in ran.stdout


def test_brokers_that_did_not_come_back_after_a_restart_are_told(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1) as fleet:
        fleet.register(Broker(), TOPICS)
        fleet.restart(fleet.ports[0])

        ran = fleet.run("doctor", "--no-probe", "--fail-on", "warning", "--json")

    assert ran.exit_code == 1
    (found,) = (f for f in ran.document["findings"] if f["check"] == "unconfirmed-brokers")
    assert found["severity"] == "warning"


def test_findings_are_ignored_by_name_and_that_is_said(nodes: LocalNodes) -> None:
    for node in nodes:
        node.client().wipe_write_permission("broker-a")
    words = ["-n", nodes.addresses, "--fail-on", "warning"]
    result = run(*words, "--ignore", "drained-broker", "--ignore", "no-master")
    assert (result.exit_code, result.stdout) == (
        0,
        "2 nodes, 2 brokers, 5 topics: nothing wrong; ignored: 1 drained-broker\n",
    )
    document = json.loads(run(*words, "--ignore", "drained-broker", "--json").stdout)
    assert (document["findings"], document["ignored"]) == ([], {"drained-broker": 1})


def test_a_name_that_no_finding_has_is_wrong_usage(nodes: LocalNodes) -> None:
    result = run("-n", nodes.addresses, "--ignore", "draind-broker")
    assert result.exit_code == 2
    assert "draind-broker" in result.stderr
    assert set(NAMES) <= {line.strip() for line in run("--help").stdout.splitlines()}


def test_a_topic_that_its_brokers_registered_read_only_is_no_error(
    bench: Workbench, nodes: LocalNodes
) -> None:
    for name in ("broker-c", "broker-d"):
        archive = [Topic("archive", perm=4), Topic("orders")]
        bench.broker(name, nameservers=nodes.addresses, topics=archive, addr=HOST, listen=True)
    assert run("-n", nodes.addresses, "--fail-on", "warning").exit_code == 0
    assert told(nodes) == [("info", "deliberate-read-only-topics", "topic archive")]
