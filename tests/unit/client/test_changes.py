"""Differences between two routes of a topic."""

from typing import Any

import pytest

from routebook.client.changes import (
    AddressChanged,
    BrokerAppeared,
    BrokerDisappeared,
    Change,
    FilterServersChanged,
    MappingsChanged,
    OrderChanged,
    QueuesChanged,
    route_change,
)
from routebook.client.routes import TopicRoute
from routebook.wire.answers import TopicQueues
from support.topic_routes import group, mapping, queues, route

BOTH = route()


def changes(before: TopicRoute, after: TopicRoute) -> tuple[Change, ...]:
    change = route_change(before, after)
    assert change is not None, "no change was found"
    assert (change.topic, change.before, change.after) == ("orders", before, after)
    return change.changes


def texts(before: TopicRoute, after: TopicRoute) -> list[str]:
    return [str(change) for change in changes(before, after)]


def test_all_of_a_first_route_is_new() -> None:
    change = route_change(None, route([group("broker-a")], [queues("broker-a")]))
    assert change is not None
    assert change.before is None
    assert change.changes == (
        BrokerAppeared("broker-a", {0: "broker-a:10911"}),
        QueuesChanged("broker-a", None, TopicQueues("broker-a", 2, 2, 6)),
    )
    assert str(change) == (
        "orders: broker-a joined; broker-a: 2 read and 2 write queues, read and write"
    )


def test_a_first_route_without_brokers_is_a_change_too() -> None:
    change = route_change(None, route([], []))
    assert change is not None
    assert change.changes == ()
    assert str(change) == "orders: no brokers"


def test_a_broker_that_leaves_takes_its_queues_with_it() -> None:
    after = route([group("broker-a")], [queues("broker-a")])
    assert changes(BOTH, after) == (
        BrokerDisappeared("broker-b", {0: "broker-b:10911"}),
        QueuesChanged("broker-b", TopicQueues("broker-b", 2, 2, 6), None),
    )
    assert texts(BOTH, after) == ["broker-b left", "broker-b: no queues any more"]


def test_a_broker_may_go_while_its_queues_stay_listed() -> None:
    assert texts(BOTH, route([group("broker-a")])) == ["broker-b left"]


@pytest.mark.parametrize(
    ("before", "after", "change", "text"),
    [
        pytest.param(
            {0: "m"},
            {0: "n"},
            AddressChanged("broker-a", 0, "m", "n"),
            "broker-a: id 0 is at n, was at m",
            id="moved",
        ),
        pytest.param(
            {0: "m"},
            {0: "m", 1: "s"},
            AddressChanged("broker-a", 1, None, "s"),
            "broker-a: id 1 joined at s",
            id="slave-joined",
        ),
        pytest.param(
            {0: "m", 1: "s"},
            {1: "s"},
            AddressChanged("broker-a", 0, "m", None),
            "broker-a: id 0 left m",
            id="master-left",
        ),
    ],
)
def test_members_of_a_broker_that_stays_are_told_one_by_one(
    before: dict[int, str], after: dict[int, str], change: Change, text: str
) -> None:
    then, now = (route([group("broker-a", members)], []) for members in (before, after))
    assert changes(then, now) == (change,)
    assert texts(then, now) == [text]


@pytest.mark.parametrize(
    ("different", "text"),
    [
        ({"write": 8}, "broker-a: 8 write queues, was 4"),
        ({"read": 8}, "broker-a: 8 read queues, was 4"),
        ({"perm": 4}, "broker-a: read only, was read and write"),
        ({"perm": 2}, "broker-a: write only, was read and write"),
        ({"perm": 0}, "broker-a: no permission, was read and write"),
        ({"sys_flag": 1}, "broker-a: system flag 1, was 0"),
        ({"read": 1, "write": 1}, "broker-a: 1 read queues, was 4, 1 write queues, was 4"),
    ],
)
def test_each_number_of_a_queue_entry_counts(different: dict[str, int], text: str) -> None:
    then = route([], [queues("broker-a", **{"read": 4, "write": 4})])
    now = route([], [queues("broker-a", **{"read": 4, "write": 4, **different})])
    assert texts(then, now) == [text]


@pytest.mark.parametrize(
    ("different", "kind", "text"),
    [
        pytest.param(
            {"order": "broker-a:2"}, OrderChanged, "order broker-a:2, was none", id="order"
        ),
        pytest.param(
            {"mappings": {"broker-a": mapping("broker-a", [0])}},
            MappingsChanged,
            "logical queues changed on broker-a",
            id="mappings",
        ),
        pytest.param(
            {"filters": {"broker-a:10911": ["10.0.0.7:3000"]}},
            FilterServersChanged,
            "filter servers changed at broker-a:10911",
            id="filter-servers",
        ),
    ],
)
def test_the_rest_of_a_route_counts_as_well(
    different: dict[str, Any], kind: type[Change], text: str
) -> None:
    (there,) = changes(BOTH, route(**different))
    (back,) = changes(route(**different), BOTH)
    assert isinstance(there, kind)
    assert isinstance(back, kind)
    assert (there.before, there.after) == (back.after, back.before)  # type: ignore[union-attr]
    assert str(there) == text


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(route(), id="equal"),
        pytest.param(
            route([group("broker-b"), group("broker-a")], [queues("broker-b"), queues("broker-a")]),
            id="another-order",
        ),
        pytest.param(
            route(
                [
                    group("broker-a", cluster="other", zoneName="z", enableActingMaster=True),
                    group("broker-b"),
                ]
            ),
            id="cluster-zone-acting-master",
        ),
    ],
)
def test_what_no_client_acts_on_is_no_change(same: TopicRoute) -> None:
    assert route_change(BOTH, same) is None


def test_changes_are_sorted_by_broker() -> None:
    after = route([group(name) for name in "zyx"], [])
    assert texts(route([], []), after) == ["x joined", "y joined", "z joined"]
