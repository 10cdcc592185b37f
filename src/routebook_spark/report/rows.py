"""Few rows of large tables: those of a period, as plain values."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.report.facts import Period


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """All of them, by name: to be called on what is drawn, not on what is counted."""
    return [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()
        }
        for row in rows.collect()
    ]


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


def step_of(at: str, period: Period) -> Column:
    return F.date_trunc(period.step, F.col(at))
