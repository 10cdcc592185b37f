"""An answer of "no route" says why."""

import pytest

from routebook.events import BrokerLeft, Cause, QueueChange, TopicsChanged
from routebook.handlers.absence import MAX_DEPARTURES, MAX_TOPICS, Absences
from routebook.wire.codes import RequestCode, ResponseCode
from support.desk import Desk

START = 1_700_000_000_000


def left(broker: str = "broker-a", cause: Cause = Cause.CONNECTION_CLOSED) -> BrokerLeft:
    return BrokerLeft(
        revision=1,
        cause=cause,
        peer="10.0.0.1:4711",
        cluster="c1",
        broker=broker,
        broker_id=0,
        addr="10.0.0.1:10911",
        generation=1,
        addrs_before={0: "10.0.0.1:10911"},
        addrs_after={},
        topics_lost=1,
    )


def deleted(topic: str) -> TopicsChanged:
    return TopicsChanged(
        revision=1,
        cause=Cause.ADMIN,
        peer="10.0.0.9:5",
        cluster="c1",
        broker="broker-a",
        changes=(QueueChange(topic, (8, 8, 6, 0), None),),
    )


def test_a_topic_nobody_registered_was_never_seen() -> None:
    reason = Absences(START).reason("orders")
    assert reason == "not seen by this node since it started at 2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize(
    ("cause", "because"),
    [
        (Cause.UNREGISTER, "it unregistered"),
        (Cause.CONNECTION_CLOSED, "its connection was closed"),
        (Cause.EXPIRED, "it was not heard of in time"),
        (Cause.NOT_CONFIRMED, "it was not heard of after this node was restarted"),
        (Cause.REPLACED, "replaced"),
    ],
)
def test_a_topic_whose_broker_left_says_when_and_why(cause: Cause, because: str) -> None:
    absences = Absences(START)
    absences.note(left(cause=cause), START + 1500, ["orders"])
    assert absences.reason("orders") == (
        "known, but no live broker has it: the last one, broker-a (10.0.0.1:10911),"
        f" left at 2023-11-14T22:13:21.500Z, {because}"
    )
    assert absences.reason("refunds").startswith("not seen")


def test_a_deleted_topic_says_who_deleted_it() -> None:
    absences = Absences(START)
    absences.note(left(), START, ["orders"])
    absences.note(deleted("orders"), START + 1, [])
    assert absences.reason("orders") == (
        "deleted from broker-a at 2023-11-14T22:13:20.001Z by 10.0.0.9:5"
    )
    absences.note(left("broker-b"), START + 2, ["orders"])
    assert "the last one, broker-b" in absences.reason("orders")


def test_what_is_remembered_is_bounded() -> None:
    absences = Absences(START)
    absences.note(left("first"), START, ["old"])
    for number in range(MAX_DEPARTURES):
        absences.note(left(f"broker-{number}"), START, [f"topic-{number}"])
    assert absences.reason("old").startswith("not seen")
    many = [f"t{number}" for number in range(MAX_TOPICS)]
    absences.note(left("wide"), START, many)
    assert absences.reason("topic-1").startswith("not seen")
    assert "wide" in absences.reason("t7")


def test_the_remark_keeps_the_words_of_the_reference_first() -> None:
    reply = Desk().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    lines = (reply.remark or "").splitlines()
    assert lines[0] == "No topic route info in name server for the topic: orders"
    assert lines[1].startswith("See https://rocketmq.apache.org/")
    assert lines[2].startswith("Reason: not seen by this node")
