"""Sessions of brokers in the tables of a node, with their heartbeats and topics.

Gaps between heartbeats are counted by their length rounded to 100 ms (``gap_counts``), so that the
counts of a session that goes on can be added to. Percentiles are taken from these counts: the
shortest gap, so rounded, that at least that part of all gaps do not exceed.

A registration may be of a part of the topics only: how many a broker has is counted from its
routes.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.groups import GROUP
from routebook_spark.silver.members import MEMBER
from routebook_spark.silver.suspects import UNCONFIRMED

STEP_MS = 100
_NEVER = (1 << 63) - 1  # the number of a record that does not come
_SESSION = (*WITNESS, "broker_id", "from_seq")  # one record begins one session of an id


def broker_sessions(
    sessions: DataFrame,
    heartbeats: DataFrame,
    suspects: DataFrame,
    last: DataFrame,
    versions: DataFrame,
    *,
    earlier: DataFrame,
) -> DataFrame:
    """``sessions`` with their heartbeats: those counted ``earlier``, and new ones.

    ``suspects`` are all there were in these sessions; ``last`` is the last record of each node, and
    ``versions`` are the routes that were, or are, true when the sessions end.
    """
    counted = _counts(sessions, heartbeats, earlier)
    doubted = _doubted(sessions, suspects, last)
    heard = F.coalesce("heartbeats", F.lit(0))
    return (
        _with_topics(sessions, versions)
        .join(counted, list(_SESSION), "left")
        .join(doubted, list(_SESSION), "left")
        .join(F.broadcast(last.select(*WITNESS, F.col("seq").alias("last_seq"))), list(WITNESS))
        .withColumns(
            {
                "heartbeats": heard.cast("long"),
                "gap_p50_ms": _percentile(0.5),
                "gap_p99_ms": _percentile(0.99),
                "restarts": F.coalesce("restarts", F.lit(0)),
                "unconfirmed_s": F.coalesce("unconfirmed_s", F.lit(0.0)),
                "seen_seq": F.coalesce("to_seq", "last_seq"),
            }
        )
        .select(*schemas.BROKER_SESSIONS.names)
    )


def _counts(sessions: DataFrame, heartbeats: DataFrame, earlier: DataFrame) -> DataFrame:
    spans = sessions.select(*MEMBER, "from_seq", "to_seq")
    new = (
        heartbeats.select(*MEMBER, "seq", "data.gaps_ms")
        .join(F.broadcast(spans), list(MEMBER))
        .where("from_seq <= seq AND (to_seq IS NULL OR seq < to_seq)")
        .select(*_SESSION, F.explode("gaps_ms").alias("each_ms"))
        .groupBy(
            *_SESSION,
            F.expr(f"(each_ms + {STEP_MS // 2}) div {STEP_MS} * {STEP_MS}").alias("gap_ms"),
        )
        .agg(F.count("*").alias("count"), F.max("each_ms").alias("longest_ms"))
    )
    before = earlier.select(
        *_SESSION, F.inline("gap_counts"), F.col("gap_max_ms").alias("longest_ms")
    )
    return (
        new.unionByName(before)
        .groupBy(*_SESSION, "gap_ms")
        .agg(F.sum("count").alias("count"), F.max("longest_ms").alias("longest_ms"))
        .groupBy(*_SESSION)
        .agg(
            F.sum("count").alias("heartbeats"),
            F.max("longest_ms").alias("gap_max_ms"),
            F.array_sort(F.collect_list(F.struct("gap_ms", "count"))).alias("gap_counts"),
        )
    )


def _with_topics(sessions: DataFrame, versions: DataFrame) -> DataFrame:
    """``topics``: how many the broker had when a session ended, or has; null when none is known of.

    Beginnings and ends are added up by record before they are put in order: a record speaks of up
    to a thousand topics.
    """

    def step(seq: str, number: int) -> Column:
        row = F.struct(F.col(seq).alias("seq"), F.lit(number).alias("step"))
        return F.when(F.col(seq).isNotNull(), row)

    both = F.array_compact(F.array(step("from_seq", 1), step("to_seq", -1)))
    steps = (
        versions.select(*GROUP, F.inline(both))
        .groupBy(*GROUP, "seq")
        .agg(F.sum("step").alias("step"))
    )
    ends = sessions.withColumn("seq", F.coalesce("to_seq", F.lit(_NEVER)))
    rows = ends.unionByName(steps, allowMissingColumns=True)
    in_order = Window.partitionBy(*GROUP).orderBy("seq")
    there = F.sum("step").over(in_order.rangeBetween(Window.unboundedPreceding, -1))
    told = F.when(F.col("topics").isNotNull() | (there > 0), F.coalesce(there, F.lit(0)))
    return rows.withColumn("topics", told).where("from_seq IS NOT NULL").drop("seq", "step")


def _percentile(part: float) -> Column:
    wanted = F.ceil(F.col("heartbeats") * part)

    def add(seen: Column, each: Column) -> Column:
        total = seen["total"] + each["count"]
        found = F.when(seen["gap_ms"].isNull() & (total >= wanted), each["gap_ms"])
        return F.struct(total.alias("total"), F.coalesce(seen["gap_ms"], found).alias("gap_ms"))

    nothing = F.struct(
        F.lit(0).cast("long").alias("total"), F.lit(None).cast("long").alias("gap_ms")
    )
    return F.aggregate("gap_counts", nothing, add)["gap_ms"]


def _doubted(sessions: DataFrame, suspects: DataFrame, last: DataFrame) -> DataFrame:
    """Restarts of the node that were survived, and how long it took to be heard of again."""
    doubts = suspects.where(F.col("kind") == UNCONFIRMED).select(
        *MEMBER, F.col("from_seq").alias("seq"), "from_at", "to_at"
    )
    until_at = F.coalesce("to_at", "last_at")
    lasted_s = (F.unix_millis(until_at) - F.unix_millis("from_at")) / 1000
    return (
        doubts.join(F.broadcast(sessions.select(*MEMBER, "from_seq", "to_seq")), list(MEMBER))
        .where("from_seq <= seq AND (to_seq IS NULL OR seq < to_seq)")
        .join(F.broadcast(last.select(*WITNESS, F.col("at").alias("last_at"))), list(WITNESS))
        .groupBy(*_SESSION)
        .agg(
            F.count("*").alias("restarts"),
            F.sum(F.greatest(lasted_s, F.lit(0.0))).alias("unconfirmed_s"),
        )
    )
