"""Every other request a node answers."""

from typing import Any

import pytest

from routebook.handlers.dispatch import HANDLERS, REJECTIONS
from routebook.state.errors import StateError
from routebook.wire.codes import RequestCode, ResponseCode, Version
from support.builders import broker_fields, registration_body
from support.desk import Desk


def test_all_codes_of_the_protocol_have_a_handler_but_those_we_send() -> None:
    sent = {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, RequestCode.ROUTEBOOK_ROUTES}
    assert set(HANDLERS) == set(RequestCode) - sent
    assert sum(code < RequestCode.ROUTEBOOK_HEALTH for code in HANDLERS) == 23


def test_every_state_error_has_a_response_code() -> None:
    assert set(StateError.__subclasses__()) <= set(REJECTIONS)


def test_an_unknown_code_is_answered_as_such() -> None:
    reply = Desk().ask(99_999)
    assert (reply.code, reply.remark) == (3, " request type 99999 not supported")


def test_a_bug_in_a_handler_is_an_answer_and_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(HANDLERS, RequestCode.GET_NAMESRV_CONFIG, broken)
    reply = Desk().ask(RequestCode.GET_NAMESRV_CONFIG)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "internal error")
    assert "request 319 of peer-1 failed" in caplog.text


# -- routes


def test_an_unknown_topic_is_answered_with_the_words_operators_grep() -> None:
    reply = Desk().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "x"})
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert (reply.remark or "").startswith(
        "No topic route info in name server for the topic: x\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.\n"
    )


@pytest.mark.parametrize(
    ("version", "fields", "bare"),
    [
        pytest.param(400, {}, True, id="before-4.9.4"),
        pytest.param(401, {}, False, id="from-4.9.4"),
        pytest.param(0, {"acceptStandardJsonOnly": "true"}, False, id="asked-for"),
        pytest.param(0, {"acceptStandardJsonOnly": "yes"}, True, id="only-true-is-true"),
    ],
)
def test_integer_keys_of_a_route_are_bare_for_old_callers(
    version: int, fields: dict[str, str | None], bare: bool
) -> None:
    desk = Desk()
    desk.register()
    reply = desk.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders", **fields}, version=version
    )
    key = b"0" if bare else b'"0"'
    assert (
        reply.body
        == (
            b'{"brokerDatas":[{"brokerAddrs":{%b:"10.0.0.1:10911"},"brokerName":"broker-a",'
            b'"cluster":"c1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":['
            b'{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,'
            b'"writeQueueNums":8}]}'
        )
        % key
    )


def test_routes_wait_for_brokers_after_a_start_if_configured() -> None:
    desk = Desk(need_wait_for_service=True, wait_seconds_for_service=45)
    desk.register()
    reply = desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    desk.now_ms += 45_000
    assert desk.route() is not None


def test_order_configuration_comes_with_the_route_if_enabled() -> None:
    desk = Desk()
    desk.register()
    desk.ask(
        RequestCode.PUT_KV_CONFIG,
        {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"},
    )
    assert "orderTopicConf" not in (desk.route() or {})
    desk.use(order_message_enable=True)
    assert (desk.route() or {})["orderTopicConf"] == "broker-a:4"


@pytest.mark.parametrize(
    ("fields", "brokers"),
    [
        pytest.param({"__ZONE_MODE": "TRUE", "__ZONE_NAME": "Z1"}, {"broker-a"}, id="case-free"),
        pytest.param({"__ZONE_MODE": "true", "__ZONE_NAME": "z9"}, set(), id="nobody-there"),
        pytest.param({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, {"broker-a", "broker-b"}, id="-"),
        pytest.param({"__ZONE_NAME": "z1"}, {"broker-a", "broker-b"}, id="mode-off"),
    ],
)
def test_a_zoned_client_gets_the_brokers_of_its_zone(
    fields: dict[str, str], brokers: set[str]
) -> None:
    desk = Desk()
    desk.register("broker-a", addr="a:1", __ZONE_NAME="z1")
    desk.register("broker-b", addr="b:1", __ZONE_NAME="z2")
    route = desk.route("orders", version=Version.V5_5_0, **fields)
    assert route is not None
    assert {data["brokerName"] for data in route["brokerDatas"]} == brokers
    assert {data["brokerName"] for data in route["queueDatas"]} == brokers


def test_a_zoned_client_keeps_a_group_without_a_master() -> None:
    desk = Desk()
    desk.register(broker_id=1, enableActingMaster="false", __ZONE_NAME="z2")
    route = desk.route(__ZONE_MODE="true", __ZONE_NAME="z1")
    assert route is not None
    assert len(route["brokerDatas"]) == 1


# -- heartbeats


def test_a_heartbeat_extends_the_lease_and_revives_nobody() -> None:
    desk = Desk()
    desk.register(link=1, heartbeatTimeoutMillis="1000")
    desk.now_ms += 900
    assert desk.ask(RequestCode.BROKER_HEARTBEAT, broker_fields()).code == 0
    assert desk.expire(900) == []
    desk.ask(RequestCode.UNREGISTER_BROKER, broker_fields())
    assert desk.ask(RequestCode.BROKER_HEARTBEAT, broker_fields()).code == 0
    assert desk.route() is None


def test_a_data_version_query_says_whether_it_is_news() -> None:
    desk = Desk()
    known = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    reply = desk.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), known)
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, b"")
    desk.register()
    reply = desk.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), known)
    assert (reply.ext_fields, reply.body) == ({"changed": "false"}, known)
    for other in (b"{}", b"", known.replace(b":1,", b":2,")):
        reply = desk.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), other)
        assert (reply.ext_fields, reply.body) == ({"changed": "true"}, known)


