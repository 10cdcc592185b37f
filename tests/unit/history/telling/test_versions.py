"""All routes a topic had, from when to when, and why they changed."""

from routebook.events import Cause, HeartbeatGaps
from routebook.history.finding.witness import missing_records, watched
from routebook.history.telling.versions import Followed, Told, Version, follow
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.words import time_of_day
from support.stories import Story


def brief(version: Version) -> tuple[str, str | None, str, tuple[str, ...]]:
    to_ms = version.to_ms
    return (
        time_of_day(version.from_ms),
        None if to_ms is None else time_of_day(to_ms),
        version.told.value,
        version.changes,
    )


def versions(
    story: Story, topic: str = "orders"
) -> list[tuple[str, str | None, str, tuple[str, ...]]]:
    return [brief(version) for version in follow(story.records, topic).versions]


def test_each_change_of_the_route_begins_a_version() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register("broker-b")
    story.at("03:20:00").set_writable("broker-a", writable=False, peer="10.0.0.9:51234")
    story.at("03:40:11").lose()
    story.at("03:40:12").lose("broker-b")

    assert versions(story) == [
        ("03:00:00Z", "03:12:04Z", "none", ()),
        ("03:12:04Z", "03:13:04Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:13:04Z", "03:20:00Z", "route", ("broker-b came with 8/8 RW-",)),
        ("03:20:00Z", "03:40:11Z", "route", ("broker-a: permission RW- to R--",)),
        ("03:40:11Z", "03:40:12Z", "route", ("broker-a went",)),
        ("03:40:12Z", None, "none", ("broker-b went",)),
    ]


def test_a_version_knows_its_cause_and_who_asked_for_it() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:20:00").set_writable("broker-a", writable=False, peer="10.0.0.9:51234")

    last = follow(story.records, "orders").last

    assert last is not None
    assert (last.cause, last.peer, last.from_seq) == (Cause.ADMIN, "10.0.0.9:51234", 5)
    assert [(part.broker, part.addrs, part.queues) for part in last.parts] == [
        ("broker-a", ((0, "10.0.0.1:10911"),), (8, 8, 4, 0))
    ]


def test_slaves_that_come_and_go_are_versions_too() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register(broker_id=1, host=2)
    story.at("03:14:04").lose(broker_id=1)

    assert [version[3] for version in versions(story)[2:]] == [
        ("broker-a: id 1 (10.0.0.2:10911) came",),
        ("broker-a: id 1 (10.0.0.2:10911) went",),
    ]


def test_what_does_not_concern_the_topic_makes_no_version() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:12:30").register()  # over a new connection
    story.at("03:13:00").heartbeats().queries("orders", known=3)
    story.at("03:13:04").register("broker-b", topics=["other", "another"])
    story.at("03:14:04").lose("broker-b")

    assert len(versions(story)) == 2


def test_an_address_that_takes_over_is_one_change() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register(host=7)

    assert versions(story)[2:] == [
        (
            "03:13:04Z",
            None,
            "route",
            ("broker-a: id 0 (10.0.0.7:10911) came, id 0 (10.0.0.1:10911) went",),
        )
    ]


def test_while_the_node_is_down_clients_are_told_nothing() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:50:00Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:50:00Z", "03:51:00Z", "down", ("the node was down",)),
        ("03:51:00Z", None, "route", ("as before",)),
    ]


def test_what_a_node_told_before_it_was_killed_is_known_up_to_its_last_sign_of_life() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").heartbeats()
    story.be_killed(down_s=70, recovering=False, alive="03:50:43")

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:50:43Z", "route", ("broker-a came with 8/8 RW-",)),
        (
            "03:50:43Z",
            "03:51:10Z",
            "unknown",
            ("the node stopped at some moment after 03:50:43Z",),
        ),
        ("03:51:10Z", None, "none", ("broker-a went",)),
    ]


def test_while_the_node_is_stalled_it_answers_nobody() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:14:20").stall(since="03:12:05")

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:12:05Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:12:05Z", "03:14:20Z", "stalled", ("the node listened to nobody",)),
        ("03:14:20Z", None, "route", ("as before",)),
    ]


def test_what_changed_in_a_moment_of_a_stall_is_told_after_it() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:00").lose()  # the node was awake for a moment
    story.at("03:14:20").stall(since="03:12:05")

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:12:05Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:12:05Z", "03:14:20Z", "stalled", ("the node listened to nobody",)),
        ("03:14:20Z", None, "none", ("broker-a went",)),
    ]


def test_stalls_that_follow_each_other_are_one_in_which_nobody_is_answered() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:12:09").stall(since="03:12:05")
    story.at("03:12:19").stall(since="03:12:09")
    stalled = follow(story.records, "orders").versions[-2]

    assert brief(stalled)[:3] == ("03:12:05Z", "03:12:19Z", "stalled")
    assert stalled.silence is not None
    assert stalled.silence.until_ms == stalled.to_ms


def test_a_stall_of_several_pauses_was_broken_by_moments() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:14:20").stall(since="03:12:05", longest_ms=60_000)

    assert versions(story)[2] == (
        *("03:12:05Z", "03:14:20Z", "stalled"),
        ("the node listened to nobody but for moments",),
    )


def test_a_clock_that_was_set_forward_left_out_a_time() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:12:05").set_clock(by_ms=3_600_000)

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:12:05Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:12:05Z", "04:12:05Z", "unknown", ("the clock of the node was set forward",)),
        ("04:12:05Z", None, "route", ("as before",)),
    ]


