"""REGISTER_BROKER and what it does to routes, mostly the reference's own checklist."""

from collections.abc import Generator

import pytest

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    MinBrokerChanged,
    RegistrationCompleted,
    TopicsChanged,
)
from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Caller
from routebook.slices import finished
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from routebook.wire.registration import crc32
from support.builders import (
    broker_fields,
    compressed_body,
    mapping_info,
    registration_body,
    topic_table,
)
from support.desk import Desk


def test_a_master_is_answered_without_master_or_ha_address() -> None:
    reply = Desk().register()
    assert (reply.code, reply.remark, reply.ext_fields, reply.body) == (0, None, {}, b"")


def test_a_slave_is_told_its_master_and_where_to_replicate_from() -> None:
    desk = Desk()
    desk.register()
    reply = desk.register(broker_id=1)
    assert reply.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}}


def test_a_slave_without_a_live_master_is_told_nothing() -> None:
    assert Desk().register(broker_id=1).ext_fields == {}


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_a_wrong_checksum_is_refused(compress: bool) -> None:
    desk = Desk()
    body = compressed_body() if compress else registration_body()
    label = str(compress).lower()
    reply = desk.register(body=body, compressed=label, bodyCrc32=str(crc32(body) ^ 1))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert [event.cause for event in desk.events] == [Cause.REFUSED]
    assert desk.register(body=body, compressed=label, bodyCrc32=str(crc32(body))).code == 0


def test_a_broker_before_3_0_11_sends_the_inner_table_only() -> None:
    desk = Desk()
    body = (
        b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"a":{"topicName":"a"},'
        b'"b":{"topicName":"b","perm":4}}}'
    )
    assert desk.register(broker_id=0, body=body, version=0).code == ResponseCode.SUCCESS
    assert desk.perms("b") == {"broker-a": 4}


@pytest.mark.parametrize(
    ("version", "mappings", "code"),
    [
        pytest.param(401, None, ResponseCode.SUCCESS, id="4.9-without-mappings"),
        pytest.param(413, None, ResponseCode.SYSTEM_ERROR, id="5.0-must-have-them"),
        pytest.param(513, (), ResponseCode.SUCCESS, id="5.5-with-none"),
    ],
)
def test_the_mapping_section_of_a_compressed_body_goes_by_version(
    version: int, mappings: tuple[bytes, ...] | None, code: ResponseCode
) -> None:
    desk = Desk()
    body = compressed_body(mappings=mappings)
    assert desk.register(body=body, compressed="true", version=version).code == code
    assert (desk.route() is not None) is (code == ResponseCode.SUCCESS)


def test_bare_integer_keys_of_static_topics_are_read_in_both_bodies() -> None:
    info = (
        b'{"bname":"broker-a","currIdMap":{0:0,2:1},"dirty":false,"epoch":5,'
        b'"scope":"__global__","topic":"st","totalQueues":4}'
    )
    plain = registration_body(["st", "other"], mappings={"st": mapping_info("st")}).replace(
        b'{"0": 0, "1": 1}', b"{0:0,2:1}"
    )
    for body in (plain, compressed_body(["st", "other"], mappings=[info])):
        desk = Desk()
        assert desk.register(body=body).code == ResponseCode.SUCCESS
        old = desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "st"}, version=317)
        assert b'"currIdMap":{0:0,2:1}' in old.body
        new = desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "st"}, version=401)
        assert b'"currIdMap":{"0":0,"2":1}' in new.body


def test_shared_attributes_written_as_a_reference_are_no_obstacle() -> None:
    desk = Desk()
    table = topic_table(["a", "b"])
    table["a"]["attributes"] = {"message.type": "NORMAL"}
    table["b"]["attributes"] = {
        "$ref": "$.topicConfigSerializeWrapper.topicConfigTable.a.attributes"
    }
    assert desk.register(body=registration_body(table)).code == ResponseCode.SUCCESS
    assert desk.route("b") is not None


def test_no_body_registers_an_address_without_topics() -> None:
    desk = Desk()
    assert desk.register(body=b"").code == ResponseCode.SUCCESS
    assert list(desk.cluster_info()["brokerAddrTable"]) == ["broker-a"]


def test_a_later_single_topic_is_taken_over() -> None:
    desk = Desk()
    desk.register()
    desk.register(body=registration_body(["fresh"], counter=2))
    assert desk.addrs("fresh") == desk.addrs("orders") != {}


def test_permissions_survive_the_same_registration_and_not_a_changed_one() -> None:
    desk = Desk()
    desk.register()
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    desk.register()
    assert desk.perms() == {"broker-a": 4}
    desk.register(body=registration_body(counter=2))
    assert desk.perms() == {"broker-a": 6}


