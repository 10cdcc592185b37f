"""The Go, Node and C++ clients: each resolves a route at our node and sends to a real broker."""

from collections.abc import Callable

import pytest

from interop.support.cluster import QUEUES, Cluster
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS
from interop.support.remoting import stored_messages
from support.waiting import wait_for

Probe = Callable[[Launcher, str, str, int], str]


@pytest.mark.parametrize("version", BROKER_VERSIONS)
@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(Launcher.go_probe, id="go"),
        pytest.param(Launcher.node_js_probe, id="node"),
        pytest.param(Launcher.cpp_probe, id="cpp"),
    ],
)
def test_a_client_in_another_language_sends_through_the_node(
    cluster: Cluster, launcher: Launcher, probe: Probe, version: str
) -> None:
    topic = cluster.new_topic(version)
    assert "sent 5" in probe(launcher, cluster.namesrv, topic, 5)
    broker = cluster.master(version)
    # A broker counts a message some time after it has acknowledged it.
    wait_for(
        "the broker to hold five messages",
        lambda: stored_messages(broker.address, topic, queues=QUEUES),
        until=lambda count: count == 5,
    )
