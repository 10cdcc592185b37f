"""Alerts about generated worlds, judged by what really happened in them.

The facts of all worlds are made by one job of Spark, each fleet for itself; they are then gone
through in plain Python, bucket by bucket, as triggers do it, in one trigger and in several.
"""

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import Alert
from routebook_spark.alerts.limits import Limits
from support.watchruns import Witness, facts_of, gone_through
from support.watchtruth import Told, mistakes
from support.watchworlds import decimated, disputed
from world.plan import draw, story
from world.simulate import happened
from world.truth import Truth

LIMITS = Limits()
WORLDS = [
    *(draw(seed) for seed in range(30)),
    *(disputed(seed) for seed in range(6)),
    *(decimated(seed) for seed in range(6)),
]


@pytest.fixture(scope="module")
def worlds() -> list[Truth]:
    return [happened(plan) for plan in WORLDS]


@pytest.fixture(scope="module")
def told(spark: SparkSession, worlds: list[Truth]) -> dict[str, list[Fact]]:
    """The facts of each fleet of all worlds."""
    records: list[tuple[Witness, Record]] = [
        ((life.fleet, life.incarnation), written.record)
        for truth in worlds
        for life in truth.lives
        for written in life.written
    ]
    by_fleet: dict[str, list[Fact]] = {}
    for fact in facts_of(spark, records, LIMITS):
        by_fleet.setdefault(fact.fleet, []).append(fact)
    return by_fleet


@pytest.mark.parametrize("triggers", [1, 9])
def test_alerts_say_what_happened_and_nothing_else(
    told: dict[str, list[Fact]], worlds: list[Truth], triggers: int
) -> None:
    wrong: list[str] = []
    kinds: set[str] = set()
    for truth in worlds:
        mine = [fact for fleet in truth.plan.fleets for fact in told[fleet.name]]
        alerts = as_told(gone_through(mine, LIMITS, triggers=triggers))
        kinds |= {alert.kind for alert in alerts}
        found = list(mistakes(truth, alerts))
        if found:
            wrong.append("\n".join([*found, story(truth.plan)]))
    assert not wrong, f"{len(wrong)} worlds, such as\n{wrong[0]}"
    assert {"divergence", "mass_loss", "late_heartbeats", "node_silent", "records_lost"} <= kinds


def test_the_worlds_have_something_to_tell(worlds: list[Truth]) -> None:
    """Without an alert all that has to be told is missed: the judge is awake."""
    missed = {word.split()[1] for truth in worlds for word in mistakes(truth, [])}
    assert missed == {"divergence", "mass_loss", "node_killed", "node_stalled", "records_lost"}


def as_told(alerts: list[Alert]) -> list[Told]:
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
