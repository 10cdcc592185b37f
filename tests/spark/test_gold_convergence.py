"""Convergence: one change in the world, and how long it took until all nodes showed it."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from routebook.events import (
    BrokerRegistered,
    Cause,
    Event,
    QueueChange,
    RegistrationCompleted,
    Shape,
    TopicsChanged,
)
from routebook_spark import schemas
from routebook_spark.gold.convergence import convergence
from routebook_spark.gold.pairs import first_touched
from support.convergence_reference import convergences
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
    ADDR,
    BROKER,
    CLUSTER,
    DAY_MS,
    TOPIC,
    Story,
    day_of_story,
    note,
    process,
    story_frames,
)
from support.plain_silver import plain_silver
from support.spark_rows import T0_MS

HOUR = 3_600_000
FOUR: Shape = (4, 4, 6, 0)
EIGHT: Shape = (8, 8, 6, 0)


def pair() -> Story:
    """Two nodes that know all the time."""
    return Story().knows("a", "b")


def changes(
    *topics: str,
    before: Shape | None = FOUR,
    after: Shape | None = EIGHT,
    by: Cause = Cause.REGISTER,
) -> Event:
    each = tuple(QueueChange(topic, before, after) for topic in topics)
    peer = "" if by is Cause.ADMIN else "10.0.0.1:40000"
    return TopicsChanged(**note(by, peer), cluster=CLUSTER, broker=BROKER, changes=each)


def completes(version: int) -> Event:
    return RegistrationCompleted(**note(), **process(), topics=9, data_version=(0, 1, version))


def registers() -> Event:
    return BrokerRegistered(
        **note(),
        **process(),
        ha_addr=None,
        heartbeat_timeout_ms=120_000,
        acting_master=None,
        zone=None,
        epoch=1,
        filter_servers=(),
        addrs_before={},
        addrs_after={0: ADDR},
    )


def by_admin(*, before: Shape, after: Shape) -> Event:
    return changes(TOPIC, before=before, after=after, by=Cause.ADMIN)


MANY = [f"topic-{number}" for number in range(1000)]

STORIES = {
    "a broker joins": pair().lists("b", since=60_000).lists("a", since=60_400),
    "a broker leaves": pair()
    .lists("a", until=60_000, cause="unregister", began="known")
    .lists("b", until=95_000, began="known"),
    "never": pair().lists("a", since=60_000),
    "one is down": Story()
    .knows("a")
    .knows("b", until=50_000)
    .knows("b", since=70_000)
    .lists("a", since=60_000)
    .lists("b", since=80_000),
    "one goes down": Story().knows("a").knows("b", until=300_000).lists("a", since=60_000),
    "one forgets": Story()
    .knows("a")
    .knows("b", until=1_000_000)
    .knows("b", since=1_100_000)
    .lists("a", began="known")
    .lists("b", began="known", until=1_000_000, cause="node_restarted")
    .lists("b", since=1_120_000),
    "taken back": pair()
    .lists("a", began="known")
    .lists("b", began="known", until=60_000, cause="connection_closed")
    .lists("b", since=65_000),
    "a restart": pair()
    .lists("a", "b", began="known", until=60_000, cause="connection_closed")
    .lists("a", since=80_000)
    .lists("b", since=80_300),
    "many topics": pair()
    .writes("a", 60_000, changes(*MANY[:700]), changes(*MANY[700:]), completes(7))
    .writes("b", 60_020, changes(*MANY[:500]))
    .writes("b", 60_070, changes(*MANY[500:]), completes(7)),
    "one topic": pair()
    .writes("a", 60_000, changes(TOPIC), completes(7))
    .writes("b", 91_000, changes(TOPIC), completes(7)),
    "no difference": pair()
    .writes("a", 60_000, changes(TOPIC), completes(7))
    .writes("b", 60_500, completes(7)),
    "arriving": pair()
    .writes("a", 60_000, registers(), changes(TOPIC, before=None), completes(7))
    .writes("b", 60_010, registers(), changes(TOPIC, before=None), completes(7)),
    "a command": pair()
    .writes("a", 60_000, by_admin(before=FOUR, after=EIGHT))
    .writes("b", 62_000, by_admin(before=FOUR, after=EIGHT)),
    "to and fro": pair()
    .writes("a", 60_000, by_admin(before=FOUR, after=EIGHT))
    .writes("b", 61_000, by_admin(before=FOUR, after=EIGHT))
    .writes("a", 70_000, by_admin(before=EIGHT, after=FOUR))
    .writes("b", 72_000, by_admin(before=EIGHT, after=FOUR))
    .writes("a", 80_000, by_admin(before=FOUR, after=EIGHT))
    .writes("b", 83_000, by_admin(before=FOUR, after=EIGHT)),
    "an hour late": pair()
    .knows("a", "b", since=HOUR + 1, until=3 * HOUR)
    .writes("a", 60_000, changes(TOPIC), completes(7))
    .writes("b", HOUR + 60_000, changes(TOPIC), completes(7)),
    # Another version: the story before it is less than a day ago.
    "late once more": pair()
    .writes("a", 60_000, changes(TOPIC), completes(8))
    .writes("b", 60_500, changes(TOPIC), completes(8))
    .writes("a", 1_200_000, changes(TOPIC), completes(8))
    .writes("b", 3_000_000, changes(TOPIC), completes(8)),
    "one node never shows it": Story()
    .knows("a", "b", "c")
    .lists("a", since=60_000)
    .lists("b", since=60_900),
    "one node sleeps": Story()
    .knows("a", "b")
    .knows("c", until=59_000, ends="stalled")
    .knows("c", since=195_000)
    .lists("a", since=60_000)
    .lists("b", since=60_900),
    "nodes of another fleet": pair()
    .knows("other/c")
    .lists("a", since=60_000)
    .lists("b", since=60_900),
    "no common clock": pair()
    .knows("c")
    .clock("c", ahead_ms=None)
    .lists("a", since=60_000)
    .lists("b", since=60_900)
    .lists("c", since=400_000),
    "a wrong clock": pair()
    .clock("b", ahead_ms=7_200_000, uncertainty_ms=40)
    .clock("a", uncertainty_ms=15)
    .lists("a", since=60_000)
    .lists("b", since=60_900),
}

Told = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[dict[str, Any]]:
    frames = story_frames(spark, STORIES)
    found = convergence(frames.sessions, frames.events, frames.coverage, frames.skew)
    assert found.schema.names == schemas.CONVERGENCE.names
    # Whatever still lasts at the end of a story is ended after it, when nobody knows.
    return [row for row in in_ms(found.collect()) if row["first_ms"] % DAY_MS < HOUR]


@pytest.fixture(scope="module")
def told(rows: list[dict[str, Any]]) -> Told:
    """What came of a story: kind, topic, what, first, lag, nodes, of how many, within 1, 30 s."""

    def told_of(story: str) -> list[tuple[Any, ...]]:
        place = list(STORIES).index(story)
        return sorted(
            (
                row["kind"],
                row["topic"],
                row["what"],
                row["first_ms"] - T0_MS - place * DAY_MS,
                row["lag_ms"],
                row["nodes"],
                row["nodes_knowing"],
                row["within_1s"],
                row["within_30s"],
            )
            for row in rows
            if row["day"] == day_of_story(place)
        )

    return told_of


JOINS = ("broker_joined", None, f"0 {ADDR}")
LEAVES = ("broker_left", None, f"0 {ADDR}")


def test_a_change_that_a_node_never_shows_is_told_with_how_many_should_have(told: Told) -> None:
    assert told("one node never shows it") == [(*JOINS, 60_000, None, 2, 3, False, False)]


@pytest.mark.parametrize("story", ["one node sleeps", "nodes of another fleet", "no common clock"])
def test_who_cannot_show_it_is_not_waited_for(told: Told, story: str) -> None:
    assert told(story) == [(*JOINS, 60_000, 900, 2, 2, True, True)]


def test_the_lag_of_a_broker_that_joins_is_from_the_first_node_to_the_last(
    told: Told, rows: list[dict[str, Any]]
) -> None:
    assert told("a broker joins") == [(*JOINS, 60_000, 400, 2, 2, True, True)]
    joined = next(row for row in rows if row["day"] == day_of_story(0))
    assert (joined["first_node"], joined["last_node"]) == ("b", "a")
    assert joined["last_ms"] - joined["first_ms"] == 400


def test_a_broker_that_one_node_lets_go_half_a_minute_later_left_once(told: Told) -> None:
    assert told("a broker leaves") == [(*LEAVES, 60_000, 35_000, 2, 2, False, False)]


def test_a_change_that_a_node_never_shows_has_no_lag_and_misses_every_target(told: Told) -> None:
    assert told("never") == [(*JOINS, 60_000, None, 1, 2, False, False)]


def test_a_node_that_did_not_know_all_the_while_does_not_count(told: Told) -> None:
    assert told("one is down") == [(*JOINS, 60_000, None, 1, 1, None, None)]
    assert told("one goes down") == [(*JOINS, 60_000, None, 1, 1, None, None)]


def test_a_node_that_learns_anew_what_others_know_is_no_change(told: Told) -> None:
    assert told("one forgets") == []


def test_a_broker_that_is_back_at_once_where_it_was_missed_has_not_left(told: Told) -> None:
    assert told("taken back") == []


def test_a_broker_that_all_nodes_saw_leave_and_come_back_did_both(told: Told) -> None:
    assert told("a restart") == [
        (*JOINS, 80_000, 300, 2, 2, True, True),
        (*LEAVES, 60_000, 0, 2, 2, True, True),
    ]


def test_a_thousand_topics_of_one_registration_are_one_change(told: Told) -> None:
    assert told("many topics") == [
        ("topic_changed", None, "1000 topics", 60_000, 70, 2, 2, True, True)
    ]


def test_a_single_topic_is_told_by_its_name_and_queues(told: Told) -> None:
    assert told("one topic") == [
        ("topic_changed", TOPIC, "[8,8,6,0]", 60_000, 31_000, 2, 2, False, False)
    ]


def test_a_node_that_was_told_and_had_it_already_shows_it_too(told: Told) -> None:
    assert told("no difference") == [
        ("topic_changed", TOPIC, "[8,8,6,0]", 60_000, 500, 2, 2, True, True)
    ]


def test_topics_that_come_with_their_broker_are_no_change_of_their_own(told: Told) -> None:
    assert told("arriving") == []


def test_commands_are_known_by_their_topics_and_what_came_of_them(told: Told) -> None:
    assert told("a command") == [
        ("topic_changed", TOPIC, "[8,8,6,0]", 60_000, 2000, 2, 2, False, True)
    ]


def test_what_is_done_undone_and_done_again_are_three_changes(told: Told) -> None:
    assert [(row[2], row[3], row[4]) for row in sorted(told("to and fro"), key=lambda r: r[3])] == [
        ("[8,8,6,0]", 60_000, 1000),
        ("[4,4,6,0]", 70_000, 2000),
        ("[8,8,6,0]", 80_000, 3000),
    ]


def test_a_node_that_shows_it_after_the_window_is_late_and_makes_no_new_change(told: Told) -> None:
    assert told("an hour late") == [
        ("topic_changed", TOPIC, "[8,8,6,0]", 60_000, None, 1, 2, False, False)
    ]


def test_a_node_that_is_behind_with_what_it_had_shown_before_is_late_too(told: Told) -> None:
    assert told("late once more") == [
        ("topic_changed", TOPIC, "[8,8,6,0]", 60_000, 500, 2, 2, True, True),
        ("topic_changed", TOPIC, "[8,8,6,0]", 1_200_000, None, 1, 2, False, False),
    ]


def test_lags_are_by_the_common_clock_and_tell_their_uncertainty(
    told: Told, rows: list[dict[str, Any]]
) -> None:
    assert told("a wrong clock") == [(*JOINS, 60_000, 900, 2, 2, True, True)]
    place = list(STORIES).index("a wrong clock")
    assert [r["uncertainty_ms"] for r in rows if r["day"] == day_of_story(place)] == [55]


# -- against plain Python, on generated histories


def _table(frames: Frames, **options: Any) -> DataFrame:
    return convergence(frames.sessions, frames.events, frames.coverage, frames.skew, **options)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[dict[str, Any]]:
    """All changes of the history."""
    return in_ms(_table(frames_of(spark, history())).collect())


def test_changes_are_those_found_by_putting_what_nodes_showed_side_by_side(
    found: list[dict[str, Any]],
) -> None:
    expected = convergences(plain_silver(history()), history())
    assert {row["within_30s"] for row in expected} == {True, False, None}
    assert {row["kind"] for row in expected} == {"broker_joined", "broker_left", "topic_changed"}
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
