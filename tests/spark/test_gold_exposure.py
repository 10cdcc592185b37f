"""Exposure: how long clients could still be sent to a broker process that was gone."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from routebook.events import Cause, HeartbeatGaps
from routebook_spark import schemas
from routebook_spark.gold.exposure import stale_exposure
from routebook_spark.gold.pairs import first_touched
from support.exposure_reference import exposures
from support.gold_frames import (
    Frames,
    delivered_first,
    first_new_day,
    frames_of,
    history,
    in_ms,
    in_order,
)
from support.gold_stories import (
    DAY_MS,
    END_MS,
    Story,
    day_of_story,
    note,
    process,
    story_frames,
)
from support.plain_silver import plain_silver
from support.spark_rows import T0_MS

OTHER = "10.0.0.2:10911"
POLL_S = 10.0


def node() -> Story:
    return Story().knows("a")


def gaps(*gaps_ms: int, window_ms: int = 60_000) -> HeartbeatGaps:
    return HeartbeatGaps(
        **note(Cause.WINDOW, ""), **process(), window_ms=window_ms, gaps_ms=gaps_ms
    )


STORIES = {
    "expired": node().lists("a", until=300_000, cause="expired", timeout_ms=120_000),
    "slept": Story()
    .knows("a", until=200_000, ends="stalled")
    .knows("a", since=335_000)
    .lists("a", until=435_000, cause="expired", timeout_ms=120_000),
    "closed": node().lists("a", until=300_000, cause="connection_closed"),
    "goodbye": node().lists("a", until=300_000, cause="unregister"),
    "held": node()
    .lists("a", until=600_000, cause="expired")
    .holds("a", since=300_000, until=599_999, silent_ms=121_000),
    "held and closed": node()
    .lists("a", until=600_000, cause="connection_closed")
    .holds("a", since=300_000, until=600_000, silent_ms=121_000),
    "held and back": node()
    .lists("a", until=900_000, cause="expired", timeout_ms=120_000)
    .holds("a", since=300_000, until=350_000, silent_ms=121_000),
    "idle": node()
    .lists("a", until=320_000, cause="idle")
    .writes("a", 140_000, gaps(30_000, 31_000))
    .writes("a", 200_000, gaps(30_000, 29_000)),
    "nothing on record": node().lists("a", since=5000, until=320_000, cause="not_confirmed"),
    "out of sight": node()
    .lists("a", until=300_000, cause="node_restarted")
    .lists("a", broker="broker-b", until=300_000, cause="lost_track")
    .lists("a", broker="broker-c", until=300_000, cause="moved"),
    "topics": node()
    .lists("a", until=300_000, cause="connection_closed")
    .lists("a", broker_id=1, addr=OTHER, until=200_000, cause="connection_closed")
    .has("a", topic="orders", until=300_000)
    .has("a", topic="orders", broker="broker-b")
    .has("a", topic="refunds", until=300_000)
    .has("a", topic="secrets", perm=0, until=300_000)
    .has("a", topic="shared", until=300_000)
    .has("a", topic="shared", broker="broker-b", until=250_000)
    .has("a", topic="later", since=310_000),
    "a wrong clock": Story()
    .knows("a", "b")
    .clock("b", ahead_ms=7_200_000)
    .lists("b", until=300_000, cause="expired", timeout_ms=120_000),
}

Told = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[dict[str, Any]]:
    frames = story_frames(spark, STORIES)
    found = stale_exposure(
        frames.sessions,
        frames.suspects,
        frames.events,
        frames.versions,
        frames.coverage,
        frames.skew,
    )
    assert found.schema.names == schemas.STALE_EXPOSURE.names
    return [row for row in in_ms(found.collect()) if row["removed_ms"] % DAY_MS < END_MS]


@pytest.fixture(scope="module")
def told(rows: list[dict[str, Any]]) -> Told:
    """What came of a story: last alive, removed, exposed until; detection, exposure, expected."""

    def told_of(story: str) -> list[tuple[Any, ...]]:
        place = list(STORIES).index(story)
        begin_ms = T0_MS + place * DAY_MS
        times = ("last_alive_ms", "removed_ms", "exposed_until_ms")
        return sorted(
            (
                *(row[name] - begin_ms for name in times),
                row["detection_s"],
                row["exposure_s"],
                row["expected_stale_s"],
            )
            for row in rows
            if row["day"] == day_of_story(place)
        )

    return told_of


def test_a_node_that_slept_let_a_process_expire_that_much_later(told: Told) -> None:
    assert told("slept") == [(180_000, 435_000, 465_000, 255.0, 285.0, 270.0)]


def test_a_process_that_expired_had_been_silent_for_its_timeout(told: Told) -> None:
    assert told("expired") == [(180_000, 300_000, 330_000, 120.0, 150.0, 135.0)]


@pytest.mark.parametrize("story", ["closed", "goodbye"])
def test_what_needs_no_detection_exposes_clients_until_they_next_ask(
    told: Told, story: str
) -> None:
    assert told(story) == [(300_000, 300_000, 330_000, 0.0, 30.0, 15.0)]


@pytest.mark.parametrize("story", ["held", "held and closed"])
def test_a_process_the_guard_held_to_its_end_was_silent_before(told: Told, story: str) -> None:
    assert told(story) == [(179_000, 600_000, 630_000, 421.0, 451.0, 436.0)]


def test_a_process_that_came_back_to_the_guard_is_counted_from_its_next_silence(
    told: Told,
) -> None:
    assert told("held and back") == [(780_000, 900_000, 930_000, 120.0, 150.0, 135.0)]


def test_a_window_of_heartbeats_tells_when_the_last_one_came_at_the_earliest(told: Told) -> None:
    assert told("idle") == [(169_000, 320_000, 350_000, 151.0, 181.0, 166.0)]


def test_a_process_of_which_there_is_no_record_was_last_heard_of_when_it_came(told: Told) -> None:
    assert told("nothing on record") == [(5000, 320_000, 350_000, 315.0, 345.0, 330.0)]


def test_a_process_that_moved_or_was_lost_from_sight_exposes_nobody(told: Told) -> None:
    assert told("out of sight") == []


def test_topics_that_nobody_else_has_are_lost_with_the_last_process(
    rows: list[dict[str, Any]],
) -> None:
    place = list(STORIES).index("topics")
    counts = {
        row["broker_id"]: (row["topics"], row["topics_lost"])
        for row in rows
        if row["day"] == day_of_story(place)
    }
    assert counts == {0: (3, 2), 1: (3, 0)}


def test_times_are_by_the_common_clock(told: Told) -> None:
    assert told("a wrong clock") == [(180_000, 300_000, 330_000, 120.0, 150.0, 135.0)]


# -- against plain Python, on generated histories


def _table(frames: Frames, **options: Any) -> DataFrame:
    return stale_exposure(
        frames.sessions,
        frames.suspects,
        frames.events,
        frames.versions,
        frames.coverage,
        frames.skew,
        poll_s=POLL_S,
        **options,
    )


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[dict[str, Any]]:
    """All of the history."""
    return in_ms(_table(frames_of(spark, history())).collect())


def test_exposures_are_those_found_by_looking_through_all_records(
    found: list[dict[str, Any]],
) -> None:
    expected = exposures(plain_silver(history()), history(), poll_s=POLL_S)
    assert {row["cause"] for row in expected} >= {
        "expired",
        "connection_closed",
        "unregister",
        "not_confirmed",
        "replaced",
    }
    assert any(row["topics_lost"] for row in expected)
    assert found == in_order(expected)


def test_days_that_come_later_and_a_node_that_is_late_give_the_same_table(
    spark: SparkSession, found: list[dict[str, Any]]
) -> None:
    known = delivered_first(history())
    earlier = _table(frames_of(spark, known)).collect()
    frames = frames_of(spark, history())
    from_day = first_touched(frames.skew, first_new_day(history(), known))
    kept = [row for row in earlier if row.day < from_day]
    assert kept
    assert in_ms(kept + _table(frames, from_day=from_day).collect()) == found
