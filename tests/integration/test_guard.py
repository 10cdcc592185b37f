"""A node whose brokers fall silent all at once: it holds them, says so, and lets go."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from routebook.app import NameServer
from routebook.events import BrokerLeft, GuardEngaged, GuardReleased
from routebook.journal.reader import read
from support import raw
from support.brokers import Broker
from support.health import BROKERS, HEALTH, RELEASE_GUARD
from support.nodes import local_node
from support.raw import Peer
from support.waiting import eventually

Guard = dict[str, Any]


@asynccontextmanager
async def registered(port: int, brokers: Sequence[Broker] = BROKERS) -> AsyncIterator[list[Peer]]:
    """Brokers that register, each over a connection of its own, and say no more."""
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer(port)) for _ in brokers]
        pairs = zip(brokers, peers, strict=True)
        await asyncio.gather(*(broker.register(peer) for broker, peer in pairs))
        yield peers


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as node:
        yield node


async def health(node: NameServer) -> dict[str, Any]:
    async with Peer(node.port) as client:
        answer = await client.ask(HEALTH)
    assert answer.code == raw.SUCCESS
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def guard_of(node: NameServer) -> Guard:
    guard: Guard = (await health(node))["guard"]
    return guard


async def held(node: NameServer, count: int) -> Guard:
    """Wait until so many brokers are held."""

    async def look() -> Guard:
        return await guard_of(node)

    return await eventually(
        f"{count} brokers to be held", look, until=lambda guard: len(guard["held"]) == count
    )


async def names(node: NameServer) -> set[str]:
    async with Peer(node.port) as client:
        return set((await client.call(raw.CLUSTER_INFO)).value["brokerAddrTable"])


async def route(node: NameServer) -> raw.Answer:
    async with Peer(node.port) as client:
        return await client.call(raw.ROUTE, topic="T1")


async def gone(node: NameServer) -> None:
    async def look() -> set[str]:
        return await names(node)

    await eventually("all brokers to go", look, until=lambda seen: not seen)


async def beat(peers: Sequence[Peer], brokers: Sequence[Broker] = BROKERS) -> None:
    for broker, peer in zip(brokers, peers, strict=True):
        await peer.send(raw.request(raw.HEARTBEAT, broker.fields, flag=raw.ONEWAY))


def logged(caplog: pytest.LogCaptureFixture, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Level and content of events in the log."""
    found = [
        (record.levelname, json.loads(record.getMessage()))
        for record in caplog.records
        if record.name == "routebook.events"
    ]
    return [(level, event) for level, event in found if event["event"] == kind]


async def test_brokers_that_fall_silent_together_keep_their_routes_until_the_hold_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with local_node(tmp_path, guard_hold_seconds=3) as node:
        async with registered(node.port):
            before = await route(node)
            guard = await held(node, 12)

            assert (await route(node)).body == before.body
            found = await health(node)
            assert (found["brokers"], found["ok"]) == (12, False)
            assert {broker["broker"] for broker in guard["held"]} == {b.name for b in BROKERS}
            assert guard["held"][0]["silent_ms"] > (BROKERS[0].heartbeat_timeout_ms or 0)
            assert (guard["live"], guard["limit"], guard["window_ms"]) == (12, 6, 60_000)
            assert guard["silent"] == 12
            now_ms = time.time() * 1000
            assert guard["since_ms"] <= now_ms
            # One clock is read after the other, so a millisecond may be gained or lost.
            assert abs(guard["until_ms"] - guard["since_ms"] - 3000) <= 2

            await gone(node)
            found = await health(node)
            assert (found["guard"], found["ok"]) == ({"held": []}, True)
        levels = {level for level, _ in logged(caplog, "GuardEngaged")}
        assert levels == {"WARNING"}
        [(level, released)] = logged(caplog, "GuardReleased")
        assert (level, released["reason"], released["dropped"]) == ("WARNING", "deadline", 12)

    recorded = [record.event for record in read(tmp_path / "namesrv" / "routebook" / "journal")]
    engaged = [event for event in recorded if isinstance(event, GuardEngaged)]
    assert sorted(s.broker for event in engaged for s in event.suspects) == sorted(
        broker.name for broker in BROKERS
    )
    [end] = [event for event in recorded if isinstance(event, GuardReleased)]
    left = [event for event in recorded if isinstance(event, BrokerLeft)]
    assert {event.cause for event in left} == {"expired"}
    assert all(event.revision > end.revision for event in left)


