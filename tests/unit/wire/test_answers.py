import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routebook.wire import answers
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.wire.errors import BadBody
from routebook.wire.registration import DataVersion, MappingInfo

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "java-namesrv-5.5.0"

JAVA_GROUP = BrokerGroup("broker-5.5.0", "cluster-5.5.0", {0: "127.0.0.1:27834"})


def recorded(name: str) -> bytes:
    """The body a Java NameServer answered with."""
    body: str = json.loads((GOLDEN / f"{name}.json").read_text())["decoded"]["body"]
    return body.encode()


# -- what Java servers say


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        pytest.param("get-route-java-client-4.9.7", b'{"0":', id="quoted-keys"),
        pytest.param("get-route-node-client-3.12.0", b"{0:", id="bare-keys"),
    ],
)
def test_both_forms_of_a_java_route_say_the_same(name: str, keys: bytes) -> None:
    body = recorded(name)
    assert keys in body

    route = answers.decode_route(body)

    assert route.brokers == [JAVA_GROUP]
    assert route.queues == [TopicQueues("broker-5.5.0", 4, 4, 6)]
    assert route.order_conf == "broker-5.5.0:4"
    assert route.filter_servers == {}
    assert route.mappings is None


@pytest.mark.parametrize("quoted", [True, False], ids=["quoted-keys", "bare-keys"])
def test_a_static_topic_has_its_mappings(*, quoted: bool) -> None:
    body = recorded("get-route-static-topic")
    if not quoted:
        body = body.replace(b'"0":0,"1":1,"2":2', b"0:0,1:1,2:2")

    mappings = answers.decode_route(body).mappings

    assert mappings == {
        "broker-5.5.0": MappingInfo(
            topic="golden-static",
            bname="broker-5.5.0",
            total_queues=3,
            epoch=1794734444827,
            scope="__global__",
            curr_id_map={0: 0, 1: 1, 2: 2},
        )
    }


def test_a_java_cluster_view() -> None:
    view = answers.decode_cluster(recorded("get-broker-cluster-info"))

    assert view.brokers == {"broker-5.5.0": JAVA_GROUP}
    assert view.clusters == {"cluster-5.5.0": ["broker-5.5.0"]}


def test_a_java_broker_group() -> None:
    group = answers.decode_group(recorded("get-broker-member-group-java-broker-5.5.0"))

    assert group == BrokerGroup("acting", "acting", {0: "127.0.0.1:31988"})


def test_a_java_topic_list() -> None:
    listed = answers.decode_topic_list(recorded("get-all-topic-list"))

    assert listed.topic_list is not None
    assert "golden-static" in listed.topic_list
    assert listed.broker_addr is None


def test_a_java_key_value_table() -> None:
    table = answers.decode_kv(recorded("register-broker-slave-java-broker-5.5.0"))

    assert table == {"golden": "broker-5.5.0:4"}


def test_a_java_data_version() -> None:
    version = answers.decode_version(recorded("query-data-version-java-broker-5.5.0"))

    assert version == DataVersion(0, 0, 1794734468192)


# -- what may be missing, null, more, or written otherwise


def test_an_empty_route_says_nothing() -> None:
    route = answers.decode_route(b"{}")

    assert (route.brokers, route.queues, route.order_conf) == (None, None, None)


def test_null_members_count_as_missing() -> None:
    route = answers.decode_route(b'{"brokerDatas":null,"queueDatas":null,"orderTopicConf":null}')

    assert route == answers.decode_route(b"{}")
    assert answers.decode_group(b'{"brokerMemberGroup":null}') is None
    assert answers.decode_kv(b'{"table":null}') == {}
    assert answers.decode_topic_list(b'{"topicList":null}').topic_list is None


def test_unknown_members_are_skipped() -> None:
    group = answers.decode_group(
        b'{"brokerMemberGroup":{"brokerName":"b","minimumBrokerId":[1,{"x":2}],'
        b'"brokerAddrs":{0:"a:1"}},"later":{}}'
    )

    assert group == BrokerGroup("b", None, {0: "a:1"})


