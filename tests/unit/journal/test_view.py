from dataclasses import replace
from typing import Any

import pytest

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Event,
    KvChanged,
    QueueChange,
    RegistrationCompleted,
)
from routebook.journal.record import UnknownEvent
from routebook.journal.view import MAX_CONTRADICTIONS, View
from routebook.state.kv import KvChange
from routebook.wire.codes import RequestCode
from support.builders import mapping_info, registration_body
from support.desk import Desk
from support.journals import every_event, record
from support.telling import (
    NOTE,
    READ_ONLY,
    SHAPE,
    group_restated,
    lost,
    registered,
    restated,
    started,
    topics_changed,
    view_of,
    wipe,
)

MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"


def test_a_route_lists_every_group_that_has_the_topic() -> None:
    desk = registered("broker-b", "broker-a")
    desk.register("broker-c", addr="10.0.0.3:10911", body=registration_body(["other", "more"]))
    entries = view_of(desk.events).route("orders")
    assert [(e.broker, e.addrs, e.queues) for e in entries] == [
        ("broker-a", {0: "10.0.0.2:10911"}, SHAPE),
        ("broker-b", {0: "10.0.0.1:10911"}, SHAPE),
    ]


def test_a_topic_nobody_has_is_without_a_route() -> None:
    assert view_of(registered("broker-a").events).route("unheard-of") == []


def test_topics_and_brokers_are_listed() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", 1)
    view = view_of(desk.events)
    assert view.topics() == {"orders", "payments"}
    assert [(b.broker, b.broker_id, b.member.known.addr) for b in view.brokers()] == [
        ("broker-a", 0, MASTER),
        ("broker-a", 1, SLAVE),
    ]


def test_what_a_broker_said_is_known_beside_what_clients_are_told() -> None:
    desk = registered("broker-a")
    wipe(desk)
    entry = view_of(desk.events).route("orders")[0]
    assert (entry.queues, entry.registered) == (READ_ONLY, SHAPE)


def test_what_a_broker_said_is_stored_only_where_it_is_something_else() -> None:
    desk = registered("broker-a")
    wipe(desk)
    desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    view = view_of(desk.events)
    assert view.groups.by_key["c1", "broker-a"].registered == {}
    assert not view.contradictions


def test_the_last_member_takes_the_topics_along() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", 1)
    desk.expire(200_000)
    view = view_of(desk.events)
    assert (view.topics(), list(view.brokers()), len(view.groups)) == (set(), [], 0)


def test_a_broker_that_is_replaced_leaves_its_topics_to_the_next() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", addr="10.0.0.9:10911")
    left = next(n for n, event in enumerate(desk.events) if isinstance(event, BrokerLeft))
    between, after = view_of(desk.events[: left + 1]), view_of(desk.events)
    assert between.route("orders") == []
    assert after.route("orders")[0].addrs == {0: "10.0.0.9:10911"}
    assert not after.contradictions


def test_a_change_of_role_moves_a_member() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", 1)
    desk.register("broker-a", 0, addr=SLAVE)
    assert view_of(desk.events).groups.by_key["c1", "broker-a"].addrs == {0: SLAVE}


def test_a_new_header_is_taken_over() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", __ZONE_NAME="east", haServerAddr="h", heartbeatTimeoutMillis="5000")
    assert isinstance(desk.events[-2], BrokerUpdated)
    group = view_of(desk.events).groups.by_key["c1", "broker-a"]
    member = group.members[0]
    assert (group.zone, member.known.ha_addr, member.known.heartbeat_timeout_ms) == (
        "east",
        "h",
        5000,
    )


def test_the_data_version_stands_when_the_registration_is_complete() -> None:
    desk = registered("broker-a")
    last = next(n for n, e in enumerate(desk.events) if isinstance(e, RegistrationCompleted))
    before, after = view_of(desk.events[:last]), view_of(desk.events[: last + 1])
    versions = [next(view.brokers()).member.known.data_version for view in (before, after)]
    assert versions == [None, (0, 1_700_000_000_000, 1)]


def test_static_mappings_belong_to_the_group_that_announced_them_last() -> None:
    desk = Desk()
    for number, name in enumerate(("broker-a", "broker-b"), 1):
        body = registration_body(
            ["static", "other"], mappings={"static": mapping_info("static", "shared", number)}
        )
        desk.register(name, addr=f"10.0.0.{number}:10911", body=body)
    assert [m.total_queues for m in view_of(desk.events).static_mappings("static")] == [2]
    desk.ask(RequestCode.UNREGISTER_BROKER, _identity("broker-a", "10.0.0.1:10911"))
    assert [m.total_queues for m in view_of(desk.events).static_mappings("static")] == [2]
    desk.ask(RequestCode.UNREGISTER_BROKER, _identity("broker-b", "10.0.0.2:10911"))
    assert view_of(desk.events).static_mappings("static") == []


def test_static_mappings_go_with_their_topic() -> None:
    desk = Desk()
    body = registration_body(["static", "other"], mappings={"static": mapping_info("static")})
    desk.register(body=body)
    assert view_of(desk.events).static_mappings("static")
    desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "static"})
    assert view_of(desk.events).static_mappings("static") == []