async def test_brokers_that_are_heard_of_again_are_held_no_longer(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with registered(node.port) as peers:
        await held(node, 12)
        for broker, peer in zip(BROKERS[:6], peers, strict=False):
            await broker.register(peer)

        async def beaten() -> Guard:
            await beat(peers)
            return await guard_of(node)

        await eventually("nobody to be held", beaten, until=lambda guard: guard == {"held": []})
        assert await names(node) == {broker.name for broker in BROKERS}
        [(_, released)] = logged(caplog, "GuardReleased")
        assert (released["reason"], released["returned"]) == ("evidence", 12)
        # And from now on they are like any others: they leave when they hang up.
    await gone(node)
    causes = [event["cause"] for _, event in logged(caplog, "BrokerLeft")]
    assert causes == ["connection_closed"] * 12


@pytest.mark.parametrize("ending", ["unregister", "close", "abort"])
async def test_held_brokers_that_say_goodbye_leave_at_once(node: NameServer, ending: str) -> None:
    async with registered(node.port) as peers:
        await held(node, 12)
        for broker, peer in zip(BROKERS[:11], peers, strict=False):
            if ending == "unregister":
                await broker.unregister(peer)
            elif ending == "abort":
                peer.abort()
            else:
                await peer.close()

        guard = await held(node, 1)
        assert guard["held"][0]["broker"] == "b11"
        assert await names(node) == {"b11"}


async def test_brokers_whose_connections_fall_idle_are_held_and_may_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    brokers = [Broker(broker.name, addr=broker.addr) for broker in BROKERS]  # with 120 s each
    async with local_node(tmp_path, server_channel_max_idle_time_seconds=2) as node:
        async with registered(node.port, brokers) as peers:
            await held(node, 12)
            await asyncio.gather(*(peer.hung_up() for peer in peers))
        assert await names(node) == {broker.name for broker in brokers}

        async with AsyncExitStack() as stack:
            # Two come back with a registration, the others are heard of over a new connection.
            again = [await stack.enter_async_context(Peer(node.port)) for _ in brokers]
            await brokers[0].register(again[0])
            await brokers[1].register(again[1])
            await beat(again[2:], brokers[2:])
            await held(node, 0)
        # Who registered lives by the new connection; a heartbeat may have been anybody's.
        await eventually("two to go", lambda: names(node), until=lambda left: len(left) == 10)
        assert await names(node) == {broker.name for broker in brokers[2:]}
    causes = [event["cause"] for _, event in logged(caplog, "BrokerLeft")]
    assert causes == ["connection_closed"] * 2


async def test_an_administrator_lets_them_go_and_their_connections_are_closed(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with registered(node.port) as peers:
        await held(node, 12)
        async with Peer(node.port) as admin:
            answer = await admin.ask(RELEASE_GUARD)
            address = admin.address

        assert (answer.code, answer.ext_fields) == (raw.SUCCESS, {"dropped": "12"})
        assert await names(node) == set()
        await asyncio.gather(*(peer.hung_up() for peer in peers))
    [(_, released)] = logged(caplog, "GuardReleased")
    assert (released["reason"], released["peer"]) == ("admin", address)
    async with Peer(node.port) as admin:
        assert (await admin.ask(RELEASE_GUARD)).ext_fields == {"dropped": "0"}


@pytest.mark.parametrize(
    ("brokers", "settings"),
    [
        pytest.param(3, {}, id="a-cluster-of-three"),
        pytest.param(12, {"guard_share_percent": 0}, id="switched-off"),
    ],
)
async def test_where_the_guard_does_nothing_silent_brokers_expire(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, brokers: int, settings: dict[str, int]
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with (
        local_node(tmp_path, **settings) as node,
        registered(node.port, BROKERS[:brokers]),
    ):
        await gone(node)
    assert logged(caplog, "GuardEngaged") == []
    causes = [event["cause"] for _, event in logged(caplog, "BrokerLeft")]
    assert causes == ["expired"] * brokers
