"""What the reference NameServer does wrong and a node here does not.

Each test is named in docs/compatibility.md beside the difference it shows.
"""

import pytest

from routebook.events import (
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    RequestRefused,
)
from routebook.wire.codes import RequestCode, ResponseCode
from support.builders import broker_fields, compressed_body, mapping_info, registration_body
from support.desk import Desk


@pytest.mark.parametrize("field", ["clusterName", "brokerName", "brokerAddr", "brokerId"])
def test_a_registration_without_an_identity_is_refused_and_leaves_no_trace(field: str) -> None:
    desk = Desk()
    fields = {key: value for key, value in broker_fields().items() if key != field}
    reply = desk.ask(RequestCode.REGISTER_BROKER, fields, registration_body())
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, f"{field} is missing")
    assert desk.cluster_info() == {"brokerAddrTable": {}, "clusterAddrTable": {}}
    refused = desk.last(RequestRefused)
    assert (refused.request, refused.reason) == ("REGISTER_BROKER", f"{field} is missing")
    assert desk.events == [refused]


def test_an_unregistration_without_broker_id_is_refused_and_changes_nothing() -> None:
    desk = Desk()
    desk.register()
    fields = {key: value for key, value in broker_fields().items() if key != "brokerId"}
    reply = desk.ask(RequestCode.UNREGISTER_BROKER, fields)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "brokerId is missing")
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}


def test_an_address_replaced_under_its_id_leaves_no_ghost() -> None:
    desk = Desk()
    desk.register(addr="old:1", link=1)
    desk.register(addr="new:1", link=2)
    assert desk.routes.members.find_live("c1", "old:1") is None
    left = desk.last(BrokerLeft)
    assert (left.addr, left.cause) == ("old:1", Cause.REPLACED)
    assert desk.expire(200_000) == [2]
    assert desk.addrs() == {}


def test_one_name_in_two_clusters_is_two_groups_that_both_can_leave() -> None:
    desk = Desk()
    desk.register(cluster="c1", addr="one:1", link=1, body=registration_body(["only-1", "both"]))
    desk.register(cluster="c2", addr="two:1", link=2, body=registration_body(["only-2", "both"]))
    assert desk.last(BrokerConflict).reason.startswith("cluster c1 has a broker of this name")
    assert desk.addrs("only-1") == {"broker-a": {"0": "one:1"}}
    assert desk.addrs("only-2") == {"broker-a": {"0": "two:1"}}
    desk.close(2)
    assert desk.cluster_info()["clusterAddrTable"] == {"c1": ["broker-a"]}
    assert desk.route("only-2") is None


@pytest.mark.parametrize("end", ["unregister", "delete-topic"])
def test_static_mappings_go_with_their_broker_or_topic(end: str) -> None:
    desk = Desk()
    mapped = registration_body(["st", "other"], mappings={"st": mapping_info("st")})
    desk.register(body=mapped)
    route = desk.route("st")
    assert route is not None
    assert route["topicQueueMappingByBroker"]["broker-a"]["totalQueues"] == 4
    if end == "unregister":
        desk.ask(RequestCode.UNREGISTER_BROKER, broker_fields())
    else:
        desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "st"})
    desk.register(body=registration_body(["st", "other"], counter=2))
    assert "topicQueueMappingByBroker" not in (desk.route("st") or {})


def test_a_refused_first_registration_leaves_no_empty_group() -> None:
    desk = Desk()
    reply = desk.register(body=registration_body(["single"]))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")
    assert desk.cluster_info() == {"brokerAddrTable": {}, "clusterAddrTable": {}}
    assert desk.last(RequestRefused).reason == "a single topic"


def test_a_conflict_answers_success_but_is_an_event_and_changes_nothing() -> None:
    desk = Desk()
    desk.register(addr="leader:1", link=1, body=registration_body(state_version=5))
    reply = desk.register(addr="stale:1", link=2, body=registration_body(state_version=4))
    assert (reply.code, reply.ext_fields, reply.body) == (ResponseCode.SUCCESS, {}, b"")
    conflict = desk.last(BrokerConflict)
    assert (conflict.kept, conflict.other) == ("leader:1", "stale:1")
    assert desk.addrs() == {"broker-a": {"0": "leader:1"}}
    assert desk.routes.members.find_live("c1", "stale:1") is None