def test_key_value_pairs_are_followed() -> None:
    desk = Desk()
    for value in ("1", "2", None):
        desk.events += desk.kv.apply([KvChange("space", "a", value), KvChange("space", "b", "3")])
    assert view_of(desk.events).kv == {"space": {"b": "3"}}


def test_topics_and_shapes_are_held_once() -> None:
    desk = registered("broker-a", "broker-b")
    first, second = view_of(desk.events).groups.listed()
    for (name, shape), (other_name, other_shape) in zip(
        sorted(first.queues.items()), sorted(second.queues.items()), strict=True
    ):
        assert name is other_name
        assert shape is other_shape


# -- the node itself


def test_a_cold_start_empties_the_routes_and_keeps_the_pairs() -> None:
    desk = registered("broker-a")
    desk.events += desk.kv.apply([KvChange("space", "a", "1")])
    view = view_of([*desk.events, started(brokers=0)])
    assert (view.topics(), view.kv) == (set(), {"space": {"a": "1"}})
    assert not view.contradictions


def test_a_warm_start_keeps_all_brokers_unconfirmed() -> None:
    desk = registered("broker-a", "broker-b")
    view = view_of([*desk.events, started(brokers=2)])
    assert [b.member.known.confirmed for b in view.brokers()] == [False, False]
    assert [e.confirmed for e in view.route("orders")] == [False, False]
    assert view.started_ms == view.wall_ms


def test_a_sign_of_life_confirms_one_broker() -> None:
    desk = registered("broker-a", "broker-b")
    confirmed = BrokerConfirmed(
        **NOTE,
        cluster="c1",
        broker="broker-b",
        broker_id=0,
        addr="10.0.0.2:10911",
        generation=2,
        after_ms=5,
    )
    view = view_of([*desk.events, started(brokers=2), confirmed])
    assert {b.broker: b.member.known.confirmed for b in view.brokers()} == {
        "broker-a": False,
        "broker-b": True,
    }


def test_events_about_other_things_move_only_the_clock() -> None:
    view = view_of(registered("broker-a").events)
    before = view.copy()
    told = ("RequestRefused", "BrokerConflict", "MinBrokerChanged", "ConfigChanged", "NodeStopped")
    more = ("HeartbeatGaps", "RouteQueries", "GuardEngaged", "GuardReleased", "JournalRecovered")
    events = [event for event in every_event() if type(event).__name__ in told + more]
    assert len(events) == len(told + more)
    unknown = UnknownEvent(**NOTE, type="Later", data={})
    view_of([*events, unknown], view)
    assert replace(view, wall_ms=before.wall_ms, revision=before.revision) == before
    assert (view.revision, view.wall_ms) == (7, before.wall_ms + 11_000)


def test_a_record_gives_the_view_its_place() -> None:
    view = View()
    view.apply(record(17, wall_ms=5_000))
    assert (view.node, view.seq, view.wall_ms, view.revision) == ("ns-1-0a1b2c3d", 17, 5_000, 17)


def test_a_copy_stays_as_it_is() -> None:
    desk = registered("broker-a")
    view = view_of(desk.events)
    copy, same = view.copy(), view_of(desk.events)
    view_of([started(brokers=1), topics_changed(QueueChange("orders", SHAPE, None))], view)
    assert copy == same
    assert view != same


# -- records that contradict each other

ABOUT: dict[str, Any] = {"cluster": "c1", "broker": "broker-a", "broker_id": 0, "generation": 1}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(
            topics_changed(QueueChange("orders", READ_ONLY, SHAPE)),
            "orders on c1/broker-a was (8, 8, 4, 0), not (8, 8, 6, 0)",
            id="queues-before",
        ),
        pytest.param(
            topics_changed(QueueChange("new", None, SHAPE), broker="broker-x"),
            "c1/broker-x was not known",
            id="unknown-group",
        ),
        pytest.param(
            BrokerLeft(
                **NOTE,
                **{**ABOUT, "addr": "10.0.0.7:1"},
                addrs_before={0: "10.0.0.7:1", 1: SLAVE},
                addrs_after={1: SLAVE},
                topics_lost=0,
            ),
            "c1/broker-a:0 was 10.0.0.7:1, not 10.0.0.1:10911",
            id="another-address",
        ),
        pytest.param(
            BrokerLeft(
                **NOTE,
                **ABOUT,
                addr=MASTER,
                addrs_before={0: MASTER},
                addrs_after={},
                topics_lost=7,
            ),
            "c1/broker-a had 7 topics, not 2",
            id="topics-lost",
        ),
        pytest.param(
            BrokerUpdated(**NOTE, **ABOUT, addr=MASTER, before={"zone": "w"}, after={"zone": "e"}),
            "c1/broker-a:0 was {'zone': 'w'}, not ",
            id="header-before",
        ),
        pytest.param(
            BrokerConfirmed(**NOTE, **ABOUT, addr=MASTER, after_ms=1),
            "10.0.0.1:10911 was confirmed already",
            id="confirmed-twice",
        ),
        pytest.param(
            KvChanged(**NOTE, namespace="space", key="a", before="1", after="2"),
            "space/a had another value before",
            id="pair-before",
        ),
        pytest.param(
            started(brokers=5), "the node started with 5 brokers, not 1", id="brokers-at-start"
        ),
    ],
)
def test_a_contradiction_is_noted(event: Event, reason: str) -> None:
    view = view_of([*registered("broker-a").events, event])
    assert view.contradicted >= 1
    assert view.contradictions[0].reason.startswith(reason)


