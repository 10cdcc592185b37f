"""Times of many nodes on one clock: that of the node the others are compared with.

They are numbers of milliseconds since 1970, which are cheaper to cut and compare than timestamps.
"""

from datetime import UTC, date, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def on_common_clock(rows: DataFrame, skew: DataFrame, *instants: str) -> DataFrame:
    """``rows`` of nodes, with each of ``instants`` (``began_at``) in ms as well (``began_ms``).

    The offset is that of the day by the node's own clock; there is one for each day on which it
    wrote something. Where it is not known, times are by that clock, and not to be compared with
    those of other nodes: ``began_known`` says so of one of them, ``clock_known`` of all.
    """
    key = [name for name in WITNESS if name in rows.columns]
    offsets = skew.select(
        *key,
        F.col("day").alias("_day"),
        F.col("offset_ms").alias("_off_ms"),
        F.col("offset_ms").isNull().alias("_unknown"),
    )
    timed = rows.withColumn("clock_known", F.lit(True))
    for name in instants:
        # Looked up by equality: finding the day in a list of days costs many times as much.
        known = timed.withColumn("_day", F.to_date(name)).join(
            F.broadcast(offsets), [*key, "_day"], "left"
        )
        corrected = F.unix_millis(name) - F.coalesce("_off_ms", F.lit(0))
        stem, comparable = name.removesuffix("_at"), ~F.coalesce("_unknown", F.lit(False))
        timed = known.withColumns(
            {
                f"{stem}_ms": corrected,
                f"{stem}_known": comparable,
                "clock_known": F.col("clock_known") & comparable,
            }
        ).drop("_day", "_off_ms", "_unknown")
    return timed


def floor_ms(ms: Column | str, step_ms: int) -> Column:
    """The beginning of the hour, or day, of ``ms``."""
    whole = F.col(ms) if isinstance(ms, str) else ms
    return whole - F.pmod(whole, F.lit(step_ms))


def start_ms(day: date | None) -> int:
    """The midnight before ``day``; of no day, that before all."""
    if day is None:
        return 0
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
