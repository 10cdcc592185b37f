"""Alerts about generated worlds, judged by what really happened in them.

The facts of all worlds are made by one job of Spark, each fleet for itself; they are then gone
through in plain Python, bucket by bucket, as triggers do it, in one trigger and in several. Then
once more as the source gives them, of journals that are carried elsewhere.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.limits import Limits
from support.watch_runs import Witness, as_told, facts_of, gone_through, triggered
from support.watch_truth import mistakes
from support.watch_worlds import decimated, disputed
from world.alerts_campaign import facts_by_trigger
from world.plan import draw, story
from world.simulate import happened
from world.truth import Truth
from world.watch_folders import given

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


def test_alerts_are_right_about_segments_that_are_lost_late_or_half_copied(
    spark: SparkSession, worlds: list[Truth], tmp_path: Path
) -> None:
    carried = [given(truth, tmp_path / str(number)) for number, truth in enumerate(worlds)]
    wrong: list[str] = []
    kinds: set[str] = set()
    for truth, gift, facts in zip(worlds, carried, facts_by_trigger(spark, carried), strict=True):
        alerts = as_told(triggered(facts, LIMITS))
        kinds |= {alert.kind for alert in alerts}
        if found := list(mistakes(truth, alerts, gift)):
            wrong.append("\n".join([*found, story(truth.plan)]))
    assert not wrong, f"{len(wrong)} worlds, such as\n{wrong[0]}"
    assert {"divergence", "mass_loss", "node_silent", "records_lost"} <= kinds
    assert any(gift.cut_off for gift in carried)


def test_the_worlds_have_something_to_tell(worlds: list[Truth]) -> None:
    """Without an alert all that has to be told is missed: the judge is awake."""
    missed = {word.split()[1] for truth in worlds for word in mistakes(truth, [])}
    assert missed == {"divergence", "mass_loss", "node_killed", "node_stalled", "records_lost"}
