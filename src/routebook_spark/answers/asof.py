"""Moments: which record of each node was its last at a time, and whether the node knew anything.

Intervals hold at a moment by their sequence numbers alone (``silver.intervals``). A time is by the
clock of the node; where that was set back it may have come twice, and the later one is meant.
"""

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def moments(
    ats: DataFrame, *, segments: DataFrame, events: DataFrame, coverage: DataFrame
) -> DataFrame:
    """``node, at, seq, as_of, told, partial`` for each ``at`` of ``ats`` and each node.

    ``seq`` is the last record at that time, and ``as_of`` when it was; null for times before the
    first. ``told`` is null where the node told clients what it knew, and otherwise ``down``, or
    ``unknown`` when its records of the time are missing. ``partial``: there was more before the
    first record, of which nothing is known.
    """
    taken = segments.where("status = 'taken'")
    asked = ats.select("at", F.unix_millis("at").alias("at_ms")).distinct()
    pairs = taken.select("node").distinct().crossJoin(asked)
    last = _last_records(pairs, taken, events)
    return _judged(pairs.join(last, ["node", "at"], "left"), coverage)


def _last_records(pairs: DataFrame, taken: DataFrame, events: DataFrame) -> DataFrame:
    """``node, at, seq, as_of``: found in the last segment that has a record of the time."""
    spans = taken.select("node", "first_seq", "last_seq", "min_wall_ms")
    located = (
        pairs.join(F.broadcast(spans), "node")
        .where("min_wall_ms <= at_ms")
        .groupBy("node", "at", "at_ms")
        .agg(F.max_by(F.struct("first_seq", "last_seq", "min_wall_ms"), "last_seq").alias("span"))
        .select("node", "at", "at_ms", "span.*")
    )
    first_day = F.to_date(F.timestamp_millis("min_wall_ms"))
    days = located.select(F.explode(F.sequence(first_day, F.to_date("at"))).alias("day"))
    wanted = [row.day for row in days.distinct().collect()]
    stretches = F.sequence(_stretch(F.col("first_seq")), _stretch(F.col("last_seq")))
    return (
        events.where(F.col("day").isin(wanted))
        .select("node", "seq", "wall_ms", F.col("at").alias("as_of"))
        .withColumn("stretch", _stretch(F.col("seq")))
        .join(F.broadcast(located.withColumn("stretch", F.explode(stretches))), ["node", "stretch"])
        .where("seq BETWEEN first_seq AND last_seq AND wall_ms <= at_ms")
        .groupBy("node", "at")
        .agg(F.max("seq").alias("seq"), F.max_by("as_of", "seq").alias("as_of"))
    )


def _stretch(seq: Column) -> Column:
    """What moments and records are matched by: a segment is one or a few stretches long."""
    return F.shiftright(seq, 15)


def _judged(last: DataFrame, coverage: DataFrame) -> DataFrame:
    covered = coverage.select("node", "from_seq", "to_seq", "to_at", "begins", "ends")
    known = (
        last.join(F.broadcast(covered), "node", "left")
        .where("from_seq <= seq")
        .groupBy("node", "at")
        .agg(
            F.max_by(F.struct("to_seq", "to_at", "ends"), "from_seq").alias("latest"),
            F.max_by(
                F.struct("begins", "from_seq"),
                F.when(F.col("begins") != "started_warm", F.col("from_seq")),
            ).alias("basis"),
        )
    )
    latest = F.col("latest")
    # The last record before a node was killed does not know of its end; its time does.
    lasting = (F.col("seq") < latest["to_seq"]) & (F.col("at") < latest["to_at"])
    down = latest["ends"].isin("stopped", "killed")
    told = (
        F.when(latest.isNull(), "unknown")
        .when(latest["to_seq"].isNull() | lasting, F.lit(None))
        .otherwise(F.when(down, "down").otherwise("unknown"))
    )
    partial = (F.col("basis.begins") == "first_record") & (F.col("basis.from_seq") > 1)
    return last.join(known, ["node", "at"], "left").select(
        "node",
        "at",
        "seq",
        "as_of",
        told.alias("told"),
        F.coalesce(partial, F.lit(False)).alias("partial"),
    )


def earliest_day(ats: DataFrame) -> date | None:
    """The first day of ``ats``: what ended before it was over by then."""
    first = ats.agg(F.to_date(F.min("at")).alias("day")).first()
    return first.day if first is not None else None
