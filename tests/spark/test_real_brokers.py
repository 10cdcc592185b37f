"""From real brokers to gold: what became of them is what the tables tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop.support.peers import NEW, OLD
from routebook.journal.reader import read
from routebook.journal.record import Record
from routebook_spark.commands.main import spark as command
from routebook_spark.questions import Routebook
from routebook_spark.tables import Lake
from support.as_of_answers import answered, asked_frame, topics_of
from support.as_of_reference import known_at, sampled
from support.made_tables import InSteps
from support.real_and_generated import NODES, REAL

SAMPLES = 200


@dataclass(frozen=True, slots=True)
class World:
    records: Mapping[str, Sequence[Record]]
    book: Routebook
    report: Path


@pytest.fixture(scope="module")
def world(
    spark: SparkSession, in_steps: InSteps, tmp_path_factory: pytest.TempPathFactory
) -> World:
    report = tmp_path_factory.mktemp("report") / "report.html"
    where = ["--tables", str(in_steps.tables), "--fleet", REAL]
    command.main(["report", *where, "--out", str(report)], standalone_mode=False)
    records = {name: list(read(folder)) for name, folder in in_steps.journals.real.items()}
    return World(records, Routebook(Lake(spark, str(in_steps.tables))), report)


def rows(world: World, table: str, *columns: str) -> list[tuple[Any, ...]]:
    of_fleet = world.book.table(table).where(f"fleet = '{REAL}'")
    return sorted(tuple(row) for row in of_fleet.select(*columns).collect())


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
    found = answered(world.book.routes_at(asked_frame(spark, asked), fleet=REAL).collect())
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
