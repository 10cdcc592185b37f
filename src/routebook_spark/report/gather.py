"""The facts of a report, from the tables.

    period = period_of(lake)
    page(gather(lake, period, title="Last week"))

Everything is summed up by Spark; what comes here is what is drawn: a few dozen rows of each table,
in an order that does not depend on how they are stored.
"""

from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.errors import PipelineError
from routebook_spark.gold.demand import system_name
from routebook_spark.report.facts import (
    Asked,
    Availability,
    Balance,
    BrokerTime,
    Convergence,
    Demand,
    Disagreement,
    Divergence,
    Flap,
    Lag,
    LagBucket,
    NearMiss,
    NodeQuality,
    Outlook,
    Period,
    Quality,
    Quarantined,
    Report,
    Spent,
    Storm,
    TopicAsked,
    TopicSpread,
    Zombie,
)
from routebook_spark.report.incidents import incidents
from routebook_spark.report.rows import collected, during, hours_of, last_day, step_of
from routebook_spark.tables import (
    BROKER_AVAILABILITY,
    CAPACITY_FORECAST,
    CLOCK_SKEW,
    CONVERGENCE,
    DIVERGENCE,
    FLAPS,
    GAPS,
    HEARTBEAT_HEALTH,
    NODE_COVERAGE,
    QUARANTINE,
    TOPIC_BALANCE,
    TOPIC_DEMAND,
    Lake,
)

LONGEST = timedelta(days=30)
"""What a report is about unless it is told: as much as this before the last record."""
TOP = 12
SKEWED = 1.2
SKEWS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)

_BROKER = ("cluster", "broker", "broker_id")
_TIMES = (
    "up_s",
    "suspect_s",
    "down_s",
    "planned_s",
    "unknown_s",
    "failures",
    "repairs",
    "budget_s",
)
_COUNTS = ("known", "unknown", "not_ready")


