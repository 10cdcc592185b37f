"""What happened to a broker or a topic, told line by line."""

from dataclasses import replace

from routebook.events import (
    Cause,
    Event,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    KvChanged,
    MemberFact,
    QueueChange,
    RequestRefused,
    StateRestated,
    Suspect,
)
from routebook.history.telling.explain import as_text, explained, merged
from routebook.history.telling.timeline import broker_timeline, topic_timeline
from routebook.journal.record import Record
from support.stories import SHAPE, Story

TOPICS = [f"t{number:03}" for number in range(120)]
NAMED = "10.0.0.1:10911, id 0, cluster c"


def about_broker(story: Story, broker: str = "broker-a") -> list[str]:
    return list(as_text(explained(broker_timeline(story.records, broker))))[1:]


def about_topic(story: Story, topic: str = "orders") -> list[str]:
    return list(as_text(explained(topic_timeline(story.records, topic))))[1:]


# -- brokers


def test_a_broker_registers_is_lost_and_comes_back() -> None:
    story = Story().start()
    story.at("03:12:04").register(topics=TOPICS)
    story.at("03:40:11").lose()
    story.at("03:40:41").register(topics=TOPICS)

    assert about_broker(story) == [
        f"03:12:04Z broker-a ({NAMED}) registered from 10.0.0.1:40112 with 120 topics.",
        "03:40:11Z broker-a left: its connection was closed by the peer; it had 120 topics.",
        "03:40:41Z broker-a came back after 30 s: 10.0.0.1:10911, id 0, cluster c, registered from"
        " 10.0.0.1:40112 with 120 topics.",
    ]


def test_a_broker_that_falls_silent_is_told_with_its_timeout() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:14:05").expire()

    assert about_broker(story)[1:] == [
        "03:14:05Z broker-a left: no heartbeat came within its timeout of 2 min; it had 2 topics."
    ]


def test_the_first_topics_of_a_broker_are_part_of_its_registration_and_later_ones_are_not() -> None:
    story = Story().start()
    story.at("03:12:04").register(topics=["orders", "payments"])
    story.at("03:13:04").register(
        topics=["orders", "payments", "audit", "refunds"], same_connection=True
    )

    assert about_broker(story)[1:] == [
        "03:13:04Z 2 topics (audit and refunds) appeared on broker-a with 8 read and 8 write"
        " queues, permission RW-, by a registration from 10.0.0.1:40112."
    ]


def test_the_slices_of_a_registration_are_one_line() -> None:
    many = [f"t{number:04}" for number in range(2500)]
    story = Story().start()
    story.at("03:12:04").register(topics=["orders", "payments"])
    story.at("03:13:04").register(topics=many, same_connection=True)
    story.at("03:14:04").register(topics=[*many, "one-more"], same_connection=True)

    told = about_broker(story)[1:]

    assert len(told) == 2
    assert told[0].startswith("03:13:04Z 2500 topics (t0000, t0001, t0002 and 2497 more) appeared")
    assert told[1].startswith("03:14:04Z one-more appeared")


def test_an_administrator_takes_the_permission_to_write_and_gives_it_back() -> None:
    story = Story().start()
    story.at("03:12:04").register(topics=["orders", "payments"])
    story.at("03:20:00").set_writable("broker-a", writable=False, peer="10.0.0.9:51234")
    story.at("03:30:00").set_writable("broker-a", writable=True, peer="10.0.0.9:51234")

    assert about_broker(story)[1:] == [
        "03:20:00Z permission to write was taken away by an administrator at 10.0.0.9:51234 from"
        " 2 topics (orders and payments) on broker-a.",
        "03:30:00Z permission to write was given back by an administrator at 10.0.0.9:51234 to"
        " 2 topics (orders and payments) on broker-a.",
    ]