def test_broker_ids_may_be_as_large_as_java_has_them() -> None:
    body = b'{"brokerMemberGroup":{"brokerName":"b","brokerAddrs":{9223372036854775807:"a:1"}}}'

    group = answers.decode_group(body)

    assert group == BrokerGroup("b", None, {2**63 - 1: "a:1"})


def test_numbers_may_be_texts() -> None:
    body = b'{"queueDatas":[{"brokerName":"b","perm":"6","readQueueNums":"4"}]}'

    assert answers.decode_route(body).queues == [TopicQueues("b", 4, 0, 6)]


def test_names_may_be_of_any_script() -> None:
    escaped = b'{"topicList":["\\u4E3B\\u9898","\\uD83D\\uDE80"]}'
    plain = '{"topicList":["主题","🚀"]}'.encode()

    assert answers.decode_topic_list(escaped) == answers.decode_topic_list(plain)
    assert answers.decode_topic_list(plain).topic_list == ["主题", "🚀"]


# -- what is no answer

Decode = Callable[[bytes], Any]

DECODERS = [
    pytest.param(answers.decode_route, id="route"),
    pytest.param(answers.decode_cluster, id="cluster"),
    pytest.param(answers.decode_group, id="group"),
    pytest.param(answers.decode_topic_list, id="topic-list"),
    pytest.param(answers.decode_kv, id="key-value-table"),
    pytest.param(answers.decode_version, id="data-version"),
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no JSON", id="text"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"17", id="a-number"),
        pytest.param(b'{"brokerDatas":[', id="cut-short"),
        pytest.param(b"\x78\x9c\x03\x00", id="compressed"),
        pytest.param(b"[" * 200_000, id="deep-lists"),
        pytest.param(b'{"a":' * 200_000, id="deep-objects"),
        pytest.param(b'{"a":' * 5_000 + b"1" + b"}" * 5_000, id="deep-and-whole"),
    ],
)
def test_what_is_no_answer_is_a_bad_body(decode: Decode, body: bytes) -> None:
    with pytest.raises(BadBody):
        decode(body)


def test_a_body_that_is_odd_throughout_is_given_up() -> None:
    with pytest.raises(BadBody, match="departures"):
        answers.decode_route(b"{" + b"0:1," * 260_000 + b"1:1}")


@pytest.mark.parametrize(
    ("decode", "body", "what"),
    [
        (answers.decode_route, b'{"brokerDatas":{}}', "a topic route"),
        (answers.decode_route, b'{"brokerDatas":[{"cluster":"c"}]}', "a topic route"),
        (answers.decode_route, b'{"queueDatas":[{"brokerName":"b","perm":4294967296}]}', "route"),
        (answers.decode_route, b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":""}}]}', "."),
        (answers.decode_cluster, b'{"clusterAddrTable":{"c":"b"}}', "a cluster view"),
        (answers.decode_group, b'{"brokerMemberGroup":[]}', "a broker group"),
        (answers.decode_topic_list, b'{"topicList":{"T":1}}', "a topic list"),
        (answers.decode_topic_list, b'{"topicList":["\xff"]}', "a topic list"),
        (answers.decode_kv, b'{"table":{"k":{}}}', "a key-value table"),
        (answers.decode_version, b'{"counter":"many"}', "a data version"),
    ],
)
def test_json_of_the_wrong_shape_is_a_bad_body_that_says_of_what(
    decode: Decode, body: bytes, what: str
) -> None:
    with pytest.raises(BadBody, match=what):
        decode(body)


# -- what the values say


def test_the_master_is_the_broker_with_id_0() -> None:
    assert BrokerGroup("b", addrs={1: "s:1", 0: "m:1"}).master == "m:1"
    assert BrokerGroup("b", addrs={1: "s:1"}).master is None


@pytest.mark.parametrize(
    ("perm", "readable", "writable"),
    [
        pytest.param(6, True, True, id="both"),
        pytest.param(4, True, False, id="read-only"),
        pytest.param(2, False, True, id="write-only"),
        pytest.param(0, False, False, id="neither"),
        pytest.param(1, False, False, id="inherit-only"),
    ],
)
def test_permission_bits(*, perm: int, readable: bool, writable: bool) -> None:
    queues = TopicQueues("b", 4, 4, perm)

    assert (queues.readable, queues.writable) == (readable, writable)
