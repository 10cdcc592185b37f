"""What stands with the types of events: kinds, what they are about, what is left of them."""

import pytest

from routebook.events import (
    Cause,
    Event,
    GroupRestated,
    KvChanged,
    RequestRefused,
    RouteQueries,
    StateRestated,
    Subject,
    TopicsChanged,
)
from routebook.journal.record import types_where
from support.journals import every_event

EVERY = {event.type_name: event for event in every_event()}


def refused(request: str, subject: str) -> RequestRefused:
    return RequestRefused(
        revision=1,
        cause=Cause.REFUSED,
        peer="10.0.0.9:5",
        request=request,
        subject=subject,
        reason="no",
        answered_success=False,
    )


def one_of(kind: type[Event]) -> Event:
    return EVERY[kind.__name__]


def test_routes_stay_as_they_are_after_what_changes_no_table() -> None:
    assert {name for name, event in EVERY.items() if event.changes_routes} == {
        "BrokerRegistered",
        "BrokerUpdated",
        "BrokerLeft",
        "TopicsChanged",
        "MappingsChanged",
        "RegistrationCompleted",
        "MinBrokerChanged",
        "KvChanged",
        "ConfigChanged",
    }


def test_there_is_an_example_of_each_type_to_judge_by() -> None:
    assert set(EVERY) == types_where(lambda kind: True)


@pytest.mark.parametrize("event", EVERY.values(), ids=EVERY.keys())
def test_what_is_narrowed_to_a_topic_is_about_no_other(event: Event) -> None:
    for topic in ("orders", "static", "typo", "nobody"):
        left = event.narrowed(topic)
        assert left.is_about_topic(topic) == event.is_about_topic(topic)
        if not isinstance(event, KvChanged | RequestRefused):
            assert not left.is_about_topic("payments")
        assert left.narrowed(topic) == left


def test_a_group_that_is_restated_stays_without_its_topics() -> None:
    left = one_of(GroupRestated).narrowed(None)
    assert isinstance(left, GroupRestated)
    assert (left.queues, left.mappings) == ((), ())
    assert left.members


@pytest.mark.parametrize("kind", [TopicsChanged, RouteQueries])
def test_a_list_of_topics_says_nothing_without_them(kind: type[Event]) -> None:
    assert kind.only_topics
    assert not one_of(kind).narrowed(None).is_about_topic("orders")


@pytest.mark.parametrize("kind", [KvChanged, StateRestated])
def test_values_of_pairs_can_be_told_in_another_way(kind: type[Event]) -> None:
    told = one_of(kind).with_values(lambda value: "*")
    assert told != one_of(kind)
    assert told.with_values(lambda value: "+") != told


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject("c", "broker-a", "10.0.0.1:10911", broker_id=0), "c/broker-a:0 10.0.0.1:10911"),
        (Subject("c", "broker-a", "10.0.0.1:10911"), "c broker-a 10.0.0.1:10911"),
        (Subject(cluster="c", topic="orders"), "c orders"),
        (Subject(namespace="n", key=""), "n"),
        (Subject(), ""),
    ],
)
def test_a_subject_is_written_as_far_as_it_is_known(subject: Subject, text: str) -> None:
    assert str(subject) == text


@pytest.mark.parametrize(
    ("request_name", "subject", "broker", "about"),
    [
        ("REGISTER_BROKER", "c/broker-a:0 10.0.0.1:10911", "broker-a", True),
        ("UNREGISTER_BROKER", "c/broker-a 10.0.0.1:10911", "broker-a", True),  # of an old journal
        ("REGISTER_BROKER", "c broker-a 10.0.0.1:10911", "broker-a", True),
        ("REGISTER_BROKER", "c/broker-ab:0 10.0.0.1:10911", "broker-a", False),
        ("REGISTER_BROKER", "c broker-a 10.0.0.1:10911", "c", False),
        ("REGISTER_BROKER", "c c 10.0.0.1:10911", "c", True),
        ("REGISTER_BROKER", "", "broker-a", False),
        ("DELETE_TOPIC_IN_NAMESRV", "c broker-a", "broker-a", False),
    ],
)
def test_a_refusal_is_about_the_broker_it_names(
    request_name: str, subject: str, broker: str, about: bool
) -> None:
    assert refused(request_name, subject).is_about_broker(broker) is about


@pytest.mark.parametrize(
    ("request_name", "subject", "topic", "about"),
    [
        ("GET_ROUTEINFO_BY_TOPIC", "orders", "orders", True),
        ("DELETE_TOPIC_IN_NAMESRV", "c orders", "orders", True),
        ("PUT_KV_CONFIG", "ORDER_TOPIC_CONFIG orders", "orders", True),
        ("PUT_KV_CONFIG", "orders key", "orders", False),
        ("REGISTER_BROKER", "c/orders:0 10.0.0.1:10911", "orders", False),
    ],
)
def test_a_refusal_is_about_the_topic_it_names(
    request_name: str, subject: str, topic: str, about: bool
) -> None:
    assert refused(request_name, subject).is_about_topic(topic) is about
