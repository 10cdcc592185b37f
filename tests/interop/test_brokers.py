"""Real brokers of both releases against our node: register, serve, fail, leave, come back."""

import json
from typing import Any

import pytest

from interop.support.admin import Admin
from interop.support.cluster import QUEUES, Cluster, create_topic
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS, OLD
from interop.support.remoting import (
    broker_addrs,
    find_route,
    stored_messages,
    topics_of_broker,
)
from interop.support.servers import NameServerProcess
from support.waiting import wait_for

# Every broker has this topic from its first start on.
BUILT_IN_TOPIC = "TBW102"

for_both_releases = pytest.mark.parametrize("version", BROKER_VERSIONS)


def wait_until_gone(namesrv: str, topic: str) -> None:
    wait_for(
        f"the route of {topic} to go",
        lambda: find_route(namesrv, topic),
        until=lambda route: route is None,
    )


def wait_for_cause_of_leaving(node: NameServerProcess, cause: str) -> None:
    """Wait for the event line of the one broker that left; lines are written a moment later."""

    def causes() -> list[str]:
        whole_lines = node.log_text().split("\n")[:-1]
        left = [line for line in whole_lines if '"event":"BrokerLeft"' in line]
        return [json.loads(line[line.index("{") :])["cause"] for line in left]

    wait_for("the event of leaving", causes, until=lambda seen: seen == [cause])


@for_both_releases
def test_a_master_registers(cluster: Cluster, version: str) -> None:
    broker = cluster.master(version)
    assert broker_addrs(cluster.namesrv, broker.name) == {"0": broker.address}
    route = find_route(cluster.namesrv, BUILT_IN_TOPIC)
    assert route is not None
    entry = next(data for data in route["brokerDatas"] if data["brokerName"] == broker.name)
    assert entry["cluster"] == broker.cluster
    assert entry["brokerAddrs"] == {"0": broker.address}


@for_both_releases
def test_a_compressed_registration_is_read(
    node: NameServerProcess, launcher: Launcher, version: str
) -> None:
    # 5.5.0 labels what it compressed as uncompressed; RocketMQ's own NameServer 5.5.0 refuses it.
    broker = launcher.broker(version, node.address, settings={"compressedRegister": "true"})
    route = find_route(node.address, BUILT_IN_TOPIC)
    assert route is not None
    assert [data["brokerName"] for data in route["queueDatas"]] == [broker.name]


@for_both_releases
def test_a_slave_gets_the_master_and_the_ha_address(
    cluster: Cluster, launcher: Launcher, version: str
) -> None:
    master = cluster.master(version)
    topic = cluster.new_topic(version)
    launcher.driver("Produce", cluster.namesrv, topic, "20")

    slave = launcher.broker(
        version, cluster.namesrv, name=master.name, cluster=master.cluster, broker_id=1
    )

    assert broker_addrs(cluster.namesrv, master.name) == {"0": master.address, "1": slave.address}
    wait_for(
        "the messages on the slave, copied over the HA address",
        lambda: stored_messages(slave.address, topic, queues=QUEUES),
        until=lambda stored: stored == 20,
    )
    if version == OLD:
        wait_for(
            "the topic table on the slave, copied from the master's address",
            lambda: topics_of_broker(slave.address),
            until=lambda topics: topic in topics,
        )
    else:  # copies the table only after a minute, but says at once what it was told
        assert f"Update master address from null to {master.address}" in slave.log_text()

    slave.kill()
    wait_for(
        "the slave to go and the master to stay",
        lambda: broker_addrs(cluster.namesrv, master.name),
        until=lambda addrs: addrs == {"0": master.address},
    )


@for_both_releases
def test_a_java_client_of_the_same_release_sends_and_receives_1000_messages(
    cluster: Cluster, launcher: Launcher, version: str
) -> None:
    topic = cluster.new_topic(version)
    sent = launcher.driver("Produce", cluster.namesrv, topic, "1000", client=version)
    assert "sent 1000" in sent
    received = launcher.driver("Consume", cluster.namesrv, topic, "1000", "60", client=version)
    assert "received 1000" in received


@for_both_releases
def test_a_topic_made_with_mqadmin_appears(cluster: Cluster, admin: Admin, version: str) -> None:
    broker = cluster.master(version)
    topic = f"made-with-mqadmin-{version.replace('.', '-')}"
    assert find_route(cluster.namesrv, topic) is None

    create_topic(admin, cluster.namesrv, broker, topic)

    route = find_route(cluster.namesrv, topic)
    assert route is not None
    assert route["queueDatas"] == [
        {
            "brokerName": broker.name,
            "perm": 6,
            "readQueueNums": QUEUES,
            "topicSysFlag": 0,
            "writeQueueNums": QUEUES,
        }
    ]


@for_both_releases
def test_the_route_of_a_killed_broker_is_gone_with_its_connection(
    node: NameServerProcess, launcher: Launcher, version: str
) -> None:
    broker = launcher.broker(version, node.address)
    assert find_route(node.address, BUILT_IN_TOPIC) is not None
    broker.kill()
    wait_until_gone(node.address, BUILT_IN_TOPIC)
    assert broker_addrs(node.address, broker.name) == {}
    wait_for_cause_of_leaving(node, "connection_closed")


@for_both_releases
def test_a_broker_stopped_normally_unregisters(
    node: NameServerProcess, launcher: Launcher, version: str
) -> None:
    broker = launcher.broker(version, node.address)
    assert find_route(node.address, BUILT_IN_TOPIC) is not None
    broker.terminate()
    wait_until_gone(node.address, BUILT_IN_TOPIC)
    assert broker_addrs(node.address, broker.name) == {}
    wait_for_cause_of_leaving(node, "unregister")


def test_brokers_come_back_with_their_next_registration_after_the_node_restarted(
    launcher: Launcher,
) -> None:
    node = launcher.node({"warmRestart": "false"})
    settings = {"registerNameServerPeriod": "10000"}  # the shortest a broker accepts
    brokers = [launcher.broker(v, node.address, settings=settings) for v in BROKER_VERSIONS]

    node.restart()

    def addresses() -> dict[str, Any]:
        return {broker.name: broker_addrs(node.address, broker.name) for broker in brokers}

    wait_for(
        "both brokers",
        addresses,
        until=lambda seen: seen == {broker.name: {"0": broker.address} for broker in brokers},
    )
    route = find_route(node.address, BUILT_IN_TOPIC)
    assert route is not None
    assert {data["brokerName"] for data in route["brokerDatas"]} == {b.name for b in brokers}
