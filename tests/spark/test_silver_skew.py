"""How far clocks are apart is told from what nodes saw together, or not at all."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routebook.events import Cause, Event, NodeStarted, RegistrationCompleted, RouteQueries
from routebook.journal.record import Record
from routebook_spark.silver.build import silver_of
from routebook_spark.silver.common_clock import Clock, Sample, SkewRow, common_clock
from support.silver_lakes import Row, plain
from support.spark_histories import events_frame, gaps_frame
from support.spark_rows import T0_MS

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
FIRST = date(2026, 11, 15)


# -- the common clock


def clock(node: str, epoch: int = 0, fleet: str = "shop") -> Clock:
    return Clock(fleet, node, "", epoch)


def seen(
    one: Clock, other: Clock, *offsets_ms: int, day: int = 0, other_day: int = 0
) -> list[Sample]:
    return [
        Sample(one, on(day), other, on(other_day or day), offset_ms, HOUR_MS * number)
        for number, offset_ms in enumerate(offsets_ms)
    ]


def on(day: int) -> date:
    return FIRST + timedelta(days=day)


def told(
    days: Sequence[tuple[int, Clock]], samples: Sequence[Sample]
) -> dict[tuple[int, str], tuple[int | None, int | None]]:
    rows = common_clock([(on(day), each) for day, each in days], samples)
    return {((row.day - FIRST).days, row.node): (row.offset_ms, row.uncertainty_ms) for row in rows}


A, B, C = clock("ns-1"), clock("ns-2"), clock("ns-3")


def test_several_samples_that_agree_tell_an_offset_as_sure_as_they_are() -> None:
    found = told([(0, A), (0, B)], seen(B, A, 5000, 5040, 4700, 90_000))
    assert found == {(0, "ns-1"): (0, 0), (0, "ns-2"): (5000, 300)}


def test_without_samples_nothing_is_claimed() -> None:
    assert told([(0, A), (0, B)], [])[0, "ns-2"] == (None, None)
    assert told([(0, A), (0, B)], seen(B, A, 5000, 70_000, 9_000_000))[0, "ns-2"] == (None, None)


def test_a_single_one_that_says_clocks_agree_is_taken_for_it_and_marked() -> None:
    rows = common_clock([(FIRST, A), (FIRST, B)], seen(B, A, 300))
    assert [row for row in rows if row.node == "ns-2"] == [
        SkewRow(FIRST, "shop", "ns-2", "", "ns-1", 0, 2000, 1, assumed=True)
    ]
    assert told([(0, A), (0, B)], seen(B, A, 134_000))[0, "ns-2"] == (None, None)


def test_the_common_clock_does_not_move_while_the_first_node_is_absent() -> None:
    days = [(0, A), (0, B), (0, C), (1, B), (1, C)]
    samples = [
        *seen(B, A, 5000, 5000, 5000),
        *seen(C, A, 700, 700, 700),
        *seen(C, B, -4300, -4300, -4300, day=1),
    ]
    found = told(days, samples)
    assert found[1, "ns-2"] == (5000, 100)
    assert found[1, "ns-3"][0] == 700


def test_a_node_is_compared_by_way_of_another_one() -> None:
    found = told([(0, A), (0, B), (0, C)], [*seen(B, A, *[5000] * 3), *seen(C, B, *[-1000] * 3)])
    assert found[0, "ns-3"] == (4000, 200)


def test_days_behind_are_matched_by_what_was_seen() -> None:
    behind = seen(B, A, *[-30 * HOUR_MS] * 4, day=-1, other_day=1)
    assert told([(0, A), (1, A), (-1, B), (0, B)], behind)[0, "ns-2"] == (-30 * HOUR_MS, 100)


def test_a_clock_that_was_set_is_another_clock() -> None:
    after = clock("ns-2", epoch=77)
    days = [(0, A), (0, B), (1, A), (1, B), (1, after), (2, A), (2, after)]
    samples = [*seen(B, A, *[5000] * 3), *seen(after, A, *[20] * 3, day=2)]
    found = told(days, samples)
    assert found[0, "ns-2"] == (5000, 100)
    assert found[1, "ns-2"] == (None, None), "on that day it was set, nobody knows from what"
    assert found[2, "ns-2"] == (20, 100)


def test_where_all_are_new_the_first_of_them_is_the_common_clock() -> None:
    new = [clock(name, epoch=50) for name in ("ns-1", "ns-2")]
    days = [(0, A), (0, B), (2, new[0]), (2, new[1])]
    samples = [*seen(B, A, *[5000] * 3), *seen(new[1], new[0], *[-40] * 3, day=2)]
    found = told(days, samples)
    assert (found[2, "ns-1"], found[2, "ns-2"]) == ((0, 0), (-40, 100))


def test_fleets_have_clocks_of_their_own() -> None:
    other = clock("ns-2", fleet="bank")
    rows = common_clock([(FIRST, A), (FIRST, other)], [])
    assert [(row.fleet, row.node, row.offset_ms) for row in rows] == [
        ("bank", "ns-2", 0),
        ("shop", "ns-1", 0),
    ]


# -- what counts as seen by both


NOTE: dict[str, Any] = {"revision": 1, "peer": "10.0.0.1:40112"}


def life(
    node: str,
    began_ms: int,
    registrations: dict[int, int],
    *,
    until_ms: int,
    ahead_ms: int = 0,
) -> list[Record]:
    """Started, registrations as version -> when, and a record for each minute; true times."""
    started = NodeStarted(**NOTE, cause=Cause.ADMIN, version="", address="", brokers=0, topics=0)
    moments: list[tuple[int, Event]] = [(began_ms, started)]
    for version, at_ms in registrations.items():
        event = RegistrationCompleted(
            **NOTE,
            cause=Cause.REGISTER,
            cluster="c1",
            broker=f"broker-{version}",
            broker_id=0,
            addr="10.0.0.1:10911",
            generation=1,
            topics=3,
            data_version=(0, 1, version),
        )
        moments.append((at_ms, event))
    for at_ms in range(began_ms + 500, until_ms, MINUTE_MS):
        quiet = RouteQueries(
            **NOTE,
            cause=Cause.WINDOW,
            window_ms=MINUTE_MS,
            topics=(),
            others=0,
        )
        moments.append((at_ms, quiet))
    moments.sort(key=lambda each: each[0])
    return [
        Record(seq, T0_MS + at_ms + ahead_ms, at_ms, node, event)
        for seq, (at_ms, event) in enumerate(moments, 1)
    ]


def about(seconds: int, *versions: int) -> dict[int, int]:
    return {version: seconds * 1000 + version for version in versions}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Row]:
    """Each story is a fleet of two nodes, told apart by the names of their brokers and nodes."""
    hour = HOUR_MS
    stories = {
        "together": (
            life("a-1", 0, about(600, 1, 2, 3), until_ms=hour),
            life("a-2", 0, about(600, 1, 2, 3), until_ms=hour, ahead_ms=340),
        ),
        "days behind": (
            life("b-1", 0, about(600, 11, 12) | about(900, 13), until_ms=hour),
            life("b-2", 0, about(600, 11, 12) | about(900, 13), until_ms=hour, ahead_ms=-30 * hour),
        ),
        "one after the other": (
            life("c-1", 0, about(600, 21, 22, 23), until_ms=hour),
            life("c-2", 1800_000, about(1805, 21, 22, 23), until_ms=hour),
        ),
        "a node could not be reached": (
            life("e-1", 0, about(600, 41, 42, 43), until_ms=hour),
            life("e-2", 0, about(800, 41, 42, 43), until_ms=hour),
        ),
        "apart": (
            life("d-1", 0, about(600, 31), until_ms=hour),
            life("d-2", 0, about(600, 32), until_ms=hour),
        ),
    }
    by_node = {records[0].node: records for nodes in stories.values() for records in nodes}
    events = events_frame(spark, by_node).withColumn("fleet", F.substring("node", 1, 1))
    return plain(silver_of(events, gaps_frame(spark, by_node)).skew)


def offset_of(rows: list[Row], node: str) -> tuple[int | None, int]:
    (found,) = {(row["offset_ms"], row["samples"]) for row in rows if row["node"] == node}
    return found


def test_what_both_saw_within_seconds_is_a_sample(rows: list[Row]) -> None:
    assert offset_of(rows, "a-2") == (340, 3)


def test_a_node_that_is_days_behind_is_measured_by_content(rows: list[Row]) -> None:
    assert offset_of(rows, "b-2") == (-30 * HOUR_MS, 3)


def test_a_node_that_began_later_is_not_ahead(rows: list[Row]) -> None:
    """Brokers say the same to it as to the other one before: half an hour is no skew."""
    assert offset_of(rows, "c-2") == (None, 0)


def test_a_node_that_could_not_be_reached_is_not_ahead(rows: list[Row]) -> None:
    """Brokers that start together come to it together, all as late."""
    assert offset_of(rows, "e-2") == (None, 0)


def test_nodes_that_saw_nothing_together_are_not_compared(rows: list[Row]) -> None:
    assert offset_of(rows, "d-2") == (None, 0)
