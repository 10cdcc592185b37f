"""The facts of a report, from the tables.

    period = period_of(lake)
    page(gather(lake, period, title="Last week"))

Everything is summed up by Spark; what comes here is what is drawn: a few dozen rows of each table,
and the spells of brokers, in an order that does not depend on how they are stored. Each fleet is
told of by its own rows alone.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook_spark.errors import PipelineError
from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.report.facts import (
    Availability,
    Convergence,
    Cover,
    Disagreement,
    Divergence,
    Flap,
    FleetReport,
    HeartbeatHealth,
    Heartbeats,
    Lag,
    LagBucket,
    NodeQuality,
    Period,
    Quality,
    Quarantined,
    Report,
    Spell,
)
from routebook_spark.report.incidents import incidents
from routebook_spark.report.known_period import known_period
from routebook_spark.report.rows import (
    TOP,
    collected,
    during,
    fleet_lake,
    fleet_of,
    hours_of,
    top,
)
from routebook_spark.report.spells import (
    BROKER,
    broker_times,
    outages,
    spells_of,
    spent,
    total_time,
)
from routebook_spark.report.topic_facts import balance, demand, forecast
from routebook_spark.report.witnesses import witnesses
from routebook_spark.tables import (
    BROKER_AVAILABILITY,
    BROKER_SESSIONS,
    CLOCK_SKEW,
    CONVERGENCE,
    DIVERGENCE,
    FLAPS,
    GAPS,
    HEARTBEAT_HEALTH,
    NODE_COVERAGE,
    OPEN,
    QUARANTINE,
    Lake,
)

LONGEST = timedelta(days=30)
"""What a report is about unless it is told: as much as this before the last record."""
UNWITNESSED = 24
SLO = 0.999
_AT_ONCE = 3
WANTED = ("expired", "idle", "not_confirmed")
"""Causes of departures for want of a sign of life."""


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


class NoSuchFleet(PipelineError):
    """A fleet that no node in the tables is of."""

    def __init__(self, fleet: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no fleet {fleet} in the tables; they tell of {', '.join(known)}:"
            " name one of them with --fleet, or none for a page about all"
        )


def fleets_of(lake: Lake) -> list[str]:
    """Those that have a node, by name. Raises PipelineError when there is none."""
    # Of clocks there is a row for each day on which a node recorded something, believed or not.
    known, recorded = (
        rows.select(fleet_of(rows).alias("fleet"))
        for rows in (lake.read(NODE_COVERAGE), lake.read(CLOCK_SKEW))
    )
    found = collected(known.union(recorded).distinct())
    if not found:
        raise NothingToReport(lake.root)
    return sorted(row["fleet"] for row in found)


def period_of(
    lake: Lake,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    *,
    fleet: str | None = None,
) -> Period:
    """What is asked for; without an end it is that of what is known. Raises PipelineError."""
    known_fleets = fleets_of(lake)
    if fleet is not None and fleet not in known_fleets:
        raise NoSuchFleet(fleet, known_fleets)
    part = lake if fleet is None else fleet_lake(lake, fleet)
    known = known_period(part)
    until = to_at or known.to_at
    period = Period(from_at or max(known.from_at, until - LONGEST), until)
    if period.from_at >= min(period.to_at, known.to_at) or period.to_at <= known.from_at:
        raise EmptyPeriod(period, known)
    return period


def gather(lake: Lake, period: Period, *, title: str, fleet: str | None = None) -> Report:
    """Of one fleet, or of each that is in the tables."""
    chosen = fleets_of(lake) if fleet is None else [fleet]
    return Report(
        title=title,
        period=period,
        fleets=[_fleet(fleet_lake(lake, name), name, period) for name in chosen],
    )


def _fleet(lake: Lake, fleet: str, period: Period) -> FleetReport:
    """Tables do not know of each other: while one is planned, another one is read."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        told_spells = pool.submit(spells_of, lake, period)
        covers = pool.submit(_common_covers, lake, period)
        slo = pool.submit(_slo, lake, period)
        quality = pool.submit(_quality, lake, period)
        flaps = pool.submit(_flaps, lake, period)
        heartbeats = pool.submit(_heartbeats, lake, period)
        agreed = pool.submit(_convergence, lake, period)
        differed = pool.submit(_divergence, lake, period)
        balanced = pool.submit(balance, lake, period)
        asked = pool.submit(demand, lake, period)
        sizes = pool.submit(forecast, lake, period)
        spells = told_spells.result()
        gone = incidents(lake, outages(spells, period), covers.result(), period)
        return FleetReport(
            fleet=fleet,
            quality=quality.result(),
            availability=_availability(spells, period, slo=slo.result()),
            incidents=gone,
            flaps=flaps.result(),
            heartbeats=heartbeats.result(),
            convergence=agreed.result(),
            divergence=differed.result(),
            balance=balanced.result(),
            demand=asked.result(),
            forecast=sizes.result(),
        )