class NothingToReport(PipelineError):
    """Tables without any node in them."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"there is nothing in {root} to report about; take journals in with"
            " `routebook spark ingest` and make the tables with `routebook spark build`"
        )


class EmptyPeriod(PipelineError):
    """A period that ends before it begins, or that no node knows of."""

    def __init__(self, period: Period, known: Period) -> None:
        super().__init__(
            f"there is nothing from {period.from_at:%Y-%m-%dT%H:%M:%SZ} to"
            f" {period.to_at:%Y-%m-%dT%H:%M:%SZ}; the tables tell of"
            f" {known.from_at:%Y-%m-%dT%H:%M:%SZ} to {known.to_at:%Y-%m-%dT%H:%M:%SZ}"
        )


def period_of(lake: Lake, from_at: datetime | None = None, to_at: datetime | None = None) -> Period:
    """What is asked for; without an end it is the last record. Raises PipelineError."""
    ends = lake.read(NODE_COVERAGE).agg(
        F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at")
    )
    (row,) = collected(ends)
    if row["from_at"] is None:
        raise NothingToReport(lake.root)
    # The last record is part of it.
    known = Period(row["from_at"], row["to_at"] + timedelta(milliseconds=1))
    until = to_at or known.to_at
    period = Period(from_at or max(known.from_at, until - LONGEST), until)
    if period.from_at >= min(period.to_at, known.to_at) or period.to_at <= known.from_at:
        raise EmptyPeriod(period, known)
    return period


def gather(lake: Lake, period: Period, *, title: str) -> Report:
    return Report(
        title=title,
        period=period,
        quality=_quality(lake, period),
        availability=_availability(lake, period),
        incidents=incidents(lake, period),
        flaps=_flaps(lake, period),
        near_misses=_near_misses(lake, period),
        convergence=_convergence(lake, period),
        divergence=_divergence(lake, period),
        balance=_balance(lake, period),
        demand=_demand(lake, period),
        forecast=_forecast(lake, period),
    )


def _top(rows: DataFrame, *order: Column | str, most: int = TOP) -> list[dict[str, Any]]:
    return collected(rows.orderBy(*order).limit(most))


# -- how good the data is


def _quality(lake: Lake, period: Period) -> Quality:
    coverage = during(lake.read(NODE_COVERAGE), period, "from_at", "to_at")
    from_ms = F.greatest(F.unix_millis("from_at"), F.unix_millis(F.lit(period.from_at)))
    until_ms = F.least(F.unix_millis("to_at") + 1, F.unix_millis(F.lit(period.to_at)))
    ended = F.col("to_at") < F.lit(period.to_at)

    def times(*ends: str) -> Column:
        return F.count_if(ended & F.col("ends").isin(*ends))

    nodes = coverage.groupBy("node").agg(
        (F.sum(F.greatest(until_ms - from_ms, F.lit(0))) / 1000).alias("known_s"),
        times("stopped").alias("stops"),
        times("killed").alias("kills"),
        times("records_lost", "records_missing").alias("losses"),
    )
    missing = (
        during(lake.read(GAPS), period, "from_at", "to_at")
        .where(F.col("kind") != "killed")  # after a kill numbers leap, and nothing need be missing
        .groupBy("node")
        .agg(F.sum("missing").alias("missing"))
    )
    skew = (
        lake.read(CLOCK_SKEW)
        .where(F.col("day").between(F.lit(period.from_at.date()), F.lit(period.to_at.date())))
        .groupBy("node")
        .agg(
            F.max_by("offset_ms", "day").alias("offset_ms"),
            F.max_by("uncertainty_ms", "day").alias("uncertainty_ms"),
        )
    )
    rows = (
        nodes.join(missing, "node", "left")
        .join(skew, "node", "left")
        .withColumn("missing", F.coalesce("missing", F.lit(0)))
    )
    reasons = lake.read(QUARANTINE).groupBy("reason").agg(F.count("*").alias("records"))
    return Quality(
        nodes=[NodeQuality(**row) for row in _top(rows, "node", most=50)],
        quarantined=[Quarantined(**row) for row in _top(reasons, F.desc("records"), "reason")],
    )


# -- brokers


def _availability(lake: Lake, period: Period) -> Availability:
    hours = hours_of(lake.read(BROKER_AVAILABILITY), period, "from_at").where("grain = 'hour'")
    sums = [F.sum(name).alias(name) for name in _TIMES]
    brokers = hours.groupBy(*_BROKER).agg(*sums)
    (total,) = collected(brokers.agg(F.count("*").alias("brokers"), *sums))
    steps = hours.groupBy(step_of("from_at", period).alias("at")).agg(
        *(F.sum(name).alias(name) for name in ("down_s", "suspect_s", "unknown_s"))
    )
    count = total.pop("brokers")
    whole = {name: value or 0 for name, value in total.items()}
    return Availability(
        brokers=count,
        total=BrokerTime(cluster="", broker="", broker_id=0, **whole),
        spent=[Spent(**row) for row in collected(steps.orderBy("at"))],
        worst=[
            BrokerTime(**row)
            for row in _top(brokers.where("down_s > 0"), F.desc("down_s"), *_BROKER)
        ],
    )


def _flaps(lake: Lake, period: Period) -> list[Flap]:
    rows = (
        hours_of(lake.read(FLAPS), period, "window_at")
        .groupBy(*_BROKER)
        .agg(
            F.sum("transitions").alias("transitions"),
            F.max("peak_penalty").alias("peak_penalty"),
            F.sum("suppressed_s").alias("suppressed_s"),
            F.max_by("culprit", F.struct("peak_penalty", "culprit")).alias("culprit"),
            F.count_distinct("node").alias("nodes"),
        )
    )
    order = (F.desc("peak_penalty"), F.desc("transitions"), *_BROKER)
    return [Flap(**row) for row in _top(rows, *order)]


def _near_misses(lake: Lake, period: Period) -> list[NearMiss]:
    rows = (
        hours_of(lake.read(HEARTBEAT_HEALTH), period, "hour_at")
        .groupBy(*_BROKER)
        .agg(
            F.sum("heartbeats").alias("heartbeats"),
            F.sum("near_misses").alias("near_misses"),
            F.sum("over_timeout").alias("over_timeout"),
            F.max("gap_max_ms").alias("gap_max_ms"),
            F.max("heartbeat_timeout_ms").alias("heartbeat_timeout_ms"),
        )
        .where("near_misses > 0")
    )
    return [NearMiss(**row) for row in _top(rows, F.desc("near_misses"), *_BROKER)]


# -- what nodes make of it


def _convergence(lake: Lake, period: Period) -> Convergence:
    changes = during(lake.read(CONVERGENCE), period, "first_at").where("lag_ms IS NOT NULL")
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    lags = changes.groupBy("kind").agg(
        F.count("*").alias("changes"),
        *(F.percentile("lag_ms", p).cast("long").alias(name) for name, p in shares.items()),
        F.max("lag_ms").alias("max_ms"),
        F.count_if("within_1s").alias("within_1s"),
        F.count_if("within_30s").alias("within_30s"),
        F.count_if(F.col("nodes_knowing") < F.col("nodes")).alias("incomplete"),
    )
    power = F.floor(F.log2(F.greatest("lag_ms", F.lit(1))))
    bucket = F.when(F.col("lag_ms") < 1, 0).otherwise(F.pow(F.lit(2), power)).cast("long")
    buckets = changes.groupBy(bucket.alias("from_ms"), "kind").agg(F.count("*").alias("changes"))
    return Convergence(
        lags=[Lag(**row) for row in collected(lags.orderBy("kind"))],
        buckets=[LagBucket(**row) for row in collected(buckets.orderBy("kind", "from_ms"))],
    )


def _divergence(lake: Lake, period: Period) -> Divergence:
    """Topics that differ alike on the same broker at the same time are one disagreement."""
    names = ("cluster", "broker", "node_a", "node_b", "from_at", "to_at", "ending")
    rows = (
        during(lake.read(DIVERGENCE), period, "from_at", "to_at")
        .groupBy(*names, "lasted_s", "view_a", "view_b")
        .agg(F.count("topic").alias("topics"), F.min("topic").alias("topic"))
    )
    endings = rows.groupBy("ending").agg(F.count("*").alias("times"))
    order = (F.desc("lasted_s"), "from_at", "cluster", "broker", "node_a", "node_b", "topic")
    return Divergence(
        endings={row["ending"]: row["times"] for row in collected(endings.orderBy("ending"))},
        longest=[Disagreement(**row) for row in _top(rows, *order)],
    )


# -- topics


def _balance(lake: Lake, period: Period) -> Balance:
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
            for row in _top(spread.where(F.col("skew") >= SKEWED), F.desc("skew"), *size)
        ],
        alone=[TopicSpread(**row) for row in _top(spread.where("writable_brokers = 1"), *size)],
    )


def _demand(lake: Lake, period: Period) -> Demand:
    hours = hours_of(lake.read(TOPIC_DEMAND), period, "hour_at")
    sums = [F.sum(name).alias(name) for name in _COUNTS]
    steps = hours.groupBy(step_of("hour_at", period).alias("at")).agg(*sums)
    exists = F.max_by("exists", "hour_at").alias("exists")
    topics = hours.groupBy("topic").agg(*sums, exists)
    asked = F.col("known") + F.col("unknown") + F.col("not_ready")
    zombies = last_day(lake.read(TOPIC_DEMAND), period).where("zombie")
    return Demand(
        asked=[Asked(**row) for row in collected(steps.orderBy("at"))],
        top=[TopicAsked(**row) for row in _top(topics, asked.desc(), "topic")],
        storms=[
            Storm(**row)
            for row in _top(
                hours.where("unknown > 0").select(*Storm._fields),
                F.desc("unknown"),
                "hour_at",
                "topic",
            )
        ],
        zombies=[
            Zombie(**row)
            for row in _top(
                zombies.select(*Zombie._fields),
                F.desc("unasked_days"),
                F.asc_nulls_first("last_asked_at"),
                "topic",
            )
        ],
        zombie_count=zombies.count(),
    )


def _forecast(lake: Lake, period: Period) -> list[Outlook]:
    rows = last_day(lake.read(CAPACITY_FORECAST), period).select(*Outlook._fields)
    order = (F.asc_nulls_last("days_to_limit"), F.desc("registration_bytes"), "cluster", "broker")
    return [Outlook(**row) for row in _top(rows, *order)]