def test_a_deleted_topic_comes_back_with_the_next_registration() -> None:
    desk = Desk()
    desk.register()
    desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
    assert desk.route() is None
    desk.register()
    assert desk.route() is not None


def test_a_topic_missing_from_a_registration_stays_unless_configured_otherwise() -> None:
    desk = Desk()
    desk.register()
    desk.register(body=registration_body(["payments", "other"], counter=2))
    assert desk.route("orders") is not None
    desk.use(delete_topic_with_broker_registration=True)
    desk.register(body=registration_body(["payments", "other"], counter=3))
    assert desk.route("orders") is None
    assert desk.route("payments") is not None


@pytest.mark.parametrize(
    ("acting", "perms"),
    [
        pytest.param(None, {}, id="old-broker-publishes-nothing"),
        pytest.param("false", {"broker-a": 6}, id="new-broker-publishes"),
        pytest.param("true", {"broker-a": 4}, id="acting-master-read-only"),
    ],
)
def test_a_slave_alone_in_its_group(acting: str | None, perms: dict[str, int]) -> None:
    desk = Desk()
    desk.register(broker_id=1, enableActingMaster=acting)
    assert desk.perms() == perms
    desk.register(broker_id=0, enableActingMaster=acting)
    assert desk.perms() == {"broker-a": 6}


def test_a_master_that_leaves_makes_an_acting_group_read_only_until_it_is_back() -> None:
    desk = Desk(support_acting_master=True)
    desk.register(link=1, enableActingMaster="true")
    desk.register(broker_id=1, link=2, enableActingMaster="true")
    desk.close(1)
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.2:10911"}}
    assert desk.perms() == {"broker-a": 4}
    member = desk.addrs("rmq_sys_SYNC_BROKER_MEMBER_broker-a")
    assert member == {}
    desk.register(link=3, enableActingMaster="true")
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}}
    assert desk.perms() == {"broker-a": 6}


def test_brokers_see_true_ids_and_so_does_a_group_made_writable_again() -> None:
    desk = Desk(support_acting_master=True)
    member_topic = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    body = registration_body(["orders", member_topic])
    desk.register(broker_id=1, enableActingMaster="true", body=body)
    assert desk.addrs(member_topic) == {"broker-a": {"1": "10.0.0.2:10911"}}
    assert desk.addrs("orders") == {"broker-a": {"0": "10.0.0.2:10911"}}
    desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert desk.addrs("orders") == {"broker-a": {"1": "10.0.0.2:10911"}}


def test_a_role_switch_moves_the_address_instead_of_listing_it_twice() -> None:
    desk = Desk()
    desk.register(addr="m:1", link=1)
    desk.register(broker_id=1, addr="s:1", link=2)
    desk.close(1)
    desk.register(broker_id=0, addr="s:1", link=2, body=registration_body(counter=2))
    assert desk.addrs() == {"broker-a": {"0": "s:1"}}
    desk.register(broker_id=1, addr="m:1", link=3)
    assert desk.addrs() == {"broker-a": {"0": "s:1", "1": "m:1"}}


def test_the_order_configuration_goes_to_brokers_if_there_is_any() -> None:
    desk = Desk()
    item: dict[str, str | None] = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
    desk.ask(RequestCode.PUT_KV_CONFIG, {**item, "value": "broker-a:4"})
    assert desk.register().body == b'{"table":{"orders":"broker-a:4"}}'
    desk.ask(RequestCode.DELETE_KV_CONFIG, item)
    assert desk.register().body == b'{"table":{}}'
    desk.use(return_order_topic_config_to_broker=False)
    assert desk.register().body == b""


def test_filter_servers_follow_the_registration() -> None:
    desk = Desk()
    desk.register(body=registration_body(filter_servers=["f:1"]))
    assert (desk.route() or {})["filterServerTable"] == {"10.0.0.1:10911": ["f:1"]}
    desk.register(body=registration_body(counter=2))
    assert (desk.route() or {})["filterServerTable"] == {}


def test_repeating_a_registration_renews_the_lease_and_says_nothing() -> None:
    desk = Desk()
    desk.register(heartbeatTimeoutMillis="1000")
    before = list(desk.events)
    desk.now_ms += 900
    desk.register(heartbeatTimeoutMillis="1000")
    assert desk.expire(900) == []
    assert desk.events == before


@pytest.mark.parametrize(
    ("silent_ms", "alive"),
    [
        pytest.param(1000, True, id="at-the-deadline"),
        pytest.param(1001, False, id="one-ms-late"),
    ],
)
def test_a_broker_lives_until_its_own_deadline_passes(silent_ms: int, alive: bool) -> None:
    desk = Desk()
    desk.register(link=5, heartbeatTimeoutMillis="1000")
    assert desk.expire(silent_ms) == ([] if alive else [5])
    assert (desk.route() is not None) is alive


