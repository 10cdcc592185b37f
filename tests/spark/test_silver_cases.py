"""The definitions of silver, a small story for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routebook.events import Cause, GuardEngaged, GuardReleased, RouteQueries, Suspect
from routebook_spark.silver.build import silver_of
from routebook_spark.tables import OPEN
from support.silver_lakes import Row, plain
from support.spark_histories import events_frame, gaps_frame
from support.stories import DAY, Story, ms
from support.telling import group_restated, restated

GUARD: dict[str, Any] = {"revision": 0, "cause": Cause.GUARD, "peer": ""}


def a_day(story: Story) -> None:
    """Started without tables, stopped, and started again with them."""
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1").register(cluster="c1", same_connection=True)
    story.at("03:02:00").heartbeats(cluster="c1", gaps_s=(30, 30.04, 29.9, 61))
    story.at("03:10:00").register(cluster="c1")  # on a new connection
    story.at("03:20:00").set_writable("broker-a", writable=False, peer="admin:1")
    story.at("03:30:00").stop()
    story.at("03:31:00").start(recovering=True)
    story.at("03:31:20").confirm(cluster="c1")
    story.at("03:40:00").delete_topic("payments", peer="admin:1")
    story.at("03:50:00").unregister(cluster="c1")
    story.at("03:55:00").queries("orders", unknown=3)


def a_short_day(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:02:00").stop()
    story.at("03:31:00").start(recovering=True)
    story.at("03:32:00").confirm(cluster="c1")
    story.at("03:33:00").queries("orders", unknown=3)


def stalled(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:02:30").stall(since="03:01:15")
    story.at("03:03:00").queries("orders", known=1)


def clock_set_and_told(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:01:15").set_clock(by_ms=3_600_000)
    story.at("03:02:00").queries("orders", known=1)


def starved(story: Story) -> None:
    """Windows that stalls cut short say nothing of how long the node may be quiet."""
    story.at("03:00:00").start()
    story.at("03:00:01").register(cluster="c1")
    for second in (10, 20, 30, 40):
        story.at(f"03:00:{second}").stall(since=f"03:00:{second - 5:02d}")
        said: dict[str, Any] = {"window_ms": 3000, "topics": (), "others": 0}
        story.add(RouteQueries(revision=0, cause=Cause.WINDOW, peer="", **said))
    story.at("03:01:30").set_writable("broker-a", writable=False, peer="admin:1")


def frozen(story: Story) -> None:
    """Nobody wrote down that it was: an older node, or one that was killed while it slept."""
    story.at("03:09:00").start()
    story.at("03:10:00").register(cluster="c1")
    story.at("05:10:00").queries("orders", known=1)


def quick_windows(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:00:01").register(cluster="c1")
    for second, window_ms in ((3, 6000), (9, 6000), (15, 6000), (16, 500)):
        said: dict[str, Any] = {"window_ms": window_ms, "topics": (), "others": 0}
        for _ in range(3):
            story.at(f"03:00:{second:02d}").add(
                RouteQueries(revision=0, cause=Cause.WINDOW, peer="", **said)
            )
    story.at("03:00:27").set_writable("broker-a", writable=False, peer="admin:1")
    story.at("03:00:40").set_writable("broker-a", writable=True, peer="admin:1")


def restarted_in_a_window(story: Story) -> None:
    """The window of the stop was short, and those of the new run are not."""
    story.at("03:00:00").start()
    story.at("03:00:01").register(cluster="c1")
    cut: dict[str, Any] = {"window_ms": 2000, "topics": (), "others": 0}
    story.at("03:00:03").add(RouteQueries(revision=0, cause=Cause.WINDOW, peer="", **cut))
    story.at("03:00:03").stop()
    story.at("03:00:04").start(recovering=True)
    story.at("03:01:04").confirm(cluster="c1")


def without_brokers(story: Story) -> None:
    """It has nothing to record."""
    story.at("03:00:00").start()
    story.at("05:00:00").queries("orders", unknown=1)


def killed_with_a_sign_of_life(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.be_killed(down_s=600, recovering=True, alive="03:01:52")


def clock_never_set(story: Story) -> None:
    """Ten minutes of records, and a quarter of a century between them."""
    years_ms = ms("03:00:00") - ms("2001-01-01T00:00:00+00:00")
    story.clock_ahead_ms = -years_ms
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.clock_ahead_ms = 0
    story.at("03:02:00").queries("orders", known=1)
    story.at("03:03:00").queries("orders", known=1)


def cold_start(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:02:00").heartbeats(cluster="c1")
    story.be_killed(down_s=600, recovering=False)


def role_change(story: Story) -> None:
    story.at("03:00:00").start()
    story.at("03:01:00").register("broker-a", 1, host=7, cluster="c1", acting_master=True)
    story.at("03:02:00").register("broker-a", 0, host=7, cluster="c1", acting_master=True)
    story.at("03:03:00").register("broker-a", 0, host=8, cluster="c1", acting_master=True)


def records_lost(story: Story) -> None:
    """While nobody could write it down one broker left, and the other stayed."""
    story.at("03:00:00").start()
    story.at("03:01:00").register("broker-a", cluster="c1", topics=("orders", "gone"))
    story.at("03:02:00").register("broker-b", cluster="c1")
    story.at("03:10:00").lose_records(5, since="03:03:30")
    story.at("03:10:01").add(restated(1))  # of which nothing had been told
    story.at("03:10:02").add(group_restated("broker-a", topics=("orders",)))
    story.at("03:10:03").add(restated(1))


def missing_segment(story: Story) -> None:
    """Records 6 to 8 are missing; a warm start does not make up for them, a cold one does."""
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:02:00").queries("orders", known=1)
    assert [record.seq for record in story.records] == [1, 2, 3, 4, 5]
    story.at("03:20:00").queries("orders", known=1).queries("orders", known=1)
    story.queries("orders", known=1)
    del story.records[5:]
    story.at("03:30:00").heartbeats(cluster="c1")
    story.at("03:31:00").stop()
    story.at("03:32:00").start(recovering=True)
    story.at("03:33:00").stop()
    story.at("03:34:00").start()


def begun_amidst(story: Story) -> None:
    """Of its first records nothing is left."""
    story.at("03:00:00").start()
    story.at("03:01:00").register("broker-a", cluster="c1")
    first = len(story.records)
    story.at("03:02:00").register("broker-a", 1, cluster="c1")
    del story.records[:first]


def guard(story: Story) -> None:
    """Two fall silent and are held. One is heard of again; the other is given up."""
    story.at("03:00:00").start()
    story.at("03:01:00").register("broker-a", cluster="c1").register("broker-b", cluster="c1")
    suspects = tuple(
        Suspect("c1", f"broker-{name}", 0, f"10.0.0.{host}:10911", 125_000)
        for name, host in (("a", 1), ("b", 2))
    )
    story.at("03:10:00").add(
        GuardEngaged(
            **GUARD, suspects=suspects, silent=2, live=2, limit=1, window_ms=60_000, hold_ms=600_000
        )
    )
    story.at("03:11:00").heartbeats("broker-a", gaps_s=(30, 30), cluster="c1")  # from before
    story.at("03:12:00").heartbeats("broker-a", gaps_s=(190, 30), cluster="c1")
    story.at("03:20:00").add(
        GuardReleased(**GUARD, reason="deadline", returned=1, left=0, dropped=1)
    )


def clock_set_back(story: Story) -> None:
    """What comes later is later, whatever the clock says."""
    story.at("03:00:00").start()
    story.at("03:30:00").register(cluster="c1")
    story.clock_ahead_ms = -3_600_000
    story.at("03:40:00").set_writable("broker-a", writable=False, peer="admin:1")


def last_told_the_next_day(story: Story) -> None:
    story.at("23:58:00").start()
    story.at("23:59:00").register(cluster="c1")
    story.be_killed(down_s=600, recovering=False)


def part_of_its_topics(story: Story) -> None:
    """A broker that has two topics, and registers with a third one alone."""
    story.at("03:00:00").start()
    story.at("03:01:00").register(cluster="c1")
    story.at("03:02:00").register(cluster="c1", topics=("refunds",), same_connection=True)


STORIES: tuple[Callable[[Story], None], ...] = (
    part_of_its_topics,
    a_day,
    a_short_day,
    stalled,
    clock_set_and_told,
    starved,
    frozen,
    quick_windows,
    restarted_in_a_window,
    without_brokers,
    killed_with_a_sign_of_life,
    clock_never_set,
    cold_start,
    role_change,
    records_lost,
    missing_segment,
    begun_amidst,
    guard,
    clock_set_back,
    last_told_the_next_day,
)


@dataclass(frozen=True, slots=True)
class Told:
    tables: dict[str, list[Row]]

    def __call__(
        self, table: str, about: Callable[[Story], None], *columns: str
    ) -> list[tuple[Any, ...]]:
        rows = [row for row in self.tables[table] if row["node"] == about.__name__]
        rows.sort(key=lambda row: (row["from_seq"], row.get("broker_id"), row.get("topic") or ""))
        return [tuple(row[name] for name in columns) for row in rows]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    """All of them in one frame."""
    by_node = {}
    for tell in STORIES:
        story = Story(node=tell.__name__)
        tell(story)
        by_node[story.node] = story.records
    silver = silver_of(events_frame(spark, by_node), gaps_frame(spark, by_node))
    names = ("coverage", "sessions", "suspects", "versions")
    return Told({name: plain(getattr(silver, name)) for name in names})


def at(time: str) -> datetime:
    return datetime.fromtimestamp(ms(time) / 1000, UTC)


COVERAGE = ("begins", "from_at", "ends", "to_at")


def test_a_node_is_covered_from_start_to_stop_and_to_its_last_record(told: Told) -> None:
    assert told("coverage", a_short_day, *COVERAGE, "until_day") == [
        ("started_cold", at("03:00:00"), "stopped", at("03:02:00"), date.fromisoformat(DAY)),
        ("started_warm", at("03:31:00"), None, at("03:33:00"), OPEN),
    ]


def test_a_node_is_not_covered_while_it_was_stalled(told: Told) -> None:
    assert told("coverage", stalled, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "stalled", at("03:01:15")),
        ("woke", at("03:02:30"), None, at("03:03:00")),
    ]


def test_a_node_that_lists_brokers_and_records_nothing_is_not_covered(told: Told) -> None:
    assert told("coverage", frozen, *COVERAGE) == [
        ("started_cold", at("03:09:00"), "silent", at("03:10:00")),
        ("heard_again", at("05:10:00"), None, at("05:10:00")),
    ]
    assert told("coverage", without_brokers, *COVERAGE) == [
        ("started_cold", at("03:00:00"), None, at("05:00:00"))
    ]


def test_how_long_a_node_may_be_quiet_follows_from_its_windows(told: Told) -> None:
    assert told("coverage", quick_windows, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "silent", at("03:00:27")),
        ("heard_again", at("03:00:40"), None, at("03:00:40")),
    ]


def test_a_window_cut_short_by_a_stop_says_nothing_of_the_next_run(told: Told) -> None:
    assert told("coverage", restarted_in_a_window, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "stopped", at("03:00:03")),
        ("started_warm", at("03:00:04"), None, at("03:01:04")),
    ]


def test_a_silence_before_a_stop_is_no_time_of_a_witness(told: Told) -> None:
    rows = told("coverage", a_day, *COVERAGE)
    assert rows[2:4] == [
        ("heard_again", at("03:20:00"), "silent", at("03:20:00")),
        ("started_warm", at("03:31:00"), "silent", at("03:31:20")),
    ]


def test_a_killed_node_is_covered_up_to_its_last_sign_of_life(told: Told) -> None:
    assert told("coverage", killed_with_a_sign_of_life, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "killed", at("03:01:52")),
        ("started_warm", at("03:11:00"), None, at("03:11:00")),
    ]


def test_a_node_that_says_its_clock_was_set_did_not_sleep(told: Told) -> None:
    assert told("coverage", clock_set_and_told, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "clock", at("03:01:15")),
        ("clock_set", at("04:01:15"), None, at("04:02:00")),
    ]


def test_a_window_that_a_stall_cut_short_makes_no_silence(told: Told) -> None:
    [*_, last] = told("coverage", starved, *COVERAGE)
    assert last == ("woke", at("03:00:40"), None, at("03:01:30"))


def test_a_clock_that_jumps_covers_no_time_nobody_was_awake_in(told: Told) -> None:
    rows = told("coverage", clock_never_set, *COVERAGE, "clock_epoch")
    assert [(begins, ends, epoch) for begins, _, ends, _, epoch in rows] == [
        ("started_cold", "clock", 0),
        ("clock_set", None, 5),
    ]
    assert [(to_at - from_at).total_seconds() for _, from_at, _, to_at, _ in rows] == [60, 60]


def test_where_a_clock_is_set_back_two_stretches_are_not_joined(told: Told) -> None:
    assert told("coverage", clock_set_back, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "clock", at("03:30:00")),
        ("clock_set", at("02:40:00"), None, at("02:40:00")),
    ]


def test_a_killed_node_is_covered_up_to_its_last_record(told: Told) -> None:
    assert told("coverage", cold_start, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "killed", at("03:02:00")),
        ("started_cold", at("03:12:00"), None, at("03:12:00")),
    ]


def test_after_a_loss_a_node_is_covered_again_once_every_group_was_restated(told: Told) -> None:
    assert told("coverage", records_lost, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "records_lost", at("03:03:30")),
        ("restated", at("03:10:03"), None, at("03:10:03")),
    ]


def test_missing_records_are_not_made_up_for_by_a_warm_start(told: Told) -> None:
    assert told("coverage", missing_segment, *COVERAGE) == [
        ("started_cold", at("03:00:00"), "records_missing", at("03:02:00")),
        ("started_cold", at("03:34:00"), None, at("03:34:00")),
    ]


def test_a_node_is_not_covered_before_a_state_of_it_is_known(told: Told) -> None:
    assert told("coverage", begun_amidst, *COVERAGE) == []


SESSION = ("broker", "broker_id", "addr", "began", "began_at", "cause", "ended_at")


def test_a_registration_of_some_topics_is_not_taken_for_one_of_all(told: Told) -> None:
    assert told("sessions", part_of_its_topics, "topics", "ended_at") == [(3, None)]
    # What it had when it left is what it had just before.
    assert told("sessions", a_day, "topics") == [(1,)]


def test_a_session_outlasts_connections_and_warm_starts(told: Told) -> None:
    assert told("sessions", a_day, *SESSION) == [
        (
            *("broker-a", 0, "10.0.0.1:10911", "registered", at("03:01:00")),
            *("unregister", at("03:50:00")),
        )
    ]
    ((connections, restarts, unconfirmed_s),) = told(
        "sessions", a_day, "connections", "restarts", "unconfirmed_s"
    )
    assert (connections, restarts, unconfirmed_s) == (2, 1, 20.0)


def test_gaps_are_counted_in_steps_of_100_ms(told: Told) -> None:
    columns = ("heartbeats", "gap_p50_ms", "gap_p99_ms", "gap_max_ms", "gap_counts")
    ((*numbers, counts),) = told("sessions", a_day, *columns)
    assert numbers == [4, 30_000, 61_000, 61_000]
    assert [(each["gap_ms"], each["count"]) for each in counts] == [
        (29_900, 1),
        (30_000, 2),
        (61_000, 1),
    ]


def test_a_session_lost_by_a_cold_start_ended_when_it_was_last_seen(told: Told) -> None:
    ((cause, ended_at, to_seq),) = told("sessions", cold_start, "cause", "ended_at", "to_seq")
    assert (cause, ended_at) == ("node_restarted", at("03:02:00"))
    assert to_seq == 2**20 + 1, "the record that told it: the start"


def test_a_change_of_role_and_a_new_address_are_sessions_of_their_own(told: Told) -> None:
    assert told("sessions", role_change, *SESSION) == [
        (
            *("broker-a", 1, "10.0.0.7:10911", "registered", at("03:01:00")),
            *("moved", at("03:02:00")),
        ),
        (
            *("broker-a", 0, "10.0.0.7:10911", "registered", at("03:02:00")),
            *("replaced", at("03:03:00")),
        ),
        ("broker-a", 0, "10.0.0.8:10911", "registered", at("03:03:00"), None, None),
    ]


def test_one_that_left_unseen_ended_when_records_were_lost(told: Told) -> None:
    assert told("sessions", records_lost, "broker", "cause", "ended_at") == [
        ("broker-a", None, None),
        ("broker-b", "lost_track", at("03:03:30")),
    ]


def test_a_member_that_was_there_before_is_known(told: Told) -> None:
    assert told("sessions", begun_amidst, "broker_id", "began") == [
        (0, "known"),
        (1, "registered"),
    ]


VERSION = ("topic", "perm", "valid_from", "cause", "valid_to", "end_cause")


def test_a_topic_has_a_version_for_each_shape_until_its_group_is_gone(told: Told) -> None:
    registered, drained = at("03:01:00"), at("03:20:00")
    assert told("versions", a_day, *VERSION) == [
        ("orders", 6, registered, "register", drained, "admin"),
        ("payments", 6, registered, "register", drained, "admin"),
        ("orders", 4, drained, "admin", at("03:50:00"), "unregister"),
        ("payments", 4, drained, "admin", at("03:40:00"), "admin"),
    ]
    shapes = told("versions", a_day, "registered")
    assert shapes == [(None,), (None,), ([8, 8, 6, 0],), ([8, 8, 6, 0],)]


def test_topics_go_on_when_a_broker_is_replaced_or_its_group_restated(told: Told) -> None:
    lasting = [row for row in told("versions", role_change, "topic", "valid_to") if not row[1]]
    assert lasting == [("orders", None), ("payments", None)]
    assert told("versions", records_lost, "broker", *VERSION) == [
        ("broker-a", "gone", 6, at("03:01:00"), "register", at("03:03:30"), "lost_track"),
        ("broker-a", "orders", 6, at("03:01:00"), "register", None, None),
        ("broker-b", "orders", 6, at("03:02:00"), "register", at("03:03:30"), "lost_track"),
        ("broker-b", "payments", 6, at("03:02:00"), "register", at("03:03:30"), "lost_track"),
    ]


def test_versions_are_in_the_order_of_records_when_the_clock_is_set_back(told: Told) -> None:
    rows = told("versions", clock_set_back, "topic", "perm", "from_seq", "to_seq", "valid_to")
    first, second = (row[1:] for row in rows if row[0] == "orders")
    assert (first[0], second[0]) == (6, 4)
    assert first[2] == second[1]
    assert first[3] == at("02:40:00")


SUSPECT = ("broker", "kind", "from_at", "to_at")


def test_a_recovered_broker_is_unconfirmed_until_it_is_heard_of(told: Told) -> None:
    assert told("suspects", a_day, *SUSPECT) == [
        ("broker-a", "unconfirmed", at("03:31:00"), at("03:31:20"))
    ]


def test_a_held_broker_is_suspect_until_a_gap_spans_its_silence_or_it_is_given_up(
    told: Told,
) -> None:
    assert sorted(told("suspects", guard, *SUSPECT)) == [
        ("broker-a", "held", at("03:10:00"), at("03:12:00")),
        ("broker-b", "held", at("03:10:00"), at("03:20:00")),
    ]


def test_an_end_is_filed_under_the_day_on_which_it_was_told(told: Told) -> None:
    """Readers of a day find it there, and so does the next build."""
    ((ended_at, until_day),) = told("sessions", last_told_the_next_day, "ended_at", "until_day")
    assert ended_at == at("23:59:00")
    assert until_day == date(2026, 11, 16)


def test_every_story_begins_somewhere(told: Told) -> None:
    names: Sequence[str] = [tell.__name__ for tell in STORIES]
    assert {row["node"] for row in told.tables["sessions"]} == {*names} - {"without_brokers"}
