"""Batch after batch, with late segments among them, gives the tables that all at once gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark.jobs import Built, build
from routebook_spark.silver.build import INTERNAL
from routebook_spark.tables import BROKER_AVAILABILITY, GOLD, SILVER, Lake, Table
from support.silverlakes import Intake, Part, Row, in_order, plain
from support.sparkhistories import deliveries, histories, lost_spans

SEED = 39  # what is lost is lost late: nobody knows anything after it
SIZE = 60  # records of a segment
MADE = (*SILVER, *INTERNAL, *GOLD)
Tables = dict[str, list[Row]]


class Stopped(Exception):
    pass


def batches() -> list[list[Part]]:
    """Two, with segments in the second that are older than some of the first; others never come."""
    by_node = histories(SEED, nodes=2, brokers=3, hours=12)
    lost = {
        node: lost_spans(records, seed=SEED, share=0.08, size=SIZE)
        for node, records in by_node.items()
    }
    return [
        [
            part
            for part in delivery.segments
            if (part[0].seq, part[-1].seq) not in lost[part[0].node]
        ]
        for delivery in deliveries(by_node, seed=SEED, batches=2, late=0.2, size=SIZE)
    ]


@dataclass(frozen=True, slots=True)
class Story:
    """``last`` is what the build after all news says."""

    incremental: Tables
    last: Built
    full: Tables


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The second build is stopped half-way, and done again."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("tables")))
    intake = Intake(lake)
    first, second = batches()
    intake.take(first)
    build(lake)
    intake.take(second)
    with pytest.raises(Stopped):
        build(lake, told=_stop_before_gold)
    build(lake)
    incremental = contents(lake)
    last = build(lake)
    build(lake, full=True)
    return Story(incremental, last, contents(lake))


def _stop_before_gold(table: str) -> None:
    if table == BROKER_AVAILABILITY.name:
        raise Stopped


def contents(lake: Lake) -> Tables:
    return {
        table.name: in_order(
            {name: _rounded(value) for name, value in row.items()}
            for row in plain(lake.read(table))
        )
        for table in MADE
    }


def _rounded(value: Any) -> Any:
    """Sums of fractions depend on the order in which they are added, by a little."""
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize("table", MADE, ids=lambda table: table.name)
def test_a_table_built_in_batches_is_the_one_built_at_once(story: Story, table: Table) -> None:
    assert story.full[table.name]
    assert story.incremental[table.name] == story.full[table.name]


def test_without_news_nothing_is_built(story: Story) -> None:
    assert story.last.stages == ()


def test_the_batches_fill_holes_and_leave_some(story: Story) -> None:
    """Else the tests above would prove less than they seem to."""
    first, second = batches()
    reached = {part[0].node: part[-1].seq for part in sorted(first, key=_first_seq)}
    assert sum(part[0].seq < reached[part[0].node] for part in second) >= 3
    assert any(row["ends"] == "records_missing" for row in story.full["node_coverage"])
    assert any(row["kind"] == "held" for row in story.full["suspect_times"])


def _first_seq(part: Sequence[Record]) -> int:
    return part[0].seq
