"""The jobs, in their order: what was ingested becomes tables.

    build(lake)

Spark can be given this file as well, with the arguments of ``routebook spark``:

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs.py build --tables DIR
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook_spark import tables
from routebook_spark.bronze.segments import were_taken
from routebook_spark.gold.availability import broker_availability
from routebook_spark.gold.balance import topic_balance
from routebook_spark.gold.convergence import convergence
from routebook_spark.gold.demand import topic_demand
from routebook_spark.gold.divergence import divergence
from routebook_spark.gold.exposure import stale_exposure
from routebook_spark.gold.flaps import flaps
from routebook_spark.gold.forecast import capacity_forecast
from routebook_spark.gold.heartbeats import heartbeat_health
from routebook_spark.gold.pairs import first_touched
from routebook_spark.local_frame import held_by_driver, local_frame
from routebook_spark.silver.build import silver_stages
from routebook_spark.silver.new_records import NewRecords, all_as_new, new_since
from routebook_spark.tables import Lake, Table

_BUILD = "build"
_AT_ONCE = 2

SKEW_IN_GOLD = Table("clock_skew_in_gold", tables.CLOCK_SKEW.schema)
"""What gold was made with, so that it is known which of its days are to be made anew."""

RULES = 4
"""Counts up when rows that are there would be made otherwise now: the next build makes all anew."""


@dataclass(frozen=True, slots=True)
class Stage:
    """``rows`` is how many the table has now."""

    table: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Built:
    """``from_day`` is the first day that was made anew; None: all days. No stages: no news."""

    from_day: date | None
    nodes: tuple[str, ...]  # those that had news
    stages: tuple[Stage, ...]


def build(
    lake: Lake, *, full: bool = False, told: Callable[[str], None] = lambda name: None
) -> Built:
    """Bring every table up to what was ingested; ``told`` hears which one is being made.

    Stopped half-way it is simply done again: what it has come to is noted last.
    """
    segments = lake.read(tables.SEGMENTS)
    batch = were_taken(segments).agg(F.max("batch")).collect()[0][0] or 0
    done = _done(lake)
    new = all_as_new(segments) if full or not done else new_since(segments, done)
    if new is None or not new.since:
        return Built(None, (), ())

    def made(stage: tuple[Table, Callable[[], None]]) -> Stage:
        table, make = stage
        told(table.name)
        began = time.perf_counter()
        make()
        rows = lake.read(table).count()  # Delta Lake knows without reading them
        return Stage(table.name, rows, time.perf_counter() - began)

    silver = [made(stage) for stage in silver_stages(lake, new)]
    # Gold reads silver when silver is there: a frame of a table is of the moment it was made. Its
    # tables do not know of each other: while one is planned, another one is computed.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        gold = list(pool.map(made, gold_stages(lake, new)))
    lake.replace(SKEW_IN_GOLD, lake.read(tables.CLOCK_SKEW))
    _note(lake, batch)
    return Built(
        new.from_day,
        tuple(sorted({each.node for each in new.since})),
        (*silver, *gold),
    )


def gold_stages(lake: Lake, new: NewRecords) -> Iterator[tuple[Table, Callable[[], None]]]:
    """The tables of gold, and how each is brought up to date once those of silver are."""
    events, versions = lake.read(tables.EVENTS), lake.read(tables.ROUTE_VERSIONS)
    sessions, suspects = lake.read(tables.BROKER_SESSIONS), lake.read(tables.SUSPECT_TIMES)
    # A few rows for each node and day, which every table of gold asks for several times.
    coverage, skew = (
        held_by_driver(lake.read(table)) for table in (tables.NODE_COVERAGE, tables.CLOCK_SKEW)
    )
    day = None if new.from_day is None else first_touched(skew, _since(lake, new.from_day))
    rows: dict[Table, Callable[[DataFrame], DataFrame]] = {
        tables.BROKER_AVAILABILITY: lambda _: broker_availability(
            sessions, suspects, coverage, skew, from_day=day
        ),
        tables.FLAPS: lambda _: flaps(sessions, coverage, skew, from_day=day),
        tables.HEARTBEAT_HEALTH: lambda _: heartbeat_health(
            events, sessions, coverage, from_day=day
        ),
        tables.DIVERGENCE: lambda earlier: divergence(
            versions, sessions, coverage, skew, from_day=day, earlier=earlier
        ),
        tables.CONVERGENCE: lambda _: convergence(sessions, events, coverage, skew, from_day=day),
        tables.STALE_EXPOSURE: lambda _: stale_exposure(
            sessions, suspects, events, versions, coverage, skew, from_day=day
        ),
        tables.TOPIC_BALANCE: lambda _: topic_balance(versions, coverage, from_day=day),
        tables.TOPIC_DEMAND: lambda earlier: topic_demand(
            events, versions, coverage, earlier, from_day=day
        ),
        tables.CAPACITY_FORECAST: lambda earlier: capacity_forecast(
            versions, coverage, earlier, from_day=day
        ),
    }
    for table, made in rows.items():
        (by,) = table.partitioned_by
        where = None if day is None else f"{by} >= '{day}'"
        yield table, partial(_replace, lake, table, made, where)


def _since(lake: Lake, day: date) -> date:
    """``day``, or the first one before it on which clocks turned out to be other than thought."""
    now, then = (
        {tuple(row) for row in lake.read(table).collect()}
        for table in (tables.CLOCK_SKEW, SKEW_IN_GOLD)
    )
    changed: list[date] = [row[0] for row in now ^ then]
    return min([day, *changed])


def _replace(
    lake: Lake, table: Table, made: Callable[[DataFrame], DataFrame], where: str | None
) -> None:
    lake.replace(table, made(lake.read(table)), where=where)


def _done(lake: Lake) -> int:
    """The last batch of segments that is in all tables; 0 for none.

    Tables by other rules than those of this version are made anew.
    """
    ours = (F.col("stage") == _BUILD) & (F.col("version") == RULES)
    noted = lake.read(tables.PROGRESS).where(ours)
    return noted.agg(F.max("batch")).collect()[0][0] or 0


def _note(lake: Lake, batch: int) -> None:
    row = {"stage": _BUILD, "batch": batch, "version": RULES, "at": datetime.now(UTC)}
    rows = local_frame(lake.spark, tables.PROGRESS.schema, [row])
    lake.replace(tables.PROGRESS, rows, where=f"stage = '{_BUILD}'")


if __name__ == "__main__":
    from routebook_spark.commands.main import spark

    spark(prog_name="routebook spark")