def test_the_member_group_shows_true_ids_and_an_unknown_broker_none() -> None:
    desk = Desk(support_acting_master=True)
    desk.register(broker_id=1, enableActingMaster="true")
    reply = desk.ask(RequestCode.GET_BROKER_MEMBER_GROUP, broker_fields())
    assert reply.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"c1"}}'
    )
    reply = desk.ask(RequestCode.GET_BROKER_MEMBER_GROUP, broker_fields("nobody"))
    assert reply.code == ResponseCode.SUCCESS
    assert b'"brokerAddrs":{}' in reply.body


# -- lists


def test_the_cluster_listing_names_clusters_and_brokers() -> None:
    desk = Desk()
    assert desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body == (
        b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    )
    desk.register()
    desk.register(broker_id=1)
    assert desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO, version=513).body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
        b'"brokerName":"broker-a","cluster":"c1","enableActingMaster":false}},'
        b'"clusterAddrTable":{"c1":["broker-a"]}}'
    )


def test_topic_lists_by_cluster_and_flag() -> None:
    desk = Desk()
    flags = {"none": 0, "unit": 1, "sub": 2, "both": 3}
    desk.register(body=registration_body({t: {"topicSysFlag": f} for t, f in flags.items()}))
    desk.register("broker-b", cluster="c2", addr="b:1", body=registration_body(["x", "none"]))
    listed = desk.topic_list
    assert listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == [
        "both", "none", "sub", "unit", "x",
    ]  # fmt: skip
    assert listed(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c2") == ["none", "x"]
    assert listed(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c9") == []
    assert listed(RequestCode.GET_UNIT_TOPIC_LIST) == ["both", "unit"]
    assert listed(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
    assert listed(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


def test_system_topics_are_names_and_a_broker_to_ask() -> None:
    desk = Desk()
    assert desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body == b'{"topicList":[]}'
    desk.register()
    assert desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body == (
        b'{"brokerAddr":"10.0.0.1:10911","topicList":["c1","broker-a"]}'
    )


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "enable_all_topic_list"),
        (RequestCode.GET_TOPICS_BY_CLUSTER, "enable_topic_list"),
        (RequestCode.GET_UNIT_TOPIC_LIST, "enable_topic_list"),
        (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, "enable_topic_list"),
        (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "enable_topic_list"),
    ],
)
def test_lists_can_be_switched_off(code: RequestCode, setting: str) -> None:
    settings: dict[str, Any] = {setting: False}
    reply = Desk(**settings).ask(code, {"cluster": "c1"})
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


# -- administration


def test_permission_changes_count_topics_touched() -> None:
    desk = Desk()
    desk.register()
    broker: dict[str, str | None] = {"brokerName": "broker-a"}
    for _ in range(2):
        reply = desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker)
        assert reply.ext_fields == {"wipeTopicCount": "2"}
        assert desk.perms() == {"broker-a": 4}
    assert desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker).ext_fields == {
        "addTopicCount": "2"
    }
    assert desk.perms() == {"broker-a": 6}
    reply = desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "nobody"})
    assert reply.ext_fields == {"wipeTopicCount": "0"}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    desk = Desk()
    desk.register("broker-a", addr="a:1", cluster="c1")
    desk.register("broker-b", addr="b:1", cluster="c2")
    topic: dict[str, str | None] = {"topic": "orders"}
    desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {**topic, "clusterName": "c1"})
    assert list(desk.addrs()) == ["broker-b"]
    desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {**topic, "clusterName": "nowhere"})
    assert list(desk.addrs()) == ["broker-b"]
    desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {**topic, "clusterName": ""})
    assert desk.route() is None


