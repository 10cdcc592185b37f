"""Skew: how far apart the clocks of nodes are, judged by what both saw.

A broker registers with all nodes at about the same time, and its data version tells one of its
registrations from the next. Where two nodes took the same one, on whatever day, the difference of
their times is that of their clocks, give or take the time it took to reach them. Times within two
seconds of each other are surely one happening. Of others the first ones count, the second and so on
where both saw it as often, and only where it cannot be that the later node was away when the other
one saw it. The rules and their numbers are
those of ``routebook.history.comparing.skew``.

What the samples mean for the clocks of a fleet is worked out by ``common_clock``.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.history.comparing.skew import AGREE_MS, MOMENT_MS
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.breaks import clock_epochs, epoch_of

MOST_SAMPLES = 100
"""Of two clocks and a day: the first ones of its minutes, in turn.

All of one moment may only show that a node could not be reached before.
"""

_CONTENT = ("fleet", "cluster", "broker", "addr", "data_version")


def clock_days(events: DataFrame, breaks: DataFrame) -> DataFrame:
    """The days on which each node wrote something, by its clock, and the epochs of that."""
    return (
        events.select("day", *WITNESS, "seq")
        .join(F.broadcast(clock_epochs(breaks)), list(WITNESS), "left")
        .select("day", *WITNESS, epoch_of(F.col("seq")).alias("clock_epoch"))
        .distinct()
    )


def clock_sightings(events: DataFrame, breaks: DataFrame) -> DataFrame:
    """Registrations that nodes took, with the epochs of their clocks.

    Not those by which a broker confirmed what a node knew from before a restart: they come when
    its next beat is due, and to this node only.
    """
    of_broker = Window.partitionBy(*WITNESS, "cluster", "broker", "addr").orderBy("seq")
    taken = (
        events.where("type IN ('BrokerConfirmed', 'RegistrationCompleted')")
        .withColumn("before", F.lag("type").over(of_broker))
        .where("type = 'RegistrationCompleted' AND data.data_version IS NOT NULL")
        .where("before IS NULL OR before != 'BrokerConfirmed'")
    )
    return taken.join(F.broadcast(clock_epochs(breaks)), list(WITNESS), "left").select(
        *WITNESS,
        "seq",
        "day",
        "wall_ms",
        epoch_of(F.col("seq")).alias("clock_epoch"),
        "cluster",
        "broker",
        "addr",
        "data.data_version",
    )


def clock_samples(sightings: DataFrame, coverage: DataFrame, spans: DataFrame) -> DataFrame:
    """What two nodes saw and is surely one happening: how much later by the clock of ``node``.

    ``spans`` are the first and last times of all records of each witness, ``first_ms``,
    ``last_ms``.
    """
    seen = _with_presence(sightings, coverage, spans)
    here, there = (_side(seen, name) for name in ("here", "there"))
    pairs = here.join(there, list(_CONTENT)).where(
        "struct(here.node, here.incarnation) < struct(there.node, there.incarnation)"
    )
    apart_ms = F.abs(F.col("there.wall_ms") - F.col("here.wall_ms"))
    both = ("here.node", "here.incarnation", "there.node", "there.incarnation")
    by_here = Window.partitionBy(*_CONTENT, *both, "here.seq").orderBy(apart_ms, "there.seq")
    by_there = Window.partitionBy(*_CONTENT, *both, "there.seq").orderBy(apart_ms, "here.seq")
    near = (
        (F.row_number().over(by_here) == 1)
        & (F.row_number().over(by_there) == 1)
        & (apart_ms <= AGREE_MS)
    )
    any_near = F.max("near").over(Window.partitionBy(*_CONTENT, *both))
    same = F.col("here.time") == F.col("there.time")
    as_often = (F.col("here.time") == 1) | (F.col("here.times") == F.col("there.times"))
    alike = same & as_often & ~_away()
    of_a_day = ("fleet", *both, "there.clock_epoch", "here.clock_epoch", "there.day")
    minute = F.floor(F.col("there.wall_ms") / MOMENT_MS)
    of_a_minute = Window.partitionBy(*of_a_day, minute).orderBy("there.seq", "here.seq")
    turns = Window.partitionBy(*of_a_day).orderBy("turn", "there.seq", "here.seq")
    return (
        pairs.withColumn("near", near)
        .withColumn("any_near", any_near)
        .where(F.col("near") | (~F.col("any_near") & alike))
        .withColumn("turn", F.row_number().over(of_a_minute))
        .withColumn("number", F.row_number().over(turns))
        .where(F.col("number") <= MOST_SAMPLES)
        .select(
            "fleet",
            "there.node",
            "there.incarnation",
            "there.clock_epoch",
            "there.day",
            F.col("here.node").alias("against"),
            F.col("here.incarnation").alias("against_incarnation"),
            F.col("here.clock_epoch").alias("against_epoch"),
            F.col("here.day").alias("against_day"),
            (F.col("there.wall_ms") - F.col("here.wall_ms")).alias("offset_ms"),
            F.col("there.wall_ms").alias("seen_ms"),
        )
    )


def _with_presence(sightings: DataFrame, coverage: DataFrame, spans: DataFrame) -> DataFrame:
    """Sightings with ``covers`` and the span of their witness; each was a ``time`` of ``times``."""
    cover = F.struct(
        F.unix_millis("from_at").alias("from_ms"), F.unix_millis("to_at").alias("to_ms")
    )
    covers = coverage.groupBy(*WITNESS).agg(F.collect_list(cover).alias("covers"))
    content = Window.partitionBy(*WITNESS, *_CONTENT[1:])
    return (
        sightings.withColumn("time", F.row_number().over(content.orderBy("seq")))
        .withColumn("times", F.count("*").over(content))
        .join(F.broadcast(covers), list(WITNESS), "left")
        .join(F.broadcast(spans), list(WITNESS), "left")
    )


def _side(seen: DataFrame, name: str) -> DataFrame:
    told = ("node", "incarnation", "seq", "day", "wall_ms", "clock_epoch", "time", "times")
    return seen.select(*_CONTENT, F.struct(*told, "covers", "first_ms", "last_ms").alias(name))


def _away() -> Column:
    """Whether the one that saw it later may simply not have been there, by clocks that agree."""

    def missed(late: str, early: str) -> Column:
        then_ms, later_ms = F.col(f"{early}.wall_ms"), F.col(f"{late}.wall_ms")
        awake = F.exists(
            F.coalesce(f"{late}.covers", F.array()),
            lambda cover: (cover["from_ms"] <= then_ms) & (then_ms <= cover["to_ms"]),
        )
        recorded = later_ms.between(F.col(f"{early}.first_ms"), F.col(f"{early}.last_ms"))
        return ~awake & recorded

    return F.when(
        F.col("there.wall_ms") > F.col("here.wall_ms"), missed("there", "here")
    ).otherwise(missed("here", "there"))
