"""Alerts about worlds by the hundred; what they may and must say is in ``support.watch_truth``.

Each world is watched twice: with all that its nodes wrote, and with what comes to the folders that
are watched when segments are lost, late or half copied (``world.watch_folders``).
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.limits import Limits
from support.watch_runs import as_told, facts_in, facts_of, gone_through, triggered
from support.watch_truth import mistakes
from world.plan import Plan, draw, story
from world.simulate import happened
from world.spark_campaign import session
from world.truth import Truth
from world.watch_folders import Given, given

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
    by_fleet = _by_fleet(facts_of(spark, records, LIMITS))
    wrong: list[str] = []
    for truth in truths:
        mine = [fact for fleet in truth.plan.fleets for fact in by_fleet.get(fleet.name, ())]
        found = mistakes(truth, as_told(gone_through(mine, LIMITS, triggers=triggers)))
        wrong += _texts("watch", truth, found)
    return wrong


def wrong_alerts_of_folders(spark: SparkSession, plans: Sequence[Plan], folder: Path) -> list[str]:
    """The same of what a watch is given of journals that are carried elsewhere."""
    truths = [happened(plan) for plan in plans]
    gifts = [given(truth, folder / str(truth.plan.seed)) for truth in truths]
    by_trigger = facts_by_trigger(spark, gifts)
    wrong: list[str] = []
    for truth, gift, told in zip(truths, gifts, by_trigger, strict=True):
        found = mistakes(truth, as_told(triggered(told, LIMITS)), gift)
        wrong += _texts("folders", truth, found)
    return wrong


def facts_by_trigger(spark: SparkSession, gifts: Sequence[Given]) -> list[list[list[Fact]]]:
    """Of all worlds in one job; for its time a fleet has the number of its trigger in its name."""
    told: list[list[list[Fact]]] = [[[] for _ in gift.batches] for gift in gifts]
    marked = [
        _marked(batch, f"{place} {number} ")
        for place, gift in enumerate(gifts)
        for number, batches in enumerate(gift.batches)
        for batch in batches
    ]
    for fact in facts_in(spark, marked, LIMITS):
        place, number, fleet = fact.fleet.split(" ", 2)
        told[int(place)][int(number)].append(replace(fact, fleet=fleet))
    return told


def _marked(batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    place = batch.schema.get_field_index("fleet")
    fleets = [mark + fleet for fleet in batch.column(place).to_pylist()]
    return batch.set_column(place, batch.schema.field(place), pa.array(fleets, pa.string()))


def _by_fleet(facts: Sequence[Fact]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.fleet, []).append(fact)
    return found


def _texts(room: str, truth: Truth, found: Iterator[str]) -> Iterator[str]:
    if lines := [f"[{room}] {each}" for each in found]:
        yield "\n".join([*lines, story(truth.plan)])


def run_alerts(first: int, count: int, *, seconds: float) -> int:
    until = time.monotonic() + seconds
    wrong = seen = 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as name:
        spark = session(Path(name))
        for start in range(first, first + count, AT_ONCE):
            if time.monotonic() > until:
                break
            plans = [draw(seed) for seed in range(start, min(start + AT_ONCE, first + count))]
            with tempfile.TemporaryDirectory(prefix="watched-") as folder:
                texts = wrong_alerts(spark, plans)
                texts += wrong_alerts_of_folders(spark, plans, Path(folder))
            print("\n".join([*texts[:3], *texts[-3:]]), flush=True)
            wrong += len(texts)
            seen += len(plans)
        spark.stop()
    print(f"alerts: {seen} worlds, {wrong} of them with mistakes", flush=True)
    return wrong
