"""Differences between two moments, found among the intervals that stood at one of them only."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook.words import EXAMPLES
from routebook_spark.answers.telling import member_changed, what_changed
from routebook_spark.schemas import BOOLEAN, LONG, SHAPE, STRING, WITNESS, struct
from routebook_spark.silver.intervals import holds

DIFFERENCES = struct(
    fleet=STRING,
    node=STRING,
    incarnation=STRING,
    known=BOOLEAN,
    cluster=STRING,
    broker=STRING,
    topic=STRING,  # null: about a member of the broker group
    broker_id=LONG,
    change=STRING,  # came, went, changed
    what=STRING,
    before_queues=SHAPE,
    after_queues=SHAPE,
    before_addr=STRING,
    after_addr=STRING,
)

_GROUP = (*WITNESS, "cluster", "broker")


def differences(
    period: DataFrame, *, versions: DataFrame, sessions: DataFrame, topic: str | None = None
) -> DataFrame:
    """A row for each topic of a broker, and each of its members, that is another ``after``.

    ``period`` has witnesses, ``before_seq`` and ``after_seq``, and ``told``: why a node did not
    know at one of them, or null. Such a node is one row, not ``known``. With a topic, of brokers
    that hold it at one of the moments.
    """
    known = F.broadcast(period.where("told IS NULL"))
    if topic is not None:
        versions = versions.where(F.col("topic") == topic)
        holders = (
            versions.join(known, list(WITNESS)).where(_was() | _is()).select(*_GROUP).distinct()
        )
        sessions = sessions.join(F.broadcast(holders), list(_GROUP), "left_semi")
    parts = (
        _queues_changed(versions, known),
        _members_changed(sessions, known),
        period.where("told IS NOT NULL").select(
            *WITNESS, F.lit(False).alias("known"), F.col("told").alias("what")
        ),
    )
    first, *others = (_complete(part) for part in parts)
    for other in others:
        first = first.unionByName(other)
    return first


def _was() -> Column:
    return holds(F.col("before_seq"))


def _is() -> Column:
    return holds(F.col("after_seq"))


def _changed(intervals: DataFrame, known: DataFrame, key: list[str], value: Column) -> DataFrame:
    """``before`` and ``after`` of each key for which ``value`` is not the same."""
    return (
        intervals.join(known, list(WITNESS))
        .withColumns({"was": _was(), "is": _is()})
        .where("was != is")
        .groupBy(*key)
        .agg(
            F.first(F.when(F.col("was"), value), ignorenulls=True).alias("before"),
            F.first(F.when(F.col("is"), value), ignorenulls=True).alias("after"),
        )
        .where("NOT before <=> after")
        .withColumns(
            {
                "known": F.lit(True),
                "change": F.when(F.col("before").isNull(), "came")
                .when(F.col("after").isNull(), "went")
                .otherwise("changed"),
            }
        )
    )


def _queues_changed(versions: DataFrame, known: DataFrame) -> DataFrame:
    shape = F.array("read_queues", "write_queues", "perm", "flags")
    changed = _changed(versions, known, [*_GROUP, "topic"], shape)
    return changed.withColumn("what", what_changed("before", "after")).withColumnsRenamed(
        {"before": "before_queues", "after": "after_queues"}
    )


def _members_changed(sessions: DataFrame, known: DataFrame) -> DataFrame:
    changed = _changed(sessions, known, [*_GROUP, "broker_id"], F.col("addr"))
    what = member_changed("broker_id", "before", "after")
    return changed.withColumn("what", what).withColumnsRenamed(
        {"before": "before_addr", "after": "after_addr"}
    )


def _complete(rows: DataFrame) -> DataFrame:
    return rows.select(
        *(
            (F.col(field.name) if field.name in rows.columns else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in DIFFERENCES
        )
    )


def by_broker(found: DataFrame, *, period: DataFrame, sessions: DataFrame) -> DataFrame:
    """One row for a broker, however many topics it has.

    ``change`` is that of the whole broker, ``members`` are phrases about those that changed,
    ``topics`` how many did, and ``ways`` how: ``what``, ``topics``, and some as ``examples``.
    """
    key = list(_GROUP)
    ways = (
        found.where("topic IS NOT NULL")
        .groupBy(*key, "what")
        .agg(
            F.count("*").alias("topics"),
            F.slice(F.sort_array(F.collect_list("topic")), 1, EXAMPLES).alias("examples"),
        )
        .groupBy(*key)
        .agg(
            F.sum("topics").alias("topics"),
            F.sort_array(F.collect_list(F.struct("what", "topics", "examples"))).alias("ways"),
        )
    )
    members = (
        found.where("broker_id IS NOT NULL")
        .groupBy(*key)
        .agg(
            F.transform(
                F.sort_array(F.collect_list(F.struct("broker_id", "what"))),
                lambda each: each["what"],
            ).alias("members")
        )
    )
    there = (
        sessions.join(F.broadcast(period), list(WITNESS))
        .groupBy(*key)
        .agg(F.bool_or(_was()).alias("was"), F.bool_or(_is()).alias("is"))
    )
    whole = F.when(~F.col("was"), "came").when(~F.col("is"), "went").otherwise("changed")
    return (
        members.join(ways, key, "full")
        .join(there, key, "left")
        .select(
            *key,
            whole.alias("change"),
            F.coalesce("members", F.array().cast("array<string>")).alias("members"),
            F.coalesce("topics", F.lit(0)).alias("topics"),
            "ways",
        )
    )


def topics_come_and_gone(found: DataFrame, *, period: DataFrame, versions: DataFrame) -> DataFrame:
    """``change, topics, examples``: topics that no broker of a node had before, or has after."""
    candidates = found.where("topic IS NOT NULL AND change != 'changed'")
    names = candidates.select(*WITNESS, "topic", "change").distinct()
    held = versions.join(F.broadcast(period.where("told IS NULL")), list(WITNESS))
    elsewhere = held.select(*WITNESS, "topic", F.explode(_held_at()).alias("change")).distinct()
    return (
        names.join(elsewhere, [*WITNESS, "topic", "change"], "left_anti")
        .groupBy(*WITNESS, "change")
        .agg(
            F.count("*").alias("topics"),
            F.slice(F.sort_array(F.collect_list("topic")), 1, EXAMPLES).alias("examples"),
        )
    )


def _held_at() -> Column:
    """What a version keeps its topic from having done: come if it was there, gone if it is."""
    return F.array_compact(F.array(F.when(_was(), "came"), F.when(_is(), "went")))
