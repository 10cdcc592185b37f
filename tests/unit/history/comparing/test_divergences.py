"""When nodes told clients different things, and how that ended."""

from collections.abc import Callable

import pytest

from routebook.history.comparing.awareness import awareness
from routebook.history.comparing.divergences import (
    Blind,
    BrokerClaim,
    Claim,
    Comparison,
    Course,
    Divergence,
    Ending,
    compare,
)
from routebook.history.finding.witness import watched
from routebook.journal.record import Place, Record
from routebook.state.model import QueueShape
from routebook.words import time_of_day
from support.stories import Story, ms

FIRST, SECOND = "ns-1", "ns-2"
PRESENT = BrokerClaim(((0, "10.0.0.1:10911"),), 2)
WRITABLE, READ_ONLY = (8, 8, 6, 0), (8, 8, 4, 0)


def nodes() -> tuple[Story, Story]:
    here, there = Story(node=FIRST, awake=True), Story(node=SECOND, awake=True)
    for story in (here, there):
        story.at("03:00:00").start()
        story.at("03:01:00").register(version=1)
    return here, there


def course(story: Story, *, ahead_ms: int = 0) -> Course:
    """A node whose clock is known to be ahead by this much."""
    aware = awareness(
        watched(story.records), first=_place(story.records[0]), last=_place(story.records[-1])
    )
    blind = tuple(
        Blind(s.silence.since_ms - ahead_ms, s.silence.until_ms - ahead_ms, s.silence)
        for s in aware.stretches
    )
    return Course(
        story.node, story.records, blind=blind, at_ms=lambda record: record.wall_ms - ahead_ms
    )


def _place(record: Record) -> Place:
    return Place(record.seq, record.wall_ms)


def compared(
    *stories: Story,
    topic: str | None = None,
    begin: str = "03:00:00",
    ahead_ms: int = 0,
    uncertainty_ms: int = 0,
) -> Comparison:
    first, *others = stories
    courses = [course(first), *(course(story, ahead_ms=ahead_ms) for story in others)]
    return compare(
        courses,
        from_ms=ms(begin),
        to_ms=ms("04:00:00"),
        topic=topic,
        uncertainty_ms=uncertainty_ms,
    )


def brief(divergence: Divergence) -> tuple[str, str, str, tuple[str, ...], Ending]:
    return (
        time_of_day(divergence.since_ms),
        time_of_day(divergence.until_ms),
        divergence.broker,
        divergence.topics,
        divergence.ending,
    )


def found(
    *stories: Story, topic: str | None = None
) -> list[tuple[str, str, str, tuple[str, ...], Ending]]:
    return [brief(divergence) for divergence in compared(*stories, topic=topic).divergences]


def test_nodes_that_saw_the_same_agree() -> None:
    assert compared(*nodes()) == Comparison((), short=0, uncertainty_ms=0, compared_ms=3_600_000)


def test_a_broker_lost_by_one_node_is_one_divergence_whatever_number_of_topics() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    there.at("03:10:30").register(version=1)

    [divergence] = compared(here, there).divergences

    assert brief(divergence) == ("03:10:00Z", "03:10:30Z", "broker-a", (), Ending.CONVERGED)
    assert divergence.views == {FIRST: PRESENT, SECOND: None}
    assert divergence.lasted_ms == 30_000


def test_nodes_converge_also_when_the_other_one_loses_the_broker_too() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    here.at("03:12:00").lose()
    assert found(here, there) == [("03:10:00Z", "03:12:00Z", "broker-a", (), Ending.CONVERGED)]


def test_what_still_differs_at_the_end_is_open() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    assert found(here, there) == [("03:10:00Z", "04:00:00Z", "broker-a", (), Ending.OPEN)]


def test_permissions_taken_on_one_node_are_one_divergence_of_many_topics() -> None:
    here, there = nodes()
    there.at("03:10:00").set_writable("broker-a", writable=False, peer="10.0.0.9:51234")
    here.at("03:10:02").set_writable("broker-a", writable=False, peer="10.0.0.9:51234")

    [divergence] = compared(here, there).divergences

    topics = ("orders", "payments")
    assert brief(divergence) == ("03:10:00Z", "03:10:02Z", "broker-a", topics, Ending.CONVERGED)
    assert divergence.views == {FIRST: WRITABLE, SECOND: READ_ONLY}


def test_nodes_that_meet_at_something_new_both_changed() -> None:
    here, there = nodes()
    there.at("03:10:00").delete_topic("orders", peer="p")
    shapes = {"orders": QueueShape(4, 4, 6, 0), "payments": QueueShape(8, 8, 6, 0)}
    here.at("03:11:00").register(topics=shapes, version=2, same_connection=True)
    there.at("03:12:00").register(topics=shapes, version=2, same_connection=True)

    assert found(here, there) == [
        ("03:10:00Z", "03:12:00Z", "broker-a", ("orders",), Ending.BOTH_CHANGED)
    ]


def test_a_divergence_about_a_topic_widens_when_the_broker_is_lost() -> None:
    here, there = nodes()
    there.at("03:10:00").delete_topic("orders", peer="p")
    there.at("03:12:00").lose()
    there.at("03:13:00").register(version=1)

    assert found(here, there) == [
        ("03:10:00Z", "03:12:00Z", "broker-a", ("orders",), Ending.WIDENED),
        ("03:12:00Z", "03:13:00Z", "broker-a", (), Ending.CONVERGED),
    ]


