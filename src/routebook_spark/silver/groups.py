"""Groups: how long the tables of a node had a broker group, as records tell.

A life begins with the first record that speaks of the group, or one that makes or states it anew,
and ends with the next such one, with its last member, or where the node gives groups up. What a
group holds, it holds within one life.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS
from routebook_spark.silver.intervals import until_day
from routebook_spark.silver.node_events import doubted_since

GROUP = (*WITNESS, "cluster", "broker")
TYPES = (
    "BrokerRegistered",
    "BrokerLeft",
    "BrokerUpdated",
    "BrokerConfirmed",
    "RegistrationCompleted",
    "GroupRestated",
    "TopicsChanged",
    "MappingsChanged",
)
RESTATED, RENEWED = "restated", "renewed"
"""Ends of lives that another one follows at once."""


def broker_groups(events: DataFrame, facts: DataFrame, *, earlier: DataFrame) -> DataFrame:
    """Lives told by ``events``, which go on from the ``earlier`` ones, with ``has_members``."""
    begun = earlier.select(
        *GROUP,
        F.col("from_seq").alias("seq"),
        F.col("from_at").alias("at"),
        F.lit(True).alias("made"),
        "has_members",
    )
    rows = _mentions(events).unionByName(begun, allowMissingColumns=True)
    return _lives(_numbered(rows.join(F.broadcast(facts), list(WITNESS))))


def _mentions(events: DataFrame) -> DataFrame:
    """A row for each record about a group: what it makes, ends, and tells of its members."""
    type_ = F.col("type")
    left, registered = type_ == "BrokerLeft", type_ == "BrokerRegistered"
    restated = (type_ == "GroupRestated") & ~F.coalesce("data.continued", F.lit(False))
    after = F.coalesce(F.size("data.addrs_after"), F.lit(0))
    before = F.coalesce(F.size("data.addrs_before"), F.lit(0))
    about_member = type_.isin("BrokerUpdated", "BrokerConfirmed", "RegistrationCompleted")
    # One that is replaced leaves its topics to its successor, which is told of next.
    ends = left & (after == 0) & (F.col("cause") != "replaced")
    return events.where(type_.isin(*TYPES)).select(
        *GROUP,
        "seq",
        "at",
        (restated | (registered & (before == 0))).alias("made"),
        F.when(restated, RESTATED).otherwise(RENEWED).alias("making"),
        F.when(ends, F.col("cause")).alias("goodbye"),
        F.when(registered | left, after > 0)
        .when(restated, F.coalesce(F.size("data.members"), F.lit(0)) > 0)
        .when(about_member, F.lit(True))
        .alias("has_members"),
    )


def _numbered(rows: DataFrame) -> DataFrame:
    """Rows with the number of their ``life``, and how that was ``dropped`` before the next one."""
    by_seq = Window.partitionBy(*GROUP).orderBy("seq")
    by_life = Window.partitionBy(*GROUP, "life").orderBy("seq")
    ended_before = F.coalesce(F.lag("goodbye").over(by_seq).isNotNull(), F.lit(False))
    first = F.row_number().over(by_seq) == 1
    dropped_before = F.coalesce(F.lag("dropped").over(by_seq).isNotNull(), F.lit(False))
    life = F.sum(F.when(F.col("begins"), 1).otherwise(0)).over(by_seq)
    return (
        rows.withColumn("next_seq", F.lead("seq").over(by_seq))
        .withColumn("begins", F.col("made") | first | ended_before)
        .withColumn("made_seq", F.last(F.when(F.col("begins"), F.col("seq")), True).over(by_seq))
        .withColumn("dropped", _dropped())
        .withColumn("begins", F.col("begins") | dropped_before)
        .withColumn("life", life)
        .withColumn("has_members", F.last("has_members", ignorenulls=True).over(by_life))
        .withColumn("dropped", _emptied())
        .withColumn("begins", F.col("begins") | dropped_before)
        .withColumn("life", life)
    )


def _within(point: Column) -> Column:
    """Whether it is after the row and before the next one of the group."""
    next_seq = F.col("next_seq")
    return (point["seq"] > F.col("seq")) & (next_seq.isNull() | (point["seq"] < next_seq))


def _dropped() -> Column:
    """Where the group was given up before the next record speaks of it; null if it was not."""

    def is_due(drop: Column) -> Column:
        older = F.col("made_seq") < drop["loss_seq"]
        return _within(drop) & (drop["loss_seq"].isNull() | older)

    drop = F.try_element_at(F.filter("drops", is_due), F.lit(1))
    cause = F.when(drop["loss_seq"].isNull(), "node_restarted").otherwise("lost_track")
    return F.when(F.col("goodbye").isNull() & drop.isNotNull(), _end(drop, cause))


def _emptied() -> Column:
    """The same, where a start of the node comes first and the group has no members then."""
    start = F.try_element_at(F.filter("starts", _within), F.lit(1))
    empty = F.col("goodbye").isNull() & ~F.coalesce("has_members", F.lit(False))
    ended = F.when(empty & start.isNotNull(), _end(start, F.lit("node_restarted")))
    return F.least("dropped", ended)


def _end(point: Column, cause: Column) -> Column:
    members = [point[name].alias(name) for name in ("seq", "at", "end_at")]
    return F.struct(*members, cause.alias("cause"))


def _lives(rows: DataFrame) -> DataFrame:
    by_seq = Window.partitionBy(*GROUP).orderBy("seq")
    by_goodbye = F.struct("seq", "at", F.col("at").alias("end_at"), F.col("goodbye").alias("cause"))
    successor = F.lead(
        F.when(
            F.col("begins"),
            F.struct(
                "seq",
                "at",
                F.coalesce(doubted_since(F.col("seq")), "at").alias("end_at"),
                F.col("making").alias("cause"),
            ),
        )
    ).over(by_seq)
    end = F.coalesce(F.when(F.col("goodbye").isNotNull(), by_goodbye), "dropped", successor)
    return (
        rows.withColumn("end", end)
        .groupBy(*GROUP, "life")
        .agg(
            F.min("seq").alias("from_seq"),
            F.min_by("at", "seq").alias("from_at"),
            F.max_by("end", "seq").alias("end"),
        )
        .where("end IS NULL OR from_seq < end.seq")
        .select(
            *GROUP,
            "from_seq",
            F.col("end.seq").alias("to_seq"),
            "from_at",
            F.col("end.end_at").alias("to_at"),
            F.col("end.cause").alias("end_cause"),
            F.col("end.at").alias("told_at"),
            until_day(F.col("end.end_at"), F.col("end.at")).alias("until_day"),
        )
    )
