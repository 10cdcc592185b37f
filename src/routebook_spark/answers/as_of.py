"""Moments: which record of each node was its last at a time, and whether the node knew anything.

Intervals hold at a moment by their sequence numbers alone (``silver.intervals``). A time is by the
clock of the node; where that was set back it may have come twice, and the later one is meant.

A node whose disk was replaced is several witnesses under one name: the one that wrote last speaks.
"""

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.bronze.segments import were_taken
from routebook_spark.schemas import WITNESS

NODE = ("fleet", "node")
PROBABLY = "probably"
ENDED = "ended"
"""``why`` of times after the last record of a node that nobody saw stop."""


def moments(
    ats: DataFrame, *, segments: DataFrame, events: DataFrame, coverage: DataFrame
) -> DataFrame:
    """A row for each ``at`` of ``ats`` and each node.

    ``seq`` is the last record at that time, and ``as_of`` when it was; null for times before the
    first. ``told`` is null where the node told clients what it knew, and otherwise

    ``down``      it had stopped in order
    ``probably``  it was killed at some moment after its last sign of life, or there are no later
                  records: what it knew last probably held
    ``unknown``   nobody can tell

    ``why`` is how what was known ended: as ``ends`` of ``node_coverage``, or ``ENDED``, and
    ``since`` when. ``partial``: there was more before the first record, of which nothing is known.
    """
    taken = were_taken(segments)
    asked = ats.select("at", F.unix_millis("at").alias("at_ms")).distinct()
    pairs = taken.select(*WITNESS).distinct().crossJoin(asked)
    last = _last_records(pairs, taken, events)
    return _judged(_speakers(pairs.join(last, [*WITNESS, "at"], "left")), coverage)


def _last_records(pairs: DataFrame, taken: DataFrame, events: DataFrame) -> DataFrame:
    """``at, seq, as_of`` of witnesses: found in the last segment that has a record of the time."""
    spans = taken.select(*WITNESS, "first_seq", "last_seq", "min_wall_ms")
    located = (
        pairs.join(F.broadcast(spans), list(WITNESS))
        .where("min_wall_ms <= at_ms")
        .groupBy(*WITNESS, "at", "at_ms")
        .agg(F.max_by(F.struct("first_seq", "last_seq", "min_wall_ms"), "last_seq").alias("span"))
        .select(*WITNESS, "at", "at_ms", "span.*")
    )
    first_day = F.to_date(F.timestamp_millis("min_wall_ms"))
    days = located.select(F.explode(F.sequence(first_day, F.to_date("at"))).alias("day"))
    wanted = [row.day for row in days.distinct().collect()]
    stretches = F.sequence(_stretch(F.col("first_seq")), _stretch(F.col("last_seq")))
    return (
        events.where(F.col("day").isin(wanted))
        .select(*WITNESS, "seq", "wall_ms", F.col("at").alias("as_of"))
        .withColumn("stretch", _stretch(F.col("seq")))
        .join(
            F.broadcast(located.withColumn("stretch", F.explode(stretches))),
            [*WITNESS, "stretch"],
        )
        .where("seq BETWEEN first_seq AND last_seq AND wall_ms <= at_ms")
        .groupBy(*WITNESS, "at")
        .agg(F.max("seq").alias("seq"), F.max_by("as_of", "seq").alias("as_of"))
    )


def _stretch(seq: Column) -> Column:
    """What moments and records are matched by: a segment is one or a few stretches long."""
    return F.shiftright(seq, 15)


def _speakers(last: DataFrame) -> DataFrame:
    """Of the witnesses of one name the one that wrote last, one for each ``at``."""
    latest_first = Window.partitionBy(*NODE, "at").orderBy(
        F.col("as_of").desc_nulls_last(), F.col("seq").desc_nulls_last(), "incarnation"
    )
    return last.withColumn("place", F.row_number().over(latest_first)).where("place = 1")


def _judged(last: DataFrame, coverage: DataFrame) -> DataFrame:
    key = [*WITNESS, "at"]
    covered = coverage.select(*WITNESS, "from_seq", "to_seq", "to_at", "begins", "ends")
    states = F.col("begins").isin("first_record", "started_cold", "restated")
    known = (
        last.join(F.broadcast(covered), list(WITNESS), "left")
        .where("from_seq <= seq")
        .groupBy(*key)
        .agg(
            F.max_by(F.struct("to_seq", "to_at", "ends"), "from_seq").alias("latest"),
            F.max_by(F.struct("begins", "from_seq"), F.when(states, F.col("from_seq"))).alias(
                "basis"
            ),
        )
    )
    latest = F.col("latest")
    ends = F.coalesce(latest["ends"], F.lit(ENDED))
    # The last record before a node was killed does not know of its end; its time does. What was
    # lost may have been of the very moment since when.
    lasts = latest["to_seq"].isNull() | (F.col("seq") < latest["to_seq"])
    in_time = (F.col("at") < latest["to_at"]) | (
        (F.col("at") == latest["to_at"]) & (ends != "records_lost")
    )
    within = lasts & in_time
    told = (
        F.when(latest.isNull(), "unknown")
        .when(within, None)
        # A journal that is recovered is one of a node that is about to start.
        .when((ends == "stopped") | ((ends == "killed") & ~lasts), "down")
        .when(ends.isin("killed", ENDED), PROBABLY)
        .otherwise("unknown")
    )
    unclear = told.isNotNull() & latest.isNotNull()
    partial = (F.col("basis.begins") == "first_record") & (F.col("basis.from_seq") > 1)
    return last.join(known, key, "left").select(
        *key,
        "seq",
        "as_of",
        told.alias("told"),
        F.when(unclear, ends).alias("why"),
        F.when(unclear, latest["to_at"]).alias("unclear_since"),
        F.coalesce(partial, F.lit(False)).alias("partial"),
    )


def earliest_day(ats: DataFrame) -> date | None:
    """The first day of ``ats``: what ended before it was over by then."""
    first = ats.agg(F.to_date(F.min("at")).alias("day")).first()
    return first.day if first is not None else None
