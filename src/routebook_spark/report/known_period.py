"""The period that the tables tell of, by clocks that can be right.

One node whose clock is years ahead would move a report of the last thirty days to where nothing
happened. A clock is not believed where it is ahead of the machine that took its records in, or more
than a day off what most nodes of its fleet say. If none is left, all are believed.
"""

from datetime import UTC, datetime, timedelta
from statistics import median_low
from typing import Any

from pyspark.sql import functions as F

from routebook_spark.report.facts import Period
from routebook_spark.report.rows import collected, fleet_of
from routebook_spark.tables import CLOCK_SKEW, NODE_COVERAGE, SEGMENTS, Lake

_AHEAD = timedelta(minutes=5)
_OFF_MS = 24 * 3_600_000
_MOST = 3  # of two nodes that differ nobody can say which is right

_Node = tuple[str, str]  # fleet and name


def known_period(lake: Lake) -> Period:
    """From the first to the last time that nodes bear witness of; the last one is part of it.

    Of nodes that cannot be believed at any time it is the days on which they recorded something.
    """
    coverage = lake.read(NODE_COVERAGE)
    taken_at = _taken_at(lake)
    in_time = coverage if taken_at is None else coverage.where(F.col("to_at") <= taken_at + _AHEAD)
    spans = in_time.groupBy(fleet_of(coverage).alias("fleet"), "node").agg(
        F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at")
    )
    off = _off(lake)
    known = [row for row in collected(spans) if (row["fleet"], row["node"]) not in off]
    if not known:
        known = collected(
            coverage.agg(F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at")).where(
                "from_at IS NOT NULL"
            )
        )
    if not known:
        return _days(lake)
    return Period(
        min(row["from_at"] for row in known),
        max(row["to_at"] for row in known) + timedelta(milliseconds=1),
    )


def _days(lake: Lake) -> Period:
    ends = lake.read(CLOCK_SKEW).agg(F.min("day").alias("first"), F.max("day").alias("last"))
    (row,) = collected(ends)
    first, last = (
        datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (row["first"], row["last"])
    )
    return Period(first, last + timedelta(days=1))


def _taken_at(lake: Lake) -> datetime | None:
    """When records were last taken in; None where that is not known."""
    (row,) = collected(lake.read(SEGMENTS).agg(F.max("at").alias("at")))
    at: datetime | None = row["at"]
    return at


def _off(lake: Lake) -> set[_Node]:
    """Nodes whose clocks are last known to be far from those of most others of their fleet."""
    skew = lake.read(CLOCK_SKEW)
    last = (
        skew.where("offset_ms IS NOT NULL")
        .groupBy(fleet_of(skew).alias("fleet"), "node")
        .agg(F.max_by("offset_ms", "day").alias("offset_ms"))
    )
    by_fleet: dict[str, list[dict[str, Any]]] = {}
    for row in collected(last):
        by_fleet.setdefault(row["fleet"], []).append(row)
    return {
        (fleet, row["node"])
        for fleet, rows in by_fleet.items()
        if len(rows) >= _MOST
        for row in rows
        if abs(row["offset_ms"] - median_low(each["offset_ms"] for each in rows)) > _OFF_MS
    }
