"""How far clocks are apart is told from what nodes saw together, with how sure that is."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from routebook.events import Cause, RegistrationCompleted
from routebook.history.skew import Skew, estimate, registrations
from routebook.journal.record import Record
from routebook_spark.silver.skew import clock_samples, clock_skew
from support.silverlakes import Row, in_order, plain
from support.sparkhistories import events_frame
from support.sparkrows import T0_MS

DAY_MS = 86_400_000
AHEAD_MS = {"ns-1": 0, "ns-2": 340, "ns-3": -1200}
FIRST = date(2026, 11, 15)


@dataclass(frozen=True, slots=True)
class Registration:
    """Of one broker, at a true time, as it reached some nodes."""

    at_ms: int
    version: int
    nodes: Sequence[str]
    broker: str = "broker-a"


def records_of(
    registrations: Sequence[Registration], *, delay_ms: random.Random
) -> dict[str, list[Record]]:
    by_node: dict[str, list[Record]] = {node: [] for node in AHEAD_MS}
    for one in sorted(registrations, key=lambda each: each.at_ms):
        for node in one.nodes:
            wall_ms = T0_MS + one.at_ms + AHEAD_MS[node] + delay_ms.randrange(8)
            written = by_node[node]
            event = RegistrationCompleted(
                revision=1,
                cause=Cause.REGISTER,
                peer="10.0.0.1:40112",
                cluster="c1",
                broker=one.broker,
                broker_id=0,
                addr="10.0.0.1:10911",
                generation=1,
                topics=3,
                data_version=(0, 1, one.version),
            )
            written.append(Record(len(written) + 1, wall_ms, wall_ms, node, event))
    return by_node


ALL = tuple(AHEAD_MS)
NOON_MS, HOUR_MS = DAY_MS // 2, 3_600_000


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> tuple[dict[str, list[Record]], list[Row], list[Row]]:
    """Three days: one with much to compare, one with a single registration, one with none.

    On the first a broker is taken again and again with what it had said before, by one node.
    """
    first_day = [Registration(NOON_MS + n * 60_000, n, ALL) for n in range(20)]
    again = [Registration(NOON_MS + 5 * HOUR_MS + n * 60_000, n, ("ns-2",)) for n in range(9)]
    second_day = [Registration(DAY_MS + NOON_MS, 100, ALL)]
    third_day = [
        Registration(2 * DAY_MS + NOON_MS + n * HOUR_MS, 200 + n, (node,))
        for n, node in enumerate(("ns-2", "ns-3"))
    ]
    by_node = records_of([*first_day, *again, *second_day, *third_day], delay_ms=random.Random(5))
    events = events_frame(spark, by_node)
    samples = clock_samples(events)
    skew = clock_skew(events.select("day", "node").distinct(), samples)
    return by_node, plain(samples), plain(skew)


Told = tuple[dict[str, list[Record]], list[Row], list[Row]]


def on(rows: list[Row], day: date, node: str) -> Row:
    (found,) = [row for row in rows if row["day"] == day and row["node"] == node]
    return found


def of_day(records: Sequence[Record], *days: date) -> list[Record]:
    return [
        record
        for record in records
        if datetime.fromtimestamp(record.wall_ms / 1000, UTC).date() in days
    ]


@pytest.mark.parametrize("node", ["ns-2", "ns-3"])
def test_the_estimate_is_as_near_as_it_says(told: Told, node: str) -> None:
    _, _, skew = told
    row = on(skew, FIRST, node)
    assert row["against"] == "ns-1"
    assert abs(row["offset_ms"] - AHEAD_MS[node]) <= row["uncertainty_ms"] < 40
    assert row["samples"] == 20


@pytest.mark.parametrize("node", ["ns-2", "ns-3"])
def test_a_day_is_judged_as_the_history_of_a_node_does(told: Told, node: str) -> None:
    by_node, _, skew = told
    here, there = (registrations(of_day(by_node[name], FIRST)) for name in ("ns-1", node))
    row = on(skew, FIRST, node)
    expected = estimate(here, there)
    assert Skew(row["offset_ms"], row["uncertainty_ms"], row["samples"]) == expected


def test_a_day_with_little_to_compare_is_judged_by_all_before(told: Told) -> None:
    _, _, skew = told
    row = on(skew, FIRST + timedelta(days=1), "ns-2")
    assert row["samples"] == 21
    assert abs(row["offset_ms"] - AHEAD_MS["ns-2"]) <= row["uncertainty_ms"]


def test_nodes_are_compared_with_the_first_that_wrote_something_that_day(told: Told) -> None:
    _, samples, skew = told
    third = FIRST + timedelta(days=2)
    assert [row["node"] for row in skew if row["day"] == third and row["against"] == "ns-2"]
    row = on(skew, third, "ns-3")
    assert row["against"] == "ns-2"
    assert abs(row["offset_ms"] - (AHEAD_MS["ns-3"] - AHEAD_MS["ns-2"])) <= row["uncertainty_ms"]
    assert row["samples"] == len(
        [s for s in samples if (s["node"], s["against"]) == ("ns-3", "ns-2")]
    )


def test_a_clock_is_not_ahead_of_itself(told: Told) -> None:
    _, _, skew = told
    row = on(skew, FIRST, "ns-1")
    assert (row["against"], row["offset_ms"], row["uncertainty_ms"]) == ("ns-1", 0, 0)


def test_without_anything_to_compare_nothing_is_claimed(spark: SparkSession) -> None:
    apart = [Registration(NOON_MS, 1, ("ns-1",)), Registration(NOON_MS, 2, ("ns-2",))]
    events = events_frame(spark, records_of(apart, delay_ms=random.Random(1)))
    skew = clock_skew(events.select("day", "node").distinct(), clock_samples(events))
    (row,) = [row for row in in_order(plain(skew)) if row["node"] == "ns-2"]
    assert (row["offset_ms"], row["uncertainty_ms"], row["samples"]) == (0, 1000, 0)