def test_a_refused_role_switch_keeps_the_address_where_it_was() -> None:
    desk = Desk()
    desk.register(broker_id=1, addr="x:1", link=1, enableActingMaster="false")
    reply = desk.register(broker_id=0, addr="x:1", link=1, body=registration_body(["single"]))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert desk.addrs() == {"broker-a": {"1": "x:1"}}


def test_all_brokers_of_one_connection_leave_with_it() -> None:
    desk = Desk()
    desk.register("broker-a", addr="a:1", link=9)
    desk.register("broker-b", addr="b:1", link=9)
    desk.close(9)
    assert desk.cluster_info() == {"brokerAddrTable": {}, "clusterAddrTable": {}}


def test_a_late_connection_close_does_not_remove_a_newer_registration() -> None:
    desk = Desk()
    desk.register(link=1)
    desk.register(link=2)
    assert desk.close(1) == []
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}


def test_a_late_unregistration_does_not_remove_a_newer_registration() -> None:
    desk = Desk()
    desk.register(link=1)
    desk.register(link=2)
    reply = desk.ask(RequestCode.UNREGISTER_BROKER, broker_fields(), link=1)
    assert reply.code == ResponseCode.SUCCESS
    assert desk.last(RequestRefused).cause == Cause.STALE
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}


def test_a_late_expiry_does_not_remove_a_newer_registration() -> None:
    desk = Desk()
    desk.register(link=1, heartbeatTimeoutMillis="1000")
    desk.now_ms += 900
    desk.register(link=2, heartbeatTimeoutMillis="1000")
    assert desk.expire(200) == []


def test_a_heartbeat_on_a_new_connection_keeps_the_broker_when_the_old_one_closes() -> None:
    desk = Desk()
    desk.register(link=1)
    desk.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=2)
    assert desk.close(1) == []
    assert desk.addrs() != {}
    desk.close(2)
    assert desk.addrs() == {}


def test_a_stranger_that_asks_for_the_data_version_cannot_take_the_broker_along() -> None:
    desk = Desk()
    desk.register(link=1)
    desk.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), link=2)
    assert desk.close(2) == []
    desk.close(1)
    assert desk.addrs() == {}


def test_split_registrations_under_one_data_version_lose_nothing() -> None:
    desk = Desk()
    desk.register(body=registration_body({"a": {}, "b": {}}))
    desk.register(body=registration_body({"a": {"readQueueNums": 4}}))
    desk.register(body=registration_body({"b": {"readQueueNums": 2}}))
    routes = [desk.route("a"), desk.route("b")]
    assert [r["queueDatas"][0]["readQueueNums"] for r in routes if r] == [4, 2]


def test_two_processes_under_one_identity_are_an_event_each_time() -> None:
    desk = Desk()
    for turn in range(3):
        desk.register(addr=f"{turn % 2}:1", link=turn % 2 + 1)
    conflicts = [e for e in desk.events if isinstance(e, BrokerConflict)]
    assert [(c.kept, c.other) for c in conflicts] == [("1:1", "0:1"), ("0:1", "1:1")]


def test_a_oneway_data_version_query_is_a_heartbeat_and_reads_no_body() -> None:
    desk = Desk()
    desk.register(heartbeatTimeoutMillis="1000")
    desk.now_ms += 900
    desk.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), b"not json", oneway=True)
    assert desk.expire(900) == []


def test_the_member_group_has_no_misleading_remark() -> None:
    assert Desk().ask(RequestCode.GET_BROKER_MEMBER_GROUP, broker_fields()).remark is None


def test_a_zoned_route_keeps_the_form_the_caller_asked_for() -> None:
    desk = Desk()
    desk.register(__ZONE_NAME="z1")
    reply = desk.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": "orders", "__ZONE_MODE": "true", "__ZONE_NAME": "z1"},
    )
    assert b'"brokerAddrs":{"0":' in reply.body


def test_a_zoned_route_keeps_a_group_whose_slave_acts_as_master() -> None:
    desk = Desk(support_acting_master=True)
    desk.register(broker_id=1, enableActingMaster="true", __ZONE_NAME="z2")
    route = desk.route(__ZONE_MODE="true", __ZONE_NAME="z1")
    assert route is not None
    assert [data["brokerAddrs"] for data in route["brokerDatas"]] == [{"0": "10.0.0.2:10911"}]


