"""Alerts about worlds by the hundred; what they may and must say is in ``support.watchtruth``."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from routebook_spark.alerts.ledger import Alert
from routebook_spark.alerts.limits import Limits
from support.watchruns import facts_of, gone_through
from support.watchtruth import Told, mistakes
from world.plan import Plan, draw, story
from world.simulate import happened
from world.sparkcampaign import session

AT_ONCE = 200
LIMITS = Limits()


def wrong_alerts(spark: SparkSession, plans: Sequence[Plan], *, triggers: int = 5) -> list[str]:
    """A text for each world with a mistake: the mistakes, and its story."""
    truths = [happened(plan) for plan in plans]
    records = [
        ((life.fleet, life.incarnation), written.record)
        for truth in truths
        for life in truth.lives
        for written in life.written
    ]
    facts = facts_of(spark, records, LIMITS)
    wrong = []
    for truth in truths:
        fleets = {fleet.name for fleet in truth.plan.fleets}
        mine = [fact for fact in facts if fact.fleet in fleets]
        found = list(mistakes(truth, as_told(gone_through(mine, LIMITS, triggers=triggers))))
        if found:
            wrong.append("\n".join([*(f"[watch] {each}" for each in found), story(truth.plan)]))
    return wrong


def as_told(alerts: Sequence[Alert]) -> list[Told]:
    resolved = {alert.id: alert.resolved_ms for alert in alerts if alert.state == "resolved"}
    last = {alert.id: alert.nodes for alert in alerts}
    return [
        Told(
            kind=alert.kind,
            fleet=alert.fleet,
            nodes=tuple(last[alert.id]),
            cluster=alert.cluster,
            broker=alert.broker,
            broker_id=alert.broker_id,
            began_ms=alert.began_ms,
            raised_ms=alert.raised_ms,
            resolved_ms=resolved.get(alert.id),
            sentence=alert.sentence,
        )
        for alert in alerts
        if alert.state == "raised"
    ]


def run_alerts(first: int, count: int, *, seconds: float) -> int:
    until = time.monotonic() + seconds
    wrong = seen = 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as name:
        spark = session(Path(name))
        for start in range(first, first + count, AT_ONCE):
            if time.monotonic() > until:
                break
            plans = [draw(seed) for seed in range(start, min(start + AT_ONCE, first + count))]
            texts = wrong_alerts(spark, plans)
            print("\n".join(texts[:3]), flush=True)
            wrong += len(texts)
            seen += len(plans)
        spark.stop()
    print(f"alerts: {seen} worlds, {wrong} of them with mistakes", flush=True)
    return wrong
