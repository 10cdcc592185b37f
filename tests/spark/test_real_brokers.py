"""From real brokers to gold: what became of them is what the tables tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop.support.brokers import Broker
from interop.support.cluster import create_topic
from interop.support.launcher import Launcher
from interop.support.peers import NEW, OLD
from interop.support.remoting import broker_addrs
from interop.support.servers import NameServerProcess
from interop.support.waiting import wait_for
from routebook.events import BrokerConfirmed
from routebook.journal.reader import read
from routebook.journal.record import Record
from routebook_spark.commands.main import spark as command
from routebook_spark.questions import Routebook
from routebook_spark.tables import Lake
from support.asofanswers import answered, asked_frame, topics_of
from support.asofreference import known_at, sampled

SAMPLES = 200
TOPIC = "orders"
NODES = ("ns-1", "ns-2")


@dataclass(frozen=True, slots=True)
class World:
    records: Mapping[str, Sequence[Record]]
    book: Routebook
    report: Path


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Two nodes: a broker of each release, one of them killed, the other stopped in order.

    The first node is killed between, and remembers.
    """
    launcher = Launcher(tmp_path_factory.mktemp("real"))
    try:
        nodes = [launcher.node({"nodeId": name}) for name in NODES]
        addresses = ";".join(node.address for node in nodes)
        settings = {"registerNameServerPeriod": "10000"}
        admin = launcher.admin()
        new, old = (
            launcher.broker(version, addresses, settings=settings, registered=False)
            for version in (NEW, OLD)
        )
        for broker in (new, old):
            _wait(nodes, broker, listed=True)
        create_topic(admin, nodes[0].address, new, TOPIC)
        create_topic(admin, nodes[0].address, old, TOPIC)
        nodes[0].restart(killed=True)
        wait_for("both brokers", lambda: _confirmed(nodes[0]), until=bool, timeout_s=60)
        old.kill()
        _wait(nodes, old, listed=False)
        new.terminate()
        _wait(nodes, new, listed=False)
        for node in nodes:
            assert node.stop() == 0
        yield {name: _journal(node) for name, node in zip(NODES, nodes, strict=True)}
    finally:
        launcher.close()


def _journal(node: NameServerProcess) -> Path:
    return node.folder / "data" / "journal"


def _confirmed(node: NameServerProcess) -> bool:
    return sum(isinstance(each.event, BrokerConfirmed) for each in read(_journal(node))) == 2


def _wait(nodes: Sequence[NameServerProcess], broker: Broker, *, listed: bool) -> None:
    for node in nodes:
        wait_for(
            f"{broker.name} at {node.address}",
            lambda node=node: broker_addrs(node.address, broker.name),  # type: ignore[misc]
            until=lambda addrs: bool(addrs) is listed,
            timeout_s=60,
        )


@pytest.fixture(scope="module")
def world(
    spark: SparkSession, journals: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> World:
    home = tmp_path_factory.mktemp("tables")
    where = ["--tables", str(home / "tables")]
    _run("ingest", *map(str, journals.values()), *where)
    _run("build", *where)
    _run("report", *where, "--out", str(home / "report.html"))
    records = {name: list(read(folder)) for name, folder in journals.items()}
    return World(records, Routebook(Lake(spark, str(home / "tables"))), home / "report.html")


def _run(*arguments: str) -> None:
    command.main(arguments, standalone_mode=False)


def rows(world: World, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in world.book.table(table).select(*columns).collect())


def test_every_record_of_the_nodes_is_an_event(world: World) -> None:
    written = sorted(
        (node, each.seq) for node, records in world.records.items() for each in records
    )
    assert rows(world, "events", "node", "seq") == written
    assert rows(world, "quarantine", "reason") == []
    assert rows(world, "gaps", "node", "kind") == [("ns-1", "killed")]


def test_brokers_went_for_the_reasons_they_had(world: World) -> None:
    causes = {
        (node, broker): cause
        for node, broker, cause in rows(world, "broker_sessions", "node", "broker", "cause")
    }
    assert causes == {
        (node, broker): cause
        for node in NODES
        for broker, cause in (
            (f"broker-{NEW}", "unregister"),
            (f"broker-{OLD}", "connection_closed"),
        )
    }


def test_sessions_go_on_while_their_node_is_killed_and_back(world: World) -> None:
    sessions = rows(world, "broker_sessions", "node", "broker", "restarts")
    assert sessions == [
        (node, f"broker-{version}", int(node == "ns-1")) for node in NODES for version in (OLD, NEW)
    ]
    assert len(rows(world, "suspect_times", "node", "kind")) == 2


def test_routes_at_any_time_are_those_of_the_replayed_tables(
    spark: SparkSession, world: World
) -> None:
    asked = sampled(world.records, topics_of(world.records), count=SAMPLES, seed=1)
    found = answered(world.book.routes_at(asked_frame(spark, asked)).collect())
    expected = {
        (node, *pair): known
        for node, records in world.records.items()
        for pair, known in known_at(records, asked).items()
    }
    assert found == expected
    assert any(known.told == "route" for known in expected.values())


def test_the_kill_of_a_broker_is_in_gold_and_in_the_report(world: World) -> None:
    exposed = rows(world, "stale_exposure", "broker", "node", "cause")
    assert [row for row in exposed if row[2] == "connection_closed"] == [
        (f"broker-{OLD}", node, "connection_closed") for node in NODES
    ]
    left = [
        (broker, nodes)
        for kind, broker, nodes in rows(world, "convergence", "kind", "broker", "nodes")
        if kind == "broker_left"
    ]
    assert left == [(f"broker-{OLD}", 2), (f"broker-{NEW}", 2)]
    page = world.report.read_text()
    assert f"broker-{OLD}" in page