def test_a_broker_without_a_timeout_of_its_own_has_two_minutes() -> None:
    desk = Desk()
    desk.register(link=5)
    assert desk.expire(120_000) == []
    assert desk.expire(1) == [5]


def test_every_change_is_an_event_with_cause_peer_before_and_after() -> None:
    desk = Desk()
    desk.register(link=5)
    registered, topics, completed = desk.events
    assert isinstance(registered, BrokerRegistered)
    assert (registered.cause, registered.peer) == (Cause.REGISTER, "peer-5")
    assert (registered.addrs_before, registered.addrs_after) == ({}, {0: "10.0.0.1:10911"})
    assert isinstance(topics, TopicsChanged)
    assert [(c.topic, c.before, c.after) for c in topics.changes] == [
        ("orders", None, (8, 8, 6, 0)),
        ("payments", None, (8, 8, 6, 0)),
    ]
    assert isinstance(completed, RegistrationCompleted)
    assert completed.data_version == (0, 1_700_000_000_000, 1)
    assert [event.revision for event in desk.events] == [1, 2, 3]
    desk.register(link=5, __ZONE_NAME="z")
    assert (desk.last(BrokerUpdated).before["zone"], desk.last(BrokerUpdated).after["zone"]) == (
        None,
        "z",
    )
    desk.close(5, Cause.IDLE)
    left = desk.last(BrokerLeft)
    assert (left.cause, left.peer, left.topics_lost) == (Cause.IDLE, "peer-5", 2)


def test_the_smallest_id_changing_names_whom_to_tell() -> None:
    desk = Desk()
    desk.register(broker_id=1, link=1, enableActingMaster="true")
    desk.register(broker_id=0, link=2, enableActingMaster="true")
    joined = desk.last(MinBrokerChanged)
    assert (joined.min_broker_id, joined.recipients) == (0, ("10.0.0.2:10911",))
    assert (joined.ha_addr, joined.offline_addr) == ("10.0.0.1:10912", None)
    desk.close(2)
    left = desk.last(MinBrokerChanged)
    assert (left.min_broker_id, left.recipients) == (1, ("10.0.0.2:10911",))
    assert (left.ha_addr, left.offline_addr) == (None, "10.0.0.1:10911")


def test_a_group_without_acting_master_is_not_told_when_its_master_leaves() -> None:
    desk = Desk()
    desk.register(link=1)
    desk.register(broker_id=1, link=2)
    desk.close(1)
    assert not [event for event in desk.events if isinstance(event, MinBrokerChanged)]


def test_more_topics_than_a_broker_may_have_are_refused_without_trace() -> None:
    desk = Desk(max_topics_per_broker=3)
    desk.register(body=registration_body(["a", "b"]))
    reply = desk.register(body=registration_body(["c", "d"], counter=2))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "4 topics exceed the limit of 3" in (reply.remark or "")
    assert desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["a", "b"]


def test_more_entries_than_a_node_may_hold_are_refused_without_trace() -> None:
    desk = Desk(max_route_entries=3)
    desk.register("broker-a", body=registration_body(["a", "b"]))
    reply = desk.register("broker-b", addr="b:1", body=registration_body(["a", "b"]))
    assert "maxRouteEntries" in (reply.remark or "")
    assert list(desk.cluster_info()["brokerAddrTable"]) == ["broker-a"]


def test_a_registration_overtaken_between_slices_is_told_so() -> None:
    desk = Desk()
    topics = [f"t{n}" for n in range(5000)]
    request = Command(103, 0, 1, 513, None, broker_fields(), registration_body(topics))
    slow = dispatch(request, desk.services, Caller(1, "peer-1"))
    assert isinstance(slow, Generator)
    while not desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER):
        next(slow)
    member = desk.routes.members.find_live("c1", "10.0.0.1:10911")
    assert member is not None
    assert member.known.data_version is None, "a registration under way has no data version yet"
    desk.register(link=2, body=registration_body(["x", "y"], counter=9))
    reply = finished(slow)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "overtaken" in (reply.remark or "")
    assert member.known.data_version == (0, 1_700_000_000_000, 9)


def test_a_broker_that_left_is_gone_before_its_entries_are_cleared_away() -> None:
    desk = Desk()
    topics = [f"t{n}" for n in range(5000)]
    desk.register("broker-a", addr="a:1", link=1, body=registration_body(topics))
    desk.register("broker-b", addr="b:1", link=2, body=registration_body(["t0", "t1"]))
    desk.close(1)
    assert list(desk.addrs("t0")) == ["broker-b"]
    assert desk.route("t4999") is None
    desk.register("broker-a", addr="a:1", link=3, body=registration_body(["t0", "t9"]))
    assert desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t0", "t1", "t9"]
    assert sorted(desk.addrs("t0")) == ["broker-a", "broker-b"]
    assert desk.routes.topics.entries == 4