# -- how good the data is


def _covers(lake: Lake, from_ms: Column, to_ms: Column) -> list[Cover]:
    coverage = lake.read(NODE_COVERAGE)
    life = F.col("incarnation") if "incarnation" in coverage.columns else F.lit("")
    rows = coverage.select(
        "node",
        from_ms.alias("from_ms"),
        to_ms.alias("to_ms"),
        "ends",
        F.coalesce(life, F.lit("")).alias("incarnation"),
    )
    return [Cover(**row) for row in collected(rows.orderBy("node", "from_ms", "to_ms"))]


def _recorded(lake: Lake, period: Period) -> set[str]:
    """The nodes that recorded something on a day of the period."""
    first, last = period.from_at.date(), period.to_at.date()
    days = lake.read(CLOCK_SKEW).where(F.col("day").between(F.lit(first), F.lit(last)))
    return {row["node"] for row in collected(days.select("node").distinct())}


def _common_covers(lake: Lake, period: Period) -> list[Cover]:
    timed = on_common_clock(
        during(lake.read(NODE_COVERAGE), period, "from_at", "to_at"),
        lake.read(CLOCK_SKEW),
        "from_at",
        "to_at",
    )
    rows = timed.select("node", "from_ms", "to_ms", "ends")
    return [Cover(**row) for row in collected(rows.orderBy("node", "from_ms", "to_ms"))]


def _quality(lake: Lake, period: Period) -> Quality:
    covers = _covers(lake, F.unix_millis("from_at"), F.unix_millis("to_at"))
    found = witnesses(covers, period, recorded=_recorded(lake, period))
    missing = collected(
        during(lake.read(GAPS), period, "from_at", "to_at")
        .where(F.col("kind") != "killed")  # after a kill numbers leap, and nothing need be missing
        .groupBy("node")
        .agg(F.sum("missing").alias("missing"))
    )
    skew = collected(
        lake.read(CLOCK_SKEW)
        .where(F.col("day").between(F.lit(period.from_at.date()), F.lit(period.to_at.date())))
        .groupBy("node")
        .agg(F.max_by(F.struct("offset_ms", "uncertainty_ms", "assumed"), "day").alias("last"))
        .select("node", "last.*")
    )
    missing_of = {row["node"]: row["missing"] for row in missing}
    clock_of = {
        row["node"]: (row["offset_ms"], row["uncertainty_ms"], bool(row["assumed"])) for row in skew
    }
    unwitnessed = [each for witness in found for each in witness.unwitnessed]
    longest = sorted(unwitnessed, key=lambda each: (-each.lasted_s, each.from_at, each.node))
    reasons = lake.read(QUARANTINE).groupBy("reason").agg(F.count("*").alias("records"))
    return Quality(
        nodes=[
            NodeQuality(
                witness.node,
                witness.known_s,
                witness.unknown_s,
                witness.stops,
                witness.kills,
                witness.stalls,
                witness.losses,
                missing_of.get(witness.node, 0),
                *clock_of.get(witness.node, (None, None, False)),
            )
            for witness in found
        ],
        unwitnessed=longest[:UNWITNESSED],
        times_unwitnessed=len(unwitnessed),
        covers=covers,
        quarantined=[Quarantined(**row) for row in top(reasons, F.desc("records"), "reason")],
    )


# -- brokers


def _availability(spells: Sequence[Spell], period: Period, *, slo: float) -> Availability:
    times = broker_times(spells, period, slo=slo)
    down = [each for each in times if each.down_s > 0]
    worst = sorted(down, key=lambda each: (-each.down_s, *each[: len(BROKER)]))
    return Availability(
        brokers=len(times),
        slo=slo,
        total=total_time(times),
        spent=spent(spells, period),
        worst=worst[:TOP],
    )


def _slo(lake: Lake, period: Period) -> float:
    """What the table was made for."""
    hours = hours_of(lake.read(BROKER_AVAILABILITY), period, "from_at").where("grain = 'hour'")
    known = F.sum(F.col("up_s") + F.col("suspect_s") + F.col("down_s"))
    (row,) = collected(hours.agg(known.alias("known_s"), F.sum("budget_s").alias("budget_s")))
    return round(1 - row["budget_s"] / row["known_s"], 9) if row["known_s"] else SLO