def test_a_compressed_body_labelled_uncompressed_is_read() -> None:
    desk = Desk()
    assert desk.register(body=compressed_body(), compressed="false").code == ResponseCode.SUCCESS
    assert desk.route("orders") is not None


@pytest.mark.parametrize(
    ("perm", "after"),
    [
        pytest.param(7, 7, id="inherit-bit-kept"),
        pytest.param(6, 6, id="plain"),
        pytest.param(4, 6, id="read-only-topic"),
    ],
)
def test_adding_write_permission_adds_the_write_bit_only(perm: int, after: int) -> None:
    desk = Desk()
    desk.register(body=registration_body({"orders": {"perm": perm}, "other": {}}))
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert desk.perms()["broker-a"] == perm & ~2
    desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert desk.perms()["broker-a"] == after


def test_a_topic_for_an_unknown_broker_is_dropped_whole_and_says_so_in_an_event() -> None:
    desk = Desk()
    desk.register()
    body = b'{"queueDatas":[{"brokerName":"broker-a"},{"brokerName":"nobody"}]}'
    reply = desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "new"}, body)
    assert reply.code == ResponseCode.SUCCESS
    assert desk.route("new") is None
    assert desk.last(RequestRefused).answered_success


def test_a_broker_renamed_at_the_same_address_leaves_its_old_name() -> None:
    desk = Desk()
    desk.register("before", link=1)
    desk.register("after", link=1)
    assert list(desk.addrs()) == ["after"]
    assert desk.last(BrokerLeft).cause == Cause.MOVED
    assert desk.last(BrokerRegistered).broker == "after"


def test_a_put_without_a_value_is_refused() -> None:
    desk = Desk()
    reply = desk.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k"})
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "value is missing")
    assert desk.kv.find_table("n") is None


def test_a_negative_broker_id_is_refused() -> None:
    desk = Desk()
    reply = desk.ask(
        RequestCode.REGISTER_BROKER, {**broker_fields(), "brokerId": "-1"}, registration_body()
    )
    assert (reply.code, reply.remark) == (1, "brokerId must not be negative, not -1")
    assert desk.cluster_info()["brokerAddrTable"] == {}


@pytest.mark.parametrize("field", ["brokerName", "clusterName", "brokerAddr"])
def test_an_unregistration_under_another_name_changes_nothing(field: str) -> None:
    desk = Desk()
    desk.register()
    reply = desk.ask(RequestCode.UNREGISTER_BROKER, {**broker_fields(), field: "other"})
    assert reply.code == ResponseCode.SUCCESS
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}


def test_unit_flags_are_those_of_the_broker_that_announced_the_topic_first() -> None:
    desk = Desk()
    desk.register("b1", addr="1:1", body=registration_body({"t": {"topicSysFlag": 1}, "u": {}}))
    desk.register("b2", addr="2:1", body=registration_body({"t": {"topicSysFlag": 0}, "u": {}}))
    assert desk.topic_list(RequestCode.GET_UNIT_TOPIC_LIST) == ["t"]


def test_filter_servers_of_an_address_in_two_groups_are_shown() -> None:
    desk = Desk()
    with_filter = registration_body(filter_servers=["f:1"])
    desk.register("b1", addr="x:1", cluster="c1", link=1, body=with_filter)
    desk.register("b2", addr="x:1", cluster="c2", link=2)
    assert (desk.route() or {})["filterServerTable"] == {"x:1": ["f:1"]}


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        pytest.param(RequestCode.REGISTER_BROKER, broker_fields(), b"no JSON", id="body"),
        pytest.param(RequestCode.REGISTER_BROKER, broker_fields(), b"\xff{}", id="no-text"),
        pytest.param(RequestCode.REGISTER_BROKER, {}, registration_body(), id="no-fields"),
        pytest.param(
            RequestCode.REGISTER_BROKER,
            {**broker_fields(), "brokerId": "first"},
            registration_body(),
            id="no-number",
        ),
        pytest.param(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, b"{", id="topic"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_a_sentence_of_ours(
    code: RequestCode, fields: dict[str, str | None], body: bytes
) -> None:
    reply = Desk().ask(code, fields, body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    remark = reply.remark or ""
    assert len(remark.split()) > 2
    assert not any(word in remark for word in ("Exception", "Error", "Traceback", "internal"))
