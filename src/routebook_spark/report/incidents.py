"""Incidents: brokers that went without a goodbye, put together when they went together.

Unlike the time they were down, which counts when no node lists a broker, this is about each node:
one that alone lets a broker go misleads the clients that ask it.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.report.facts import Incident, Incidents, Outage, Period
from routebook_spark.report.rows import collected, during
from routebook_spark.silver.stays import OUT_OF_SIGHT
from routebook_spark.tables import (
    BROKER_SESSIONS,
    CLOCK_SKEW,
    OPEN,
    STALE_EXPOSURE,
    Lake,
)

GAP_MS = 120_000
"""Brokers that go further apart than this go for reasons of their own."""
CALM = ("unregister", "admin", "moved", "replaced", *OUT_OF_SIGHT)
WORST = 5
OUTAGES = 12
_BROKER = ("cluster", "broker", "broker_id")


def incidents(lake: Lake, period: Period) -> Incidents:
    sessions = lake.read(BROKER_SESSIONS).where(
        F.col("until_day").between(F.lit(period.from_at.date()), F.lit(OPEN))
    )
    brokers = _outages(_departures(sessions, lake.read(CLOCK_SKEW), period), period)
    totals = brokers.groupBy("cluster", "incident").agg(
        F.count("*").alias("brokers"),
        F.max("nodes").alias("nodes"),
        F.sum("away_s").alias("away_s"),
        F.min("left_at").alias("started_at"),
        F.max(F.coalesce("back_at", F.lit(period.to_at))).alias("last_at"),
        F.max(F.col("back_at").isNull()).alias("lasts"),
        F.mode("cause", deterministic=True).alias("cause"),
    )
    # Not partitioned: there are few incidents.
    counted = totals.withColumn("total", F.count("*").over(Window.partitionBy()))
    worst = collected(counted.orderBy(F.desc("away_s"), "started_at", "cluster").limit(WORST))
    if not worst:
        return Incidents(0, [])
    exposure = during(lake.read(STALE_EXPOSURE), period, "removed_at")
    outages = _felt(
        _longest(brokers, [(row["cluster"], row["incident"]) for row in worst]), exposure
    )
    by_incident: dict[tuple[str, int], list[Outage]] = {}
    for row in collected(outages.orderBy(F.desc("away_s"), "broker", "broker_id")):
        key = row.pop("cluster"), row.pop("incident")
        del row["away_s"]
        by_incident.setdefault(key, []).append(Outage(**row))
    return Incidents(
        worst[0]["total"],
        [_incident(row, by_incident[row["cluster"], row["incident"]]) for row in worst],
    )


def _incident(row: dict[str, Any], outages: list[Outage]) -> Incident:
    return Incident(
        cluster=row["cluster"],
        started_at=row["started_at"],
        ended_at=None if row["lasts"] else row["last_at"],
        brokers=row["brokers"],
        nodes=row["nodes"],
        cause=row["cause"],
        away_s=row["away_s"],
        outages=outages,
    )


def _departures(sessions: DataFrame, skew: DataFrame, period: Period) -> DataFrame:
    """Ends of sessions without a goodbye, each with the return to the same node."""
    in_order = Window.partitionBy("node", *_BROKER).orderBy("from_seq")
    timed = on_common_clock(sessions, skew, "began_at", "ended_at")
    left_at = F.timestamp_millis("ended_ms")
    return (
        timed.withColumn("back_ms", F.lead("began_ms").over(in_order))
        .where(~F.col("cause").isin(*CALM))
        .withColumns({"left_at": left_at, "back_at": F.timestamp_millis("back_ms")})
        .where((left_at >= F.lit(period.from_at)) & (left_at < F.lit(period.to_at)))
        .select("node", *_BROKER, "left_at", "back_at", "cause", "topics")
    )


def _outages(departures: DataFrame, period: Period) -> DataFrame:
    """A row for each broker of an incident: from the first node that let it go to the last return.

    It is still away while any of these nodes has not heard of it.
    """
    by_time = Window.partitionBy("cluster").orderBy("left_at", "node", "broker", "broker_id")
    quiet_ms = F.unix_millis("left_at") - F.unix_millis(F.lag("left_at").over(by_time))
    first = F.coalesce(quiet_ms > GAP_MS, F.lit(True)).cast("int")
    back_at = F.when(F.max(F.col("back_at").isNull().cast("int")) == 0, F.max("back_at"))
    until_ms = F.unix_millis(F.coalesce("back_at", F.lit(period.to_at)))
    return (
        departures.withColumn("first", first)
        .withColumn("incident", F.sum("first").over(by_time))
        .groupBy(*_BROKER, "incident")
        .agg(
            F.min("left_at").alias("left_at"),
            back_at.alias("back_at"),
            F.count_distinct("node").alias("nodes"),
            F.mode("cause", deterministic=True).alias("cause"),
            F.max("topics").alias("topics"),
        )
        .withColumn("away_s", (until_ms - F.unix_millis("left_at")) / 1000)
    )


def _longest(brokers: DataFrame, worst: Sequence[tuple[str, int]]) -> DataFrame:
    order = Window.partitionBy("cluster", "incident").orderBy(
        F.desc("away_s"), "broker", "broker_id"
    )
    chosen = reduce(
        Column.__or__,
        (
            (F.col("cluster") == cluster) & (F.col("incident") == number)
            for cluster, number in worst
        ),
    )
    return (
        brokers.where(chosen)
        .withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= OUTAGES)
        .drop("place")
    )


def _felt(outages: DataFrame, exposure: DataFrame) -> DataFrame:
    """With what clients could feel of it, by the nodes that told them longest."""
    near = F.abs(F.unix_millis("removed_at") - F.unix_millis("left_at")) <= GAP_MS
    exposed = exposure.select(
        *_BROKER, "removed_at", "last_alive_at", "exposed_until", "exposure_s"
    )
    return (
        outages.join(exposed, list(_BROKER), "left")
        .groupBy(*outages.columns)
        .agg(
            F.min(F.when(near, F.col("last_alive_at"))).alias("last_alive_at"),
            F.max(F.when(near, F.col("exposed_until"))).alias("exposed_until"),
            F.max(F.when(near, F.col("exposure_s"))).alias("exposure_s"),
        )
    )
