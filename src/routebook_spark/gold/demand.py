"""topic_demand: what clients asked for, and what nobody asks for.

A row for each topic and hour with questions, of all nodes together; and one for each day and topic
that is there and was not asked for, so that its silence can be counted from one day to the next
without reading all that was before. Where nodes had more topics to count than they list
(``unlisted``), silence proves nothing, and such a day is not counted.
"""

from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.system_topics import REPLY_SUFFIX, RMQ_PREFIX, SYSTEM_PREFIXES, SYSTEM_TOPICS
from routebook_spark.gold.known import (
    DAY_MS,
    HOUR_MS,
    day_of,
    known_units,
    told_routes,
    unit_of,
)
from routebook_spark.schemas import TOPIC_DEMAND, WITNESS

ZOMBIE_DAYS = 7
FORGOTTEN_DAYS = 7
"""A topic that was neither there nor asked for so long begins anew."""
_DAY_HOURS = 24
_TOPIC = ("fleet", "topic")


def topic_demand(
    events: DataFrame,
    versions: DataFrame,
    coverage: DataFrame,
    earlier: DataFrame,
    *,
    from_day: date | None = None,
) -> DataFrame:
    """Rows of ``TOPIC_DEMAND``; ``earlier`` are those of the days before ``from_day``."""
    windows = events.where(F.col("type") == "RouteQueries")
    if from_day is not None:
        windows = windows.where(F.col("day") >= F.lit(from_day))
    unlisted = windows.groupBy("fleet", "day").agg(F.sum("data.others").alias("unlisted"))
    days = (
        _presence(versions, coverage, from_day)
        .join(_asked(windows), [*_TOPIC, "day"], "full")
        .join(F.broadcast(unlisted), ["fleet", "day"], "left")
        .withColumn("unlisted", F.coalesce("unlisted", F.lit(0).cast("long")))
    )
    return _rows(_counted(days, _before(earlier, from_day)))


# -- what was asked for


def _asked(windows: DataFrame) -> DataFrame:
    """Topics, days and the ``asked`` hours: sums over nodes. A window counts where it ends."""
    hours = (
        windows.select("day", "fleet", "node", "at", F.explode("data.queries").alias("query"))
        .groupBy(
            "fleet", F.col("query.topic").alias("topic"), "day", F.hour("at").alias("hour"), "node"
        )
        .agg(
            F.sum("query.known").alias("known"),
            F.sum("query.unknown").alias("unknown"),
            F.sum("query.not_ready").alias("not_ready"),
            F.max("at").alias("last_asked_at"),
        )
        .groupBy(*_TOPIC, "day", "hour")
        .agg(
            F.sum("known").alias("known"),
            F.sum("unknown").alias("unknown"),
            F.sum("not_ready").alias("not_ready"),
            F.count("node").alias("nodes"),
            F.max("last_asked_at").alias("last_asked_at"),
        )
    )
    hour = F.struct("hour", "known", "unknown", "not_ready", "nodes", "last_asked_at")
    return hours.groupBy(*_TOPIC, "day").agg(
        F.collect_list(hour).alias("asked"), F.max("last_asked_at").alias("asked_at")
    )


# -- topics that are there


def _presence(versions: DataFrame, coverage: DataFrame, from_day: date | None) -> DataFrame:
    """Topics, days and a bit for each of the ``hours`` in which it was on any node.

    Only days of which a node knows anything. ``own``: named after the broker or cluster it is of.
    """
    known_days = known_units(coverage, DAY_MS, from_day=from_day)
    horizon = known_days.groupBy(*WITNESS).agg(F.max("until_ms").alias("horizon_ms"))
    own = (
        F.col("topic").isin(F.col("broker"), F.col("cluster"))
        | (F.col("topic") == F.concat("broker", F.lit(REPLY_SUFFIX)))
        | (F.col("topic") == F.concat("cluster", F.lit(REPLY_SUFFIX)))
    )
    # Brokers and nodes tell of the same topic in the same hours: a few rows are left of them.
    spans = (
        told_routes(versions, from_day=from_day)
        .join(F.broadcast(horizon), list(WITNESS))
        .select(
            *_TOPIC,
            unit_of("begin_ms", HOUR_MS).alias("first_hour"),
            unit_of(F.least("end_ms", "horizon_ms") - 1, HOUR_MS).alias("last_hour"),
            own.alias("own"),
        )
        .where("first_hour <= last_hour")
        .distinct()
    )
    first_day = F.call_function("div", F.col("first_hour"), F.lit(_DAY_HOURS))
    last_day = F.call_function("div", F.col("last_hour"), F.lit(_DAY_HOURS))
    if from_day is not None:
        first_day = F.greatest(first_day, F.unix_date(F.lit(from_day)).cast("long"))
    day_hour = F.col("unit") * _DAY_HOURS
    first = F.greatest(F.col("first_hour") - day_hour, F.lit(0)).cast("int")
    last = F.least(F.col("last_hour") - day_hour, F.lit(_DAY_HOURS - 1)).cast("int")
    bits = _power_of_2(last + 1) - _power_of_2(first)
    # Matched with the days that are known: a clock may have leapt over thousands in between.
    known = F.broadcast(known_days.select("fleet", "unit").distinct())
    return (
        spans.withColumns({"first_day": first_day, "last_day": last_day})
        .join(known, "fleet")
        .where(F.col("unit").between(F.col("first_day"), F.col("last_day")))
        .groupBy(*_TOPIC, day_of(F.col("unit")).alias("day"))
        .agg(F.bit_or(bits).alias("hours"), F.bool_or("own").alias("own"))
    )


