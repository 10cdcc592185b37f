"""Health reports as nodes give them, and brokers that are held."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from support import raw
from support.brokers import Broker
from support.fleet import Fleet, Ran, run_program
from support.misbehaving import Behaviour, Caller, Server, answer, answering
from support.waiting import wait_for

HEALTH, RELEASE_GUARD = 19_001, 19_003
BROKERS = [
    Broker(f"b{number:02}", addr=f"10.0.0.{number}:10911", heartbeat_timeout_ms=1500)
    for number in range(12)
]

not_ours = answering(code=raw.NOT_SUPPORTED, remark=" request type 19001 not supported")


def report(**members: Any) -> dict[str, Any]:
    """What a node says that is well."""
    return {
        "node": "ns-1-0a1b2c3d",
        "version": "1.2.3",
        "address": "10.0.1.101:9876",
        "uptime_ms": 3_600_000,
        "revision": 17,
        "brokers": 12,
        "unconfirmed": 0,
        "topics": 24,
        "routes": 48,
        "journal": {
            "last_seq": 70,
            "synced_seq": 69,
            "lost": 0,
            "last_error": None,
            "failing": False,
        },
        "guard": {"held": []},
        "ok": True,
        **members,
    }


def holding(*names: str) -> dict[str, Any]:
    """What a node says of its guard while it holds these."""
    return {
        "held": [
            {
                "cluster": "c",
                "broker": name,
                "broker_id": 0,
                "addr": f"{name}:1",
                "silent_ms": 125_000,
            }
            for name in names
        ],
        "since_ms": 1_767_268_800_000,
        "until_ms": 1_767_269_400_000,
        "silent": 8,
        "live": 12,
        "limit": 6,
        "window_ms": 60_000,
    }


def reporting(told: object) -> Behaviour:
    """A NameServer that says this of its health, and lets nobody release its guard."""

    async def behave(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == HEALTH:
                await caller.send(answer(request.opaque, body=json.dumps(told).encode()))
            else:
                await caller.send(
                    answer(request.opaque, raw.NO_PERMISSION, remark="from its own machine only")
                )

    return behave


async def run_at(*words: str, nodes: list[Behaviour]) -> tuple[Ran, list[str]]:
    """Run the program with NameServers that behave so; also the address of each."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(Server(behaviour)) for behaviour in nodes]
        addresses = [server.address for server in servers]
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=";".join(addresses))
    return ran, addresses


def hold(fleet: Fleet, *, on: Iterable[int]) -> None:
    """Have the nodes at these ports hold twelve brokers."""
    ports = list(on)
    for broker in BROKERS:
        fleet.register(broker, on=ports)
    wait_for(
        "the brokers to be held",
        lambda: [len(held(fleet, port)) for port in ports],
        until=lambda counts: set(counts) == {len(BROKERS)},
    )


def held(fleet: Fleet, port: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fleet.ask(port, HEALTH).body)["guard"]["held"]
    return found
