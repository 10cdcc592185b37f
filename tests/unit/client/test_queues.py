"""Publish and subscribe queues, who holds them and where."""

from typing import Any

import pytest

from routebook.client.queues import (
    MAX_QUEUES,
    NO_HOLDER,
    BadRoute,
    MessageQueue,
    address_of,
    check_route,
    endpoints,
    holder_of,
    publish_queues,
    subscribe_queues,
)
from support.topic_routes import group, mapping, queues, route

GLOBAL = "__syslo__global__"


def on(broker: str, *ids: int) -> list[MessageQueue]:
    return [MessageQueue("orders", broker, queue_id) for queue_id in ids]


# -- ordinary topics


def test_writers_use_the_write_queues_of_all_brokers_in_the_order_of_their_names() -> None:
    found = route(topic_queues=[queues("broker-b", write=1), queues("broker-a", write=3)])
    assert list(publish_queues(found)) == on("broker-a", 0, 1, 2) + on("broker-b", 0)


@pytest.mark.parametrize(
    ("perm", "written", "read"),
    [
        pytest.param(6, True, True, id="read-and-write"),
        pytest.param(4, False, True, id="read-only"),
        pytest.param(2, True, False, id="write-only"),
        pytest.param(0, False, False, id="none"),
        pytest.param(1, False, False, id="inherit-only"),
    ],
)
def test_each_list_asks_for_its_own_permission(perm: int, written: bool, read: bool) -> None:
    found = route([group("broker-a")], [queues("broker-a", perm=perm)])
    assert bool(publish_queues(found)) is written
    assert bool(subscribe_queues(found)) is read


def test_a_broker_without_master_is_read_but_not_written() -> None:
    found = route([group("broker-a", {1: "10.0.0.2:10911"})], [queues("broker-a")])
    assert publish_queues(found) == ()
    assert list(subscribe_queues(found)) == on("broker-a", 0, 1)


def test_a_broker_nobody_has_an_address_of_is_read_but_not_written() -> None:
    found = route([], [queues("broker-a")])
    assert publish_queues(found) == ()
    assert list(subscribe_queues(found)) == on("broker-a", 0, 1)


def test_readers_get_the_read_queues_sorted() -> None:
    found = route(topic_queues=[queues("broker-b", read=11), queues("broker-a", read=1)])
    assert list(subscribe_queues(found)) == on("broker-a", 0) + on("broker-b", *range(11))


def test_negative_counts_are_no_queues() -> None:
    found = route([group("broker-a")], [queues("broker-a", read=-1, write=-1)])
    assert publish_queues(found) == subscribe_queues(found) == ()


def test_of_two_entries_of_one_broker_the_first_counts() -> None:
    twice = [queues("broker-a", read=1, write=1), queues("broker-a", read=5, write=5)]
    found = route([group("broker-a"), group("broker-a", {})], twice)
    assert publish_queues(found) == subscribe_queues(found) == tuple(on("broker-a", 0))


# -- ordered topics


def test_writers_follow_an_order_config_whatever_permissions_and_masters_say() -> None:
    found = route(
        [group("broker-a", {1: "10.0.0.2:10911"})],
        [queues("broker-a", perm=4)],
        order="broker-z:1;broker-a:2",
    )
    assert list(publish_queues(found)) == on("broker-z", 0) + on("broker-a", 0, 1)


def test_readers_do_not_follow_an_order_config() -> None:
    found = route(order="broker-z:1")
    assert list(subscribe_queues(found)) == on("broker-a", 0, 1) + on("broker-b", 0, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("b:1;", on("b", 0), id="trailing-separator"),
        pytest.param(";b:1;;c:1", on("b", 0) + on("c", 0), id="empty-items"),
        pytest.param(" b:1 ; c:1", on("b", 0) + on("c", 0), id="blanks"),
        pytest.param("b:2:9", on("b", 0, 1), id="a-third-part"),
        pytest.param("b:0;c:1", on("c", 0), id="no-queues"),
    ],
)
def test_an_order_config_may_be_untidy(text: str, expected: list[MessageQueue]) -> None:
    assert list(publish_queues(route(order=text))) == expected


@pytest.mark.parametrize(
    "text", ["b", "b:", ":4", "b:x", "b:-1", "b:1.5", "b:²", "a:2;b;c:2", "b:9999999999"]
)
def test_one_bad_item_spoils_an_order_config(text: str) -> None:
    with pytest.raises(BadRoute):
        publish_queues(route(order=text))
    with pytest.raises(BadRoute):
        check_route(route(order=text))