def test_a_slave_stands_in_for_its_master() -> None:
    story = Story().start()
    story.at("03:12:04").register(acting_master=True)
    story.at("03:12:05").register(broker_id=1, host=2, acting_master=True)
    story.at("03:40:11").lose()
    story.at("03:41:11").register(acting_master=True)

    assert about_broker(story)[1:] == [
        "03:12:05Z broker-a (10.0.0.2:10911, id 1, cluster c) registered from 10.0.0.2:40112 as a"
        " slave.",
        "03:40:11Z broker-a id 0 (10.0.0.1:10911) left: its connection was closed by the peer;"
        " still there: id 1 (10.0.0.2:10911).",
        "03:40:11Z slave id 1 (10.0.0.2:10911) now serves reads only: 2 topics (orders and"
        " payments) on broker-a cannot be written, because a connection was closed by the peer.",
        "03:40:11Z slave id 1 (10.0.0.2:10911) now has the smallest id of broker-a, since"
        " 10.0.0.1:10911 is gone.",
        "03:41:11Z broker-a came back after 1 min: 10.0.0.1:10911, id 0, cluster c, registered from"
        " 10.0.0.1:40112 with 2 topics.",
        "03:41:11Z permission to write was given back by a registration from 10.0.0.1:40112 to"
        " 2 topics (orders and payments) on broker-a.",
    ]


def test_two_addresses_that_claim_one_identity_are_a_conflict() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register(host=7)

    assert about_broker(story)[1:] == [
        "03:13:04Z conflict: 10.0.0.7:10911 and 10.0.0.1:10911 both claim id 0 of broker-a in"
        " cluster c; 10.0.0.7:10911 is believed: another address registered under the same name and"
        " id; the last one counts.",
        "03:13:04Z broker-a left: another address took its id.",
        "03:13:04Z broker-a (10.0.0.7:10911, id 0, cluster c) registered from 10.0.0.7:40112 with"
        " 2 topics.",
    ]


def test_a_restart_is_told_with_who_was_confirmed_after_it() -> None:
    story = Story().start()
    story.at("03:12:04").register().register("broker-b").register("broker-c")
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)
    story.at("03:51:04").confirm()

    assert about_broker(story)[1:] == [
        "03:50:00Z node stopped in order, with 3 brokers and 2 topics.",
        "03:51:00Z no record between 03:50:00Z and 03:51:00Z: the node was down.",
        "03:51:00Z node restarted, 3 brokers recovered from the journal, broker-a confirmed 4 s"
        " later.",
    ]


def test_a_node_that_was_killed_leaves_a_silence() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").heartbeats()
    story.be_killed(down_s=70)

    assert about_broker(story)[1:] == [
        "03:51:10Z no record between 03:50:00Z and 03:51:10Z: the node stopped at some moment after"
        " 03:50:00Z, and not in order.",
        "03:51:10Z node restarted, 1 broker recovered from the journal.",
    ]


def test_a_restart_without_recovery_is_the_end_of_what_was_known() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").stop()
    story.at("03:51:00").start()
    story.at("03:51:05").register()
    story.at("03:52:00").stop()

    assert about_broker(story)[3:] == [
        "03:51:00Z node started (Routebook 1.0 at 10.0.1.1:9876), with no brokers recovered.",
        "03:51:05Z broker-a came back after 5 s: 10.0.0.1:10911, id 0, cluster c, registered from"
        " 10.0.0.1:40112 with 2 topics.",
        "03:52:00Z node stopped in order, with 1 broker and 2 topics.",
    ]


def test_what_happens_to_the_node_is_told_only_while_it_knows_the_broker() -> None:
    story = Story().start()
    story.at("03:01:00").stop()
    story.at("03:02:00").start()
    story.at("03:12:04").register()
    story.at("03:13:00").unregister()
    story.at("03:50:00").stop()
    story.at("03:51:00").start()

    assert [line[:9] for line in about_broker(story)] == ["03:12:04Z", "03:13:00Z"]


def restated(broker: str, topics: list[str], *, continued: bool = False) -> Event:
    members = (MemberFact(0, "10.0.0.1:10911", None, 120_000, 1, 0, None, ()),)
    return GroupRestated(
        revision=0,
        cause=Cause.JOURNAL,
        peer="",
        cluster="c",
        broker=broker,
        acting_master=False,
        zone=None,
        members=() if continued else members,
        queues=tuple(QueueChange(topic, None, SHAPE) for topic in topics),
        mappings=(),
        continued=continued,
    )


def all_restated(groups: int) -> Event:
    return StateRestated(revision=0, cause=Cause.JOURNAL, peer="", groups=groups, kv={})


