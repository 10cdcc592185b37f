"""Few rows of large tables: those of a period, as plain values."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.report.facts import Period
from routebook_spark.schemas import DEFAULT_FLEET
from routebook_spark.tables import Lake, Table

TOP = 12


@dataclass(frozen=True, slots=True)
class FleetLake(Lake):
    """The rows of one fleet: what reads from it cannot mix it with another."""

    whole: Lake
    fleet: str

    def read(self, table: Table) -> DataFrame:
        rows = self.whole.read(table)
        return rows.where(fleet_of(rows) == self.fleet)


def fleet_lake(lake: Lake, fleet: str) -> FleetLake:
    return FleetLake(lake.spark, lake.root, lake, fleet)


def fleet_of(rows: DataFrame) -> Column:
    """Of each row; tables that were written before there were fleets have one."""
    if "fleet" not in rows.columns:
        return F.lit(DEFAULT_FLEET)
    return F.coalesce("fleet", F.lit(DEFAULT_FLEET))


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """All of them, by name: to be called on what is drawn, not on what is counted."""
    return [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()
        }
        for row in rows.collect()
    ]


def top(rows: DataFrame, *order: Column | str, most: int = TOP) -> list[dict[str, Any]]:
    return collected(rows.orderBy(*order).limit(most))


def during(rows: DataFrame, period: Period, begin: str, end: str | None = None) -> DataFrame:
    """Those of which the instant ``begin``, or the time from it to ``end``, is in the period.

    What has no end lasts. Where there is a ``day`` of ``begin``, other days are not read.
    """
    from_at, to_at = F.lit(period.from_at), F.lit(period.to_at)
    chosen = rows.where(F.col(begin) < to_at)
    if end is not None:
        return chosen.where(F.col(end).isNull() | (F.col(end) >= from_at))
    if "day" in rows.columns:
        # A day either way: it may be that of another clock.
        first, last = (
            at.date() + timedelta(days=by) for at, by in ((period.from_at, -1), (period.to_at, 1))
        )
        chosen = chosen.where(F.col("day").between(F.lit(first), F.lit(last)))
    return chosen.where(F.col(begin) >= from_at)


def hours_of(rows: DataFrame, period: Period, hour: str) -> DataFrame:
    """Those of the hours that are in the period, if only in part; ``hour`` is their beginning."""
    first = period.from_at.replace(minute=0, second=0, microsecond=0)
    return during(rows, period._replace(from_at=first), hour)


def last_day(rows: DataFrame, period: Period) -> DataFrame:
    """Those of the last ``day`` that has any."""
    last = (period.to_at - timedelta(microseconds=1)).date()
    within = rows.where(F.col("day").between(F.lit(period.from_at.date()), F.lit(last)))
    (found,) = collected(within.agg(F.max("day").alias("day")))
    return within.where(F.col("day") == F.lit(found["day"]))
