"""mqadmin 5.5.0 against our node, each command checked on what it prints."""

import pytest

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import QUEUES, Cluster
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS, NEW
from interop.support.remoting import (
    GET_KV_CONFIG,
    QUERY_NOT_FOUND,
    SUCCESS,
    Connection,
    Reply,
    find_route,
    loads_with_bare_keys,
)
from routebook.client.sync import SyncNameServerClient
from support.waiting import wait_for


def rows(table: str) -> list[list[str]]:
    """Cells of the lines of a table, without its head."""
    return [line.split() for line in table.splitlines() if line and not line.startswith("#")]


def kv_config(cluster: Cluster, namespace: str, key: str) -> Reply:
    with Connection(cluster.namesrv) as node:
        return node.call(GET_KV_CONFIG, namespace=namespace, key=key)


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.master(NEW)


def test_cluster_list_run_as_its_own_program(cluster: Cluster, launcher: Launcher) -> None:
    brokers = [cluster.master(version) for version in BROKER_VERSIONS]
    listed = rows(launcher.mqadmin("clusterList", "-n", cluster.namesrv))
    for broker in brokers:
        release = f"V{broker.version.replace('.', '_')}"
        assert [broker.cluster, broker.name, "0", broker.address, release] in [
            cells[:5] for cells in listed
        ]


def test_topic_list(cluster: Cluster, admin: Admin) -> None:
    topics = {cluster.new_topic(version) for version in BROKER_VERSIONS}
    listed = admin.run(cluster.namesrv, "topicList").splitlines()
    assert topics | {"TBW102"} <= set(listed)
    assert len(listed) == len(set(listed))


def test_topic_list_with_clusters(cluster: Cluster, admin: Admin, broker: Broker) -> None:
    topic = cluster.new_topic(NEW)
    listed = rows(admin.run(cluster.namesrv, "topicList", "-c"))
    assert [broker.cluster, topic] in [cells[:2] for cells in listed]


def test_topic_route(cluster: Cluster, admin: Admin, broker: Broker) -> None:
    topic = cluster.new_topic(NEW)
    printed = admin.run(cluster.namesrv, "topicRoute", "-t", topic)
    # Pretty-printed by the client, bare integer keys and all.
    assert loads_with_bare_keys("".join(printed.split()).encode()) == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": broker.address},
                "brokerName": broker.name,
                "cluster": broker.cluster,
                "enableActingMaster": False,
            }
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": broker.name,
                "perm": 6,
                "readQueueNums": QUEUES,
                "topicSysFlag": 0,
                "writeQueueNums": QUEUES,
            }
        ],
    }


def test_topic_route_of_an_unknown_topic(cluster: Cluster, admin: Admin) -> None:
    printed = admin.run(cluster.namesrv, "topicRoute", "-t", "no-such-topic")
    assert "CODE: 17  DESC: No topic route info in name server" in printed


def test_update_topic(cluster: Cluster, admin: Admin, broker: Broker) -> None:
    options = ["-t", "updated", "-c", broker.cluster, "-r", "3", "-w", "2", "-p", "4"]
    printed = admin.run(cluster.namesrv, "updateTopic", *options)
    assert f"create topic to {broker.address} success." in printed
    route = find_route(cluster.namesrv, "updated")
    assert route is not None
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 4)


def test_update_topic_with_order_gives_the_route_an_order_configuration(
    cluster: Cluster, admin: Admin, broker: Broker
) -> None:
    options = ["-t", "ordered", "-c", broker.cluster, "-w", "2", "-o", "true"]
    printed = admin.run(cluster.namesrv, "updateTopic", *options)
    assert f"set cluster orderConf. isOrder=true, orderConf=[{broker.name}:2]" in printed
    route = find_route(cluster.namesrv, "ordered")
    assert route is not None
    assert route["orderTopicConf"] == f"{broker.name}:2"


