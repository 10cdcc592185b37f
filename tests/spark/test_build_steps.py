"""Whatever is taken and built in whatever order, the tables are those of one full build.

Two fleets whose nodes have the same names are taken in pieces: late, with holes that are filled or
not, by runs that are killed before they have noted what they took, with builds between any two of
these steps.
"""

import random
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark import tables
from routebook_spark.silver.build import INTERNAL, build_silver
from routebook_spark.silver.news import all_news, news_since
from routebook_spark.tables import SILVER, Lake, Table
from support.silverlakes import Intake, Part, Row, in_order, plain
from support.sparkhistories import deliveries, histories, lost_spans

SEEDS = (5,)
SIZE = 25  # records of a segment
FLEETS = ("shop", "bank")
MADE = (*SILVER, *INTERNAL)


@dataclass(frozen=True, slots=True)
class Step:
    """Take ``parts``; ``killed``: before they were noted."""

    fleet: str
    parts: list[Part]
    killed: bool
    built: bool


def steps(seed: int) -> list[Step]:
    rng = random.Random(seed)
    made = []
    for number, fleet in enumerate(FLEETS):
        by_node = {
            node: disturbed(records, rng)
            for node, records in histories(10 * seed + number, nodes=2, brokers=2, hours=5).items()
        }
        lost = {
            node: lost_spans(records, seed=seed, share=0.04, size=SIZE)
            for node, records in by_node.items()
        }
        for delivery in deliveries(by_node, seed=seed, batches=2, late=0.3, size=SIZE):
            parts: list[Part] = [
                part
                for part in delivery.segments
                if (part[0].seq, part[-1].seq) not in lost[part[0].node]
            ]
            made.append(Step(fleet, parts, rng.random() < 0.5, rng.random() < 0.7))
    rng.shuffle(made)
    return made


def disturbed(records: list[Record], rng: random.Random) -> list[Record]:
    """The same, by a clock that is set forward once, of a node that slept once."""
    jump, sleep = (rng.randrange(len(records) // 4, len(records)) for _ in range(2))
    return [
        replace(
            record,
            wall_ms=record.wall_ms + 90_000 * (place >= jump) + 600_000 * (place >= sleep),
            mono_ms=record.mono_ms + 600_000 * (place >= sleep),
        )
        for place, record in enumerate(records)
    ]


class Builder:
    """The build of silver, and how far it has come."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._done = 0
        self.builds = 0

    def build(self, *, full: bool = False) -> None:
        segments = self._lake.read(tables.SEGMENTS)
        if full or not self._done:
            news = all_news(segments)
        else:
            found = news_since(segments, self._done)
            if found is None:
                return
            news = found
        if news.since:
            build_silver(self._lake, news)
            self.builds += 1
            self._done = segments.agg({"batch": "max"}).collect()[0][0]


Tables = dict[str, list[Row]]


@pytest.fixture(scope="module", params=SEEDS)
def both(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Tables, Tables]:
    """Step by step, and at once."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("tables")))
    intake, builder = Intake(lake), Builder(lake)
    for step in steps(request.param):
        intake.note()
        intake.write(step.parts, fleet=step.fleet)
        if not step.killed:
            intake.note()
        if step.built:
            builder.build()
    intake.note()
    builder.build()
    assert builder.builds >= 2, "else nothing is tested"
    incremental = contents(lake)
    builder.build(full=True)
    return incremental, contents(lake)


def contents(lake: Lake) -> Tables:
    return {
        table.name: in_order(
            {name: round(v, 6) if isinstance(v, float) else v for name, v in row.items()}
            for row in plain(lake.read(table))
        )
        for table in MADE
    }


@pytest.mark.parametrize("table", MADE, ids=lambda table: table.name)
def test_in_whatever_steps_a_table_is_built_it_is_the_same(
    both: tuple[Tables, Tables], table: Table
) -> None:
    incremental, full = both
    assert incremental[table.name] == full[table.name]


def test_the_steps_have_everything_in_them() -> None:
    """Else the test above would prove less than it seems to."""
    made = [step for seed in SEEDS for step in steps(seed)]
    assert any(step.killed and step.built for step in made)
    assert {step.fleet for step in made} == set(FLEETS)


def test_both_fleets_are_told_of(both: tuple[Tables, Tables]) -> None:
    _, full = both
    for table in ("node_coverage", "broker_sessions", "route_versions", "clock_skew"):
        assert {row["fleet"] for row in full[table]} == set(FLEETS), table
    ends = {row["ends"] for row in full["node_coverage"]}
    assert ends >= {"silent", "clock", "records_missing"}
