"""What a report says of topics, and of what will not fit."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.gold.demand import system_name
from routebook_spark.report.facts import (
    STEPS_S,
    Asked,
    Balance,
    Demand,
    Outlook,
    Period,
    Storm,
    TopicAsked,
    TopicSpread,
    Zombie,
    instant,
)
from routebook_spark.report.rows import collected, hours_of, last_day, top
from routebook_spark.tables import CAPACITY_FORECAST, EVENTS, TOPIC_BALANCE, TOPIC_DEMAND, Lake

SKEWED = 1.2
SKEWS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)

_COUNTS = ("known", "unknown", "not_ready")
_HOUR_S = 3600


def balance(lake: Lake, period: Period) -> Balance:
    own = F.col("topic").isin(F.col("top_broker"), F.col("cluster"))
    topics = (
        last_day(lake.read(TOPIC_BALANCE), period)
        .groupBy("cluster", "topic")
        .agg(F.max_by(F.struct("*"), "hour_at").alias("row"))
        .select("row.*")
        .where(F.col("brokers") > 0)
        .where(~system_name(F.col("topic")) & ~F.coalesce(own, F.lit(False)))
    )
    lowest = F.lit(SKEWS[0])
    for bound in SKEWS[1:]:
        lowest = F.when(F.col("skew") >= bound, bound).otherwise(lowest)
    several = F.when(F.col("writable_brokers") > 1, lowest)
    counts = collected(
        topics.groupBy(several.alias("bound"))
        .agg(
            F.count("*").alias("topics"),
            F.count_if("single_broker").alias("single"),
            F.count_if(F.col("writable_brokers") == 0).alias("unwritable"),
        )
        .orderBy("bound")
    )
    spread = topics.select(*TopicSpread._fields)
    size = (F.desc("write_queues"), "cluster", "topic")
    return Balance(
        topics=sum(row["topics"] for row in counts),
        single=sum(row["single"] for row in counts),
        unwritable=sum(row["unwritable"] for row in counts),
        buckets=[(row["bound"], row["topics"]) for row in counts if row["bound"] is not None],
        skewed=[
            TopicSpread(**row)
            for row in top(spread.where(F.col("skew") >= SKEWED), F.desc("skew"), *size)
        ],
        alone=[TopicSpread(**row) for row in top(spread.where("writable_brokers = 1"), *size)],
    )


def demand(lake: Lake, period: Period) -> Demand:
    """By whole hours, as the table is. Only the plot of a short time shows more of them."""
    hours = hours_of(lake.read(TOPIC_DEMAND), period, "hour_at")
    sums = [F.sum(name).alias(name) for name in _COUNTS]
    (total,) = collected(hours.agg(*sums))
    exists = F.max_by("exists", "hour_at").alias("exists")
    topics = hours.groupBy("topic").agg(*sums, exists)
    asked = F.col("known") + F.col("unknown") + F.col("not_ready")
    zombies = last_day(lake.read(TOPIC_DEMAND), period).where("zombie")
    step_s, steps = _steps(lake, hours, period)
    return Demand(
        step_s=step_s,
        asked=steps,
        **{name: count or 0 for name, count in total.items()},
        top=[TopicAsked(**row) for row in top(topics, asked.desc(), "topic")],
        storms=[
            Storm(**row)
            for row in top(
                hours.where("unknown > 0").select(*Storm._fields),
                F.desc("unknown"),
                "hour_at",
                "topic",
            )
        ],
        zombies=[
            Zombie(**row)
            for row in top(
                zombies.select(*Zombie._fields),
                F.desc("unasked_days"),
                F.asc_nulls_first("last_asked_at"),
                "topic",
            )
        ],
        zombie_count=zombies.count(),
    )


def _steps(lake: Lake, hours: DataFrame, period: Period) -> tuple[int, list[Asked]]:
    """What was asked in each step, and how long that is: a window of a node is not cut."""
    if period.step_s >= _HOUR_S:
        return period.step_s, _summed(hours, F.unix_millis("hour_at"), period.step_s)
    windows = hours_of(lake.read(EVENTS), period, "at").where("type = 'RouteQueries'")
    (longest,) = collected(windows.agg(F.max("data.window_ms").alias("ms")))
    least_s = max(period.step_s, (longest["ms"] or 0) / 1000)
    step_s = next((step for step in STEPS_S if step >= least_s), STEPS_S[-1])
    counts = windows.select(
        (F.unix_millis("at") - F.coalesce("data.window_ms", F.lit(0)) / 2).alias("middle_ms"),
        F.inline("data.queries"),
    )
    return step_s, _summed(counts, F.col("middle_ms"), step_s)


def _summed(counts: DataFrame, at_ms: Column, step_s: int) -> list[Asked]:
    number = F.floor(at_ms / (step_s * 1000)).alias("number")
    sums = [F.sum(name).alias(name) for name in _COUNTS]
    rows = collected(counts.groupBy(number).agg(*sums).orderBy("number"))
    return [
        Asked(instant(row["number"] * step_s * 1000), *(row[name] for name in _COUNTS))
        for row in rows
    ]


def forecast(lake: Lake, period: Period) -> list[Outlook]:
    rows = last_day(lake.read(CAPACITY_FORECAST), period).select(*Outlook._fields)
    order = (F.asc_nulls_last("days_to_limit"), F.desc("registration_bytes"), "cluster", "broker")
    return [Outlook(**row) for row in top(rows, *order)]
