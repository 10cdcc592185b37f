"""Versions: what each topic looked like on each group, from which record to which.

A record about topics belongs to one life of its group, and what it says holds until the next one
about the topic, or until that life ends. A group that is stated anew begins another life; topics it
has again, as they were, go on.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.silver.groups import GROUP, RENEWED, RESTATED
from routebook_spark.silver.intervals import until_day
from routebook_spark.silver.members import OUT_OF_SIGHT

TOPIC = (*GROUP, "topic")
TYPES = ("TopicsChanged", "GroupRestated")
_SHAPE = ("read_queues", "write_queues", "perm", "flags")


def route_versions(events: DataFrame, groups: DataFrame, *, earlier: DataFrame) -> DataFrame:
    """Versions told by ``events``, which go on from the ``earlier`` ones.

    ``groups`` are the lives of these groups that last into the time of ``events``, or begin in it.
    """
    lives = F.broadcast(_lives(groups))
    within = (F.col("life_from") <= F.col("seq")) & (
        F.col("life_end").isNull() | (F.col("seq") < F.col("life_end.seq"))
    )
    said = _topics(_changes(events).join(lives, list(GROUP)).where(within))
    return _versions(said.unionByName(_begun(earlier, lives)))


def _lives(groups: DataFrame) -> DataFrame:
    # When another life follows at once, nobody knows what became of topics it does not have.
    cause = F.when(F.col("end_cause").isin(RESTATED, RENEWED), "lost_track").otherwise(
        F.col("end_cause")
    )
    end = F.struct(
        F.col("to_seq").alias("seq"),
        F.col("told_at").alias("at"),
        F.col("to_at").alias("end_at"),
        cause.alias("cause"),
    )
    return groups.select(
        *GROUP,
        F.col("from_seq").alias("life_from"),
        F.when(F.col("to_seq").isNotNull(), end).alias("life_end"),
    )


def _changes(events: DataFrame) -> DataFrame:
    changes = F.when(F.col("type") == "TopicsChanged", F.col("data.changes"))
    return events.where(F.col("type").isin(*TYPES)).select(
        *GROUP, "seq", "at", "cause", F.coalesce(changes, "data.queues").alias("changes")
    )


def _topics(changes: DataFrame) -> DataFrame:
    """A row for each topic a record speaks of; ``shape`` null: it is gone."""
    return (
        changes.withColumn("change", F.explode("changes"))
        .withColumn("topic", F.explode("change.topics"))
        .select(
            *TOPIC,
            "seq",
            "at",
            "cause",
            F.col("change.after").alias("shape"),
            F.col("change.registered").alias("registered"),
            "life_end",
        )
    )


def _begun(earlier: DataFrame, lives: DataFrame) -> DataFrame:
    """Versions that go on, each in the life its group had when the new records began: the first.

    They may be older than that life.
    """
    first = lives.groupBy(*GROUP).agg(F.min_by("life_end", "life_from").alias("life_end"))
    return earlier.join(F.broadcast(first), list(GROUP)).select(
        *TOPIC,
        F.col("from_seq").alias("seq"),
        F.col("valid_from").alias("at"),
        "cause",
        F.array(*_SHAPE).alias("shape"),
        "registered",
        "life_end",
    )


def _versions(said: DataFrame) -> DataFrame:
    """Runs of rows that say the same, each from its first row to the end of its last."""
    by_seq = Window.partitionBy(*TOPIC).orderBy("seq")
    # A topic has few rows: looking ahead costs less than sorting them all once more.
    ahead = by_seq.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    before = F.lag(F.struct("shape", "registered", "life_end")).over(by_seq)
    same = F.col("shape").eqNullSafe(before["shape"]) & F.col("registered").eqNullSafe(
        before["registered"]
    )
    # A life that ends with this very record is followed by the one it begins.
    lasted = before["life_end"].isNull() | (before["life_end"]["seq"] >= F.col("seq"))
    goes_on = F.coalesce(before.isNotNull() & same & lasted, F.lit(False))
    changed = F.lead(F.struct("seq", "at", F.col("at").alias("end_at"), "cause")).over(by_seq)
    end = F.when(
        changed.isNull() | (F.col("life_end.seq") < changed["seq"]), F.col("life_end")
    ).otherwise(changed)
    is_last = ~F.coalesce(F.lead("goes_on").over(by_seq), F.lit(False))
    last = F.first(F.when(F.col("is_last"), F.struct("end")), ignorenulls=True).over(ahead)
    runs = (
        said.withColumns({"goes_on": goes_on, "end": end})
        .withColumn("is_last", is_last)
        .withColumn("end", last["end"])
        .where("shape IS NOT NULL AND NOT goes_on")
    )
    seen = ~F.col("end.cause").isin(*OUT_OF_SIGHT)
    shape = [F.col("shape")[place].alias(name) for place, name in enumerate(_SHAPE)]
    return runs.select(
        *TOPIC,
        *shape,
        "registered",
        F.col("seq").alias("from_seq"),
        F.col("end.seq").alias("to_seq"),
        F.col("at").alias("valid_from"),
        F.when(seen, F.col("end.end_at"))
        .when(~seen, F.greatest("at", "end.end_at"))
        .alias("valid_to"),
        "cause",
        F.col("end.cause").alias("end_cause"),
        until_day(F.col("end.end_at"), F.col("end.at")).alias("until_day"),
    ).select(*schemas.ROUTE_VERSIONS.names)
