"""Lines that are left out, told from their bytes, would not have changed the answer."""

from collections.abc import Callable

import pytest

from routebook.history.finding.line_filter import (
    BREAKS,
    Wanted,
    about_awareness,
    about_broker,
    about_node,
    about_tables,
    about_topic,
    any_of,
)
from routebook.history.telling.sessions import broker_history
from routebook.history.telling.timeline import broker_timeline, topic_timeline
from routebook.history.telling.versions import follow
from routebook.journal.record import Record, encode
from support.stories import Story

NAMES = ["orders", 'quo"ted', "ünïcode", "back\\slash", "orders2", '","type":"HeartbeatGaps"']


def story() -> Story:
    made = Story().start().register(topics=NAMES).register("broker-ab", topics=["orders2", "x"])
    for topic in NAMES:
        made.wait(1).queries(topic, known=1, unknown=2).delete_topic(topic, peer="p")
    made.wait(60).heartbeats(gaps_s=(100,)).heartbeats("broker-ab", host=2)
    made.stop().wait(9).start(recovering=True).wait(1).confirm().register(topics=NAMES)
    made.register("broker-ab", broker_id=1, topics=["orders2", "x"]).register(topics=["orders"])
    return made.heartbeats().be_killed(down_s=9).lose().wait(200).expire()


def kept(records: list[Record], wanted: Wanted) -> list[Record]:
    """As a journal keeps them: those that are wanted, and the one before each break."""
    lines = [encode(record) for record in records]
    return [
        record
        for number, record in enumerate(records)
        if wanted(lines[number])
        or any(
            f'"type":"{kind}"'.encode() in lines[number + 1]
            for kind in BREAKS
            if records[number + 1 :]
        )
    ]


@pytest.mark.parametrize("topic", NAMES)
@pytest.mark.parametrize(
    "ask", [lambda r, t: follow(r, t).versions, topic_timeline], ids=["versions", "timeline"]
)
def test_a_topic_is_told_of_the_same_without_the_lines_that_are_not_about_it(
    topic: str, ask: Callable[[list[Record], str], object]
) -> None:
    records = story().records
    some = kept(records, about_topic(topic))
    assert len(some) < len(records)
    assert ask(some, topic) == ask(records, topic)


@pytest.mark.parametrize("broker", ["broker-a", "broker-ab", "broker"])
@pytest.mark.parametrize("ask", [broker_history, broker_timeline], ids=["sessions", "timeline"])
def test_a_broker_is_told_of_the_same_without_the_lines_that_are_not_about_it(
    broker: str, ask: Callable[[list[Record], str], object]
) -> None:
    records = story().records
    some = kept(records, about_broker(broker))
    assert len(some) < len(records)
    assert ask(some, broker) == ask(records, broker)


def test_the_tables_do_not_need_what_is_only_counted() -> None:
    types = {type(r.event).__name__ for r in story().records if not about_tables(encode(r))}
    assert types == {"HeartbeatGaps", "RouteQueries"}


def test_what_happened_to_the_node_is_found_among_all() -> None:
    told = story().wait(2).stall(since="03:00:00").records
    types = {type(r.event).__name__ for r in told if about_node(encode(r))}
    assert types == {"NodeStarted", "NodeStopped", "NodeStalled", "JournalRecovered"}


def test_when_it_was_awake_does_not_need_topics_and_heartbeats() -> None:
    types = {type(r.event).__name__ for r in story().records if about_awareness(encode(r))}
    assert types == {
        "BrokerConfirmed",
        "BrokerLeft",
        "BrokerRegistered",
        "JournalRecovered",
        "NodeStarted",
        "NodeStopped",
        "RegistrationCompleted",
    }


def test_what_one_of_several_questions_wants_is_kept() -> None:
    wanted = any_of(about_topic("orders"), about_broker("broker-a"))
    record = Story().start().register(topics=NAMES).heartbeats().records[-1]
    assert wanted(encode(record))


def test_a_name_no_utf8_can_hold_is_looked_for_as_the_journal_writes_it() -> None:
    assert about_topic("half \ud800")(b'{"type":"TopicsChanged","topics":["half ?"]}')