def test_after_lost_records_the_broker_is_told_as_it_stood() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:20:05").lose_records(12, since="03:20:00")
    story.add(restated("broker-a", ["orders"]))
    story.add(restated("broker-a", ["payments"], continued=True), all_restated(1))

    assert about_broker(story)[1:] == [
        "03:20:05Z no record between 03:20:00Z and 03:20:05Z: 12 records were lost.",
        "03:20:05Z broker-a of cluster c as it stood after records were lost: id 0"
        " (10.0.0.1:10911), 2 topics.",
    ]


def test_a_broker_that_is_not_restated_left_unseen() -> None:
    story = Story().start()
    story.at("03:12:04").register().at("03:20:00").lose()
    del story.records[-1]
    story.at("03:20:05").lose_records(12, since="03:20:00").add(all_restated(0))
    story.at("03:20:35").register()

    assert about_broker(story)[2:] == [
        "03:20:05Z the tables were written down anew: 0 broker groups; broker-a left unseen while"
        " records were lost.",
        "03:20:35Z broker-a came back after 30 s: 10.0.0.1:10911, id 0, cluster c, registered from"
        " 10.0.0.1:40112 with 2 topics.",
    ]


def test_only_heartbeats_that_nearly_came_too_late_are_told() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:00").heartbeats(gaps_s=(30, 89.9))
    story.at("03:14:00").heartbeats(gaps_s=(30, 90))

    assert about_broker(story)[1:] == [
        f"03:14:00Z broker-a ({NAMED}) was silent for 1 min 30 s, and leaves after 2 min."
    ]


def test_the_guard_is_told_of_to_those_it_holds() -> None:
    story = Story().start()
    story.at("03:12:04").register().register("broker-b")
    held = (Suspect("c", "broker-a", 0, "10.0.0.1:10911", 121_000),)
    story.at("03:20:00").add(
        GuardEngaged(
            revision=0,
            cause=Cause.GUARD,
            peer="",
            suspects=held,
            silent=2,
            live=2,
            limit=1,
            window_ms=60_000,
            hold_ms=300_000,
        )
    )
    story.at("03:25:00").add(
        GuardReleased(
            revision=0, cause=Cause.GUARD, peer="", reason="deadline", returned=0, left=0, dropped=1
        )
    )

    assert [line[10:15] for line in about_broker(story)[1:]] == ["guard", "guard"]
    assert len(about_broker(story, "broker-b")) == 1


def refusal(subject: str) -> Event:
    return RequestRefused(
        revision=0,
        cause=Cause.REFUSED,
        peer="10.0.0.1:40112",
        request="REGISTER_BROKER",
        subject=subject,
        reason="crc32 not match",
        answered_success=False,
    )


def test_a_refusal_is_told_even_of_a_broker_that_never_registered() -> None:
    story = Story().start().at("03:12:04").add(refusal("c broker-a 10.0.0.1:10911"))
    assert about_broker(story) == [
        "03:12:04Z REGISTER_BROKER for c broker-a 10.0.0.1:10911 was refused to 10.0.0.1:40112:"
        " crc32 not match."
    ]


# -- topics


def test_a_topic_is_told_of_broker_by_broker() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register("broker-b")
    story.at("03:40:11").lose()
    story.at("03:40:12").lose("broker-b")
    story.at("03:40:41").register()

    assert about_topic(story) == [
        "03:12:04Z orders appeared on broker-a with 8 read and 8 write queues, permission RW-, by a"
        " registration from 10.0.0.1:40112.",
        "03:13:04Z orders appeared on broker-b with 8 read and 8 write queues, permission RW-, by a"
        " registration from 10.0.0.2:40112.",
        "03:40:11Z broker-a left: its connection was closed by the peer; orders is still on"
        " broker-b.",
        "03:40:12Z broker-b left: its connection was closed by the peer; orders is on no other"
        " broker, so there is no route.",
        "03:40:41Z orders came back after 30 s on broker-a with 8 read and 8 write queues,"
        " permission RW-, by a registration from 10.0.0.1:40112.",
    ]


