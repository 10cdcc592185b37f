"""Groups: what nodes say of a broker as a whole, out of the sessions of its processes."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.gold.pairs import ABSENT, UNSEEN_ENDS
from routebook_spark.gold.witnesses import NODE, not_before_known, with_known_ends

REPLACED_WITHIN_MS = 1000
"""Whoever takes an id over is told of right after the one that had it."""

_GROUP = (*NODE, "cluster", "broker")
_BROKER = ("fleet", "cluster", "broker")


def group_claims(sessions: DataFrame, known: DataFrame, skew: DataFrame) -> DataFrame:
    """What each node says of a broker from ``at_ms`` on: its addresses by id, as JSON.

    ``known`` is coverage on the common clock, without what cannot be compared. ``back_ms`` and
    ``back_seq``: when a broker that is absent from here on came back; null when it
    did not.
    """
    ids = sessions.groupBy(*_BROKER).agg(F.count_distinct("broker_id").alias("ids"))
    (most,) = ids.agg(F.max("ids").alias("ids")).collect()
    in_order = Window.partitionBy(*_GROUP).orderBy("seq", "begins")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    listed = [
        F.last(F.when(F.col("place") == place, F.col("entry")), ignorenulls=True).over(so_far)
        for place in range(1, (most.ids or 1) + 1)
    ]
    members = F.array_join(F.array_remove(F.array_compact(F.array(*listed)), ""), ",")
    told = (
        _entries(sessions, known, skew)
        .select(
            *_GROUP,
            "seq",
            # Clocks that are set back must not turn the order of records around.
            F.coalesce(F.max("at_ms").over(so_far), F.lit(0)).alias("at_ms"),
            members.alias("members"),
            F.lead("seq").over(in_order).alias("next_seq"),
        )
        .where("next_seq IS NULL OR next_seq > seq")
    )
    gone = F.col("members") == ""
    by_seq = Window.partitionBy(*_GROUP).orderBy("seq")
    return told.select(
        *_GROUP,
        "seq",
        "at_ms",
        F.when(gone, ABSENT).otherwise(F.concat(F.lit("{"), "members", F.lit("}"))).alias("claim"),
        F.when(gone, F.lead("at_ms").over(by_seq)).alias("back_ms"),
        F.when(gone, F.lead("seq").over(by_seq)).alias("back_seq"),
    )


def _entries(sessions: DataFrame, known: DataFrame, skew: DataFrame) -> DataFrame:
    """One row for each time a process came or went: its ``entry`` among the addresses, or "".

    ``place`` numbers the ids of a broker.
    """
    timed = with_known_ends(
        on_common_clock(sessions, skew, "began_at", "ended_at"), known
    ).repartition(*_BROKER)
    at_id = Window.partitionBy(*_GROUP, "broker_id").orderBy("from_seq")
    waits_ms = F.lead("began_ms").over(at_id) - F.col("ended_ms")
    replaced = (F.col("cause") == "replaced") & (waits_ms <= REPLACED_WITHIN_MS)
    of_broker = Window.partitionBy(*_BROKER).orderBy("broker_id")
    as_json = F.to_json(F.create_map(F.col("broker_id").cast("string"), "addr"))
    told = timed.withColumns(
        {
            "replaced": F.coalesce(replaced, F.lit(False)),
            "place": F.dense_rank().over(of_broker),
            "entry": as_json.substr(F.lit(2), F.length(as_json) - 2),
            "gone_ms": F.col("ended_ms") + F.col("cause").isin(*UNSEEN_ENDS).cast("int"),
        }
    )
    comes = _entry("from_seq", "began_ms", "began_known", F.col("entry"), begins=True)
    goes = _entry("to_seq", "gone_ms", "ended_known", F.lit(""), begins=False)
    ends = F.col("to_seq").isNotNull() & ~F.col("replaced")
    both = F.array_compact(F.array(comes, F.when(ends, goes)))
    return told.select(*_GROUP, "place", F.inline(both))


def _entry(seq: str, at_ms: str, at_known: str, entry: Column, *, begins: bool) -> Column:
    return F.struct(
        F.col(seq).alias("seq"),
        not_before_known(seq, at_ms, at_known).alias("at_ms"),
        entry.alias("entry"),
        F.lit(begins).alias("begins"),
    )
