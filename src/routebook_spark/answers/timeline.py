"""Timelines: what happened to one broker, or to one topic, a sentence a row.

What happened to the node is told where it concerned the broker or topic, that is while the node
knew it. Nodes are told together, by one clock; each of them in the order of its records.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.answers.events import event_column
from routebook_spark.answers.telling import silence_told, told, turn_told
from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.intervals import holds

SILENCE = "Silence"
"""``type`` of a line about the time before it, of which there is no record."""

_LINE = (*WITNESS, "seq", "node_at", "type", "cluster", "broker", "sentence")
_GROUP = (*WITNESS, "cluster", "broker")
_MEMBER = (*_GROUP, "addr")
_NODE_TYPES = ("NodeStarted", "NodeStopped", "NodeStalled")
_STARTS = ("NodeStarted", "JournalRecovered")


def ordered(lines: DataFrame, skew: DataFrame) -> DataFrame:
    """``lines`` in order, with ``at``: their time by the clock all nodes are compared with.

    Where the clock of a node was set back that goes back too; the order does not.
    """
    so_far = Window.partitionBy(*WITNESS).orderBy("seq", "node_at")
    silence_first = F.col("type") != SILENCE
    return (
        on_common_clock(lines, skew, "node_at")
        .withColumn("place", F.max("node_ms").over(so_far))
        .orderBy("place", *WITNESS, "seq", silence_first)
        .select(F.timestamp_millis("node_ms").alias("at"), *_LINE)
    )


# -- brokers


def of_broker(
    name: str, *, sessions: DataFrame, events: DataFrame, coverage: DataFrame
) -> DataFrame:
    """What happened to the brokers called ``name``."""
    own = sessions.where(F.col("broker") == name).select(*WITNESS, "from_seq", "to_seq")
    about_it = F.col("broker") == name
    held = F.exists("data.suspects", lambda suspect: suspect["broker"] == name)
    rows = events.where(
        about_it
        | ((F.col("type") == "GuardEngaged") & held)
        | ((F.col("type") == "RequestRefused") & F.contains("data.subject", F.lit(name)))
        | F.col("type").isin(*_STARTS)
    )
    found = (
        _with_context(rows)
        .where(about_it | ~F.col("type").isin(*_STARTS))
        .where(~_part_of_first_registration())
    )
    return _lines(found, name).unionByName(_lines_of_nodes(own, events, coverage))


def _with_context(rows: DataFrame) -> DataFrame:
    """What sentences need to know of the rows around; the starts of nodes count its runs."""
    by_node = Window.partitionBy(*WITNESS).orderBy("seq")
    by_group = Window.partitionBy(*_GROUP).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    by_member = Window.partitionBy(*_MEMBER).orderBy("seq")
    before = by_member.rowsBetween(Window.unboundedPreceding, -1)
    after = by_member.rowsBetween(1, Window.unboundedFollowing)
    kind = F.col("type")
    step = F.when(
        kind.isin("BrokerRegistered", "RegistrationCompleted", "BrokerLeft"),
        F.struct("type", "run", "wall_ms", "mono_ms", F.col("data.topic_count").alias("topics")),
    )
    said_timeout = F.when(kind == "BrokerRegistered", F.col("data.heartbeat_timeout_ms")).when(
        kind == "BrokerUpdated",
        F.get_json_object("data.after", "$.heartbeat_timeout_ms").cast("long"),
    )
    phase = F.when(kind == "BrokerRegistered", F.size("data.addrs_before") == 0).when(
        kind.isin("RegistrationCompleted", "BrokerLeft"), F.lit(False)
    )
    runs = rows.withColumn("run", F.sum(kind.isin(*_STARTS).cast("int")).over(by_node))
    around = runs.withColumns(
        {
            "previous": F.last(step, ignorenulls=True).over(before),
            "following": F.first(step, ignorenulls=True).over(after),
            "timeout_ms": F.last(said_timeout, ignorenulls=True).over(by_member),
            "arriving": F.last(phase, ignorenulls=True).over(by_group),
        }
    )
    previous, following = F.col("previous"), F.col("following")
    return around.withColumns(
        {
            "away_ms": F.when(previous["type"] == "BrokerLeft", _elapsed_ms(previous)),
            "registered_topics": F.when(
                following["type"] == "RegistrationCompleted", following["topics"]
            ),
        }
    )


def _elapsed_ms(earlier: Column) -> Column:
    """By the clock nobody sets, as long as the node ran."""
    by_mono = F.col("mono_ms") - earlier["mono_ms"]
    by_wall = F.col("wall_ms") - earlier["wall_ms"]
    return F.greatest(F.when(F.col("run") == earlier["run"], by_mono).otherwise(by_wall), F.lit(0))


def _part_of_first_registration() -> Column:
    """The registration says how many topics there are."""
    return (F.col("type") == "TopicsChanged") & F.coalesce(F.col("arriving"), F.lit(False))


# -- topics


def of_topic(
    topic: str, *, versions: DataFrame, events: DataFrame, coverage: DataFrame
) -> DataFrame:
    """What happened to ``topic``."""
    own = versions.where(F.col("topic") == topic).withColumn(
        "shape", F.array("read_queues", "write_queues", "perm", "flags")
    )
    turns = _turns(own)
    found = events.select("day", *WITNESS, "seq", event_column().alias("event"))
    turn = F.struct("cluster", "broker", "before", "after", "away_ms", "cause")
    lines = (
        turns.join(found, ["day", *WITNESS, "seq"], "left")
        .join(_holders(turns, own), [*WITNESS, "seq"], "left")
        .withColumn("cause", F.coalesce("event.cause", "cause"))
        .withColumn("sentence", turn_told(F.lit(topic), turn, "event", "holders"))
        .withColumn("type", F.coalesce("event.type", F.lit("")))
        .select(*_LINE)
    )
    spans = own.select(*WITNESS, "from_seq", "to_seq")
    return lines.unionByName(_lines_of_nodes(spans, events, coverage))


def _turns(own: DataFrame) -> DataFrame:
    """Where the queues on a broker came, changed or went: ``before`` and ``after``."""
    by_group = Window.partitionBy(*_GROUP).orderBy("from_seq")
    spans = own.withColumns(
        {
            "previous": F.lag(F.struct("to_seq", "valid_to", "shape")).over(by_group),
            "next_seq": F.lead("from_seq").over(by_group),
        }
    )
    previous, nothing = F.col("previous"), F.lit(None)
    goes_on = previous["to_seq"] == F.col("from_seq")
    away_ms = F.unix_millis("valid_from") - F.unix_millis(previous["valid_to"])
    begins = spans.select(
        *_GROUP,
        F.col("from_seq").alias("seq"),
        F.col("valid_from").alias("node_at"),
        F.when(goes_on, previous["shape"]).alias("before"),
        F.col("shape").alias("after"),
        F.when(~goes_on, away_ms).alias("away_ms"),
        "cause",
    )
    ends = spans.where("to_seq IS NOT NULL AND (next_seq IS NULL OR next_seq != to_seq)").select(
        *_GROUP,
        F.col("to_seq").alias("seq"),
        F.col("valid_to").alias("node_at"),
        F.col("shape").alias("before"),
        nothing.cast("array<int>").alias("after"),
        nothing.cast("long").alias("away_ms"),
        F.col("end_cause").alias("cause"),
    )
    return begins.unionByName(ends).withColumn("day", F.to_date("node_at"))


def _holders(turns: DataFrame, own: DataFrame) -> DataFrame:
    """``seq, holders`` of nodes: the brokers that have the topic after each turn."""
    places = turns.select(*WITNESS, "seq").distinct()
    return (
        own.select(*WITNESS, F.col("broker").alias("holder"), "from_seq", "to_seq")
        .join(F.broadcast(places), list(WITNESS))
        .where(holds(F.col("seq")))
        .groupBy(*WITNESS, "seq")
        .agg(F.sort_array(F.collect_set("holder")).alias("holders"))
    )


# -- nodes


def _lines_of_nodes(known: DataFrame, events: DataFrame, coverage: DataFrame) -> DataFrame:
    """What happened to nodes while they knew something: ``known`` has ``from_seq, to_seq``."""
    happened = events.where(F.col("type").isin(*_NODE_TYPES)).withColumns(
        {name: F.lit(None).cast("long") for name in ("away_ms", "registered_topics", "timeout_ms")}
    )
    during = _while_known(_lines(happened), known, F.col("seq"))
    return during.unionByName(_silences(known, events, coverage))


def _silences(known: DataFrame, events: DataFrame, coverage: DataFrame) -> DataFrame:
    by_node = Window.partitionBy(*WITNESS).orderBy("from_seq")
    clocks = events.where("type = 'NodeStalled'").select(
        *WITNESS, F.col("seq").alias("from_seq"), F.lit("clock").alias("ended")
    )
    ended = (
        coverage.withColumn("previous", F.lag(F.struct("to_seq", "to_at", "ends")).over(by_node))
        .where("previous IS NOT NULL AND previous.ends != 'stalled'")  # the node tells that itself
        .withColumn("ended", F.col("previous.ends"))
        .join(F.broadcast(clocks), [*WITNESS, "from_seq", "ended"], "left_anti")  # and that
    )
    since, until = F.unix_millis("previous.to_at"), F.unix_millis("from_at")
    lines = ended.select(
        *WITNESS,
        F.col("from_seq").alias("seq"),
        F.col("from_at").alias("node_at"),
        F.lit(SILENCE).alias("type"),
        F.lit(None).cast("string").alias("cluster"),
        F.lit(None).cast("string").alias("broker"),
        silence_told("previous.ends", since, until).alias("sentence"),
        F.col("previous.to_seq").alias("until_seq"),
    )
    return _while_known(lines, known, F.col("until_seq")).select(*_LINE)


def _while_known(lines: DataFrame, known: DataFrame, seq: Column) -> DataFrame:
    spans = known.withColumnsRenamed({name: f"known_{name}" for name in WITNESS})
    during = (F.col("from_seq") <= seq) & (F.col("to_seq").isNull() | (F.col("to_seq") >= seq))
    for name in WITNESS:
        during &= F.col(name) == F.col(f"known_{name}")
    return lines.join(F.broadcast(spans), during, "left_semi")


def _lines(rows: DataFrame, broker: str | None = None) -> DataFrame:
    known = ("away_ms", "registered_topics", "timeout_ms")
    sentence = told(event_column(), F.lit(broker), *known)
    return (
        rows.withColumn("sentence", sentence)
        .where("sentence IS NOT NULL")
        .withColumnRenamed("at", "node_at")
        .select(*_LINE)
    )