def test_a_deleted_topic_that_is_announced_again_came_back() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:20:00").delete_topic("orders", peer="10.0.0.9:51234")
    story.at("03:20:30").register(same_connection=True)

    assert about_topic(story)[1:] == [
        "03:20:00Z orders was removed from broker-a by an administrator at 10.0.0.9:51234.",
        "03:20:30Z orders came back after 30 s on broker-a with 8 read and 8 write queues,"
        " permission RW-, by a registration from 10.0.0.1:40112.",
    ]


def test_brokers_without_the_topic_are_not_told_of() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register("broker-b", topics=["other", "another"])
    story.at("03:14:04").lose("broker-b")

    assert len(about_topic(story)) == 1


def test_queries_that_found_no_route_are_counted_over_windows_in_a_row() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:00").queries("orders", known=9)
    story.at("03:14:00").lose()
    story.at("03:15:00").queries("orders", known=4, unknown=5)
    story.at("03:16:00").queries("orders", unknown=7, not_ready=1)

    assert about_topic(story)[2:] == [
        "03:16:00Z within 2 min orders was asked for 17 times: 4 were answered, 12 told that there"
        " is no route, 1 that the node is not ready."
    ]


def test_the_order_configuration_of_a_topic_is_told() -> None:
    story = Story().start()
    story.at("03:12:04").add(
        KvChanged(
            revision=0,
            cause=Cause.ADMIN,
            peer="10.0.0.9:51234",
            namespace="ORDER_TOPIC_CONFIG",
            key="orders",
            before=None,
            after="broker-a:8",
        )
    )
    assert about_topic(story) == [
        '03:12:04Z key orders of namespace ORDER_TOPIC_CONFIG was set to "broker-a:8" by an'
        " administrator at 10.0.0.9:51234."
    ]
    assert about_topic(story, "payments") == []


def test_after_lost_records_a_topic_is_told_as_it_stood() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:20:05").lose_records(1, since="03:20:00")
    story.add(restated("broker-a", ["payments"]))
    story.add(restated("broker-a", ["orders"], continued=True), all_restated(1))

    assert about_topic(story)[1:] == [
        "03:20:05Z no record between 03:20:00Z and 03:20:05Z: 1 record was lost.",
        "03:20:05Z orders on broker-a as it stood after records were lost: 8 read and 8 write"
        " queues, permission RW-.",
    ]


def test_what_was_known_before_is_gone_on_from() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    known, seen = story.view(), len(story.records)
    story.at("03:40:11").lose()

    told = explained(topic_timeline(story.records[seen:], "orders", known=known))

    assert [line.text for line in told] == [
        "broker-a left: its connection was closed by the peer; orders is on no other broker, so"
        " there is no route."
    ]


# -- lines


def test_a_duration_does_not_depend_on_a_clock_that_was_set_back() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:40:11").lose()
    story.clock_ahead_ms = -3_600_000
    story.at("03:40:41").register()

    assert about_broker(story)[-1].startswith("02:40:41Z broker-a came back after 30 s:")


def test_each_day_has_a_line_and_each_node_its_name_where_there_are_several() -> None:
    here = Story().start().at("2026-11-14T23:59:00Z").register()
    there = Story(node="ns-2-4e5f6a7b").start().at("2026-11-15T00:01:00Z").register()
    lines = merged([explained(broker_timeline(s.records, "broker-a")) for s in (there, here)])

    told = [line.split(" broker-a")[0] for line in as_text(lines)]

    assert told == [
        "2026-11-14",
        "23:59:00Z ns-1-0a1b2c3d:",
        "2026-11-15",
        "00:01:00Z ns-2-4e5f6a7b:",
    ]


def test_the_lines_of_a_node_keep_their_order_when_its_clock_was_set_back() -> None:
    story = Story().start().at("03:12:04").register()
    story.clock_ahead_ms = -3_600_000
    story.at("03:40:11").lose()
    other = [replace(record, node="ns-2") for record in Story().start().records]

    lines = merged([explained(broker_timeline(r, "broker-a")) for r in (story.records, other)])

    assert [line.seq for line in lines] == sorted(line.seq for line in lines)


def test_records_of_an_empty_journal_tell_nothing() -> None:
    nothing: list[Record] = []
    assert broker_timeline(nothing, "broker-a") == topic_timeline(nothing, "orders") == []