# -- static topics


def static(**mappings: dict[str, Any]) -> Any:
    """``broker_a=...`` stands for broker-a."""
    return route(mappings={name.replace("_", "-"): info for name, info in mappings.items()})


def test_queues_of_a_static_topic_go_under_the_name_of_their_scope() -> None:
    found = static(broker_a=mapping("broker-a", [0, 2]), broker_b=mapping("broker-b", [1, 3]))
    expected = on(GLOBAL, 0, 1, 2, 3)
    assert list(publish_queues(found)) == list(subscribe_queues(found)) == expected
    assert all(queue.logical for queue in expected)
    assert [holder_of(found, queue) for queue in expected] == [
        "broker-a",
        "broker-b",
        "broker-a",
        "broker-b",
    ]


def test_another_scope_keeps_its_whole_name_and_queues_are_written_by_number() -> None:
    found = static(
        broker_a=mapping("broker-a", [0, 1], total=2),
        broker_b=mapping("broker-b", [0, 1], total=2, scope="west"),
    )
    west = "__syslo__west"
    assert list(publish_queues(found)) == [
        *on(GLOBAL, 0),
        *on(west, 0),
        *on(GLOBAL, 1),
        *on(west, 1),
    ]
    assert list(subscribe_queues(found)) == on(GLOBAL, 0, 1) + on(west, 0, 1)
    assert holder_of(found, *on(west, 1)) == "broker-b"


@pytest.mark.parametrize(
    ("epoch_a", "epoch_b", "holder"),
    [
        pytest.param(1, 2, "broker-b", id="later-epoch"),
        pytest.param(2, 1, "broker-a", id="earlier-epoch"),
        pytest.param(1, 1, "broker-a", id="equal-epochs-first-name"),
    ],
)
def test_a_queue_two_brokers_claim_is_held_by_the_one_of_the_highest_epoch(
    epoch_a: int, epoch_b: int, holder: str
) -> None:
    found = static(
        broker_b=mapping("broker-b", [0], total=1, epoch=epoch_b),
        broker_a=mapping("broker-a", [0], total=1, epoch=epoch_a),
    )
    assert holder_of(found, *on(GLOBAL, 0)) == holder


def test_the_largest_total_decides_how_many_logical_queues_there_are() -> None:
    found = static(
        broker_a=mapping("broker-a", [0, 7], total=2, epoch=9),
        broker_b=mapping("broker-b", [1], total=3, epoch=1),
    )
    assert list(publish_queues(found)) == on(GLOBAL, 0, 1, 2)
    assert endpoints(found) == dict(
        zip(on(GLOBAL, 0, 1, 2), ["broker-a", "broker-b", NO_HOLDER], strict=True)
    )
    assert holder_of(found, *on(GLOBAL, 7)) is None, "claimed, but beyond the total"
    assert holder_of(found, *on(GLOBAL, -1)) is None


def test_a_queue_nobody_claims_has_no_address() -> None:
    found = static(broker_a=mapping("broker-a", [0], total=2))
    (queue,) = on(GLOBAL, 1)
    assert holder_of(found, queue) == NO_HOLDER
    assert address_of(found, queue) is None
    assert address_of(found, queue, reading=True) is None


def test_a_claim_without_broker_name_is_of_the_broker_it_is_listed_under() -> None:
    found = static(broker_a=mapping("broker-b", [0], bname=None))
    assert holder_of(found, *on(GLOBAL, 0)) == "broker-a"


def test_a_claim_without_scope_says_nothing() -> None:
    found = static(broker_a=mapping("broker-a", [0], scope=None))
    assert publish_queues(found) == subscribe_queues(found) == ()
    assert endpoints(found) == {}


def test_single_look_ups_agree_with_the_whole_table() -> None:
    found = static(
        broker_a=mapping("broker-a", [0, 1, 5], total=6, epoch=2),
        broker_b=mapping("broker-b", [1, 2, 5], total=4, epoch=3),
        broker_c=mapping("broker-c", [2, 5, 8], total=4, epoch=3),
        broker_d=mapping("broker-d", [0], total=2, epoch=1, scope="west"),
    )
    table = endpoints(found)
    assert sorted(table) == list(subscribe_queues(found))
    assert {queue: holder_of(found, queue) for queue in table} == table