def test_other_addresses_of_one_broker_are_a_divergence() -> None:
    here, there = nodes()
    here.at("03:10:00").register(broker_id=1, host=2)
    there.at("03:10:40").register(broker_id=1, host=2)

    [divergence] = compared(here, there).divergences

    assert brief(divergence) == ("03:10:00Z", "03:10:40Z", "broker-a", (), Ending.CONVERGED)
    assert [
        len(claim.addrs) for claim in divergence.views.values() if isinstance(claim, BrokerClaim)
    ] == [2, 1]


def test_an_address_that_takes_over_on_both_nodes_leaves_no_gap_between() -> None:
    here, there = nodes()
    for story in (here, there):
        story.at("03:10:00").register(host=7, version=2)
    assert found(here, there) == []


# -- what nobody can know


def be_stopped(story: Story) -> None:
    story.at("03:09:00").stop()
    story.at("03:20:00").start(recovering=True)


def be_killed(story: Story) -> None:
    story.at("03:09:00").heartbeats()
    story.be_killed(down_s=11 * 60)


@pytest.mark.parametrize("go_down", [be_stopped, be_killed])
def test_a_node_that_is_down_disagrees_with_nobody(go_down: Callable[[Story], None]) -> None:
    here, there = nodes()
    go_down(there)
    here.at("03:10:00").lose()
    here.at("03:15:00").register(version=1)
    assert found(here, there) == []


def test_a_divergence_ends_unknown_when_a_node_goes_down_and_begins_anew_after() -> None:
    here, there = nodes()
    here.at("03:08:00").lose()
    be_stopped(there)
    here.at("03:21:00").register(version=1)

    assert found(here, there) == [
        ("03:08:00Z", "03:09:00Z", "broker-a", (), Ending.UNKNOWN),
        ("03:20:00Z", "03:21:00Z", "broker-a", (), Ending.CONVERGED),
    ]


def test_a_node_whose_records_were_lost_disagrees_with_nobody() -> None:
    here, there = nodes()
    there.at("03:12:00").lose_records(3, since="03:09:00")
    here.at("03:10:00").lose()
    assert found(here, there) == []


def test_before_its_first_record_a_node_disagrees_with_nobody() -> None:
    here = Story(node=FIRST, awake=True).at("03:00:00").start().at("03:01:00").register(version=1)
    there = Story(node=SECOND, awake=True).at("03:30:00").start().at("03:30:25").register(version=1)
    assert found(here, there) == [("03:30:00Z", "03:30:25Z", "broker-a", (), Ending.CONVERGED)]


def test_three_nodes_are_compared_with_each_other() -> None:
    here, there = nodes()
    third = Story(node="ns-3", awake=True).at("03:00:00").start().at("03:01:00").register(version=1)
    there.at("03:10:00").lose()
    there.at("03:11:00").register(version=1)

    [divergence] = compared(here, there, third).divergences

    assert divergence.views == {FIRST: PRESENT, SECOND: None, "ns-3": PRESENT}


# -- clocks


def test_times_are_put_right_by_the_skew_of_the_clocks() -> None:
    here, _ = nodes()
    ahead = Story(node=SECOND, clock_ahead_ms=90_000, awake=True)
    ahead.at("03:00:00").start().at("03:01:00").register(version=1)
    ahead.at("03:10:00").lose().at("03:10:30").register(version=1)

    [divergence] = compared(here, ahead, ahead_ms=90_000).divergences

    assert brief(divergence)[:2] == ("03:10:00Z", "03:10:30Z")


@pytest.mark.parametrize(("uncertainty_ms", "significant"), [(30_000, True), (30_001, False)])
def test_what_the_clocks_may_account_for_is_counted_and_not_shown(
    uncertainty_ms: int, significant: bool
) -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    there.at("03:10:30").register(version=1)

    comparison = compared(here, there, uncertainty_ms=uncertainty_ms)

    assert (len(comparison.divergences), comparison.short) == ((1, 0) if significant else (0, 1))


def test_a_clock_that_is_set_back_does_not_turn_the_order_around() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    there.clock_ahead_ms = -600_000
    there.at("03:10:30").register(version=1)
    here.at("03:10:40").lose()

    assert [d.ending for d in compared(here, there).divergences] == [Ending.OPEN]


# -- less than everything


def test_only_one_topic_may_be_asked_about() -> None:
    here, there = nodes()
    there.at("03:10:00").delete_topic("payments", peer="p")
    there.at("03:11:00").delete_topic("orders", peer="p")
    there.at("03:12:00").register(version=2, same_connection=True)

    [divergence] = compared(here, there, topic="orders").divergences

    assert brief(divergence) == ("03:11:00Z", "03:12:00Z", "broker-a", (), Ending.CONVERGED)
    expected: dict[str, Claim] = {FIRST: PRESENT, SECOND: None}
    assert divergence.views == expected


def test_what_was_so_before_the_period_begins_with_it() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    there.at("03:30:00").register(version=1)

    [divergence] = compared(here, there, begin="03:20:00").divergences

    assert brief(divergence)[:2] == ("03:20:00Z", "03:30:00Z")


def test_views_from_before_the_records_are_compared_from_the_start() -> None:
    here, there = nodes()
    there.at("03:10:00").lose()
    courses = [
        Course(story.node, story.records[seen:], known)
        for story in (here, there)
        for known, seen in [(story.view(), len(story.records))]
    ]
    here.at("03:20:00").heartbeats()
    courses[0] = Course(FIRST, here.records[-1:], courses[0].known)

    [divergence] = compare(courses, from_ms=ms("03:15:00"), to_ms=ms("03:30:00")).divergences

    assert brief(divergence)[:2] == ("03:15:00Z", "03:30:00Z")
