"""Suspects: when a broker was listed although its node had reason to doubt it.

``unconfirmed``  recovered after a restart of the node, and not heard of since
``held``         silent for so long that it would have been let go, had not too many fallen silent
                 at once; until it was heard of again, or the guard let go

Neither outlasts the session of the broker, or the run of the node.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.groups import GROUP
from routebook_spark.silver.intervals import holds, until_day
from routebook_spark.silver.members import MEMBER

UNCONFIRMED, HELD = "unconfirmed", "held"
TYPES = (
    "BrokerRegistered",
    "BrokerUpdated",
    "BrokerConfirmed",
    "RegistrationCompleted",
    "GroupRestated",
    "GuardEngaged",
)
_BEGINS, _GOES_ON, _ENDS = "begins", "goes_on", "ends"


def suspect_times(
    events: DataFrame,
    heartbeats: DataFrame,
    sessions: DataFrame,
    facts: DataFrame,
    *,
    earlier: DataFrame,
) -> DataFrame:
    """Doubts raised by ``events`` and by the starts in ``facts``, which are no older than those.

    Those that go on are ``earlier``. ``heartbeats`` are HeartbeatGaps of the same time.
    """
    begun = earlier.select(
        *MEMBER,
        "kind",
        F.col("from_seq").alias("seq"),
        F.col("from_at").alias("at"),
        "silent_ms",
        F.lit(_BEGINS).alias("says"),
    )
    held = _held(events).unionByName(begun.where(F.col("kind") == HELD))
    said = (
        _recovered(sessions, facts)
        .unionByName(held, allowMissingColumns=True)
        .unionByName(begun.where(F.col("kind") == UNCONFIRMED), allowMissingColumns=True)
        .unionByName(_restated(events), allowMissingColumns=True)
        .unionByName(_heard(events), allowMissingColumns=True)
        .unionByName(_heard_again(heartbeats, held), allowMissingColumns=True)
    )
    return _spans(said, sessions, facts)


# -- what raises doubts, and what ends them


def _recovered(sessions: DataFrame, facts: DataFrame) -> DataFrame:
    """Members that were there when their node started, knowing them from before."""

    def survived(start: Column) -> Column:
        after = start["seq"] > F.col("from_seq")
        before_end = F.col("to_seq").isNull() | (start["seq"] < F.col("to_seq"))
        return after & before_end & ~start["cold"]

    return (
        sessions.join(F.broadcast(facts.select(*WITNESS, "starts")), list(WITNESS))
        .withColumn("start", F.explode(F.filter("starts", survived)))
        .select(
            *MEMBER,
            F.lit(UNCONFIRMED).alias("kind"),
            "start.seq",
            "start.at",
            "start.end_at",
            F.lit(_BEGINS).alias("says"),
        )
    )


def _restated(events: DataFrame) -> DataFrame:
    """What groups that are stated anew say of their members."""
    confirmed = F.coalesce("member.confirmed", F.lit(True))
    return (
        events.where("type = 'GroupRestated' AND NOT coalesce(data.continued, false)")
        .select(*GROUP, "seq", "at", F.explode("data.members").alias("member"))
        .select(
            *GROUP,
            "member.broker_id",
            "member.addr",
            F.lit(UNCONFIRMED).alias("kind"),
            "seq",
            "at",
            F.when(confirmed, _ENDS).otherwise(_GOES_ON).alias("says"),
        )
    )


def _held(events: DataFrame) -> DataFrame:
    return (
        events.where("type = 'GuardEngaged'")
        .select(*WITNESS, "seq", "at", F.explode("data.suspects").alias("suspect"))
        .select(
            *WITNESS,
            "suspect.cluster",
            "suspect.broker",
            "suspect.broker_id",
            "suspect.addr",
            F.lit(HELD).alias("kind"),
            "seq",
            "at",
            "suspect.silent_ms",
            F.lit(_BEGINS).alias("says"),
        )
    )


def _heard(events: DataFrame) -> DataFrame:
    """Records that show a broker alive; only some of them confirm one that was recovered."""
    confirms = F.col("type").isin("BrokerRegistered", "BrokerConfirmed")
    kinds = F.when(confirms, F.array(F.lit(UNCONFIRMED), F.lit(HELD))).otherwise(
        F.array(F.lit(HELD))
    )
    alive = F.col("type").isin(
        "BrokerRegistered", "BrokerUpdated", "BrokerConfirmed", "RegistrationCompleted"
    )
    return events.where(alive).select(
        *MEMBER, F.explode(kinds).alias("kind"), "seq", "at", F.lit(_ENDS).alias("says")
    )


def _heard_again(heartbeats: DataFrame, held: DataFrame) -> DataFrame:
    """A gap as long as the silence is over when it is counted; shorter ones are from before."""
    waiting = held.select(*MEMBER, F.col("seq").alias("held_seq"), "silent_ms")
    return (
        heartbeats.select(*MEMBER, "seq", "at", F.array_max("data.gaps_ms").alias("gap_ms"))
        .join(F.broadcast(waiting), list(MEMBER))
        .where("seq > held_seq AND gap_ms >= silent_ms")
        .select(*MEMBER, F.lit(HELD).alias("kind"), "seq", "at", F.lit(_ENDS).alias("says"))
    )


# -- from one to the other


def _spans(said: DataFrame, sessions: DataFrame, facts: DataFrame) -> DataFrame:
    spans = sessions.select(*MEMBER, "from_seq", "to_seq", "ended_at", "told_at")
    by_seq = Window.partitionBy(*MEMBER, "from_seq", "kind").orderBy("seq")
    doubted_already = F.coalesce(F.lag("says").over(by_seq) != _ENDS, F.lit(False))
    next_said = F.lead(_end("seq", F.coalesce("end_at", "at"), "at")).over(by_seq)
    left = F.when(F.col("to_seq").isNotNull(), _end("to_seq", F.col("ended_at"), "told_at"))
    released = F.when(F.col("kind") == HELD, _first_after("releases", "at"))
    end = F.least(next_said, left, released, _first_after("starts", "end_at"))
    return (
        said.join(F.broadcast(spans), list(MEMBER))
        .where(holds(F.col("seq")))
        .withColumn("repeats", (F.col("says") == _GOES_ON) & doubted_already)
        .where("NOT repeats")
        .join(F.broadcast(facts.select(*WITNESS, "starts", "releases")), list(WITNESS))
        .withColumn("end", end)
        .where(F.col("says") != _ENDS)
        .select(
            *MEMBER,
            "kind",
            F.col("seq").alias("from_seq"),
            F.col("end.seq").alias("to_seq"),
            F.col("at").alias("from_at"),
            F.when(F.col("end").isNotNull(), F.greatest("at", "end.end_at")).alias("to_at"),
            F.col("silent_ms"),
            until_day(F.col("end.end_at"), F.col("end.told_at")).alias("until_day"),
        )
        .select(*schemas.SUSPECT_TIMES.names)
    )


def _end(seq: str, end_at: Column, told_at: str) -> Column:
    return F.struct(
        F.col(seq).alias("seq"), end_at.alias("end_at"), F.col(told_at).alias("told_at")
    )


def _first_after(points: str, end_at: str) -> Column:
    """The end made by the first of ``points`` after the row; null without any."""
    point = F.try_element_at(F.filter(points, lambda each: each["seq"] > F.col("seq")), F.lit(1))
    end = F.struct(
        point["seq"].alias("seq"), point[end_at].alias("end_at"), point["at"].alias("told_at")
    )
    return F.when(point.isNotNull(), end)
