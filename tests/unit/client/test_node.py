"""How long a node rests, told the time and the dice."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from routebook.client import node as node_module
from routebook.client.connection import Connection
from routebook.client.dialing import Dialing, Endpoint
from routebook.client.errors import CannotConnect
from routebook.client.node import FIRST_REST_S, LONGEST_REST_S, Node
from routebook.client.requests import route_question
from routebook.wire.address import Address

ADDRESS = Address("127.0.0.1", 9876)


class Dice(random.Random):
    """Throws the same each time: 0 the least, 1 the most."""

    def __init__(self, thrown: float) -> None:
        super().__init__()
        self._thrown = thrown

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._thrown


class Clock:
    """The loop's time: stands still but for what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self._now)

    def advance(self, seconds: float) -> None:
        self._now += seconds


class Unreachable:
    """A dial that reaches nobody and counts how often it tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.attempts = 0
        monkeypatch.setattr(node_module, "dial", self)

    async def __call__(
        self, address: Address, endpoints: Sequence[Endpoint], dialing: Dialing
    ) -> Connection:
        self.attempts += 1
        raise ConnectionRefusedError(111, "Connection refused")


async def ask(node: Node) -> None:
    with pytest.raises(CannotConnect, match="connection refused"):
        await node.ask(route_question("T"), timeout_s=3.0)


@pytest.mark.parametrize("thrown", [0.0, 1.0], ids=["shortest", "longest"])
async def test_each_failure_doubles_the_rest_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, thrown: float
) -> None:
    clock, dial = Clock(monkeypatch), Unreachable(monkeypatch)
    node = Node(ADDRESS, rng=Dice(thrown))
    rests: list[float] = []
    for _ in range(40):
        await ask(node)
        rests.append(node.rest_s)
        clock.advance(node.rest_s)

    share = 0.5 + thrown / 2
    doubled = [min(LONGEST_REST_S, FIRST_REST_S * 2**n) * share for n in range(40)]
    assert rests == pytest.approx(doubled)
    assert dial.attempts == 40
    await node.close()


async def test_two_nodes_do_not_rest_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    Unreachable(monkeypatch)
    nodes = [Node(ADDRESS, rng=random.Random(seed)) for seed in range(10)]
    for node in nodes:
        await ask(node)

    assert len({node.rest_s for node in nodes}) == 10
    for node in nodes:
        await node.close()


async def test_those_who_ask_together_make_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    dial = Unreachable(monkeypatch)
    node = Node(ADDRESS, rng=Dice(1.0))

    await asyncio.gather(*(ask(node) for _ in range(100)))

    assert dial.attempts == 1
    assert node.rest_s == pytest.approx(FIRST_REST_S)
    await node.close()


async def test_a_resting_node_is_not_tried_and_says_why_it_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dial = Unreachable(monkeypatch)
    node = Node(ADDRESS)
    await ask(node)

    with pytest.raises(CannotConnect, match=r"within 0 s; before that: .*connection refused"):
        await node.ask(route_question("T"), timeout_s=0.0)

    assert dial.attempts == 1
    await node.close()
