"""Real brokers and a node that is stopped for longer than their leases."""

from interop.support.freezing import freeze
from interop.support.launcher import Launcher
from interop.support.peers import NEW

STOPPED_S = 7.0
LEASE_S = 4.0
# Brokers name a lease, and send the signs of life it needs, only when a slave may act as master.
SHORT = {
    "enableSlaveActingMaster": "true",
    "brokerNotActiveTimeoutMillis": str(int(LEASE_S * 1000)),
    "brokerHeartbeatInterval": "500",
}


def test_nobody_alive_leaves_a_node_that_was_stopped(launcher: Launcher) -> None:
    left, stalls = freeze(
        launcher,
        {"broker-a": NEW, "broker-b": NEW},
        settings=SHORT,
        stopped_s=STOPPED_S,
        lease_s=LEASE_S,
    )
    assert [event.broker for event in left] == ["broker-b"]
    assert max(stall.longest_ms for stall in stalls) >= (STOPPED_S - 1) * 1000
