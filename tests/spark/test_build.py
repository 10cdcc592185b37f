"""Whatever is taken and built in whatever order, the tables are those that all at once gives.

Two fleets whose nodes have the same names are taken in pieces: late, with holes that are filled or
not, by runs that are killed before they have noted what they took, with builds between that are
stopped half-way and done again.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark.jobs import Built, build
from routebook_spark.silver.build import INTERNAL
from routebook_spark.tables import BROKER_AVAILABILITY, GOLD, SILVER, Lake, Table
from support.silver_lakes import Intake, Part, Row, in_order, plain
from support.spark_histories import deliveries, histories, lost_spans

SHOP, BANK = "shop", "bank"
ASLEEP_MS = 700_000  # more than two windows of heartbeats
MADE = (*SILVER, *INTERNAL, *GOLD)
Tables = dict[str, list[Row]]


class Stopped(Exception):
    pass


def shop() -> list[list[Part]]:
    """Half a day of quiet clocks. What is lost is lost late: nobody knows anything after it."""
    return batches(
        histories(39, nodes=2, brokers=3, hours=12), seed=39, lost=0.08, late=0.2, size=60
    )


def bank() -> list[list[Part]]:
    """A few hours of nodes that sleep, and whose clocks are set."""
    rng = random.Random(7)
    by_node = {
        node: disturbed(records, rng)
        for node, records in histories(51, nodes=2, brokers=2, hours=5).items()
    }
    return batches(by_node, seed=5, lost=0.04, late=0.3, size=25)


def disturbed(records: list[Record], rng: random.Random) -> list[Record]:
    """The same, by a clock that is set forward once, of a node that slept once."""
    jump, sleep = (rng.randrange(len(records) // 4, len(records)) for _ in range(2))
    return [
        replace(
            record,
            wall_ms=record.wall_ms + 90_000 * (place >= jump) + ASLEEP_MS * (place >= sleep),
            mono_ms=record.mono_ms + ASLEEP_MS * (place >= sleep),
        )
        for place, record in enumerate(records)
    ]


def batches(
    by_node: Mapping[str, Sequence[Record]], *, seed: int, lost: float, late: float, size: int
) -> list[list[Part]]:
    """Two, with segments in the second that are older than some of the first; others never come."""
    spans = {
        node: lost_spans(records, seed=seed, share=lost, size=size)
        for node, records in by_node.items()
    }
    return [
        [
            part
            for part in delivery.segments
            if (part[0].seq, part[-1].seq) not in spans[part[0].node]
        ]
        for delivery in deliveries(by_node, seed=seed + 3, batches=2, late=late, size=size)
    ]


@dataclass(frozen=True, slots=True)
class Story:
    """``first`` and ``second`` came to their end; ``last`` is the build after all news."""

    first: Built
    second: Built
    incremental: Tables
    last: Built
    full: Tables


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Runs are killed before they note what they wrote, and the next one notes it first.

    A build that is stopped has made silver of the first batch of the bank, from which the next one
    goes on: it makes that once more, and what has come since.
    """
    lake = Lake(spark, str(tmp_path_factory.mktemp("tables")))
    intake = Intake(lake)
    (shop_first, shop_second), (bank_first, bank_second) = shop(), bank()
    intake.take(shop_first, fleet=SHOP)
    intake.write(bank_first, fleet=BANK)  # killed
    first = build(lake)
    intake.note()
    intake.write(shop_second, fleet=SHOP)  # killed
    with pytest.raises(Stopped):
        build(lake, told=_stop_before_gold)
    intake.note()
    intake.take(bank_second, fleet=BANK)
    second = build(lake)
    incremental = contents(lake)
    last = build(lake)
    build(lake, full=True)
    return Story(first, second, incremental, last, contents(lake))


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
def test_a_table_built_in_steps_is_the_one_built_at_once(story: Story, table: Table) -> None:
    assert story.full[table.name]
    assert story.incremental[table.name] == story.full[table.name]


def test_without_news_nothing_is_built(story: Story) -> None:
    assert story.last.stages == ()


def test_the_second_build_goes_on_from_the_first(story: Story) -> None:
    """Else the tests above would prove less than they seem to."""
    assert (story.first.from_day, story.second.from_day is None) == (None, False)
    assert len(story.first.stages) == len(story.second.stages) == len(MADE)


@pytest.mark.parametrize("taken", [shop, bank])
def test_the_second_batch_fills_holes(taken: Callable[[], list[list[Part]]]) -> None:
    first, second = taken()
    reached = {part[0].node: part[-1].seq for part in sorted(first, key=_first_seq)}
    assert sum(part[0].seq < reached[part[0].node] for part in second) >= 3


def test_both_fleets_are_told_of_with_all_that_happened_to_them(story: Story) -> None:
    for table in ("node_coverage", "broker_sessions", "route_versions", "clock_skew"):
        assert {row["fleet"] for row in story.full[table]} == {SHOP, BANK}, table
    ends = {row["ends"] for row in story.full["node_coverage"]}
    assert ends >= {"silent", "clock", "records_missing"}
    assert any(row["kind"] == "held" for row in story.full["suspect_times"])


def _first_seq(part: Sequence[Record]) -> int:
    return part[0].seq
