"""How long brokers stayed, how regular they were, and why they left."""

import pytest

from routebook.events import Cause
from routebook.history.finding.witness import Silent
from routebook.history.telling.sessions import BrokerHistory, Session, broker_history
from routebook.words import time_of_day
from support.stories import Story, ms


def stay(session: Session) -> tuple[str, str | None, str, str]:
    ended_ms = session.ended_ms
    return (
        time_of_day(session.began_ms),
        None if ended_ms is None else time_of_day(ended_ms),
        session.began,
        session.ended,
    )


def history(story: Story, broker: str = "broker-a") -> BrokerHistory:
    return broker_history(story.records, broker)


def stays(story: Story) -> list[tuple[str, str | None, str, str]]:
    return [stay(session) for session in history(story).sessions]


def test_a_session_lasts_from_a_registration_until_the_broker_leaves() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:40:11").lose()
    story.at("03:40:41").register()
    story.at("03:41:41").heartbeats()

    first, second = history(story).sessions

    assert stay(first) == (
        "03:12:04Z",
        "03:40:11Z",
        "registered",
        "its connection was closed by the peer",
    )
    assert (first.ended_cause, first.lasted_ms) == (Cause.CONNECTION_CLOSED, 1_687_000)
    assert (first.addr, first.broker_id, first.cluster) == ("10.0.0.1:10911", 0, "c")
    assert (first.peer, first.node) == ("10.0.0.1:40112", "ns-1-0a1b2c3d")
    assert stay(second) == ("03:40:41Z", None, "registered", "")
    assert (second.ended_cause, second.lasted_ms) == (None, 60_000)


def test_a_session_that_lasts_is_counted_up_to_the_end_of_the_journal() -> None:
    story = Story().start().at("03:12:04").register()
    [session] = broker_history(story.records, "broker-a", until_ms=ms("04:12:04")).sessions
    assert (session.ended_ms, session.lasted_ms) == (None, 3_600_000)


def test_a_new_connection_is_the_same_session() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register()
    [session] = history(story).sessions
    assert session.connections == 2


def test_gaps_between_heartbeats_are_summed_up() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:00").heartbeats(gaps_s=(30, 31))
    story.at("03:14:00").heartbeats(gaps_s=(89.9,)).heartbeats("broker-b", gaps_s=(119,), host=2)
    story.at("03:15:00").heartbeats(gaps_s=(90, 29))

    [session] = history(story).sessions

    beats = session.heartbeats
    assert (beats.count, beats.median_ms, beats.longest_ms) == (5, 31_000, 90_000)
    assert beats.near_misses == 1


def test_without_heartbeats_there_is_nothing_to_sum_up() -> None:
    [session] = history(Story().start().register()).sessions
    beats = session.heartbeats
    assert (beats.count, beats.median_ms, beats.longest_ms, beats.near_misses) == (0, None, None, 0)


def test_master_and_slave_have_sessions_of_their_own() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:12:05").register(broker_id=1, host=2)
    story.at("03:13:05").lose(broker_id=1)

    assert [(s.broker_id, s.addr, s.ended_ms is None) for s in history(story).sessions] == [
        (0, "10.0.0.1:10911", True),
        (1, "10.0.0.2:10911", False),
    ]


def test_a_slave_that_becomes_master_begins_another_session() -> None:
    story = Story().start()
    story.at("03:12:04").register(broker_id=1, host=2)
    story.at("03:13:04").register(broker_id=0, host=2)

    assert stays(story) == [
        ("03:12:04Z", "03:13:04Z", "registered", "its id changed to 0"),
        ("03:13:04Z", None, "changed its id from 1", ""),
    ]


def test_a_restart_that_recovers_the_broker_does_not_end_its_session() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)
    story.at("03:51:04").confirm()

    found = history(story)

    assert [stay(session) for session in found.sessions] == [("03:12:04Z", None, "registered", "")]
    assert found.sessions[0].unseen_ms == 60_000
    assert [silence.reason for silence in found.silences] == [Silent.STOPPED]


def test_a_restart_that_recovers_nothing_ends_it_when_the_node_was_last_heard_of() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:50:00").heartbeats()
    story.be_killed(down_s=70, recovering=False)

    assert stays(story) == [
        ("03:12:04Z", "03:50:00Z", "registered", "the node restarted without it")
    ]


def test_conflicts_are_listed_and_end_the_session_of_who_lost() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.at("03:13:04").register(host=7)

    found = history(story)

    assert len(found.conflicts) == 1
    assert [(s.addr, s.ended) for s in found.sessions] == [
        ("10.0.0.1:10911", "another address took its id"),
        ("10.0.0.7:10911", ""),
    ]


def test_refused_registrations_are_listed() -> None:
    story = Story().start().at("03:12:04").register(topics=["only-one"])
    found = history(story)
    assert found.sessions == ()
    assert [time_of_day(record.wall_ms) for record in found.refusals] == ["03:12:04Z"]


def test_a_session_that_began_before_the_records_goes_on() -> None:
    story = Story().start()
    story.at("03:12:04").register()
    known, seen = story.view(), len(story.records)
    story.at("03:40:11").lose()

    [session] = broker_history(story.records[seen:], "broker-a", known=known).sessions

    assert stay(session)[:3] == ("03:12:04Z", "03:40:11Z", "registered before")
    assert (session.lasted_ms, session.node) == (1_687_000, "ns-1-0a1b2c3d")


def test_a_session_that_began_before_the_records_is_counted_up_to_now() -> None:
    known = Story().start().at("03:12:04").register().view()
    [session] = broker_history([], "broker-a", known=known, until_ms=ms("04:12:04")).sessions
    assert (session.ended_ms, session.lasted_ms) == (None, 3_600_000)


@pytest.mark.parametrize("set_back_ms", [0, 3_600_000])
def test_how_long_it_lasted_does_not_depend_on_the_wall_clock(set_back_ms: int) -> None:
    story = Story().start()
    story.at("03:12:04").register()
    story.clock_ahead_ms = -set_back_ms
    story.at("03:13:04").lose()
    [session] = history(story).sessions
    assert session.lasted_ms == 60_000
