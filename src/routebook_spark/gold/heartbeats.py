"""Heartbeats: how regular the signs of life of each broker process are, by hour.

They are by far the most of what nodes write down. Gaps are counted in steps of ``STEP_MS`` where
they are read, so that what moves between machines is a few rows for each process and hour.
"""

from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.heartbeats import DEFAULT_TIMEOUT_MS, NEAR_MISS
from routebook_spark import schemas
from routebook_spark.gold.witnesses import pauses
from routebook_spark.schemas import WITNESS

STEP_MS = 100

PROCESS = (*WITNESS, "cluster", "broker", "broker_id", "addr")

# The timeout of a session holds for a day after it: gaps are written down after the window they
# are of, and a session may be lost from sight before its broker.
_HOLDS_FOR = timedelta(days=1)


def heartbeat_health(
    events: DataFrame,
    sessions: DataFrame,
    coverage: DataFrame,
    *,
    from_day: date | None = None,
) -> DataFrame:
    """Rows of the hours since ``from_day`` in which a process gave signs of life.

    Gaps that reach into a time of which the node knows nothing are its own, and are not counted.
    """
    windows = events.where(F.col("type") == "HeartbeatGaps")
    if from_day is not None:
        windows = windows.where(F.col("day") >= F.lit(from_day))
        # One day more: a session ends on the day before the last record its timeout holds for.
        kept = F.col("until_day") >= F.lit(from_day - _HOLDS_FOR - timedelta(days=1))
        sessions = sessions.where(kept)
        # A gap may have begun days ago; no timeout is that long.
        coverage = coverage.where(F.col("until_day") >= F.lit(from_day - timedelta(days=2)))
    return _rows(_steps(_timed(_listened(windows, coverage), _timeouts(sessions))))


def _listened(windows: DataFrame, coverage: DataFrame) -> DataFrame:
    """Windows of gaps in which the node listened all the while.

    The first gap of a window began before it.
    """
    window, pause = windows.alias("window"), F.broadcast(pauses(coverage)).alias("pause")
    same = [F.col(f"window.{name}") == F.col(f"pause.{name}") for name in WITNESS]
    heard_ms = F.coalesce("window.data.window_ms", F.lit(0)) + F.coalesce(
        F.try_element_at("window.data.gaps_ms", F.lit(1)), F.lit(0)
    )
    begun_ms = F.unix_millis("window.at") - heard_ms
    within = (F.col("window.seq") >= F.col("pause.deaf_seq")) & (
        F.col("pause.deaf_to_ms") > begun_ms
    )
    return window.join(pause, [*same, within], "left_anti")


def _timeouts(sessions: DataFrame) -> DataFrame:
    """What each process said its timeout is: from one sequence number up to another, exclusive.

    Sessions with the same one after each other are one row: a broker that flaps has thousands.
    """
    in_order = Window.partitionBy(*PROCESS).orderBy("from_seq")
    timeout = F.col("heartbeat_timeout_ms")
    same = (F.lag(timeout).over(in_order) == timeout) & (
        F.col("began_at") <= F.lag("ended_at").over(in_order) + F.lit(_HOLDS_FOR)
    )
    runs = (
        sessions.where(timeout > 0)
        .withColumn("new", F.coalesce(~same, F.lit(True)).cast("int"))
        .withColumn("run", F.sum("new").over(in_order))
        .groupBy(*PROCESS, "run")
        .agg(
            F.min("from_seq").alias("from_seq"),
            F.max(timeout).alias("timeout_ms"),
            F.when(F.bool_and(F.col("ended_at").isNotNull()), F.max("ended_at")).alias("ended_at"),
        )
    )
    return runs.select(
        *PROCESS,
        "from_seq",
        F.lead("from_seq").over(in_order).alias("before_seq"),
        "timeout_ms",
        (F.col("ended_at") + F.lit(_HOLDS_FOR)).alias("holds_until"),
    )


def _timed(windows: DataFrame, timeouts: DataFrame) -> DataFrame:
    """One row for each gap, with the timeout of its process."""
    window, said = windows.alias("window"), F.broadcast(timeouts).alias("said")
    seq = F.col("window.seq")
    fits = [F.col(f"window.{name}") == F.col(f"said.{name}") for name in PROCESS]
    fits += [
        seq >= F.col("said.from_seq"),
        F.coalesce(seq < F.col("said.before_seq"), F.lit(True)),
        F.coalesce(F.col("window.at") <= F.col("said.holds_until"), F.lit(True)),
    ]
    return window.join(said, fits, "left").select(
        *(f"window.{name}" for name in PROCESS),
        F.date_trunc("hour", "window.at").alias("hour_at"),
        seq.alias("seq"),
        F.coalesce("said.timeout_ms", F.lit(DEFAULT_TIMEOUT_MS)).alias("timeout_ms"),
        F.explode("window.data.gaps_ms").alias("gap_ms"),
    )


def _steps(gaps: DataFrame) -> DataFrame:
    """Gaps of a process in an hour that fall into the same step, counted.

    All that is kept of them has a fixed width, so they are counted in place.
    """
    gap, timeout = F.col("gap_ms"), F.col("timeout_ms")
    part, whole = NEAR_MISS
    near = (gap * whole >= timeout * part) & (gap <= timeout)
    return gaps.groupBy(*PROCESS, "hour_at", (gap - gap % STEP_MS).alias("step_ms")).agg(
        F.count("*").alias("gaps"),
        F.max(gap).alias("gap_ms"),
        F.sum((gap > timeout).cast("long")).alias("over"),
        F.sum(near.cast("long")).alias("near"),
        F.max("seq").alias("seq"),
        F.max_by(timeout, "seq").alias("timeout_ms"),
    )


def _rows(steps: DataFrame) -> DataFrame:
    in_time, step = F.col("gaps") - F.col("over"), F.col("step_ms")
    # A step stands for its longest gap, so no percentile is above the maximum.
    percentiles = F.percentile("gap_ms", [0.5, 0.99], F.col("gaps"))

    def within(first_ms: int, until_ms: int | None = None) -> Column:
        inside = step >= first_ms if until_ms is None else step.between(first_ms, until_ms - 1)
        return F.sum(F.when(inside, in_time).otherwise(0))

    totals = steps.groupBy(*PROCESS, "hour_at").agg(
        F.sum("gaps").alias("heartbeats"),
        within(0, 10_000).alias("under_10s"),
        within(10_000, 35_000).alias("under_35s"),
        within(35_000, 65_000).alias("under_65s"),
        within(65_000).alias("under_timeout"),
        F.sum("over").alias("over_timeout"),
        percentiles.alias("percentiles"),
        F.max("gap_ms").alias("gap_max_ms"),
        F.max_by("timeout_ms", "seq").alias("heartbeat_timeout_ms"),
        F.sum("near").alias("near_misses"),
    )
    return totals.withColumns(
        {
            "day": F.to_date("hour_at"),
            "gap_p50_ms": F.round(F.col("percentiles")[0]).cast("long"),
            "gap_p99_ms": F.round(F.col("percentiles")[1]).cast("long"),
        }
    ).select(*schemas.HEARTBEAT_HEALTH.fieldNames())
