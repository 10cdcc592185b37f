"""Divergence: when two nodes told clients different things, and how it ended."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from routebook_spark import schemas
from routebook_spark.gold.divergence import divergence
from routebook_spark.gold.pairs import first_touched
from routebook_spark.tables import OPEN
from support.divergence_reference import divergences
from support.gold_frames import (
    Frames,
    delivered_first,
    first_new_day,
    frames_of,
    history,
    in_ms,
    in_order,
)
from support.gold_stories import ADDR, DAY_MS, END_MS, Story, day_of_story, story_frames
from support.plain_silver import plain_silver
from support.spark_rows import T0_MS

TOPIC_4, TOPIC_8, TOPIC_16 = "[4,4,6,0]", "[8,8,6,0]", "[16,16,6,0]"
OTHER = "10.0.0.2:10911"


def pair() -> Story:
    """Two nodes that know all the time."""
    return Story().knows("a", "b")


def both_list() -> Story:
    return pair().lists("a", "b")


STORIES = {
    "one is later": both_list()
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b", until=75_000)
    .has("b", queues=8, since=75_000),
    "both change": both_list()
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000, until=90_000)
    .has("a", queues=16, since=90_000)
    .has("b", until=90_000)
    .has("b", queues=16, since=90_000),
    "on and on": both_list()
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000, until=80_000)
    .has("a", queues=16, since=80_000)
    .has("b", until=100_000)
    .has("b", queues=16, since=100_000),
    "a broker is let go later": pair()
    .lists("a", until=60_000)
    .lists("b", until=95_000)
    .has("a", until=60_000, cause="expired")
    .has("b", until=95_000, cause="expired")
    .has("a", topic="refunds", until=60_000, cause="expired")
    .has("b", topic="refunds", until=95_000, cause="expired"),
    "wider": pair()
    .lists("a")
    .lists("b", until=120_000)
    .has("a", queues=8)
    .has("b", until=120_000, cause="expired"),
    "one stops": Story()
    .knows("a")
    .knows("b", until=200_000)
    .lists("a", "b")
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b"),
    "one is down": Story()
    .knows("a")
    .knows("b", until=60_000, ends="killed")
    .knows("b", since=600_000)
    .lists("a", "b")
    .has("a", until=100_000)
    .has("a", queues=8, since=100_000)
    .has("b", until=630_000)
    .has("b", queues=8, since=630_000),
    "one forgets": Story()
    .knows("a")
    .knows("b", until=60_000, ends="killed")
    .knows("b", since=600_000)
    .lists("a")
    .lists("b", until=60_000, cause="node_restarted")
    .lists("b", since=620_000)
    .has("a")
    .has("b", until=60_000, cause="node_restarted")
    .has("b", since=620_000),
    "a wrong clock": both_list()
    .clock("b", ahead_ms=7_200_000)
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b", until=60_000)
    .has("b", queues=8, since=60_000),
    "within the uncertainty": both_list()
    .clock("a", uncertainty_ms=15)
    .clock("b", uncertainty_ms=10)
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b", until=60_024)
    .has("b", queues=8, since=60_024),
    "just beyond it": both_list()
    .clock("a", uncertainty_ms=15)
    .clock("b", uncertainty_ms=10)
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b", until=60_025)
    .has("b", queues=8, since=60_025),
    "addresses": pair().lists("a").lists("b", addr=OTHER, until=90_000).lists("b", since=90_000),
    "a slave": both_list()
    .lists("a", broker_id=1, addr=OTHER, since=30_000)
    .lists("b", broker_id=1, addr=OTHER, since=50_000),
    "arriving": pair()
    .lists("a", since=10_000)
    .lists("b", since=10_500)
    .has("a", since=10_020)
    .has("b", since=15_500),
    "never arriving": pair()
    .lists("a", since=10_000)
    .lists("b", since=10_500)
    .has("a", since=10_020),
    "arriving otherwise": pair()
    .lists("a", since=10_000)
    .lists("b", since=10_500)
    .has("a", since=10_020)
    .has("b", queues=8, since=10_600),
    "back without it": pair()
    .lists("a", "b", until=60_000)
    .lists("a", "b", since=90_000, until=200_000)
    .lists("a", "b", since=230_000)
    .has("a", until=60_000, cause="expired")
    .has("a", since=90_000, until=200_000, cause="expired")
    .has("a", since=230_000)
    .has("b", until=60_000, cause="expired"),
    "replaced": both_list()
    .lists("a", "b", broker_id=1, addr="10.0.0.3:10911", until=60_000, cause="replaced")
    .lists("a", broker_id=1, addr=OTHER, since=60_002)
    .lists("b", broker_id=1, addr=OTHER, since=60_001)
    .has("a", queues=8, since=1000)
    .has("b"),
    "a clock set back": both_list()
    .has("a", until=400_000)
    .has("a", queues=8, since=400_000, until=100_000, seqs=(None, 400_001))
    .has("a", since=100_000, seqs=(400_001, None))
    .has("b"),
    "three": Story().knows("a", "b", "c").lists("a", "b", "c").has("a", queues=8).has("b").has("c"),
    "asleep": Story()
    .knows("a")
    .knows("b", until=60_000, ends="stalled")
    .knows("b", since=195_000)
    .lists("a", until=100_000)
    .lists("a", since=150_000)
    .lists("b"),
    "two fleets": Story().knows("a", "other/b").lists("a", until=60_000),
    "no common clock": pair().clock("b", ahead_ms=None).lists("a", until=60_000).lists("b"),
    "open": Story()
    .knows("a", until=END_MS, ends=None)
    .knows("b", until=END_MS - 60_000, ends=None)
    .lists("a", "b")
    .has("a", until=60_000)
    .has("a", queues=8, since=60_000)
    .has("b"),
}

Told = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    """What came of a story: topic, from, to, ending and both views, of the nodes a and b."""
    frames = story_frames(spark, STORIES)
    found = divergence(frames.versions, frames.sessions, frames.coverage, frames.skew)
    assert found.schema.names == schemas.DIVERGENCE.names
    rows = in_ms(found.collect())
    assert {row["day"] for row in rows} <= {day_of_story(place) for place in range(len(STORIES))}

    def told_of(story: str) -> list[tuple[Any, ...]]:
        place = list(STORIES).index(story)
        begin_ms = T0_MS + place * DAY_MS
        of_day = [row for row in rows if row["day"] == day_of_story(place)]
        return sorted(
            (
                row["topic"] or "",
                row["from_ms"] - begin_ms,
                row["to_ms"] and row["to_ms"] - begin_ms,
                row["ending"],
                row["view_a"],
                row["view_b"],
                *((row["node_a"], row["node_b"]) if story == "three" else ()),
            )
            for row in of_day
        )

    return told_of


def test_nodes_that_come_to_say_what_one_of_them_said_have_converged(told: Told) -> None:
    assert told("one is later") == [("orders", 60_000, 75_000, "converged", TOPIC_8, TOPIC_4)]


def test_nodes_that_agree_on_something_new_have_both_changed(told: Told) -> None:
    assert told("both change") == [("orders", 60_000, 90_000, "both_changed", TOPIC_8, TOPIC_4)]


def test_views_that_go_on_differing_are_one_divergence_with_those_it_began_with(
    told: Told,
) -> None:
    assert told("on and on") == [("orders", 60_000, 100_000, "both_changed", TOPIC_8, TOPIC_4)]


def test_a_broker_that_one_node_lists_is_one_divergence_and_not_one_for_each_topic(
    told: Told,
) -> None:
    assert told("a broker is let go later") == [
        ("", 60_000, 95_000, "converged", "null", f'{{"0":"{ADDR}"}}')
    ]


def test_a_divergence_about_a_topic_widens_when_one_node_loses_the_whole_broker(
    told: Told,
) -> None:
    assert told("wider") == [
        ("", 120_000, END_MS + 1, "unknown", f'{{"0":"{ADDR}"}}', "null"),
        ("orders", 1000, 120_000, "widened", TOPIC_8, TOPIC_4),
    ]


def test_how_it_went_on_is_unknown_when_a_node_stops(told: Told) -> None:
    assert told("one stops") == [("orders", 60_000, 200_001, "unknown", TOPIC_8, TOPIC_4)]


def test_a_node_that_is_down_disagrees_with_nobody(told: Told) -> None:
    assert told("one is down") == [("orders", 600_000, 630_000, "converged", TOPIC_8, TOPIC_4)]


def test_a_node_that_starts_without_its_tables_disagrees_until_the_broker_is_back(
    told: Told,
) -> None:
    assert told("one forgets") == [("", 600_000, 620_000, "converged", f'{{"0":"{ADDR}"}}', "null")]


def test_a_clock_that_is_two_hours_ahead_makes_no_divergence(told: Told) -> None:
    assert told("a wrong clock") == []


def test_what_was_over_within_the_uncertainty_of_both_clocks_is_left_out(told: Told) -> None:
    assert told("within the uncertainty") == []
    assert told("just beyond it") == [("orders", 60_000, 60_025, "converged", TOPIC_8, TOPIC_4)]


def test_addresses_of_a_broker_are_compared_where_both_list_it(told: Told) -> None:
    assert told("addresses") == [
        ("", 1000, 90_000, "converged", f'{{"0":"{ADDR}"}}', f'{{"0":"{OTHER}"}}')
    ]
    assert told("a slave") == [
        ("", 30_000, 50_000, "converged", f'{{"0":"{ADDR}","1":"{OTHER}"}}', f'{{"0":"{ADDR}"}}')
    ]


def test_a_topic_that_comes_within_five_seconds_of_its_broker_was_arriving(told: Told) -> None:
    broker = ("", 10_000, 10_500, "converged", f'{{"0":"{ADDR}"}}', "null")
    assert told("arriving") == [broker]
    assert told("arriving otherwise") == [
        broker,
        ("orders", 10_600, END_MS + 1, "unknown", TOPIC_4, TOPIC_8),
    ]
    assert told("never arriving") == [
        broker,
        ("orders", 10_500, END_MS + 1, "unknown", TOPIC_4, "null"),
    ]


def test_a_broker_that_is_back_without_a_topic_disagrees_about_it(told: Told) -> None:
    assert told("back without it") == [
        ("orders", 90_000, 200_000, "widened", TOPIC_4, "null"),
        ("orders", 230_000, END_MS + 1, "unknown", TOPIC_4, "null"),
    ]


def test_an_id_that_is_taken_over_is_not_free_for_a_millisecond(told: Told) -> None:
    views = (
        f'{{"0":"{ADDR}","1":"10.0.0.3:10911"}}',
        f'{{"0":"{ADDR}","1":"{OTHER}"}}',
    )
    assert told("replaced") == [
        ("", 60_001, 60_002, "converged", *views),
        ("orders", 1000, END_MS + 1, "unknown", TOPIC_8, TOPIC_4),
    ]


def test_a_clock_that_is_set_back_does_not_turn_records_around(told: Told) -> None:
    assert told("a clock set back") == []


def test_each_two_nodes_are_compared(told: Told) -> None:
    ends = (END_MS + 1, "unknown", TOPIC_8, TOPIC_4)
    assert told("three") == [("orders", 1000, *ends, "a", "b"), ("orders", 1000, *ends, "a", "c")]


@pytest.mark.parametrize("story", ["asleep", "two fleets", "no common clock"])
def test_who_cannot_know_what_another_says_does_not_disagree(told: Told, story: str) -> None:
    assert told(story) == []


def test_it_is_open_as_far_as_both_nodes_have_records(told: Told) -> None:
    assert told("open") == [("orders", 60_000, None, "open", TOPIC_8, TOPIC_4)]


# -- against plain Python, on generated histories


def _table(frames: Frames, **options: Any) -> DataFrame:
    return divergence(frames.versions, frames.sessions, frames.coverage, frames.skew, **options)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[dict[str, Any]]:
    """All divergences of the history."""
    return in_ms(_table(frames_of(spark, history())).collect())


def test_divergences_are_those_found_by_asking_the_nodes_at_every_moment(
    found: list[dict[str, Any]],
) -> None:
    expected = divergences(plain_silver(history()))
    endings = {"converged", "both_changed", "widened", "unknown", "open"}
    assert {row["ending"] for row in expected} == endings
    assert found == in_order(expected)


def test_days_that_come_later_and_a_node_that_is_late_give_the_same_table(
    spark: SparkSession, found: list[dict[str, Any]]
) -> None:
    known = delivered_first(history())
    earlier = _table(frames_of(spark, known)).collect()
    frames = frames_of(spark, history())
    from_day = first_touched(frames.skew, first_new_day(history(), known))
    kept = [row for row in earlier if row.until_day < from_day]
    assert kept
    # Some go on over midnight, and some ended nobody knows when, since ns-3 has not been heard of.
    assert any(row.day < from_day <= row.until_day < OPEN for row in earlier)
    assert any(row.day < from_day and row.ending == "open" for row in earlier)
    table = spark.createDataFrame(earlier, schemas.DIVERGENCE)
    anew = _table(frames, from_day=from_day, earlier=table).collect()
    assert in_ms(kept + anew) == found
