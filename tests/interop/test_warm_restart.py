"""Real brokers and clients run across a restart of our node and are never told "no route"."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import QUEUES, create_topic
from interop.support.launcher import Launcher
from interop.support.peers import NEW
from interop.support.remoting import stored_messages
from interop.support.servers import NameServerProcess
from routebook.client import NameServerClient, TopicRoute
from routebook.client.errors import AllNodesFailed, CannotConnect, ConnectionLost
from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    JournalRecovered,
    NodeStopped,
    TopicsChanged,
)
from routebook.journal.reader import read
from support.memories import check_sound
from support.waiting import eventually

TOPIC = "outlives-its-node"
MANY = 8000  # enough to be at it while the node is restarted
PERIOD_S = 10  # the shortest a broker accepts
# What mqadmin says of a node it did not reach: nobody listens, or it was cut off while it asked.
NOT_REACHED = (
    "RemotingConnectException",
    "RemotingSendRequestException",
    "RemotingTimeoutException",
)


@dataclass(slots=True)
class Asked:
    """What clients that ask all the time were told."""

    routes: list[TopicRoute | None] = field(default_factory=list)
    unreachable: int = 0
    printed: list[str] = field(default_factory=list)


async def keep_asking(address: str, asked: Asked) -> None:
    while True:
        async with NameServerClient(address, timeout_s=2.0) as client:
            try:
                while True:
                    asked.routes.append(await client.find_route(TOPIC))
                    await asyncio.sleep(0.005)
            except AllNodesFailed as error:
                # Nobody listens: that, and nothing else, is a reason to ask again.
                for failure in error.failures:
                    assert isinstance(failure, CannotConnect | ConnectionLost), failure
                asked.unreachable += 1
        await asyncio.sleep(0.01)


async def keep_printing(admin: Admin, address: str, asked: Asked) -> None:
    while True:
        asked.printed.append(await asyncio.to_thread(admin.run, address, "topicRoute", "-t", TOPIC))


@asynccontextmanager
async def being_asked(admin: Admin, address: str) -> AsyncIterator[Asked]:
    asked = Asked()
    asking = asyncio.create_task(keep_asking(address, asked))
    printing = asyncio.create_task(keep_printing(admin, address, asked))
    try:
        yield asked
    finally:
        for task in (asking, printing):
            assert not task.done(), task.exception()
            task.cancel()
        await asyncio.gather(asking, printing, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class World:
    """A node and a broker that outlive several tests."""

    launcher: Launcher
    admin: Admin
    node: NameServerProcess
    broker: Broker

    @property
    def journal(self) -> Path:
        return self.node.folder / "data" / "journal"

    def stored(self) -> int:
        return stored_messages(self.broker.address, TOPIC, queues=QUEUES)

    def produce(self, count: int) -> str:
        return self.launcher.driver("Produce", self.node.address, TOPIC, str(count))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, admin: Admin) -> Iterator[World]:
    launcher = Launcher(tmp_path_factory.mktemp("restarted"))
    try:
        node = launcher.node()
        settings = {"registerNameServerPeriod": str(PERIOD_S * 1000)}
        broker = launcher.broker(NEW, node.address, settings=settings)
        create_topic(admin, node.address, broker, TOPIC)
        yield World(launcher, admin, node, broker)
    finally:
        launcher.close()


async def health(address: str) -> dict[str, Any]:
    async with NameServerClient(address) as client:
        return await client.health()


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
async def test_a_broker_and_clients_run_across_a_restart_without_one_missing_route(
    world: World, killed: bool
) -> None:
    node = world.node
    last_seq = (await health(node.address))["journal"]["last_seq"]
    await eventually(
        "all of it to be written",
        lambda: health(node.address),
        until=lambda found: bool(found["journal"]["written_seq"] >= last_seq),
    )
    async with being_asked(world.admin, node.address) as asked:
        stored = await asyncio.to_thread(world.stored)
        producing = asyncio.create_task(asyncio.to_thread(world.produce, MANY))
        await eventually(
            "the first messages",
            lambda: asyncio.to_thread(world.stored),
            until=lambda now: now > stored + 100,
        )
        assert not producing.done()

        await asyncio.to_thread(node.restart, killed=killed)
        answered = len(asked.routes)
        assert (await health(node.address))["unconfirmed"] == 1
        # A client that starts now is told what the node remembers.
        assert "sent 20" in await asyncio.to_thread(world.produce, 20)
        await eventually(
            "the broker to be heard of",
            lambda: health(node.address),
            until=lambda found: found["unconfirmed"] == 0,
            timeout_s=PERIOD_S + 10,
        )
        assert f"sent {MANY}" in await producing

    assert asked.unreachable > 0
    assert answered > 0
    assert len(asked.routes) > answered
    first = asked.routes[0]
    assert first is not None
    assert first.brokers[0].addrs == {0: world.broker.address}
    assert all(route == first for route in asked.routes)
    reached = [text for text in asked.printed if "brokerDatas" in text]
    assert len(reached) > 2
    assert len(set(reached)) == 1
    for text in asked.printed:
        assert text in reached or any(fault in text for fault in NOT_REACHED), text

    found = list(read(world.journal, from_seq=last_seq + 1))
    [confirmed] = [r.event for r in found if isinstance(r.event, BrokerConfirmed)]
    assert confirmed.addr == world.broker.address
    assert not [r.event for r in found if isinstance(r.event, BrokerLeft | TopicsChanged)]
    assert len([r for r in found if isinstance(r.event, JournalRecovered)]) == killed
    assert len([r for r in found if isinstance(r.event, NodeStopped)]) == (not killed)
    check_sound(world.journal)
