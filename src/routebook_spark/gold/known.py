"""What nodes knew, and what routes they told, in numbers of milliseconds, hours and days.

An hour is a number too, counted since 1970 as a day is: cutting and comparing numbers costs less
than timestamps, and millions of intervals are cut here.

A node knows its state through its last record, so what is known ends a millisecond after it. What
ended because nobody knows how it went on was still there in that last millisecond.
"""

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS
from routebook_spark.silver.members import OUT_OF_SIGHT

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LAST_MS = 253_402_300_800_000
"""The end of the year 9999: that of what has not ended."""


def known_units(coverage: DataFrame, unit_ms: int, *, from_day: date | None) -> DataFrame:
    """Stretches of coverage cut at hours or days: ``unit, from_ms, until_ms`` of witnesses."""
    first_ms = F.unix_millis("from_at")
    if from_day is not None:
        coverage = coverage.where(F.col("to_at") >= F.lit(from_day))
        first_ms = F.greatest(first_ms, _start_ms(from_day))
    spans = coverage.select(
        *WITNESS, first_ms.alias("from_ms"), (F.unix_millis("to_at") + 1).alias("until_ms")
    ).where("from_ms < until_ms")  # not so when the clock was set back meanwhile
    units = F.sequence(unit_of("from_ms", unit_ms), unit_of(F.col("until_ms") - 1, unit_ms))
    return spans.withColumn("unit", F.explode(units)).select(
        *WITNESS,
        "unit",
        F.greatest("from_ms", F.col("unit") * unit_ms).alias("from_ms"),
        F.least("until_ms", (F.col("unit") + 1) * unit_ms).alias("until_ms"),
    )


def told_routes(versions: DataFrame, *, from_day: date | None) -> DataFrame:
    """Route versions with ``begin_ms`` and ``end_ms``, those that last to ``from_day`` at least."""
    if from_day is not None:
        versions = versions.where(F.col("until_day") >= F.lit(from_day))
    unseen = F.when(F.col("end_cause").isin(*OUT_OF_SIGHT), 1).otherwise(0)
    end_ms = F.coalesce(F.unix_millis("valid_to") + unseen, F.lit(LAST_MS))
    return versions.withColumns({"begin_ms": F.unix_millis("valid_from"), "end_ms": end_ms}).where(
        "begin_ms < end_ms"
    )


def unit_of(at_ms: Column | str, unit_ms: int) -> Column:
    """The number of the hour or day an instant is in."""
    return F.call_function("div", F.col(at_ms) if isinstance(at_ms, str) else at_ms, F.lit(unit_ms))


def day_of(unit: Column) -> Column:
    """The date of a number of a day."""
    return F.date_from_unix_date(unit.cast("int"))


def _start_ms(day: date) -> Column:
    return F.unix_millis(F.lit(day).cast("timestamp"))
