"""Members: who was in the tables of a node, from which record to which.

A member is an address under an id of a group. Most records about a group list all members it has
after them, some speak of one. For each id that a group ever had, each list says who has it, if
anybody: a session is a run of the same answer.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.groups import GROUP
from routebook_spark.silver.intervals import until_day
from routebook_spark.silver.node_events import doubted_since

MEMBER = (*GROUP, "broker_id", "addr")
TYPES = (
    "BrokerRegistered",
    "BrokerLeft",
    "GroupRestated",
    "BrokerUpdated",
    "BrokerConfirmed",
    "RegistrationCompleted",
)
OUT_OF_SIGHT = ("node_restarted", "lost_track")
"""Causes of ends that no record tells: it was there when it was last seen, and later not."""

_EARLIER, _DROPPED = "Earlier", "Dropped"


def member_sessions(
    events: DataFrame, groups: DataFrame, facts: DataFrame, *, earlier: DataFrame
) -> DataFrame:
    """Sessions told by ``events`` and by the ends of ``groups``, going on from ``earlier`` ones.

    Columns are those of sessions that do not depend on heartbeats, and ``told_at``, when the end
    was told.
    """
    rows = (
        _statements(events)
        .unionByName(_drops(groups), allowMissingColumns=True)
        .unionByName(_begun(earlier), allowMissingColumns=True)
    )
    return _sessions(_runs(_answers(rows)), facts)


# -- what is said of groups, and so of ids


def _statements(events: DataFrame) -> DataFrame:
    type_ = F.col("type")
    restated = type_ == "GroupRestated"
    listed = F.transform_keys("data.addrs_after", lambda broker_id, _: broker_id.cast("long"))
    timeout_ms = F.coalesce(
        "data.heartbeat_timeout_ms",
        F.get_json_object("data.after", "$.heartbeat_timeout_ms").cast("long"),
    )
    said = events.where(type_.isin(*TYPES) & ~F.coalesce("data.continued", F.lit(False)))
    return said.select(
        *GROUP,
        "seq",
        "at",
        "type",
        "cause",
        "peer",
        F.col("broker_id").alias("about_id"),
        F.col("addr").alias("about_addr"),
        F.when(restated, _by_id("addr")).otherwise(listed).alias("members"),
        F.when(restated, _by_id("heartbeat_timeout_ms")).alias("timeouts_ms"),
        F.when(type_.isin("BrokerRegistered", "BrokerUpdated"), timeout_ms).alias("timeout_ms"),
        F.when(type_ == "RegistrationCompleted", F.col("data.topic_count")).alias("topics"),
    )


def _by_id(member: str) -> Column:
    facts = F.transform("data.members", lambda fact: F.struct(fact["broker_id"], fact[member]))
    return F.map_from_entries(facts)


def _drops(groups: DataFrame) -> DataFrame:
    """Groups given up without a word: nobody is in them."""
    return groups.where(F.col("end_cause").isin(*OUT_OF_SIGHT)).select(
        *GROUP,
        F.col("to_seq").alias("seq"),
        F.col("told_at").alias("at"),
        F.col("to_at").alias("end_at"),
        F.lit(_DROPPED).alias("type"),
        F.col("end_cause").alias("cause"),
        F.create_map().cast("map<bigint,string>").alias("members"),
    )


def _begun(earlier: DataFrame) -> DataFrame:
    return earlier.select(
        *GROUP,
        F.col("from_seq").alias("seq"),
        F.col("began_at").alias("at"),
        F.lit(_EARLIER).alias("type"),
        "began",
        "peer",
        F.col("broker_id").alias("about_id"),
        F.col("addr").alias("about_addr"),
        F.col("heartbeat_timeout_ms").alias("timeout_ms"),
        "topics",
        "connections",
    )


def _answers(rows: DataFrame) -> DataFrame:
    """For each row and each id it says something of, who has it: ``addr``, null for nobody."""
    all_ids = Window.partitionBy(*GROUP)
    named = F.when(F.col("members").isNull(), F.array("about_id")).otherwise(F.map_keys("members"))
    lists = F.col("members").isNotNull()
    ids = F.when(lists, F.array_distinct(F.flatten(F.collect_set(named).over(all_ids))))
    listed = F.try_element_at("members", F.col("broker_id"))
    addr = F.when(F.col("members").isNull(), F.col("about_addr")).otherwise(listed)
    is_about = (F.col("about_id") == F.col("broker_id")) & (F.col("about_addr") == F.col("addr"))
    return (
        rows.withColumn("ids", F.coalesce(ids, F.array("about_id")))
        .withColumn("broker_id", F.explode("ids"))
        .withColumn("addr", addr)
        .withColumn("is_about", F.coalesce(is_about, F.lit(False)))
        .withColumn("timeout_ms", F.when(F.col("is_about"), F.col("timeout_ms")))
        .withColumn(
            "timeout_ms",
            F.coalesce("timeout_ms", F.try_element_at("timeouts_ms", F.col("broker_id"))),
        )
    )


# -- runs of the same answer


def _runs(answers: DataFrame) -> DataFrame:
    """A row for each run, ``addr`` null for one of nobody; ``first`` is the row it begins with."""
    by_seq = Window.partitionBy(*GROUP, "broker_id").orderBy("seq")
    changes = ~F.col("addr").eqNullSafe(F.lag("addr").over(by_seq))
    run = F.sum(F.when(changes, 1).otherwise(0)).over(by_seq)
    first = F.struct(
        "seq",
        "at",
        "type",
        "cause",
        "began",
        "peer",
        "about_id",
        "about_addr",
        "is_about",
        "connections",
        "timeout_ms",
        "end_at",
    )
    registers = (F.col("type") == "BrokerRegistered") & F.col("is_about")
    return (
        answers.withColumn("run", run)
        .groupBy(*GROUP, "broker_id", "addr", "run")
        .agg(
            F.min_by(first, "seq").alias("first"),
            F.count_if(registers).alias("registrations"),
            F.max_by("topics", F.when(F.col("topics").isNotNull(), F.col("seq"))).alias("topics"),
        )
    )


def _sessions(runs: DataFrame, facts: DataFrame) -> DataFrame:
    by_seq = Window.partitionBy(*GROUP, "broker_id").orderBy("first.seq")
    first, end = F.col("first"), F.col("end")
    registered = (first["type"] == "BrokerRegistered") & first["is_about"]
    began = (
        F.when(first["type"] == _EARLIER, first["began"])
        .when(registered, "registered")
        .when(first["type"] == "GroupRestated", "restated")
        .otherwise("known")
    )
    peer = F.when(first["is_about"] | (first["type"] == _EARLIER), first["peer"])
    ended = F.when(end["type"] == _DROPPED, end["end_at"]).otherwise(
        F.coalesce(doubted_since(end["seq"]), end["at"])
    )
    seen = ~F.col("cause").isin(*OUT_OF_SIGHT)
    return (
        runs.withColumn("end", F.lead("first").over(by_seq))
        .where("addr IS NOT NULL")
        .join(F.broadcast(facts), list(WITNESS))
        .withColumn("cause", F.when(end.isNotNull(), _end_cause(end)))
        .select(
            *MEMBER,
            first["seq"].alias("from_seq"),
            end["seq"].alias("to_seq"),
            first["at"].alias("began_at"),
            F.when(end.isNull(), None)
            .when(seen, end["at"])
            .otherwise(F.greatest(first["at"], ended))
            .alias("ended_at"),
            end["at"].alias("told_at"),
            began.alias("began"),
            "cause",
            F.coalesce(peer, F.lit("")).alias("peer"),
            # The registration it begins with is the first of its connections.
            (
                F.coalesce(first["connections"], F.lit(1))
                + F.col("registrations")
                - F.when(registered, 1).otherwise(0)
            ).alias("connections"),
            # Of its beginning: what comes later must not change days that have been told.
            F.coalesce(first["timeout_ms"], F.lit(DEFAULT_TIMEOUT_MS)).alias(
                "heartbeat_timeout_ms"
            ),
            "topics",
        )
        .withColumn("until_day", until_day(F.col("ended_at"), F.col("told_at")))
    )


def _end_cause(end: Column) -> Column:
    """Why a run ended, by the row that another one begins with."""
    its_own = (end["about_id"] == F.col("broker_id")) & (end["about_addr"] == F.col("addr"))
    elsewhere = (end["about_id"] != F.col("broker_id")) & (end["about_addr"] == F.col("addr"))
    return (
        F.when(end["type"] == _DROPPED, end["cause"])
        .when((end["type"] == "BrokerLeft") & its_own, end["cause"])
        .when((end["type"] == "BrokerRegistered") & elsewhere, F.lit("moved"))
        .otherwise("lost_track")
    )
