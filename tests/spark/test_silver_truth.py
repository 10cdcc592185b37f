"""Silver tells what nodes believed: after every record, whatever happened to node and journal."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook.journal.view import View
from routebook_spark.silver.build import silver_of
from support.silver_lakes import Row, in_order, plain
from support.silver_reference import Reference, believe, members, queues, unconfirmed
from support.spark_histories import events_frame, gaps_frame, histories, lost_spans, without

SAMPLES = 300


@dataclass(frozen=True, slots=True)
class Told:
    records: dict[str, list[Record]]
    tables: dict[str, list[Row]]
    references: dict[str, Reference]

    def of(self, table: str, node: str) -> list[Row]:
        return [row for row in self.tables[table] if row["node"] == node]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    """Two stories in one frame; of the second, segments are lost."""
    records: dict[str, list[Record]] = {}
    for seed, share in ((11, 0.0), (12, 0.15)):
        for number, (node, written) in enumerate(histories(seed).items()):
            spans = lost_spans(written, seed=seed + number, share=share)
            name = f"{seed}-{node}"
            records[name] = [replace(one, node=name) for one in without(written, spans)]
    silver = silver_of(events_frame(spark, records), gaps_frame(spark, records))
    tables = {
        name: plain(getattr(silver, name))
        for name in ("coverage", "sessions", "suspects", "versions")
    }
    references = {node: Reference(written) for node, written in records.items()}
    return Told(records, tables, references)


def _place(row: Row) -> tuple[Any, ...]:
    return row["cluster"], row["broker"], row["broker_id"], row["addr"]


def _route(row: Row) -> tuple[Any, ...]:
    shape = (row["read_queues"], row["write_queues"], row["perm"], row["flags"])
    said = row["registered"]
    return row["cluster"], row["broker"], row["topic"], shape, said and tuple(said)


def _routes(view: View) -> set[tuple[Any, ...]]:
    return {(*topic, shape, said) for topic, (shape, said) in queues(view).items()}


def _as_of(rows: Iterable[Row], seq: int) -> list[Row]:
    return [
        row
        for row in rows
        if row["from_seq"] <= seq and (row["to_seq"] is None or seq < row["to_seq"])
    ]


@pytest.mark.parametrize(
    ("table", "of_row", "of_view"),
    [
        pytest.param("sessions", _place, members, id="brokers"),
        pytest.param("versions", _route, _routes, id="routes"),
        pytest.param("suspects", _place, unconfirmed, id="unconfirmed"),
    ],
)
def test_as_of_a_record_the_tables_are_what_a_replay_to_it_believes(
    told: Told,
    table: str,
    of_row: Callable[[Row], tuple[Any, ...]],
    of_view: Callable[[View], set[tuple[Any, ...]]],
) -> None:
    for node, records in told.records.items():
        rows = [row for row in told.of(table, node) if row.get("kind") != "held"]
        sampled = set(random.Random(node).sample([one.seq for one in records], SAMPLES))
        for moment in believe(records):
            seq = moment.record.seq
            if seq in sampled:
                found = [of_row(row) for row in _as_of(rows, seq)]
                assert len(found) == len(set(found)), f"{node} {seq}: twice"
                assert set(found) == of_view(moment.view), f"{node} {seq}"


def test_a_node_is_believed_while_it_runs_and_its_view_is_sure(told: Told) -> None:
    for node, records in told.records.items():
        rows = told.of("coverage", node)
        for moment in believe(records):
            believed = moment.running and not moment.view.unsure
            assert bool(_as_of(rows, moment.record.seq)) == believed, f"{node} {moment.record.seq}"


@pytest.mark.parametrize("table", ["coverage", "sessions", "suspects", "versions"])
def test_every_row_is_that_of_a_slow_replay(told: Told, table: str) -> None:
    for node in told.records:
        expected = getattr(told.references[node], table)()
        assert expected, "a story without any tests nothing"
        assert in_order(told.of(table, node)) == in_order(expected)


def test_the_stories_have_everything_in_them(told: Told) -> None:
    """Else the tests above would prove less than they seem to."""
    sessions, versions = told.tables["sessions"], told.tables["versions"]
    assert {row["cause"] for row in sessions} >= {
        None,
        "connection_closed",
        "expired",
        "lost_track",
        "moved",
        "node_restarted",
        "replaced",
        "unregister",
    }
    assert {row["began"] for row in sessions} == {"registered", "restated", "known"}
    assert any(row["connections"] > 1 for row in sessions)
    assert any(row["registered"] is not None for row in versions)
    assert {row["ends"] for row in told.tables["coverage"]} == {
        None,
        "killed",
        "records_lost",
        "records_missing",
        "stopped",
        "clock",
    }
    assert {row["kind"] for row in told.tables["suspects"]} == {"unconfirmed", "held"}
