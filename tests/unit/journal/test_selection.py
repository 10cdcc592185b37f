import pytest

from routebook.journal.record import decode, encode
from routebook.journal.selection import Selection
from support.journals import every_event, record, topics_changed


def chosen(selection: Selection) -> set[str]:
    """Types of the events chosen from one of each; the bytes of a line must not say otherwise."""
    found = set()
    for event in every_event():
        item = record(1, event)
        if selection.has(item):
            found.add(event.type_name)
            assert selection.may_have(encode(item)), event
    return found


def test_nothing_is_left_out_unless_something_is_asked_for() -> None:
    assert Selection().all
    assert chosen(Selection()) == {event.type_name for event in every_event()}


@pytest.mark.parametrize(
    ("selection", "types"),
    [
        (Selection(types=("KvChanged", "BrokerLeft")), {"KvChanged", "BrokerLeft"}),
        (
            Selection(topic="orders"),
            {"TopicsChanged", "GroupRestated", "RouteQueries", "KvChanged"},
        ),
        (Selection(topic="static"), {"MappingsChanged", "GroupRestated"}),
        (Selection(topic="typo"), {"RouteQueries"}),
        (Selection(topic="order"), set()),
        (
            Selection(broker="broker-a", types=("GuardEngaged", "RequestRefused", "NodeStopped")),
            {"GuardEngaged", "RequestRefused"},
        ),
        (Selection(broker="broker-a", topic="gone"), {"TopicsChanged"}),
        (Selection(broker="broker-b"), set()),
    ],
    ids=lambda value: str(value) if isinstance(value, Selection) else "",
)
def test_records_are_chosen_by_type_topic_and_broker(selection: Selection, types: set[str]) -> None:
    assert chosen(selection) == types
    assert not selection.all


def test_a_broker_is_found_in_whatever_concerns_it() -> None:
    assert chosen(Selection(broker="broker-a")) == {
        "BrokerRegistered",
        "BrokerUpdated",
        "BrokerLeft",
        "TopicsChanged",
        "MappingsChanged",
        "RegistrationCompleted",
        "RequestRefused",
        "BrokerConflict",
        "MinBrokerChanged",
        "GroupRestated",
        "BrokerConfirmed",
        "HeartbeatGaps",
        "GuardEngaged",
    }


def test_odd_names_are_found_as_json_writes_them() -> None:
    topic = 'a"b\\c\n/ü\u2028'
    line = encode(record(1, topics_changed(topic)))
    assert Selection(topic=topic).may_have(line)
    assert Selection(topic=topic).has(decode(line))
    assert not Selection(topic='a"b').has(decode(line))


def test_events_of_later_versions_are_chosen_by_their_name() -> None:
    line = encode(record(1, topics_changed("a"))).replace(b'"TopicsChanged"', b'"TopicsSwapped"')
    assert Selection(types=("TopicsSwapped",)).has(decode(line))
    assert Selection(broker="broker-a").has(decode(line))
    assert not Selection(broker="broker-b").has(decode(line))
