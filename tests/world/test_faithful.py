"""A node of the world writes what a real one writes when the same happens to it."""

import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from routebook.events import (
    Event,
    HeartbeatGaps,
    NodeStalled,
    NodeStarted,
    RegistrationCompleted,
    RouteQueries,
)
from support.brokers import Broker
from support.memories import all_written, records, written
from support.nodes import NodeProcess
from support.raw import UNREGISTER, BlockingPeer
from world.plan import (
    BrokerPlan,
    BrokerStops,
    FleetPlan,
    NodeDown,
    NodePlan,
    NodeStalls,
    Plan,
    TopicSet,
)
from world.simulate import happened

MASTER = Broker("broker-a", 0, "127.1.0.1:10911", "c1", acting_master=None)
SLAVE = Broker("broker-a", 1, "127.1.1.1:10911", "c1", acting_master=None)
TOPICS = ("orders", "refunds")


def story_of_the_world() -> list[Event]:
    brokers = (
        BrokerPlan("broker-a", 0, MASTER.addr, 2000, 28_000),
        BrokerPlan("broker-a", 1, SLAVE.addr, 5000, 29_000),
    )
    fleet = FleetPlan("f", (NodePlan("ns"),), brokers)
    deeds = (
        TopicSet(8000, "f", "broker-a:0", "audit", 4),
        BrokerStops(10_000, "f", "broker-a:0", "killed", 3000),
        NodeStalls(16_000, "f", "ns", 3000, False),
        NodeDown(25_000, "f", "ns", "stopped", 1000),
        NodeDown(40_000, "f", "ns", "killed", 1000),
        BrokerStops(62_000, "f", "broker-a:0", "unregistered", 60_000),
        BrokerStops(63_000, "f", "broker-a:1", "unregistered", 60_000),
    )
    (life,) = happened(Plan(1, 70_000, (fleet,), deeds)).lives
    return [each.record.event for each in life.written]


def ask(peer: BlockingPeer, broker: Broker, topics: tuple[str, ...], counter: int) -> None:
    peer.send(broker.registration(topics, counter=counter))
    peer.read()


def story_of_a_real_node(folder: Path) -> list[Event]:
    node = NodeProcess(folder)
    journal = node.data_dir / "journal"
    with node:
        master, slave = BlockingPeer(node.port), BlockingPeer(node.port)
        with slave:
            with master:
                ask(master, MASTER, TOPICS, 1)
                ask(slave, SLAVE, TOPICS, 1)
                ask(master, MASTER, (*TOPICS, "audit"), 2)
            with BlockingPeer(node.port) as master:
                ask(master, MASTER, (*TOPICS, "audit"), 3)
                node.process.send_signal(signal.SIGSTOP)
                time.sleep(3)
                node.process.send_signal(signal.SIGCONT)
                written(journal, NodeStalled)
                node.stop()
        for end in ("killed", "left"):
            node.start()
            with BlockingPeer(node.port) as master, BlockingPeer(node.port) as slave:
                ask(master, MASTER, (*TOPICS, "audit"), 3)
                ask(slave, SLAVE, TOPICS, 1)
                if end == "left":
                    for peer, broker in ((master, MASTER), (slave, SLAVE)):
                        peer.ask(UNREGISTER, broker.fields)
                all_written(master)
                node.kill()
    return [record.event for record in records(journal)]


def told(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Without counts of windows, which depend on when they end."""
    return [
        (
            type(event).__name__,
            event.cause.value,
            *(
                getattr(event, name, None)
                for name in ("broker_id", "addr", "addrs_before", "addrs_after", "topics_lost")
            ),
            event.brokers if isinstance(event, NodeStarted) else None,
            event.topics if isinstance(event, RegistrationCompleted | NodeStarted) else None,
        )
        for event in events
        if not isinstance(event, HeartbeatGaps | RouteQueries)
    ]


def test_a_node_of_the_world_writes_what_a_real_one_writes(tmp_path: Path) -> None:
    assert told(story_of_the_world()) == told(story_of_a_real_node(tmp_path))
