"""The agent among real nodes: what they list, and what becomes of it when things go wrong."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from routebook.agent import BrokerAgent, BrokerSettings, Outcome, Topic
from routebook.app import NameServer
from routebook.client import Address, NameServerClient, NoNameServers
from support.leaks import nothing_left_behind
from support.misbehaving import Server, silence
from support.nodes import local_node
from support.waiting import eventually, soon

TOPICS = [Topic("orders"), Topic("payments", 4, 2)]
OK = Outcome()


def settings(**values: Any) -> BrokerSettings:
    return BrokerSettings(**{"name": "broker-a", "addr": "10.0.0.1:10911", **values})


def address(text: str) -> Address:
    return Address.parse(text)


async def perms(node: NameServer, topic: str) -> dict[str, int] | None:
    """Permission of each broker for a topic, None when the node has no route."""
    async with NameServerClient(node.address) as client:
        route = await client.find_route(topic)
    return None if route is None else {queues.broker: queues.perm for queues in route.queues}


async def addrs(node: NameServer, topic: str = "orders") -> dict[int, str]:
    async with NameServerClient(node.address) as client:
        route = await client.find_route(topic)
    return (
        {} if route is None else {i: a for group in route.brokers for i, a in group.addrs.items()}
    )


def all_ok(outcomes: Mapping[Address, Outcome]) -> bool:
    return bool(outcomes) and all(outcome.ok for outcome in outcomes.values())


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[NameServer]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(local_node(tmp_path / str(number)))
            for number in range(3)
        ]


def addresses(nodes: list[NameServer]) -> list[str]:
    return [node.address for node in nodes]


async def test_a_broker_is_listed_by_every_node_while_its_agent_runs(
    nodes: list[NameServer],
) -> None:
    async with nothing_left_behind():
        async with BrokerAgent(settings(), addresses(nodes), topics=TOPICS) as agent:
            for node in nodes:
                assert await addrs(node) == {0: "10.0.0.1:10911"}
                assert await perms(node, "payments") == {"broker-a": 6}
            assert [status.address for status in agent.status()] == sorted(
                address(text) for text in addresses(nodes)
            )
            for status in agent.status():
                assert status.connected
                assert status.acknowledged == agent.version
                assert status.ok_at_ms is not None
                assert status.error is None
        for node in nodes:
            assert await addrs(node) == {}


@pytest.mark.parametrize("announce", ["incremental", "single", "full"])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "packed"])
async def test_changes_reach_every_node_at_once(
    nodes: list[NameServer], announce: str, compressed: bool
) -> None:
    chosen = settings(announce=announce, compressed=compressed)
    async with BrokerAgent(chosen, addresses(nodes), topics=TOPICS) as agent:
        assert all_ok(await agent.put_topic(Topic("new", perm=4)))
        assert all_ok(await agent.put_topic(Topic("orders", perm=2)))
        assert all_ok(await agent.remove_topic("payments"))
        for node in nodes:
            assert await perms(node, "new") == {"broker-a": 4}
            assert await perms(node, "orders") == {"broker-a": 2}
            assert await perms(node, "payments") == {"broker-a": 0}
        assert all_ok(await agent.replace_topics([Topic("orders"), Topic("other")]))
        assert all_ok(await agent.set_permission(4))
        for node in nodes:
            assert await perms(node, "new") == {"broker-a": 0}
            assert await perms(node, "orders") == {"broker-a": 4}
            assert await perms(node, "other") == {"broker-a": 4}
        assert list(agent.topics) == ["orders", "other"]
        assert agent.topics["orders"].perm == 6
        assert agent.version.counter == 5


async def test_many_changes_at_once_all_arrive(nodes: list[NameServer]) -> None:
    async with BrokerAgent(settings(), addresses(nodes), topics=TOPICS) as agent:
        changes = [agent.put_topic(Topic(f"new-{number}")) for number in range(50)]
        assert all(map(all_ok, await asyncio.gather(*changes)))
        for node in nodes:
            async with NameServerClient(node.address) as client:
                assert len(await client.topics()) == 52


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "packed"])
async def test_a_broker_with_a_single_topic_is_listed(
    nodes: list[NameServer], compressed: bool
) -> None:
    chosen = settings(compressed=compressed)
    async with BrokerAgent(chosen, addresses(nodes), topics=[Topic("orders")]) as agent:
        assert [await addrs(node) for node in nodes] == [{0: "10.0.0.1:10911"}] * 3
        assert all_ok(await agent.round())


async def test_a_broker_without_topics_may_get_its_first_one_later(
    nodes: list[NameServer],
) -> None:
    async with BrokerAgent(settings(), addresses(nodes)) as agent:
        assert all_ok(await agent.put_topic(Topic("orders")))
        assert [await addrs(node) for node in nodes] == [{0: "10.0.0.1:10911"}] * 3


async def test_200_000_topics_are_registered_within_the_frame_limit(tmp_path: Path) -> None:
    topics = [Topic(f"a-topic-of-usual-length-{number:06d}") for number in range(200_000)]
    async with (
        nothing_left_behind(),
        local_node(tmp_path) as node,
        BrokerAgent(settings(), node.address, topics=topics) as agent,
    ):
        (status,) = agent.status()
        assert status.acknowledged == agent.version
        async with NameServerClient(node.address) as client:
            assert len(await client.topics()) == 200_000
        assert all_ok(await agent.put_topic(Topic("one-more")))
        assert await addrs(node, "one-more") == {0: "10.0.0.1:10911"}
        assert all_ok(await agent.round())


async def test_a_silent_node_keeps_nothing_from_the_others(nodes: list[NameServer]) -> None:
    async with nothing_left_behind(), Server(silence) as silent:
        agent = BrokerAgent(
            settings(round_timeout_s=60), [silent.address, *addresses(nodes)], topics=TOPICS
        )
        starting = asyncio.create_task(agent.start())
        try:
            for node in nodes:
                await eventually("the route", partial(addrs, node))
            changing = asyncio.create_task(agent.put_topic(Topic("new"), timeout_s=60))
            for node in nodes:
                await eventually("the topic", partial(addrs, node, "new"))
            assert not changing.done()
            outcomes = await agent.round(timeout_s=0.2)
            late = outcomes.pop(address(silent.address))
            assert late.error == "not done within 0.2 s; it goes on in the background"
            assert set(outcomes.values()) == {OK}
        finally:
            await agent.close()
        assert (await changing)[address(silent.address)] == Outcome("the agent is closed")
        assert not (await starting)[address(silent.address)].ok


async def test_a_dead_node_is_reported_and_found_when_it_comes(
    nodes: list[NameServer], tmp_path: Path
) -> None:
    async with local_node(tmp_path / "late") as late:
        port = late.port
    agent = BrokerAgent(settings(), [f"127.0.0.1:{port}", *addresses(nodes)], topics=TOPICS)
    async with agent:
        outcomes = await agent.put_topic(Topic("new"), timeout_s=0.5)
        error = outcomes.pop(Address("127.0.0.1", port)).error
        assert error is not None
        assert set(outcomes.values()) == {OK}
        status = next(status for status in agent.status() if status.address.port == port)
        assert not status.connected
        assert status.acknowledged is None
        assert status.error is not None
        async with local_node(tmp_path / "late", listen_port=port) as late:
            await eventually("the broker on the late node", lambda: addrs(late, "new"))


async def test_a_node_that_starts_anew_is_told_everything_long_before_the_next_round(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        async with local_node(tmp_path) as node:
            port = node.port
            agent = await stack.enter_async_context(
                BrokerAgent(settings(register_period_s=60), node.address, topics=TOPICS)
            )
            await agent.put_topic(Topic("new"))
        await soon("the loss to be seen", lambda: not agent.status()[0].connected)
        async with local_node(tmp_path, listen_port=port) as node:
            assert await eventually("the broker", lambda: addrs(node)) == {0: "10.0.0.1:10911"}
            assert await addrs(node, "new") == {0: "10.0.0.1:10911"}
            await agent.leave()


async def test_nodes_come_and_go_while_the_agent_runs(nodes: list[NameServer]) -> None:
    first, second, third = nodes
    async with BrokerAgent(settings(), addresses([first, second]), topics=TOPICS) as agent:
        assert await addrs(third) == {}
        outcomes = await agent.use([address(second.address), address(third.address)])
        assert outcomes == {address(first.address): OK, address(third.address): OK}
        assert await addrs(first) == {}
        assert await addrs(third) == {0: "10.0.0.1:10911"}
        assert len(agent.nodes) == 2
        assert await agent.use([]) == {}
        assert len(agent.nodes) == 2
        assert all_ok(await agent.put_topic(Topic("new")))
        assert await addrs(first, "new") == {}


async def test_a_node_that_is_taken_back_at_once_lists_the_broker(
    nodes: list[NameServer],
) -> None:
    both = [address(text) for text in addresses(nodes[:2])]
    async with BrokerAgent(settings(), addresses(nodes[:2]), topics=TOPICS) as agent:
        for _ in range(5):
            await asyncio.gather(agent.use(both[1:]), agent.use(both))
            assert [await addrs(node) for node in nodes[:2]] == [{0: "10.0.0.1:10911"}] * 2


class ChangingSource:
    """An address source that is asked often."""

    description = "the test"
    refresh_s = 0.02

    def __init__(self, *found: str) -> None:
        self.found: tuple[str, ...] = found

    async def find(self) -> tuple[Address, ...]:
        if not self.found:
            raise NoNameServers("none today")
        return tuple(map(address, self.found))


async def test_the_list_of_nodes_is_followed_and_outlives_a_source_that_fails(
    nodes: list[NameServer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("routebook.agent.agent.FIRST_REFRESH_S", 0.02)
    source = ChangingSource(nodes[0].address)
    async with nothing_left_behind(), BrokerAgent(settings(), source, topics=TOPICS):
        source.found = (nodes[1].address,)
        await eventually("the new node", lambda: addrs(nodes[1]))
        await eventually("the old node", lambda: addrs(nodes[0]), until=lambda seen: not seen)
        source.found = ()
        await soon("the failure", lambda: "keeping the NameServers known so far" in caplog.text)
        assert await addrs(nodes[1]) == {0: "10.0.0.1:10911"}


async def test_an_agent_without_nodes_does_not_start() -> None:
    async with nothing_left_behind():
        with pytest.raises(NoNameServers):
            async with BrokerAgent(settings(), ""):
                raise AssertionError("unreachable")


# -- leaving


async def test_a_broker_leaves_when_nobody_writes_any_more(nodes: list[NameServer]) -> None:
    seen: list[object] = []

    async def quiet() -> None:
        for node in nodes:
            seen.append(await perms(node, "orders"))
        seen.append([status.connected for status in agent.status()])

    async with nothing_left_behind():
        agent = BrokerAgent(settings(), addresses(nodes), topics=TOPICS)
        async with agent:
            assert await perms(nodes[0], "orders") == {"broker-a": 6}
            outcomes = await agent.leave(quiet)
            assert all_ok(outcomes)
            assert len(outcomes) == 3
            assert seen == [{"broker-a": 4}, {"broker-a": 4}, {"broker-a": 4}, [True] * 3]
            for node in nodes:
                assert await perms(node, "orders") is None
            assert agent.status() == ()
            with pytest.raises(RuntimeError, match="has left"):
                await agent.put_topic(Topic("too-late"))
        assert await agent.leave() == {}


async def test_traffic_that_never_ends_does_not_keep_a_broker_for_ever(
    nodes: list[NameServer], caplog: pytest.LogCaptureFixture
) -> None:
    async with BrokerAgent(settings(), addresses(nodes), topics=TOPICS) as agent:
        assert all_ok(await agent.leave(asyncio.Event().wait, timeout_s=0.05))
        assert await addrs(nodes[0]) == {}
    assert "traffic has not ended within 0.05 s" in caplog.text


async def test_a_broken_wait_for_quiet_does_not_keep_a_broker(
    nodes: list[NameServer], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async with BrokerAgent(settings(), addresses(nodes), topics=TOPICS) as agent:
        assert all_ok(await agent.leave(broken))
        assert await addrs(nodes[0]) == {}
    assert "ZeroDivisionError" in caplog.text


async def test_leaving_that_is_interrupted_is_finished_at_the_end_of_the_block(
    nodes: list[NameServer],
) -> None:
    async with nothing_left_behind():
        async with BrokerAgent(settings(), addresses(nodes), topics=TOPICS) as agent:
            leaving = asyncio.create_task(agent.leave(asyncio.Event().wait))
            await soon("write permission to go", lambda: agent.permission == 4)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            assert await addrs(nodes[0]) == {0: "10.0.0.1:10911"}
        assert await addrs(nodes[0]) == {}


async def test_nodes_notice_an_agent_that_is_closed_without_a_word(
    nodes: list[NameServer],
) -> None:
    async with nothing_left_behind():
        agent = BrokerAgent(settings(), addresses(nodes), topics=TOPICS)
        await agent.start()
        await agent.close()
        for node in nodes:
            await eventually("it to be gone", partial(addrs, node), until=lambda a: not a)