def test_a_node_whose_clock_was_set_back_answered_all_the_time() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:12:05").set_clock(by_ms=-3_600_000)

    assert versions(story)[1:] == [("03:12:04Z", None, "route", ("broker-a came with 8/8 RW-",))]


def test_while_nothing_is_recorded_nothing_is_known() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("05:12:04").heartbeats().at("05:12:05").lose()

    found = [brief(version) for version in follow(watched(story.records), "orders").versions]

    assert found[1:] == [
        ("03:12:04Z", "03:12:04Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:12:04Z", "05:12:04Z", "unknown", ("nothing was recorded",)),
        ("05:12:04Z", "05:12:05Z", "route", ("as before",)),
        ("05:12:05Z", None, "none", ("broker-a went",)),
    ]


def test_a_silence_is_over_with_the_next_record_whatever_it_is_about() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("05:12:04").heartbeats()
    kept = [r for r in watched(story.records) if not isinstance(r.event, HeartbeatGaps)]

    found = [brief(version) for version in follow(kept, "orders").versions]

    assert found[2:] == [
        ("03:12:04Z", "05:12:04Z", "unknown", ("nothing was recorded",)),
        ("05:12:04Z", None, "route", ("as before",)),
    ]


def test_a_node_is_not_down_any_more_where_the_record_of_its_start_is_missing() -> None:
    story = Story().start()
    story.at("03:12:04").register().at("03:13:00").stop()
    at_ms = story.now_ms
    story.at("03:14:00").start(recovering=True).at("03:14:30").heartbeats()
    missing = Record(6, story.now_ms, 0, story.node, missing_records(1, at_ms))
    records = [*story.records[:-2], missing, story.records[-1]]

    assert [version.told for version in follow(records, "orders").versions[2:]] == [
        Told.NOTHING,
        Told.UNKNOWN,
    ]


def test_a_clock_set_forward_passes_over_time_that_nobody_was_told_anything_in() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.clock_ahead_ms = 7_200_000
    story.at("03:12:34").heartbeats()

    found = [brief(version) for version in follow(watched(story.records), "orders").versions]

    assert found[2:] == [
        ("03:12:04Z", "05:12:34Z", "unknown", ("the clock of the node was set forward",)),
        ("05:12:34Z", None, "route", ("as before",)),
    ]


def test_after_lost_records_nothing_is_known_until_all_is_restated() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:20:05").lose_records(12, since="03:20:00")
    story.at("03:20:06").register("broker-b")

    assert versions(story)[1:] == [
        ("03:12:04Z", "03:20:00Z", "route", ("broker-a came with 8/8 RW-",)),
        ("03:20:00Z", None, "unknown", ("records were lost",)),
    ]


def test_what_was_known_before_is_the_first_version() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    known, seen = story.view(), len(story.records)
    story.at("03:40:11").lose()

    followed = follow(story.records[seen:], "orders", known=known)

    assert [brief(version) for version in followed.versions] == [
        ("03:12:04Z", "03:40:11Z", "route", ()),
        ("03:40:11Z", None, "none", ("broker-a went",)),
    ]
    assert known.route("orders")  # and is left as it was


def test_of_a_journal_without_its_beginning_absence_is_no_answer() -> None:
    story = Story().start()
    seen = len(story.records)
    story.at("03:12:04").register()

    followed = follow(story.records[seen:], "payroll", known=View(), partial=True)
    found = follow(story.records[seen:], "orders", known=View(), partial=True)

    assert [version.told for version in followed.versions] == [Told.UNKNOWN]
    assert [(version.told, len(version.parts)) for version in found.versions] == [
        (Told.UNKNOWN, 0),
        (Told.UNKNOWN, 1),  # and there may be more
    ]


# -- since when


def origin(story: Story, topic: str = "orders") -> tuple[str, bool]:
    found = follow(story.records, topic).origin
    assert found is not None
    return time_of_day(found.from_ms), found.record is not None


def test_a_route_is_as_old_as_its_last_change_whatever_restarts_there_were() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)
    assert origin(story) == ("03:12:04Z", True)


def test_absence_is_as_old_as_the_departure_of_the_last_broker() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:40:11").lose()
    story.at("03:50:00").stop()
    story.at("03:51:00").start()
    assert origin(story) == ("03:40:11Z", True)


def test_what_was_never_seen_has_no_origin_but_the_beginning() -> None:
    story = Story().start().at("03:12:04").register()
    assert origin(story, "payroll") == ("03:00:00Z", False)


def test_nothing_is_followed_in_an_empty_journal() -> None:
    assert follow([], "orders") == Followed((), View())


# -- versions and views


def test_at_every_record_the_last_version_is_what_the_view_says() -> None:
    story = Story().start()
    story.register().register("broker-b").wait(9).register(broker_id=1, host=2, acting_master=True)
    story.wait(9).register(acting_master=True).wait(5).lose()
    story.wait(5).set_writable("broker-b", writable=False, peer="p").delete_topic(
        "orders", peer="p"
    )
    story.wait(9).register("broker-b", same_connection=True).register(host=7).wait(1).lose(
        "broker-b"
    )
    story.stop().wait(9).start(recovering=True).wait(1).register("broker-c").wait(200).expire()

    view = View()
    for count, record in enumerate(story.records, 1):
        view.apply(record)
        last = follow(story.records[:count], "orders").last
        assert last is not None
        if last.told is not Told.NOTHING and record.event.cause is not Cause.REPLACED:
            told = [
                (e.cluster, e.broker, tuple(e.addrs.items()), e.queues)
                for e in view.route("orders")
            ]
            assert [(p.cluster, p.broker, p.addrs, p.queues) for p in last.parts] == told
