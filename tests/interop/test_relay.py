"""Real clients and mqadmin through a relay of ours, also when its node is gone.

One broker registers with two nodes, each of which has a relay in front of it; the second node
is stopped by a test, the first one never.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import QUEUES, create_topic
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS, NEW
from interop.support.relays import RelayProcess
from interop.support.remoting import broker_addrs, find_route, stored_messages
from interop.support.servers import NameServerProcess
from support import raw
from support.builders import broker_fields, mapping_info, registration_body
from support.raw import BlockingPeer
from support.waiting import wait_for

MESSAGES = 20

Probe = Callable[[Launcher, str, str, int], str]

other_clients = pytest.mark.parametrize(
    "probe",
    [
        pytest.param(Launcher.go_probe, id="go"),
        pytest.param(Launcher.node_js_probe, id="node"),
        pytest.param(Launcher.cpp_probe, id="cpp"),
    ],
)


@dataclass(frozen=True, slots=True)
class World:
    admin: Admin
    nodes: tuple[NameServerProcess, NameServerProcess]
    relays: tuple[RelayProcess, RelayProcess]
    broker: Broker

    def new_topic(self, name: str) -> str:
        create_topic(self.admin, self.nodes[0].address, self.broker, name)
        wait_for(
            f"{name} at the other node",
            lambda: find_route(self.nodes[1].address, name),
            until=lambda route: route is not None,
        )
        return name


@pytest.fixture(scope="module")
def world(
    shared_launcher: Launcher, admin: Admin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    nodes = shared_launcher.node(), shared_launcher.node()
    broker = shared_launcher.broker(
        NEW,
        ";".join(node.address for node in nodes),
        name="relayed",
        cluster="relayed-cluster",
        registered=False,
    )
    for node in nodes:
        wait_for(
            f"the broker at {node.address}",
            partial(broker_addrs, node.address, broker.name),
            until=lambda addrs: addrs == {"0": broker.address},
        )
    folder = tmp_path_factory.mktemp("relays")
    relays = tuple(
        RelayProcess(folder / str(number), node.address) for number, node in enumerate(nodes)
    )
    first, second = relays
    try:
        yield World(admin, nodes, (first, second), broker)
    finally:
        for relay in relays:
            relay.kill()


@pytest.mark.parametrize("client", BROKER_VERSIONS)
def test_a_java_client_sends_and_receives_through_a_relay(
    world: World, launcher: Launcher, client: str
) -> None:
    topic = world.new_topic(f"java-{client.replace('.', '-')}")
    relay = world.relays[0].address
    sent = launcher.driver("Produce", relay, topic, str(MESSAGES), client=client)
    assert f"sent {MESSAGES}" in sent
    received = launcher.driver("Consume", relay, topic, str(MESSAGES), "60", client=client)
    assert f"received {MESSAGES}" in received


@pytest.mark.parametrize("client", BROKER_VERSIONS)
def test_a_java_client_reads_from_a_relay_the_route_it_reads_from_the_node(
    world: World, launcher: Launcher, client: str
) -> None:
    topic = world.new_topic(f"read-{client.replace('.', '-')}")
    routes = [
        launcher.driver("Route", address, topic, client=client).splitlines()[-1]
        for address in (world.nodes[0].address, world.relays[0].address)
    ]
    assert world.broker.address in routes[0]
    assert routes[0] == routes[1]


@other_clients
def test_a_client_in_another_language_sends_through_a_relay(
    world: World, launcher: Launcher, probe: Probe
) -> None:
    topic = world.new_topic(f"other-{probe.__name__.replace('_', '-')}")
    assert "sent 5" in probe(launcher, world.relays[0].address, topic, 5)
    wait_for(
        "the broker to hold five messages",
        lambda: stored_messages(world.broker.address, topic, queues=QUEUES),
        until=lambda count: count == 5,
    )


def test_mqadmin_prints_through_a_relay_what_it_prints_of_the_node(world: World) -> None:
    topic = world.new_topic("printed")
    node, relay = world.nodes[0].address, world.relays[0].address
    for command in (["topicRoute", "-t", topic], ["topicList"]):
        expected = world.admin.run(node, *command)
        assert topic in expected or world.broker.name in expected
        assert world.admin.run(relay, *command) == expected
    listed = world.admin.run(relay, "clusterList")
    assert world.broker.address in listed
    assert "CODE: 17" in world.admin.run(relay, "topicRoute", "-t", "no-such-topic")


def test_mqadmin_is_told_where_to_send_what_a_relay_refuses(world: World) -> None:
    entry = ["-s", "relayed", "-k", "colour", "-v", "green"]
    printed = world.admin.run(world.relays[0].address, "updateKvConfig", *entry)
    assert "CODE: 3  DESC: this is a relay" in printed
    assert f"send PUT_KV_CONFIG to a NameServer: {world.nodes[0].address}" in printed


def test_a_broker_is_told_that_a_relay_is_no_name_server(world: World, launcher: Launcher) -> None:
    broker = launcher.broker(NEW, world.relays[0].address, name="lost", registered=False)
    wait_for(
        "the reason in the broker's log",
        broker.log_text,
        until=lambda text: "send REGISTER_BROKER to a NameServer" in text,
    )
    assert broker.running
    assert broker_addrs(world.relays[0].address, "lost") == {}


def test_clients_find_their_topics_when_the_node_behind_the_relay_is_gone(
    world: World, launcher: Launcher
) -> None:
    node, relay = world.nodes[1], world.relays[1]
    topic = world.new_topic("outlives-its-node")
    assert relay.route(topic).remark is None
    printed = world.admin.run(relay.address, "topicRoute", "-t", topic)
    clusters = world.admin.run(relay.address, "clusterList")
    assert world.broker.address in clusters

    node.stop()
    stale = wait_for(
        "a stale route",
        lambda: relay.route(topic),
        until=lambda reply: reply.ext_fields.get("routebookStale") == "true",
    )
    assert int(stale.ext_fields["routebookAgeMillis"]) > 0
    assert node.address in (stale.remark or "")

    assert world.admin.run(relay.address, "topicRoute", "-t", topic) == printed
    assert world.broker.address in world.admin.run(relay.address, "clusterList")
    for client in BROKER_VERSIONS:
        sent = launcher.driver("Produce", relay.address, topic, str(MESSAGES), client=client)
        assert f"sent {MESSAGES}" in sent
    assert "sent 5" in launcher.go_probe(relay.address, topic, 5)
    # Both Java clients send the same twenty bodies, and bodies are what is counted.
    received = launcher.driver("Consume", relay.address, topic, str(MESSAGES + 5), "60")
    assert f"received {MESSAGES + 5}" in received
    unknown = world.admin.run(relay.address, "topicRoute", "-t", "never-seen")
    assert "CODE: 1  DESC: this relay has never seen the topic never-seen" in unknown


def test_a_relay_gives_the_answers_of_a_java_name_server(
    launcher: Launcher, tmp_path: Path
) -> None:
    server = launcher.java_name_server()
    with BlockingPeer(server.port) as broker:
        for broker_id in (0, 1):
            fields = broker_fields("brö/ker", broker_id, cluster="群集", __ZONE_NAME="east")
            body = registration_body(["orders", "ö"], mappings={"ö": mapping_info("ö", "brö/ker")})
            given = {key: value for key, value in fields.items() if value is not None}
            assert broker.ask(raw.REGISTER, given, body).code == raw.SUCCESS
        relay = RelayProcess(tmp_path / "relay", server.address)
        try:
            with BlockingPeer(relay.port) as client:
                for code, asked, version in (
                    (raw.ROUTE, {"topic": "orders"}, raw.V5_5_0),
                    (raw.ROUTE, {"topic": "orders"}, 399),
                    (raw.ROUTE, {"topic": "ö"}, raw.V5_5_0),
                    (raw.ROUTE, {"topic": "ö"}, 399),
                    (raw.ROUTE, {"topic": "nothing"}, raw.V5_5_0),
                    (raw.CLUSTER_INFO, {}, raw.V5_5_0),
                    (raw.ALL_TOPICS, {}, raw.V5_5_0),
                    (raw.MEMBER_GROUP, {"clusterName": "群集", "brokerName": "brö/ker"}, 513),
                ):
                    expected = broker.ask(code, asked, version=version)
                    relayed = client.ask(code, asked, version=version)
                    assert (relayed.code, relayed.body) == (expected.code, expected.body)
        finally:
            relay.kill()