def _flaps(lake: Lake, period: Period) -> list[Flap]:
    # Hours in which it only was flapping still blame nobody.
    blamed = F.when(F.col("culprit").isNotNull(), F.struct("peak_penalty", "culprit"))
    rows = (
        hours_of(lake.read(FLAPS), period, "window_at")
        .groupBy(*BROKER)
        .agg(
            F.sum("transitions").alias("transitions"),
            F.max("peak_penalty").alias("peak_penalty"),
            F.sum("suppressed_s").alias("suppressed_s"),
            F.max_by("culprit", blamed).alias("culprit"),
            F.count_distinct("node").alias("nodes"),
        )
    )
    order = (F.desc("peak_penalty"), F.desc("transitions"), *BROKER)
    return [Flap(**row) for row in top(rows, *order)]


def _heartbeats(lake: Lake, period: Period) -> HeartbeatHealth:
    """Late ones are in no table if they never came: brokers given up for want of one count too."""
    health = (
        hours_of(lake.read(HEARTBEAT_HEALTH), period, "hour_at")
        .groupBy(*BROKER)
        .agg(
            F.sum("heartbeats").alias("heartbeats"),
            F.sum("near_misses").alias("near_misses"),
            F.sum("over_timeout").alias("over_timeout"),
            F.max("gap_max_ms").alias("gap_max_ms"),
            F.max("heartbeat_timeout_ms").alias("heartbeat_timeout_ms"),
        )
    )
    first = F.lit((period.from_at - timedelta(days=1)).date())
    ended = lake.read(BROKER_SESSIONS).where(
        F.col("until_day").between(first, F.lit(OPEN)) & F.col("cause").isin(*WANTED)
    )
    timed = on_common_clock(ended, lake.read(CLOCK_SKEW), "ended_at")
    hour_ms = 3_600_000
    given_up = (
        timed.where(
            (F.col("ended_ms") >= period.from_ms - period.from_ms % hour_ms)
            & (F.col("ended_ms") < period.to_ms)
        )
        .groupBy(*BROKER)
        .agg(F.count("*").alias("given_up"))
    )
    counted = ("heartbeats", "near_misses", "over_timeout", "given_up")
    rows = health.join(given_up, list(BROKER), "full").fillna(0, list(counted))
    late = rows.where("near_misses > 0 OR over_timeout > 0 OR given_up > 0")
    (total,) = collected(rows.agg(F.sum("heartbeats").alias("heartbeats")))
    order = (F.desc("given_up"), F.desc("over_timeout"), F.desc("near_misses"), *BROKER)
    return HeartbeatHealth(
        heartbeats=total["heartbeats"] or 0,
        late=[Heartbeats(**row) for row in top(late.select(*Heartbeats._fields), *order)],
    )


# -- what nodes make of it


def _convergence(lake: Lake, period: Period) -> Convergence:
    """Of changes that two nodes or more could show; those that one never showed are late."""
    changes = during(lake.read(CONVERGENCE), period, "first_at").where("nodes_knowing > 1")
    complete = F.col("nodes") >= F.col("nodes_knowing")
    measured = complete & F.col("lag_ms").isNotNull()
    timed = F.when(measured, F.col("lag_ms"))
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    lags = changes.groupBy("kind").agg(
        F.count("*").alias("changes"),
        F.count_if(~complete).alias("incomplete"),
        F.count_if(complete & F.col("lag_ms").isNull()).alias("unmeasured"),
        *(F.percentile(timed, p).cast("long").alias(name) for name, p in shares.items()),
        F.max(timed).alias("max_ms"),
        F.count_if(measured & (F.col("lag_ms") <= 1000)).alias("within_1s"),
        F.count_if(measured & (F.col("lag_ms") <= 30_000)).alias("within_30s"),
    )
    power = F.floor(F.log2(F.greatest("lag_ms", F.lit(1))))
    bucket = F.when(F.col("lag_ms") < 1, 0).otherwise(F.pow(F.lit(2), power)).cast("long")
    buckets = (
        changes.where(measured)
        .groupBy(bucket.alias("from_ms"), "kind")
        .agg(F.count("*").alias("changes"))
    )
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
        longest=[Disagreement(**row) for row in top(rows, *order)],
    )
