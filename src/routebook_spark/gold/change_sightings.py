"""Sightings: what nodes wrote down of changes in the world, to be found again with other nodes.

``subject`` is what a change is about and ``state`` what came of it. A process is known by its id
and address. Topics are known by the data version of the registration that brought them, which all
nodes are told; where there is none, as with an administrator's command, by their names and queues.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.gold.pairs import UNSEEN_ENDS

JOINED, LEFT, TOPICS = "broker_joined", "broker_left", "topic_changed"

TOGETHER_MS = 5000
"""Records of one registration, or of one command, follow on each other within this time."""

WINDOW_MS = 600_000
"""Within this time of each other nodes show the same change."""

BROKER = ("fleet", "cluster", "broker")
SUBJECT = (*BROKER, "subject")

_COLUMNS = (
    *SUBJECT,
    "node",
    "seq",
    "at_ms",
    "kind",
    "state",
    "topic",
    "what",
    "changes",  # false: the node was told, and it made no difference
    "taken_back",  # the same node showed the contrary within WINDOW_MS
    "listing",  # nodes that had the process before
)


# -- processes


def process_sightings(sessions: DataFrame, skew: DataFrame, nodes: list[str]) -> DataFrame:
    """Each time a node showed that a process came or left."""
    timed = (
        on_common_clock(sessions, skew, "began_at", "ended_at")
        .withColumn("subject", F.concat_ws(" ", "broker_id", "addr"))
        .repartition(*SUBJECT)
    )
    comes = _move("from_seq", "began_ms", JOINED, shown=F.col("began") == "registered")
    goes = _move("to_seq", "ended_ms", LEFT, shown=~F.col("cause").isin(*UNSEEN_ENDS))
    both = F.array(
        F.when(F.col("began_known"), comes),
        F.when(F.col("to_seq").isNotNull() & F.col("ended_known"), goes),
    )
    moves = timed.select("node", *SUBJECT, F.inline(F.array_compact(both)))
    in_order = Window.partitionBy(*SUBJECT).orderBy("at_ms", "node", "seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    listing = [F.when(_last_move(node).over(before) == JOINED, node) for node in nodes]
    of_node = Window.partitionBy(*SUBJECT, "node").orderBy("seq", "at_ms")
    returns_ms = F.lead("at_ms").over(of_node) - F.col("at_ms")
    told = {
        "state": F.col("kind"),
        "topic": F.lit(None).cast("string"),
        "what": F.col("subject"),
        "changes": F.lit(True),
        "taken_back": F.coalesce(returns_ms <= WINDOW_MS, F.lit(False)),
        "listing": F.array_compact(F.array(*listing)),
    }
    return moves.withColumns(told).where("shown").select(*_COLUMNS)


def _move(seq: str, at_ms: str, kind: str, *, shown: Column) -> Column:
    return F.struct(
        F.col(seq).alias("seq"),
        F.col(at_ms).alias("at_ms"),
        F.lit(kind).alias("kind"),
        shown.alias("shown"),
    )


def _last_move(node: str) -> Column:
    return F.last(F.when(F.col("node") == node, F.col("kind")), ignorenulls=True)


# -- topics


def topic_sightings(events: DataFrame, skew: DataFrame) -> DataFrame:
    """Each registration a node completed, and each other time it changed topics of a broker.

    What comes with the first process of a broker is part of its coming, and no change of its own.
    """
    types = ("BrokerRegistered", "BrokerLeft", "TopicsChanged", "RegistrationCompleted")
    told = events.where(F.col("type").isin(*types)).select(
        "node", *BROKER, "addr", "peer", "seq", "at", "type", *_topics()
    )
    timed = on_common_clock(told, skew, "at").where("clock_known").repartition(*BROKER)
    wholes = _wholes(_with_arriving(timed))
    by_version = F.col("version").isNotNull()
    single = F.col("first_topic") == F.col("last_topic")
    shown = {
        "kind": F.lit(TOPICS),
        "subject": F.when(by_version, F.concat_ws(" ", "addr", "version")).otherwise(
            F.hex("names")
        ),
        "state": F.when(by_version, F.col("version")).otherwise(F.hex("contents")),
        "topic": F.when(single, F.col("first_topic")),
        "what": F.when(single, F.col("after")).otherwise(F.format_string("%d topics", "topics")),
        "changes": (F.col("topics") > 0) & ~F.col("arriving"),
        "taken_back": F.lit(False),
        "listing": F.array().cast("array<string>"),
    }
    told_of = by_version | (F.col("topics") > 0)
    return wholes.where(told_of).withColumns(shown).select(*_COLUMNS)


def _topics() -> list[Column]:
    """How many topics a record changed, and what they are known by: sums in any order."""
    changes, nothing = F.col("data.changes"), F.lit(0).cast("long")
    names = F.flatten(F.transform(changes, lambda change: change["topics"]))

    def contents_of(change: Column) -> Column:
        return F.aggregate(
            change["topics"],
            nothing,
            lambda total, name: total.bitwiseXOR(F.xxhash64(name, change["after"])),
        )

    return [
        (F.size("data.addrs_before") == 0).alias("first"),
        F.to_json("data.data_version").alias("version"),
        F.coalesce(F.size(names), F.lit(0)).alias("topics"),
        F.array_min(names).alias("first_topic"),
        F.array_max(names).alias("last_topic"),
        F.coalesce(F.to_json(F.element_at(changes, -1)["after"]), F.lit("null")).alias("after"),
        F.aggregate(names, nothing, lambda total, name: total.bitwiseXOR(F.xxhash64(name))).alias(
            "names"
        ),
        F.aggregate(
            changes, nothing, lambda total, change: total.bitwiseXOR(contents_of(change))
        ).alias("contents"),
    ]


def _with_arriving(records: DataFrame) -> DataFrame:
    """Those about topics; ``arriving`` while the first registration of the broker goes on."""
    in_order = Window.partitionBy("node", *BROKER).orderBy("seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    comes = (F.col("type") == "BrokerRegistered") & F.col("first")
    settles = F.col("type").isin("BrokerLeft", "RegistrationCompleted")
    last = F.last(F.when(comes, True).when(settles, False), ignorenulls=True).over(before)
    return records.withColumn("arriving", F.coalesce(last, F.lit(False))).where(
        F.col("type").isin("TopicsChanged", "RegistrationCompleted")
    )


def _wholes(parts: DataFrame) -> DataFrame:
    """One row for all records of one registration, or of one command."""
    of_peer = Window.partitionBy("node", *BROKER, "peer").orderBy("seq")
    so_far = of_peer.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    completes = F.col("type") == "RegistrationCompleted"
    waits_ms = F.col("at_ms") - F.lag("at_ms").over(of_peer)
    apart = F.lag(completes).over(of_peer) | (waits_ms > TOGETHER_MS)
    changed_seq = F.when(F.col("topics") > 0, F.col("seq"))
    return (
        parts.withColumn("apart", F.coalesce(apart, F.lit(True)).cast("int"))
        .withColumn("number", F.sum("apart").over(so_far))
        .groupBy("node", *BROKER, "peer", "number")
        .agg(
            F.max("seq").alias("seq"),
            F.max_by("at_ms", "seq").alias("at_ms"),
            F.max("arriving").alias("arriving"),
            F.max("addr").alias("addr"),
            F.max("version").alias("version"),
            F.sum("topics").alias("topics"),
            F.min("first_topic").alias("first_topic"),
            F.max("last_topic").alias("last_topic"),
            F.max_by("after", changed_seq).alias("after"),
            F.bit_xor("names").alias("names"),
            F.bit_xor("contents").alias("contents"),
        )
    )