@pytest.mark.parametrize(
    ("order", "written"),
    [
        pytest.param("broker-b:1", on("broker-b", 0), id="order-config-first"),
        pytest.param("", on("broker-a", 0, 1) + on("broker-b", 0, 1), id="empty-order-config"),
    ],
)
def test_an_order_config_keeps_writers_from_logical_queues_but_not_readers(
    order: str, written: list[MessageQueue]
) -> None:
    found = route(order=order, mappings={"broker-a": mapping("broker-a", [0], total=1)})
    assert list(publish_queues(found)) == written
    assert list(subscribe_queues(found)) == on(GLOBAL, 0)


# -- bounds


@pytest.mark.parametrize(
    "huge",
    [
        pytest.param(
            {"topic_queues": [queues("broker-a", write=MAX_QUEUES), queues("broker-b", write=1)]},
            id="write-queues",
        ),
        pytest.param({"order": f"a:{MAX_QUEUES};b:1"}, id="order-config"),
        pytest.param({"mappings": {"a": mapping("a", [0], total=2**31 - 1)}}, id="logical-queues"),
        pytest.param(
            {
                "mappings": {
                    "a": mapping("a", total=MAX_QUEUES),
                    "b": mapping("b", total=1, scope="west"),
                }
            },
            id="logical-queues-of-two-scopes",
        ),
    ],
)
def test_more_queues_than_anybody_has_are_refused_before_they_are_built(
    huge: dict[str, Any],
) -> None:
    with pytest.raises(BadRoute, match="exceed the limit"):
        publish_queues(route(**huge))
    with pytest.raises(BadRoute, match="exceed the limit"):
        check_route(route(**huge))


def test_more_read_queues_than_anybody_has_are_refused() -> None:
    huge = route(topic_queues=[queues("broker-a", read=2**31 - 1, write=1)])
    with pytest.raises(BadRoute):
        subscribe_queues(huge)
    with pytest.raises(BadRoute):
        check_route(huge)


def test_as_many_queues_as_allowed_are_derived() -> None:
    found = route(topic_queues=[queues("broker-a", read=MAX_QUEUES, write=MAX_QUEUES)])
    check_route(found)
    assert len(publish_queues(found)) == len(subscribe_queues(found)) == MAX_QUEUES


# -- addresses


@pytest.mark.parametrize(
    ("members", "suggested", "expected"),
    [
        pytest.param({0: "m", 1: "s1"}, 0, "m", id="master"),
        pytest.param({0: "m", 1: "s1"}, 1, "s1", id="suggested-slave"),
        pytest.param({0: "m", 2: "s2"}, 1, "s2", id="gone-so-the-next"),
        pytest.param({0: "m", 3: "s3"}, 1, "m", id="next-gone-too-so-any"),
        pytest.param({1: "s1", 2: "s2"}, 0, "s1", id="no-master-so-any"),
        pytest.param({2: "s2", 5: "s5"}, 9, "s2", id="any-is-the-smallest"),
        pytest.param({}, 0, None, id="nobody"),
    ],
)
def test_readers_go_to_the_suggested_member_or_to_another(
    members: dict[int, str], suggested: int, expected: str | None
) -> None:
    found = route([group("broker-a", members)], [queues("broker-a")])
    (queue,) = on("broker-a", 0)
    assert address_of(found, queue, broker_id=suggested, reading=True) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [({0: "m", 1: "s1"}, "m"), ({1: "s1"}, None), ({}, None)],
    ids=["master", "slaves-only", "nobody"],
)
def test_writers_go_to_the_master_only(members: dict[int, str], expected: str | None) -> None:
    found = route([group("broker-a", members)], [queues("broker-a")])
    (queue,) = on("broker-a", 0)
    assert address_of(found, queue) == address_of(found, queue, broker_id=1) == expected


def test_a_broker_the_route_does_not_have_has_no_address() -> None:
    (queue,) = on("broker-z", 0)
    assert address_of(route(), queue) is None
    assert address_of(route(), queue, reading=True) is None


def test_a_logical_queue_is_where_its_holder_is() -> None:
    found = static(broker_b=mapping("broker-b", [0], total=1))
    assert address_of(found, *on(GLOBAL, 0)) == "broker-b:10911"
