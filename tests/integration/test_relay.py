"""A relay between raw peers and nodes of ours."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.relay.relay import Relay, RelaySettings
from routebook.relay.rendering import RouteForms
from routebook.settings import ListenSettings, SettingsError, TlsSettings
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.certificates import authority, identity
from support.leaks import nothing_left_behind
from support.misbehaving import Caller, Server, answer
from support.nodes import local_node
from support.raw import Hangup, Peer
from support.relays import age_ms, is_stale, local_relay, register_all, route_body
from support.waiting import eventually, soon

V4_9_3 = 399
EAST = {"__ZONE_MODE": "true", "__ZONE_NAME": "east"}
POLL_S = 0.1
TOPICS = ("orders", "payments")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path / "node") as node:
        yield node


# -- what is answered, compared with the node to the byte


@pytest.mark.parametrize(
    ("code", "fields", "version"),
    [
        pytest.param(raw.ROUTE, {"topic": "orders"}, raw.V5_5_0, id="route"),
        pytest.param(raw.ROUTE, {"topic": "orders"}, V4_9_3, id="route-old"),
        pytest.param(
            raw.ROUTE,
            {"topic": "orders", "acceptStandardJsonOnly": "true"},
            V4_9_3,
            id="route-old-but-standard",
        ),
        pytest.param(raw.ROUTE, {"topic": "static"}, raw.V5_5_0, id="route-static"),
        pytest.param(raw.ROUTE, {"topic": "static"}, V4_9_3, id="route-static-old"),
        pytest.param(raw.ROUTE, {"topic": "t-ö", **EAST}, raw.V5_5_0, id="zone"),
        pytest.param(raw.ROUTE, {"topic": "t-ö", **EAST}, V4_9_3, id="zone-old"),
        pytest.param(raw.ROUTE, {"topic": "nöthing"}, raw.V5_5_0, id="unknown-topic"),
        pytest.param(raw.ROUTE, {}, raw.V5_5_0, id="no-topic"),
        pytest.param(raw.ROUTE, {"topic": "x" * 5000}, raw.V5_5_0, id="huge-topic"),
        pytest.param(raw.CLUSTER_INFO, {}, raw.V5_5_0, id="clusters"),
        pytest.param(raw.CLUSTER_INFO, {}, V4_9_3, id="clusters-old"),
        pytest.param(raw.ALL_TOPICS, {}, raw.V5_5_0, id="topics"),
        pytest.param(
            raw.MEMBER_GROUP,
            {"clusterName": "群集", "brokerName": "brö/ker"},
            raw.V5_5_0,
            id="group",
        ),
        pytest.param(raw.MEMBER_GROUP, {"brokerName": "broker-b"}, raw.V5_5_0, id="no-cluster"),
        pytest.param(
            raw.MEMBER_GROUP,
            {"clusterName": "c2", "brokerName": "nobody"},
            raw.V5_5_0,
            id="unknown-group",
        ),
        pytest.param(raw.MEMBER_GROUP, {"clusterName": "c2"}, raw.V5_5_0, id="no-broker-name"),
    ],
)
async def test_a_relay_answers_what_the_node_answers(
    node: NameServer, code: int, fields: dict[str, str], version: int
) -> None:
    async with (
        Peer(node.port) as broker,
        local_relay(node.address) as relay,
        Peer(relay.port) as peer,
    ):
        await register_all(broker)
        expected = await broker.ask(code, fields, version=version)
        for _ in range(2):  # asked for, then remembered
            relayed = await peer.ask(code, fields, version=version)
            assert (relayed.code, relayed.body) == (expected.code, expected.body)
            if expected.code == raw.SUCCESS:
                assert age_ms(relayed) >= 0
                assert not is_stale(relayed)
            assert relayed.remark == expected.remark


@pytest.mark.parametrize("code", [raw.CLUSTER_INFO, raw.ALL_TOPICS])
async def test_the_lists_of_an_empty_node_are_empty(node: NameServer, code: int) -> None:
    async with local_relay(node.address) as relay, Peer(relay.port) as peer, Peer(node.port) as own:
        expected = await own.ask(code)
        for _ in range(2):
            relayed = await peer.ask(code)
            assert relayed.body == expected.body
            assert age_ms(relayed) >= 0


async def test_a_binary_header_is_answered_in_binary(node: NameServer) -> None:
    async with (
        Peer(node.port) as broker,
        local_relay(node.address) as relay,
        Peer(relay.port) as peer,
    ):
        await register_all(broker)
        expected = await broker.call(raw.ROUTE, topic="orders", version=V4_9_3)
        await peer.send(
            raw.binary_request(raw.ROUTE, {"topic": "orders"}, opaque=77, version=V4_9_3)
        )
        relayed = await peer.read()
        assert (relayed.codec, relayed.opaque) == (raw.BINARY, 77)
        assert relayed.body == expected.body
        assert age_ms(relayed) >= 0


@pytest.mark.parametrize("version", [raw.V5_5_0, V4_9_3])
async def test_a_route_of_300_brokers_passes(node: NameServer, version: int) -> None:
    async with (
        Peer(node.port) as peer_of_node,
        local_relay(node.address) as relay,
        Peer(relay.port) as peer,
    ):
        for i in range(300):
            broker = Broker(f"broker-{i}", addr=f"10.0.{i // 250}.{i % 250}:10911")
            await broker.register(peer_of_node, TOPICS)
        expected = await peer_of_node.call(raw.ROUTE, topic="orders", version=version)
        relayed = await peer.call(raw.ROUTE, topic="orders", version=version)
        assert len(relayed.value["brokerDatas"]) == 300
        assert relayed.body == expected.body


async def test_a_change_arrives_with_the_next_poll(node: NameServer) -> None:
    async with (
        Peer(node.port) as broker,
        local_relay(node.address, poll_s=POLL_S) as relay,
        Peer(relay.port) as peer,
    ):
        await Broker("broker-a").register(broker, TOPICS)
        before = await peer.call(raw.ROUTE, topic="orders")
        await Broker("broker-b", addr="10.0.0.2:10911").register(broker, TOPICS)
        expected = await broker.call(raw.ROUTE, topic="orders")
        assert before.body != expected.body
        await eventually(
            "the new route",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda relayed: relayed.body == expected.body,
        )


async def test_all_who_ask_for_a_new_topic_at_once_cost_one_question() -> None:
    let_go = asyncio.Event()

    async def slowly(caller: Caller) -> None:
        while True:
            request = await caller.request()
            await let_go.wait()
            await caller.send(answer(request.opaque, body=route_body("10.0.0.1:10911")))

    async with (
        Server(slowly) as server,
        local_relay(server.address) as relay,
        AsyncExitStack() as s,
    ):
        peers = [await s.enter_async_context(Peer(relay.port)) for _ in range(20)]
        asked = [asyncio.create_task(peer.call(raw.ROUTE, topic="orders")) for peer in peers]
        await soon("all to wait", relay.status, until=lambda status: status.misses == 20)
        let_go.set()
        answers = await asyncio.gather(*asked)
        assert {a.body for a in answers} == {route_body("10.0.0.1:10911")}
        assert [request.code for request in server.requests].count(raw.ROUTE) == 1


# -- refusals


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (raw.REGISTER, "REGISTER_BROKER"),
        (raw.UNREGISTER, "UNREGISTER_BROKER"),
        (raw.REGISTER_TOPIC, "REGISTER_TOPIC_IN_NAMESRV"),
        (raw.DELETE_TOPIC, "DELETE_TOPIC_IN_NAMESRV"),
        (raw.WIPE_WRITE, "WIPE_WRITE_PERM_OF_BROKER"),
        (raw.PUT_KV, "PUT_KV_CONFIG"),
        (raw.GET_KV, "GET_KV_CONFIG"),
        (raw.UPDATE_CONFIG, "UPDATE_NAMESRV_CONFIG"),
        (raw.QUERY_DATA_VERSION, "QUERY_DATA_VERSION"),
        (raw.HEARTBEAT, "BROKER_HEARTBEAT"),
        (4711, "4711"),
        (-1, "-1"),
    ],
)
async def test_everything_else_is_refused_with_the_place_to_send_it_to(
    node: NameServer, code: int, name: str
) -> None:
    async with local_relay(node.address) as relay, Peer(relay.port) as peer:
        await soon("the nodes", relay.status, until=lambda status: bool(status.nodes))
        refused = await peer.ask(code, Broker().fields, registration_body())
        assert refused.code == raw.NOT_SUPPORTED
        assert refused.remark == (
            "this is a relay: it answers routes (105), clusters (106), topics (206) and broker"
            f" groups (901); send {name} to a NameServer: {node.address}"
        )
        assert relay.status().refused == 1
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.TOPIC_NOT_EXIST


async def test_one_way_requests_are_dropped_with_one_line_for_each_peer(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_relay(node.address) as relay, Peer(relay.port) as peer:
        for opaque in range(10):
            await peer.send(
                raw.request(raw.HEARTBEAT, Broker().fields, flag=raw.ONEWAY, opaque=opaque)
            )
            await peer.send(
                raw.request(raw.ROUTE, {"topic": "a"}, flag=raw.ONEWAY, opaque=100 + opaque)
            )
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.TOPIC_NOT_EXIST
        status = relay.status()
        assert (status.refused, status.misses) == (10, 1)
        [line] = [r.getMessage() for r in caplog.records if "refusing" in r.getMessage()]
        assert line.startswith(f"refusing BROKER_HEARTBEAT of {peer.address}: this is a relay")


async def test_a_fault_of_ours_costs_an_answer_and_not_the_connection(
    node: NameServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        Peer(node.port) as broker,
        local_relay(node.address) as relay,
        Peer(relay.port) as peer,
    ):
        await Broker().register(broker, TOPICS)
        with monkeypatch.context() as fault:
            fault.setattr(RouteForms, "body", None)
            for _ in range(2):  # asked for, then remembered
                failed = await peer.call(raw.ROUTE, topic="orders")
                assert (failed.code, failed.remark) == (raw.SYSTEM_ERROR, "internal error")
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS
    assert len([r for r in caplog.records if r.exc_info]) == 2


# -- starting and stopping


async def test_a_relay_leaves_nothing_behind(node: NameServer) -> None:
    async with (
        nothing_left_behind(),
        local_relay(node.address, poll_s=POLL_S) as relay,
        Peer(relay.port) as peer,
    ):
        for topic in TOPICS:
            await peer.call(raw.ROUTE, topic=topic)
        await peer.call(raw.CLUSTER_INFO)


async def test_a_relay_that_stops_gives_the_answers_under_way_and_closes() -> None:
    let_go = asyncio.Event()

    async def slowly(caller: Caller) -> None:
        while True:
            request = await caller.request()
            await let_go.wait()
            await caller.send(answer(request.opaque, body=route_body("10.0.0.1:10911")))

    async with Server(slowly) as server, nothing_left_behind():
        relay = local_relay(server.address)
        await relay.__aenter__()
        async with Peer(relay.port) as peer:
            await peer.send(raw.request(raw.ROUTE, {"topic": "orders"}, opaque=5))
            await soon("the question", lambda: len(server.requests), until=lambda n: n == 1)
            stopping = asyncio.create_task(relay.__aexit__(None, None, None))
            let_go.set()
            assert (await peer.read()).opaque == 5
            with pytest.raises(Hangup):
                await peer.read()
            await stopping


async def test_a_relay_that_stops_while_a_peer_that_left_is_still_owed_an_answer() -> None:
    async def never(caller: Caller) -> None:
        while True:
            await caller.request()

    async with (
        Server(never) as server,
        nothing_left_behind(),
        local_relay(server.address) as relay,
        Peer(relay.port) as peer,
    ):
        await peer.send(raw.request(raw.ROUTE, {"topic": "orders"}))
        await soon("the question", lambda: len(server.requests), until=lambda n: n == 1)


async def test_a_relay_speaks_tls_on_its_own_port(node: NameServer, tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    server = identity(tmp_path, "server", ours)
    tls = TlsSettings(mode="enforcing", cert_path=server.cert, key_path=server.key)
    context = ssl.create_default_context(cafile=str(ours.cert))
    async with (
        local_relay(node.address, tls=tls) as relay,
        Peer(relay.port, context=context) as peer,
        Peer(relay.port) as plain,
    ):
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.TOPIC_NOT_EXIST
        with pytest.raises(Hangup):
            await plain.call(raw.ROUTE, topic="orders")


async def test_a_taken_port_is_said_in_one_sentence(node: NameServer) -> None:
    listen = ListenSettings(bind_address="127.0.0.1", listen_port=node.port)
    with pytest.raises(SettingsError, match="is in use"):
        await Relay(RelaySettings(nameservers=node.address, listen=listen)).__aenter__()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"nameservers": "not an address"}, "not a NameServer address"),
        ({"poll_s": 0.0}, "must be positive"),
        ({"timeout_s": -1.0}, "must be positive"),
        ({"max_topics": 0}, "room for a topic"),
    ],
)
def test_settings_no_relay_can_work_with_are_refused(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        Relay(RelaySettings(**settings))  # type: ignore[arg-type]