def _power_of_2(exponent: Column) -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("long"), exponent)


def system_name(topic: Column) -> Column:
    """Whether RocketMQ, or a consumer group, makes topics of this name."""
    named = topic.isin(*SYSTEM_TOPICS) | F.lower(topic).startswith(RMQ_PREFIX)
    for prefix in SYSTEM_PREFIXES:
        named = named | topic.startswith(prefix)
    return named


# -- silence


def _before(earlier: DataFrame, from_day: date | None) -> DataFrame:
    """How it stood with each topic on the last day before ``from_day`` that tells."""
    if from_day is None:
        earlier = earlier.limit(0)
    else:
        first = from_day - timedelta(days=FORGOTTEN_DAYS)
        earlier = earlier.where((F.col("day") >= F.lit(first)) & (F.col("day") < F.lit(from_day)))
    return earlier.groupBy(*_TOPIC).agg(
        F.max("day").alias("day"),
        F.max("last_asked_at").alias("asked_at"),
        F.max_by("unasked_days", "day").alias("unasked"),
        F.lit(True).alias("earlier"),
    )


def _counted(days: DataFrame, before: DataFrame) -> DataFrame:
    """``days`` with ``unasked_days`` and ``last_asked_at``, counted on from ``before``."""
    silent = F.col("asked_at").isNull() & (F.col("unlisted") == 0)
    run = Window.partitionBy(*_TOPIC, "run").orderBy("day")
    return (
        days.withColumn("unasked", F.when(silent, 1).otherwise(0))
        .unionByName(before, allowMissingColumns=True)
        .withColumn("run", _run())
        .withColumn("unasked_days", F.sum("unasked").over(run).cast("long"))
        .withColumn("last_asked_at", F.max("asked_at").over(run))
        .where(F.col("earlier").isNull())
    )


def _run() -> Column:
    """The number of a stretch that begins with a question, or after a long absence."""
    by_day = Window.partitionBy(*_TOPIC).orderBy("day")
    absence = F.datediff(F.col("day"), F.lag("day").over(by_day))
    begins = F.col("asked_at").isNotNull() | F.coalesce(absence > FORGOTTEN_DAYS, F.lit(False))
    return F.sum(begins.cast("int")).over(by_day)


# -- as rows


def _rows(days: DataFrame) -> DataFrame:
    """A row for each hour of ``asked``; one without an hour where there is none."""
    hour = F.col("hour.hour")
    there = F.getbit(F.coalesce("hours", F.lit(0).cast("long")), hour) == 1
    counts = {
        name: F.coalesce(f"hour.{name}", F.lit(0).cast("long"))
        for name in ("known", "unknown", "not_ready", "nodes")
    }
    return (
        days.withColumn("hour", F.explode_outer("asked"))
        .withColumns(
            {
                **counts,
                "hour_at": F.col("day").cast("timestamp") + F.make_dt_interval(hours=hour),
                "exists": F.coalesce(there, F.lit(True)),
                "system": system_name(F.col("topic")) | F.coalesce("own", F.lit(False)),
                "last_asked_at": F.coalesce("hour.last_asked_at", "last_asked_at"),
            }
        )
        .withColumn("zombie", ~F.col("system") & (F.col("unasked_days") > ZOMBIE_DAYS))
        .select(*TOPIC_DEMAND.names)
    )