def test_a_topic_is_announced_on_registered_brokers() -> None:
    desk = Desk()
    desk.register()
    body = (
        b'{"queueDatas":[{"brokerName":"broker-a","perm":4,"readQueueNums":3,"topicSysFlag":1,'
        b'"writeQueueNums":2}]}'
    )
    assert desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "new"}, body).code == 0
    assert (desk.route("new") or {})["queueDatas"] == [
        {
            "brokerName": "broker-a",
            "perm": 4,
            "readQueueNums": 3,
            "topicSysFlag": 1,
            "writeQueueNums": 2,
        }
    ]
    assert desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "none"}).code == 0
    assert desk.route("none") is None
    desk.ask(RequestCode.UNREGISTER_BROKER, broker_fields())
    assert desk.route("new") is None


def test_the_configuration_is_answered_as_text() -> None:
    assert Desk().ask(RequestCode.GET_NAMESRV_CONFIG).body == b"listenPort=9876\n"


# -- key-value pairs


def test_pairs_are_put_read_listed_and_deleted() -> None:
    desk = Desk()
    item: dict[str, str | None] = {"namespace": "n", "key": "k"}
    reply = desk.ask(RequestCode.GET_KV_CONFIG, item)
    assert (reply.code, reply.remark, reply.ext_fields) == (
        ResponseCode.QUERY_NOT_FOUND,
        "No config item, Namespace: n Key: k",
        {},
    )
    reply = desk.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"})
    assert (reply.code, reply.remark) == (22, "No config item, Namespace: n")
    assert desk.ask(RequestCode.PUT_KV_CONFIG, {**item, "value": "v"}).code == 0
    assert desk.ask(RequestCode.GET_KV_CONFIG, item).ext_fields == {"value": "v"}
    assert desk.ask(RequestCode.DELETE_KV_CONFIG, item).code == 0
    assert desk.ask(RequestCode.DELETE_KV_CONFIG, item).code == 0
    reply = desk.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"})
    assert (reply.code, reply.body) == (0, b'{"table":{}}')


@pytest.mark.parametrize("missing", ["namespace", "key"])
def test_a_pair_without_namespace_or_key_is_refused(missing: str) -> None:
    fields: dict[str, str | None] = {"namespace": "n", "key": "k", "value": "v"}
    del fields[missing]
    reply = Desk().ask(RequestCode.PUT_KV_CONFIG, fields)
    assert (reply.code, reply.remark) == (1, "namespace or key is null")


def test_pairs_beyond_the_limit_are_refused() -> None:
    desk = Desk(max_kv_bytes=10)
    fields: dict[str, str | None] = {"namespace": "n", "key": "k", "value": "v" * 10}
    reply = desk.ask(RequestCode.PUT_KV_CONFIG, fields)
    assert "exceed the limit of 10" in (reply.remark or "")
    assert desk.ask(RequestCode.PUT_KV_CONFIG, {**fields, "value": "v" * 8}).code == 0


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("t" * 127, id="topic"),
        pytest.param("%RETRY%" + "g" * 255, id="retry"),
        pytest.param("%DLQ%" + "g" * 255, id="dead-letters"),
        pytest.param("%RETRY%" + "g" * 255 + "_" + "t" * 127, id="retry-of-pop"),
        pytest.param("rmq_sys_SYNC_BROKER_MEMBER_" + "b" * 255, id="members-of-a-broker"),
    ],
)
def test_the_longest_names_rocketmq_makes_are_taken(topic: str) -> None:
    desk = Desk()
    assert desk.register("b" * 255, body=registration_body([topic, "other"])).code == 0
    assert desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code == 0


def test_names_longer_than_any_real_one_are_refused() -> None:
    desk = Desk()
    reply = desk.register("b" * 5000)
    assert (reply.code, reply.remark) == (1, "brokerName is longer than 390 characters")
    reply = desk.register(body=registration_body(["t" * 5000, "other"]))
    assert (reply.code, reply.remark) == (1, "a topic name is longer than 390 characters")
    reply = desk.register(body=registration_body(["t" * 391, "other"]))
    assert (reply.code, reply.remark) == (1, "a topic name is longer than 390 characters")
    reply = desk.register(body=registration_body(["é" * 128, "other"]))
    assert (reply.code, reply.remark) == (1, "a topic name is longer than 127 characters")
    assert desk.register(body=registration_body(["é" * 127, "other"])).code == 0
    reply = desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t" * 1_000_000})
    assert len(reply.remark or "") < 5000
