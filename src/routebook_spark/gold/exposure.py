"""Exposure: how long clients could still be sent to a broker process that was gone.

Two things add up. A node lists a process until it notices that it is gone: that is detection, from
the last sign of life to the removal. And a client learns of the removal when it next asks, so one
that asked just before it goes on for a whole poll interval, and the average one for half of it.

When a process gave its last sign of life is told by how it ended:

``unregister``, ``admin``         as it was removed: nothing was to be detected
``connection_closed``             as it was removed: its end closed the connection
``expired``                       its timeout before; a removal waits for the next look at most,
                                  and a node that slept does not count that time
any of those, held by the guard   before the guard held it, as long as the guard says
``idle``, ``not_confirmed``, ``replaced``   the last record of it, of ``LOOK_BACK_MS`` at most

A process that ``moved`` to another id is still there, and one that a node lost sight of may be.
"""

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook_spark import schemas
from routebook_spark.gold.clocks import DAY_MS, on_common_clock
from routebook_spark.gold.pairs import first_read
from routebook_spark.gold.witnesses import pauses
from routebook_spark.schemas import WITNESS

POLL_S = 30.0
LOOK_BACK_DAYS = 1
LOOK_BACK_MS = LOOK_BACK_DAYS * DAY_MS
LATER_DAYS = 1  # than the removal, by a clock that was set back between a record and it
HELD_UNTIL_MS = 1000  # before the removal, or later: the guard lets go first, and then they leave

PLANNED = ("unregister", "admin")
NOTICED = (*PLANNED, "connection_closed")
RECORDED = ("idle", "not_confirmed", "replaced")

GROUP = (*WITNESS, "cluster", "broker")
PROCESS = (*GROUP, "broker_id", "addr")
ENDED = (*PROCESS, "to_seq")

_READ, _WRITE = 4, 2  # permissions


def stale_exposure(
    sessions: DataFrame,
    suspects: DataFrame,
    events: DataFrame,
    versions: DataFrame,
    coverage: DataFrame,
    skew: DataFrame,
    *,
    from_day: date | None = None,
    poll_s: float = POLL_S,
) -> DataFrame:
    """Processes removed on ``from_day`` or later."""
    if from_day is not None:
        read = F.lit(first_read(skew, from_day))
        recent = F.col("until_day") >= read
        sessions, suspects, versions = (
            rows.where(recent) for rows in (sessions, suspects, versions)
        )
        events = events.where(F.col("day") >= read)
        coverage = coverage.where(recent)
    causes = (*NOTICED, "expired", *RECORDED)
    gone = sessions.where(F.col("to_seq").isNotNull() & F.col("cause").isin(*causes)).withColumns(
        {"removed_ms": F.unix_millis("ended_at"), "began_ms": F.unix_millis("began_at")}
    )
    # Durations are by the clock of the node; the common one only says when it was.
    last_alive = _last_alive(gone, suspects, events, coverage)
    alive = on_common_clock(last_alive, skew, "ended_at").withColumn(
        "ahead_ms", F.col("removed_ms") - F.col("ended_ms")
    )
    counted = _with_topics(_with_topics_lost(alive, versions), versions)
    rows = _rows(counted, poll_s)
    return rows if from_day is None else rows.where(F.col("day") >= F.lit(from_day))


# -- the last sign of life


def _last_alive(
    gone: DataFrame, suspects: DataFrame, events: DataFrame, coverage: DataFrame
) -> DataFrame:
    cause = F.col("cause")
    slept_ms = F.coalesce("slept_ms", F.lit(0))
    by_cause = (
        F.when(cause.isin(*NOTICED), F.col("removed_ms"))
        .when(cause == "expired", F.col("removed_ms") - _timeout_ms() - slept_ms)
        .otherwise(F.col("recorded_ms"))
    )
    alive_ms = F.coalesce(F.when(~cause.isin(*PLANNED), F.col("held_ms")), by_cause)
    earliest_ms = F.greatest("began_ms", F.col("removed_ms") - LOOK_BACK_MS)
    return (
        gone.join(_held(gone, suspects), list(ENDED), "left")
        .join(_recorded(gone, events), list(ENDED), "left")
        .join(_slept(gone, coverage), list(ENDED), "left")
        .withColumn("alive_ms", F.least("removed_ms", F.greatest(alive_ms, earliest_ms)))
    )


def _timeout_ms() -> Column:
    return F.coalesce(F.nullif("heartbeat_timeout_ms", F.lit(0)), F.lit(DEFAULT_TIMEOUT_MS))


def _slept(gone: DataFrame, coverage: DataFrame) -> DataFrame:
    """How long the node slept while those it let expire were silent: ``slept_ms``."""
    stalls = pauses(coverage).where("deaf_why = 'stalled'")
    here = (F.col("deaf_seq") > F.col("from_seq")) & (F.col("deaf_seq") <= F.col("to_seq"))
    silent = F.col("deaf_to_ms") > F.col("removed_ms") - _timeout_ms()
    return (
        gone.where("cause = 'expired'")
        .join(F.broadcast(stalls), list(WITNESS))
        .where(here & silent)
        .groupBy(*ENDED)
        .agg(F.sum(F.col("deaf_to_ms") - F.col("deaf_from_ms")).alias("slept_ms"))
    )


def _held(gone: DataFrame, suspects: DataFrame) -> DataFrame:
    """Since when those had been silent that the guard held to their end: ``held_ms``."""
    holds = suspects.where("kind = 'held'").select(
        *PROCESS,
        F.col("from_seq").alias("held_seq"),
        (F.unix_millis("from_at") - F.coalesce("silent_ms", F.lit(0))).alias("silent_since_ms"),
        F.unix_millis("to_at").alias("held_to_ms"),
    )
    to_the_end = F.col("held_to_ms").isNull() | (
        F.col("held_to_ms") >= F.col("removed_ms") - HELD_UNTIL_MS
    )
    here = (F.col("held_seq") >= F.col("from_seq")) & (F.col("held_seq") < F.col("to_seq"))
    return (
        gone.join(holds, list(PROCESS))
        .where(here & to_the_end)
        .groupBy(*ENDED)
        .agg(F.max_by("silent_since_ms", "held_seq").alias("held_ms"))
    )


