"""A node that is stopped for a while blames nobody for it, and says so."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from routebook.events import BrokerLeft, Cause, NodeStalled
from routebook.testing import LocalBroker, Workbench
from support.memories import events_of, health
from support.nodes import NodeProcess
from support.waiting import wait_for

LEASE_MS = 2500
STOPPED_S = 5.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", "--journal-window-seconds", "1") as node:
        yield node


@pytest.fixture
def brokers(tmp_path: Path, node: NodeProcess) -> Iterator[dict[str, LocalBroker]]:
    """Four that are heard of five times a lease."""
    with Workbench(tmp_path / "brokers") as bench:
        yield {
            name: bench.broker(
                name,
                topics=["orders"],
                nameservers=f"127.0.0.1:{node.port}",
                heartbeat_timeout_ms=LEASE_MS,
                heartbeat="light",
                heartbeat_s=LEASE_MS / 5000,
            )
            for name in ("broker-a", "broker-b", "broker-c", "broker-d")
        }


@contextmanager
def stopped(node: NodeProcess) -> Iterator[None]:
    node.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.signal(signal.SIGCONT)


def departures(node: NodeProcess) -> list[BrokerLeft]:
    return events_of(node.data_dir / "journal", BrokerLeft)


def test_nobody_alive_leaves_a_node_that_was_stopped(
    node: NodeProcess, brokers: dict[str, LocalBroker]
) -> None:
    with stopped(node):
        brokers["broker-b"].hang()
        brokers["broker-c"].close()  # without a word
        time.sleep(STOPPED_S)
    left = wait_for("two to leave", lambda: departures(node), until=lambda left: len(left) > 1)
    assert {(event.broker, event.cause) for event in left} == {
        ("broker-b", Cause.EXPIRED),
        ("broker-c", Cause.EXPIRED),
    }
    time.sleep(1.2 * LEASE_MS / 1000)
    assert len(departures(node)) == 2
    stalls = events_of(node.data_dir / "journal", NodeStalled)
    stall = max(stalls, key=lambda stall: stall.longest_ms)  # a busy machine has others
    assert stall.to_ms - stall.from_ms >= STOPPED_S * 1000 - 500
    assert 0 < stall.longest_ms <= stall.to_ms - stall.from_ms
    assert stall.clock_ms == 0
    with node.connect() as peer:
        told = health(peer)["stalls"]
    assert told["count"] >= len(stalls)
    assert told["paused_ms"] >= stall.longest_ms
    assert told["last"]["from_ms"] >= stall.from_ms
    assert node.lines_with("WARNING", "NodeStalled")
