"""All calls of the client, made to a node of ours."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.client.client import NameServerClient
from routebook.client.errors import (
    AllNodesFailed,
    NoNameServers,
    NotReady,
    Refused,
    TopicNotFound,
)
from routebook.client.requests import command, route_question
from routebook.client.routes import SystemTopics
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.wire.codes import RequestCode, ResponseCode
from support import raw
from support.brokers import Broker
from support.builders import mapping_info, registration_body
from support.leaks import nothing_left_behind
from support.nodes import local_node
from support.raw import Peer

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
A_SLAVE = Broker("broker-a", 1, addr="10.0.0.2:10911", cluster="c1")
B = Broker("broker-b", addr="10.0.1.1:10911", cluster="c2")

GROUP_A = BrokerGroup("broker-a", "c1", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
GROUP_B = BrokerGroup("broker-b", "c2", {0: "10.0.1.1:10911"})


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as node:
        yield node


@pytest.fixture
async def brokers(node: NameServer) -> AsyncIterator[None]:
    """broker-a with a slave in c1, broker-b in c2; ``shared`` is on both."""
    async with Peer(node.port) as a, Peer(node.port) as slave, Peer(node.port) as b:
        await A.register(a, ["orders", "shared"])
        await A_SLAVE.register(slave, ["orders", "shared"])
        await B.register(b, ["payments", "shared"])
        yield


@pytest.fixture
async def client(node: NameServer) -> AsyncIterator[NameServerClient]:
    async with nothing_left_behind(), NameServerClient(node.address) as client:
        yield client


# -- routes, brokers, topics


@pytest.mark.usefixtures("brokers")
async def test_a_route_is_typed_sorted_and_says_who_gave_it(
    node: NameServer, client: NameServerClient
) -> None:
    route = await client.route("shared")

    assert route.topic == "shared"
    assert route.brokers == (GROUP_A, GROUP_B)
    assert route.queues == (TopicQueues("broker-a", 8, 8, 6), TopicQueues("broker-b", 8, 8, 6))
    assert route.order_conf is None
    assert route.node == Address("127.0.0.1", node.port)
    group = route.group("broker-a")
    assert group is not None
    assert group.master == "10.0.0.1:10911"
    assert route.group("broker-c") is None


async def test_an_unknown_topic_is_an_error_or_none(
    node: NameServer, client: NameServerClient
) -> None:
    with pytest.raises(TopicNotFound) as raised:
        await client.route("nowhere")

    assert raised.value.code == ResponseCode.TOPIC_NOT_EXIST
    assert raised.value.address == Address.parse(node.address)
    assert "nowhere" in (raised.value.remark or "")
    assert await client.find_route("nowhere") is None


async def test_an_ordered_topic_has_its_configuration(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path, order_message_enable=True) as node,
        Peer(node.port) as broker,
        NameServerClient(node.address) as client,
    ):
        await A.register(broker, ["orders", "payments"])

        await client.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")

        assert (await client.route("orders")).order_conf == "broker-a:8"
        assert (await client.route("payments")).order_conf is None


async def test_a_static_topic_has_its_mappings(node: NameServer, client: NameServerClient) -> None:
    body = registration_body(["static", "plain"], mappings={"static": mapping_info("static")})
    async with Peer(node.port) as broker:
        registered = await broker.ask(raw.REGISTER, A.fields, body)
        assert registered.code == raw.SUCCESS

        mapping = (await client.route("static")).mappings["broker-a"]

    assert (mapping.total_queues, mapping.curr_id_map) == (4, {0: 0, 1: 1})


@pytest.mark.usefixtures("brokers")
async def test_the_cluster_view_has_all_groups_and_clusters(client: NameServerClient) -> None:
    view = await client.cluster_view()

    assert view.brokers == {"broker-a": GROUP_A, "broker-b": GROUP_B}
    assert view.clusters == {"c1": ("broker-a",), "c2": ("broker-b",)}


async def test_the_cluster_view_of_an_empty_node_is_empty(client: NameServerClient) -> None:
    view = await client.cluster_view()

    assert (view.brokers, view.clusters) == ({}, {})


@pytest.mark.usefixtures("brokers")
async def test_a_broker_group_is_found_or_none(client: NameServerClient) -> None:
    assert await client.broker_group("c1", "broker-a") == GROUP_A
    assert await client.broker_group("c1", "broker-c") is None


@pytest.mark.usefixtures("brokers")
async def test_topics_are_listed_sorted(client: NameServerClient) -> None:
    assert await client.topics() == ("orders", "payments", "shared")
    assert await client.topics_of_cluster("c1") == ("orders", "shared")
    assert await client.topics_of_cluster("c2") == ("payments", "shared")
    assert await client.topics_of_cluster("c3") == ()


async def test_system_topics_come_with_the_address_of_a_broker(
    node: NameServer, client: NameServerClient
) -> None:
    assert await client.system_topics() == SystemTopics((), None)

    async with Peer(node.port) as broker:
        await B.register(broker)

        assert await client.system_topics() == SystemTopics(("broker-b", "c2"), "10.0.1.1:10911")


async def test_unit_topics_are_told_apart_by_their_flags(
    node: NameServer, client: NameServerClient
) -> None:
    flags = {"none": 0, "unit": 1, "sub": 2, "both": 3}
    async with Peer(node.port) as broker:
        await A.register(broker, {topic: {"topicSysFlag": flag} for topic, flag in flags.items()})

        assert await client.unit_topics() == ("both", "unit")
        assert await client.unit_sub_topics() == ("both", "sub")
        assert await client.unit_sub_ununit_topics() == ("sub",)


@pytest.mark.usefixtures("brokers")
async def test_a_topic_is_registered_with_known_brokers(client: NameServerClient) -> None:
    await client.register_topic("new", [TopicQueues("broker-b", 3, 2, 6, 1)])

    route = await client.route("new")
    assert route.brokers == (GROUP_B,)
    assert route.queues == (TopicQueues("broker-b", 3, 2, 6, 1),)


@pytest.mark.usefixtures("brokers")
async def test_a_topic_with_an_unknown_broker_is_not_registered(client: NameServerClient) -> None:
    await client.register_topic(
        "new", [TopicQueues("broker-b", 3, 2, 6), TopicQueues("broker-c", 1, 1, 6)]
    )

    assert await client.find_route("new") is None


@pytest.mark.usefixtures("brokers")
async def test_a_topic_is_deleted_in_one_cluster_or_everywhere(client: NameServerClient) -> None:
    await client.delete_topic("shared", cluster="c1")
    assert (await client.route("shared")).brokers == (GROUP_B,)

    await client.delete_topic("shared")
    assert await client.find_route("shared") is None
    assert await client.find_route("orders") is not None


@pytest.mark.usefixtures("brokers")
async def test_write_permission_is_taken_and_given_back_and_topics_are_counted(
    client: NameServerClient,
) -> None:
    assert await client.wipe_write_permission("broker-a") == 2
    wiped = {queues.broker: queues.writable for queues in (await client.route("shared")).queues}
    assert await client.add_write_permission("broker-a") == 2
    given = {queues.broker: queues.writable for queues in (await client.route("shared")).queues}

    assert wiped == {"broker-a": False, "broker-b": True}
    assert given == {"broker-a": True, "broker-b": True}
    assert await client.wipe_write_permission("broker-c") == 0


# -- key-value pairs


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [
        pytest.param("ns", "key", "value", id="plain"),
        pytest.param("ns", "key", "", id="empty-value"),
        pytest.param("空间", "clé", "ключ 🚀", id="unicode"),
        pytest.param("ns", "a=b;c", 'quote " backslash \\ line\nend', id="punctuation"),
    ],
)
async def test_a_pair_is_kept_as_it_was_given(
    client: NameServerClient, namespace: str, key: str, value: str
) -> None:
    await client.put_kv(namespace, key, value)

    assert await client.find_kv(namespace, key) == value
    assert await client.kv_table(namespace) == {key: value}


async def test_a_missing_key_or_namespace_is_none_or_empty(client: NameServerClient) -> None:
    await client.put_kv("ns", "key", "value")

    assert await client.find_kv("ns", "other") is None
    assert await client.find_kv("other", "key") is None
    assert await client.kv_table("other") == {}


async def test_a_deleted_pair_is_gone(client: NameServerClient) -> None:
    await client.put_kv("ns", "key", "value")

    await client.delete_kv("ns", "key")
    await client.delete_kv("ns", "key")

    assert await client.find_kv("ns", "key") is None


# -- the node's own settings


async def test_the_configuration_is_read(node: NameServer, client: NameServerClient) -> None:
    config = await client.config()

    assert config["listenPort"] == str(node.port)
    assert config["bindAddress"] == "127.0.0.1"


async def test_a_refused_update_names_the_node_and_its_reason(
    node: NameServer, client: NameServerClient
) -> None:
    with pytest.raises(Refused) as raised:
        await client.update_config({"enableTopicList": "false"})

    assert raised.value.code == ResponseCode.NO_PERMISSION
    assert node.address in str(raised.value)
    assert "UPDATE_NAMESRV_CONFIG (318) with NO_PERMISSION (16)" in str(raised.value)
    assert "allowRemoteConfig=true" in str(raised.value)


async def test_an_allowed_update_takes_effect(tmp_path: Path) -> None:
    settings: dict[str, object] = {"allow_remote_config": True, "data_dir": tmp_path / "data"}
    async with local_node(tmp_path, **settings) as node, NameServerClient(node.address) as client:
        await client.update_config({"enableTopicList": "false", "waitSecondsForService": "7"})

        config = await client.config()
        assert (config["enableTopicList"], config["waitSecondsForService"]) == ("false", "7")
        with pytest.raises(Refused, match="disable"):
            await client.unit_topics()


async def test_a_node_that_has_just_started_is_not_ready(tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "need_wait_for_service": True,
        "wait_seconds_for_service": 3600,
    }
    async with local_node(tmp_path, **settings) as node, NameServerClient(node.address) as client:
        with pytest.raises(AllNodesFailed) as raised:
            await client.route("orders")

        (failure,) = raised.value.failures
        assert isinstance(failure, NotReady)
        assert await client.topics() == ()  # only routes must wait


# -- how it is asked


async def test_any_request_can_be_asked(node: NameServer, client: NameServerClient) -> None:
    (known, unknown) = await client.ask_many(
        [command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), route_question("nowhere")]
    )

    assert not isinstance(known, Exception)
    assert known.node == Address.parse(node.address)
    assert isinstance(unknown, TopicNotFound)
    assert await client.ask_many([]) == []


async def test_one_node_is_asked_by_its_address(node: NameServer, client: NameServerClient) -> None:
    one = await client.on(node.address)

    await one.put_kv("ns", "key", "value")

    assert one.address == Address.parse(node.address)
    assert await one.find_kv("ns", "key") == "value"
    with pytest.raises(NoNameServers, match=r"127\.0\.0\.9:1"):
        await client.on("127.0.0.9:1")


async def test_every_node_is_asked_at_once(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path / "1") as first,
        local_node(tmp_path / "2") as second,
        NameServerClient([first.address, second.address]) as client,
    ):
        await (await client.on(second.address)).put_kv("ns", "key", "value")

        found = await client.on_every_node(lambda node: node.find_kv("ns", "key"))

        assert found == {
            Address.parse(first.address): None,
            Address.parse(second.address): "value",
        }
        assert await client.nodes() == tuple(sorted(found))
