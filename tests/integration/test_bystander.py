"""A bystander is served many times while one request is worked on: counted in answers.

Here a turn of the loop has time for one slice, so that it is slices that count, on any machine.
"""

import asyncio
from pathlib import Path

import pytest

from routebook.server import port, service
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import local_node
from support.raw import Peer

TOPICS = [f"topic-{number:05d}" for number in range(20_000)]


@pytest.fixture(autouse=True)
def _one_slice_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (port, service):
        monkeypatch.setattr(module, "SLICE_S", -1.0)


async def served_meanwhile(bystander: Peer, work: "asyncio.Task[raw.Answer]") -> int:
    """How often the bystander is answered until ``work`` is."""
    served = 0
    while not work.done():
        assert (await bystander.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST
        served += 1
    return served


@pytest.mark.parametrize(
    ("code", "fields", "turns"),
    [
        pytest.param(raw.REGISTER, None, 20, id="a-registration"),
        pytest.param(raw.WIPE_WRITE, {"brokerName": "big"}, 5, id="permissions"),
        pytest.param(raw.ALL_TOPICS, {}, 5, id="a-list"),
    ],
)
async def test_others_are_served_while_much_is_done_for_one(
    tmp_path: Path, code: int, fields: dict[str, str] | None, turns: int
) -> None:
    broker = Broker("big", addr="10.0.0.1:10911")
    body = registration_body(TOPICS)
    async with local_node(tmp_path) as node, Peer(node.port) as one, Peer(node.port) as bystander:
        if fields is not None:
            await one.ask(raw.REGISTER, broker.fields, body)
        work = asyncio.create_task(
            one.ask(code, broker.fields if fields is None else fields, body * (fields is None))
        )
        served = await served_meanwhile(bystander, work)

        assert (await work).code == raw.SUCCESS
    assert served >= turns


async def test_others_are_served_while_a_thousand_brokers_leave(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as bystander:
        async with Peer(node.port) as crowd:
            for number in range(1000):
                fields = Broker(f"b{number}", addr=f"10.0.0.1:{number + 1}").fields
                await crowd.ask(raw.REGISTER, fields, registration_body([]))
        left = 1000
        turns = 0
        while left:
            answer = await bystander.call(raw.CLUSTER_INFO)
            left = len(answer.value["brokerAddrTable"])
            turns += 1
        assert turns >= 6


async def test_others_are_served_while_a_route_of_many_groups_is_encoded(tmp_path: Path) -> None:
    groups = 1500
    async with local_node(tmp_path) as node, Peer(node.port) as crowd, Peer(node.port) as bystander:
        for number in range(groups):
            fields = Broker(f"b{number}", addr=f"10.0.0.1:{number + 1}").fields
            await crowd.ask(raw.REGISTER, fields, registration_body(["wide", "x"]))
        async with Peer(node.port) as one:
            work = asyncio.create_task(one.call(raw.ROUTE, topic="wide"))
            served = await served_meanwhile(bystander, work)
            answer = await work
            assert len(answer.value["brokerDatas"]) == len(answer.value["queueDatas"]) == groups
            assert (await one.call(raw.ROUTE, topic="wide")).body == answer.body
    assert served >= 2