def test_what_contradicts_is_believed() -> None:
    view = view_of(
        [
            *registered("broker-a").events,
            topics_changed(QueueChange("orders", READ_ONLY, (16, 16, 6, 0))),
        ]
    )
    assert view.route("orders")[0].queues == (16, 16, 6, 0)


def test_a_group_told_to_be_new_begins_anew() -> None:
    desk = registered("broker-a")
    again = replace(desk.last(BrokerRegistered), generation=2)
    view = view_of([*desk.events, again])
    assert view.contradictions[0].reason == "c1/broker-a is new, and had 0=10.0.0.1:10911"
    assert view.topics() == set()


def test_a_member_nobody_told_of_is_known_by_its_address() -> None:
    desk = registered("broker-a")
    master = desk.last(BrokerRegistered)
    slave = replace(
        master,
        broker_id=2,
        addr="10.0.0.3:10911",
        generation=4,
        addrs_before={0: MASTER, 1: SLAVE},
        addrs_after={0: MASTER, 1: SLAVE, 2: "10.0.0.3:10911"},
    )
    view = view_of([*desk.events, slave])
    assert view.contradicted == 1
    assert view.groups.by_key["c1", "broker-a"].addrs == slave.addrs_after


def test_contradictions_are_counted_and_the_first_ones_kept() -> None:
    wrong = topics_changed(QueueChange("orders", READ_ONLY, SHAPE))
    view = view_of([*registered("broker-a").events, *[wrong] * (MAX_CONTRADICTIONS + 5)])
    assert (len(view.contradictions), view.contradicted) == (100, 105)


# -- records that were lost


def test_after_a_loss_nothing_is_a_contradiction_until_all_is_restated() -> None:
    wrong = topics_changed(QueueChange("orders", READ_ONLY, SHAPE))
    view = view_of([*registered("broker-a").events, lost(), wrong])
    assert (view.unsure, view.contradicted) == (True, 0)
    view_of([group_restated(), restated(1), wrong], view)
    assert (view.unsure, view.contradicted) == (False, 1)


def test_a_group_that_is_not_restated_is_gone() -> None:
    desk = registered("broker-a", "broker-b")
    view = view_of([*desk.events, lost(), group_restated("broker-a"), restated(1)])
    assert [b.broker for b in view.brokers()] == ["broker-a"]


def test_a_group_is_restated_in_place_of_what_was_known() -> None:
    desk = registered("broker-a")
    wipe(desk)
    parts = [group_restated(topics=["a", "b"]), group_restated(topics=["c"], continued=True)]
    view = view_of([*desk.events, lost(), *parts, restated(1, {"space": {"a": "1"}})])
    group = view.groups.by_key["c1", "broker-a"]
    assert (group.queues, group.registered) == (dict.fromkeys("abc", SHAPE), {})
    assert view.kv == {"space": {"a": "1"}}


def test_a_group_that_comes_while_others_are_restated_stays() -> None:
    desk, late = registered("broker-a"), registered("broker-b")
    events = [*desk.events, lost(), group_restated("broker-a"), *late.events, restated(1)]
    assert view_of(events).topics() == {"orders", "payments"}


def test_a_restatement_that_was_interrupted_by_a_loss_is_none() -> None:
    desk = registered("broker-a", "broker-b")
    half = [lost(), group_restated("broker-a"), lost(), group_restated("broker-b"), restated(2)]
    view = view_of([*desk.events, *half])
    assert view.unsure
    assert len(view.groups) == 2
    view_of([group_restated("broker-a"), group_restated("broker-b"), restated(2)], view)
    assert not view.unsure


def test_a_restated_member_is_known_for_as_long_as_it_was() -> None:
    desk = registered("broker-a")
    view = view_of(desk.events)
    since_ms = next(view.brokers()).member.since_ms
    view_of([lost(), group_restated(generation=1), restated(1)], view)
    assert next(view.brokers()).member.since_ms == since_ms
    view_of([lost(), group_restated(generation=2), restated(1)], view)
    assert next(view.brokers()).member.since_ms > since_ms


def test_an_unsure_view_vouches_for_no_data_version_after_a_restart() -> None:
    desk = registered("broker-a")
    sure, unsure = view_of(desk.events), view_of([*desk.events, lost()])
    sure.restart(wall_ms=1)
    unsure.restart(wall_ms=1)
    versions = [next(view.brokers()).member.known.data_version for view in (sure, unsure)]
    assert versions == [(0, 1_700_000_000_000, 1), None]


def _identity(name: str, addr: str) -> dict[str, str | None]:
    return {"clusterName": "c1", "brokerName": name, "brokerAddr": addr, "brokerId": "0"}