def test_delete_topic(cluster: Cluster, admin: Admin, broker: Broker) -> None:
    topic = cluster.new_topic(NEW)
    printed = admin.run(cluster.namesrv, "deleteTopic", "-t", topic, "-c", broker.cluster)
    assert f"delete topic [{topic}] from cluster [{broker.cluster}] success." in printed
    assert f"delete topic [{topic}] from NameServer success." in printed
    assert find_route(cluster.namesrv, topic) is None


def test_update_and_delete_kv_config(cluster: Cluster, admin: Admin) -> None:
    entry = ["-s", "interop", "-k", "colour"]
    printed = admin.run(cluster.namesrv, "updateKvConfig", *entry, "-v", "grün")
    assert "create or update kv config to namespace success." in printed
    assert kv_config(cluster, "interop", "colour") == Reply(SUCCESS, ext_fields={"value": "grün"})

    printed = admin.run(cluster.namesrv, "deleteKvConfig", *entry)
    assert "delete kv config from namespace success." in printed
    assert kv_config(cluster, "interop", "colour").code == QUERY_NOT_FOUND


def test_wipe_and_add_write_perm(cluster: Cluster, admin: Admin, broker: Broker) -> None:
    topic = cluster.new_topic(NEW)
    where = f"of broker[{broker.name}] in name server[{cluster.namesrv}] OK, "

    printed = admin.run(cluster.namesrv, "wipeWritePerm", "-b", broker.name)
    head, _, wiped = printed.strip().rpartition(where)
    assert head == "wipe write perm "
    assert int(wiped) > 1
    assert permission(cluster, topic) == 4

    printed = admin.run(cluster.namesrv, "addWritePerm", "-b", broker.name)
    assert printed.strip() == f"add write perm {where}{wiped}"
    assert permission(cluster, topic) == 6


def test_what_mqadmin_wiped_is_given_back_as_the_broker_registered_it(
    cluster: Cluster, admin: Admin, broker: Broker
) -> None:
    topic, archive = cluster.new_topic(NEW), cluster.new_topic(NEW)
    queues = ["-r", str(QUEUES), "-w", str(QUEUES)]
    options = ["-b", broker.address, "-t", archive, "-p", "4", *queues]
    admin.run(cluster.namesrv, "updateTopic", *options)
    wait_for(
        "a topic to be read only",
        lambda: permission(cluster, archive),
        until=lambda perm: perm == 4,
    )

    admin.run(cluster.namesrv, "wipeWritePerm", "-b", broker.name)
    assert (permission(cluster, topic), permission(cluster, archive)) == (4, 4)
    with SyncNameServerClient(cluster.namesrv) as client:
        state = client.restore_write_permission(broker.name)

    # The broker has a topic of its own that nobody may write.
    assert {archive, f"rmq_sys_SYNC_BROKER_MEMBER_{broker.name}"} <= set(state.kept)
    assert topic not in state.kept
    assert state.taken == ()
    assert (permission(cluster, topic), permission(cluster, archive)) == (6, 4)


def permission(cluster: Cluster, topic: str) -> int:
    route = find_route(cluster.namesrv, topic)
    assert route is not None
    (queues,) = route["queueDatas"]
    return int(queues["perm"])


def test_get_namesrv_config(cluster: Cluster, admin: Admin) -> None:
    printed = admin.run(cluster.namesrv, "getNamesrvConfig")
    assert f"============{cluster.namesrv}============" in printed
    assert ["listenPort", "=", str(cluster.node.port)] in rows(printed)


def test_update_namesrv_config_is_refused_and_says_which_switch_allows_it(
    cluster: Cluster, admin: Admin
) -> None:
    options = ["-k", "orderMessageEnable", "-v", "true"]
    printed = admin.run(cluster.namesrv, "updateNamesrvConfig", *options)
    assert "CODE: 16" in printed
    assert "allowRemoteConfig" in printed
    assert "update name server config success!" not in printed