def _recorded(gone: DataFrame, events: DataFrame) -> DataFrame:
    """When those whose end does not tell it last gave a sign of life on record: ``recorded_ms``."""
    ended_on = F.to_date("ended_at")
    days = F.sequence(F.date_sub(ended_on, LOOK_BACK_DAYS), F.date_add(ended_on, LATER_DAYS))
    asked = gone.where(F.col("cause").isin(*RECORDED)).select(
        *ENDED, "from_seq", "removed_ms", F.explode(days).alias("day")
    )
    types = ("BrokerRegistered", "BrokerUpdated", "BrokerConfirmed", "RegistrationCompleted")
    records = events.where(F.col("type").isin(*types, "HeartbeatGaps")).select(
        *PROCESS,
        "day",
        "seq",
        "type",
        F.unix_millis("at").alias("at_ms"),
        "data.window_ms",
        "data.gaps_ms",
    )
    here = (F.col("seq") >= F.col("from_seq")) & (F.col("seq") < F.col("to_seq"))
    # Few processes end like this: only their days are read, and the records of others stay there.
    return (
        records.join(F.broadcast(asked), [*PROCESS, "day"])
        .where(here)
        .withColumn("sign_ms", _last_sign_ms())
        .where(F.col("sign_ms") >= F.col("removed_ms") - LOOK_BACK_MS)
        .groupBy(*ENDED)
        .agg(F.max("sign_ms").alias("recorded_ms"))
    )


def _last_sign_ms() -> Column:
    """Of a record: when it was written, or the last heartbeat that a window tells of.

    The first gap of a window began before it: from there on they fill it up to the last sign.
    """
    later_gaps = F.slice("gaps_ms", 2, F.greatest(F.size("gaps_ms") - 1, F.lit(0)))
    in_window = (
        F.col("at_ms")
        - F.col("window_ms")
        + F.aggregate(later_gaps, F.lit(0).cast("long"), lambda total, gap: total + gap)
    )
    of_window = F.col("type") == "HeartbeatGaps"
    return F.when(of_window, F.least("at_ms", in_window)).otherwise(F.col("at_ms"))


# -- what they served


def _with_topics(gone: DataFrame, versions: DataFrame) -> DataFrame:
    """``topics``: how many of its broker could be used when a process was removed.

    Beginnings and ends are added up by record before they are put in order: a record speaks of up
    to a thousand topics.
    """
    steps = (
        _routable(versions)
        .select(
            *GROUP, F.inline(F.array_compact(F.array(_step("from_seq", 1), _step("to_seq", -1))))
        )
        .groupBy(*GROUP, "seq")
        .agg(F.sum("step").alias("step"))
    )
    rows = gone.withColumn("seq", F.col("to_seq")).unionByName(steps, allowMissingColumns=True)
    in_order = Window.partitionBy(*GROUP).orderBy("seq")
    before = in_order.rangeBetween(Window.unboundedPreceding, -1)
    topics = F.coalesce(F.sum("step").over(before), F.lit(0))
    return rows.withColumn("topics", topics).where("to_seq IS NOT NULL").drop("seq", "step")


def _with_topics_lost(gone: DataFrame, versions: DataFrame) -> DataFrame:
    """``topics_lost``: how many topics could be used nowhere else once a process was removed."""
    comes, goes = _step("from_seq", 1), _step("to_seq", -1)
    steps = _routable(versions).select(
        *GROUP, "topic", F.inline(F.array_compact(F.array(comes, goes)))
    )
    in_order = Window.partitionBy(*WITNESS, "topic").orderBy("seq")
    so_far = in_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    lost = (
        steps.withColumn("left", F.sum("step").over(so_far))
        .where("step < 0 AND left = 0")
        .groupBy(*GROUP, F.col("seq").alias("to_seq"))
        .agg(F.count("*").alias("topics_lost"))
    )
    return gone.join(lost, [*GROUP, "to_seq"], "left").fillna(0, ["topics_lost"])


def _routable(versions: DataFrame) -> DataFrame:
    perm = F.col("perm")
    readable = (perm.bitwiseAND(_READ) != 0) & (F.col("read_queues") > 0)
    writable = (perm.bitwiseAND(_WRITE) != 0) & (F.col("write_queues") > 0)
    return versions.where(readable | writable)


def _step(seq: str, step: int) -> Column:
    row = F.struct(F.col(seq).alias("seq"), F.lit(step).alias("step"))
    return F.when(F.col(seq).isNotNull(), row)


# -- rows


def _rows(gone: DataFrame, poll_s: float) -> DataFrame:
    def common(ms: Column) -> Column:
        return F.timestamp_millis((ms - F.col("ahead_ms")).cast("long"))

    removed_ms, alive_ms = F.col("removed_ms"), F.col("alive_ms")
    detection_s = (removed_ms - alive_ms) / 1000
    return gone.withColumns(
        {
            "day": F.to_date(common(removed_ms)),
            "last_alive_at": common(alive_ms),
            "removed_at": common(removed_ms),
            "exposed_until": common(removed_ms + round(poll_s * 1000)),
            "detection_s": detection_s,
            "exposure_s": detection_s + poll_s,
            "expected_stale_s": detection_s + poll_s / 2,
        }
    ).select(*schemas.STALE_EXPOSURE.fieldNames())
