"""What an agent sends, request by request, and what it makes of the answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from routebook.agent import BrokerAgent, BrokerSettings, DataVersion, Topic
from routebook.app import NameServer
from routebook.client import Address, NameServerClient
from routebook.wire import bodies
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.headers import RegisterBrokerHeader
from support.leaks import nothing_left_behind
from support.nodes import local_node
from support.recording import RecordingNode, registration_of
from support.waiting import soon

REGISTER = RequestCode.REGISTER_BROKER
QUERY = RequestCode.QUERY_DATA_VERSION
UNREGISTER = RequestCode.UNREGISTER_BROKER
SINGLE = RequestCode.REGISTER_TOPIC_IN_NAMESRV

TOPICS = [Topic("orders"), Topic("payments", 4, 2)]
BOTH = {"orders", "payments"}


def settings(**values: Any) -> BrokerSettings:
    return BrokerSettings(**{"name": "broker-a", "addr": "10.0.0.1:10911", **values})


def asked_first(changed: str | None, stored: DataVersion | None = None) -> Callable[..., Reply]:
    """Answers the question for the data version so, and everything else with success."""

    def answer(request: Command) -> Reply:
        if request.code != QUERY:
            return Reply()
        fields = {} if changed is None else {"changed": changed}
        return Reply(ext_fields=fields, body=bodies.data_version(stored) if stored else b"")

    return answer


def refusing(*refused: int) -> Callable[[Command], Reply]:
    """Refuses the requests of these numbers, counted from 1."""
    count = 0

    def answer(request: Command) -> Reply:
        nonlocal count
        count += 1
        if count in refused:
            return Reply(ResponseCode.SYSTEM_ERROR, "register broker failed", {})
        return Reply()

    return answer


@pytest.fixture
async def node() -> AsyncIterator[RecordingNode]:
    async with RecordingNode() as node:
        yield node


async def test_a_change_is_announced_by_a_registration_of_that_topic_only(
    node: RecordingNode,
) -> None:
    async with BrokerAgent(settings(), node.address, topics=TOPICS) as agent:
        await agent.put_topic(Topic("new"))
        await agent.put_topic(Topic("new"))  # says nothing new
        await agent.remove_topic("orders")
        assert node.registered() == [BOTH, {"new"}, {"orders"}]
        assert [body.data_version for body in node.registrations()][1:] == [
            DataVersion(1, 0, agent_ms(node, 1)),
            agent.version,
        ]
        await agent.round()
        assert node.registered()[3:] == [{"payments", "new"}]


def agent_ms(node: RecordingNode, number: int) -> int | None:
    version = list(node.registrations())[number].data_version
    assert version is not None
    return version.timestamp


async def test_a_change_may_be_announced_by_a_request_for_each_topic(node: RecordingNode) -> None:
    chosen = settings(announce="single")
    async with BrokerAgent(chosen, node.address, topics=TOPICS) as agent:
        await agent.replace_topics([Topic("a"), Topic("b")])
        assert node.codes() == [REGISTER] + [SINGLE] * 4
        assert [request.ext_fields["topic"] for request in node.named(SINGLE)] == [
            "a",
            "b",
            "orders",
            "payments",
        ]


async def test_a_change_may_be_announced_by_registering_everything(node: RecordingNode) -> None:
    async with BrokerAgent(settings(announce="full"), node.address, topics=TOPICS) as agent:
        await agent.put_topic(Topic("new"))
        assert node.registered() == [BOTH, BOTH | {"new"}]


async def test_whoever_refuses_a_change_is_told_everything(node: RecordingNode) -> None:
    node.answer = refusing(2)
    async with BrokerAgent(settings(), node.address, topics=TOPICS) as agent:
        outcomes = await agent.put_topic(Topic("new"))
        assert all(outcome.ok for outcome in outcomes.values())
        assert node.registered() == [BOTH, {"new"}, BOTH | {"new"}]


async def test_a_registration_that_is_refused_is_reported_and_tried_again(
    node: RecordingNode,
) -> None:
    node.answer = refusing(1)
    agent = BrokerAgent(settings(), node.address, topics=TOPICS)
    outcomes = await agent.start()
    assert outcomes[Address.parse(node.address)].error == (
        f"{node.address}: refused REGISTER_BROKER (103) with SYSTEM_ERROR (1): register broker"
        " failed"
    )
    await soon("the next try", lambda: agent.status()[0].acknowledged == agent.version)
    await agent.leave()


async def test_a_new_connection_is_told_everything_at_once(node: RecordingNode) -> None:
    async with BrokerAgent(settings(), node.address, topics=TOPICS) as agent:
        await agent.put_topic(Topic("new"))
        node.hang_up()
        await soon("the registration", lambda: len(node.registered()) == 3)
        assert node.registered() == [BOTH, {"new"}, BOTH | {"new"}]


async def test_the_body_may_be_packed_and_the_header_says_so(node: RecordingNode) -> None:
    chosen = settings(compressed=True, zone="east", acting_master=True, heartbeat_timeout_ms=9000)
    async with BrokerAgent(chosen, node.address, topics=TOPICS):
        (request,) = node.requests
        assert request.body[:1] == b"\x78"
        header = RegisterBrokerHeader.of(request)
        assert header.compressed
        assert (header.zone, header.acting_master, header.heartbeat_timeout_ms) == (
            "east",
            True,
            9000,
        )
        assert set(registration_of(request).topics) == BOTH


async def test_a_single_topic_is_preceded_by_an_empty_registration_on_each_new_connection(
    node: RecordingNode,
) -> None:
    async with BrokerAgent(settings(), node.address, topics=[Topic("orders")]) as agent:
        assert node.registered() == [set(), {"orders"}]
        await agent.round()
        assert node.registered()[2:] == [{"orders"}]
        node.hang_up()
        await soon("the registrations", lambda: len(node.registered()) == 5)
        assert node.registered()[3:] == [set(), {"orders"}]


async def test_registrations_go_on_by_themselves(
    node: RecordingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routebook.agent.agent.FIRST_ROUND_S", 0.01)
    monkeypatch.setattr("routebook.agent.settings.SHORTEST_PERIOD_S", 0.01)
    async with BrokerAgent(settings(register_period_s=0.01), node.address, topics=TOPICS):
        await soon("rounds", lambda: len(node.requests) >= 4)
        assert set(node.codes()) == {REGISTER}


# -- asking first


@pytest.mark.parametrize(
    ("changed", "stored", "sent"),
    [
        pytest.param("false", None, False, id="unchanged"),
        pytest.param("true", None, True, id="changed"),
        pytest.param(None, None, True, id="not-said"),
        pytest.param("false", DataVersion(9, 0, 9), True, id="another-version"),
    ],
)
async def test_an_unforced_round_sends_only_what_has_changed(
    node: RecordingNode, changed: str | None, stored: DataVersion | None, sent: bool
) -> None:
    node.answer = asked_first(changed, stored)
    async with BrokerAgent(settings(force=False), node.address, topics=TOPICS) as agent:
        assert node.codes() == [REGISTER]  # a node that knows nothing is not asked
        await agent.round()
        assert node.codes() == [REGISTER, QUERY] + [REGISTER] * sent
        (question,) = node.named(QUERY)
        assert question.body == bodies.data_version(agent.version)


async def test_a_node_that_cannot_say_counts_as_unchanged(node: RecordingNode) -> None:
    node.answer = refusing(2)
    async with BrokerAgent(settings(force=False), node.address, topics=TOPICS) as agent:
        outcomes = await agent.round()
        assert all(outcome.ok for outcome in outcomes.values())
        assert node.codes() == [REGISTER, QUERY]


async def test_a_split_table_is_sent_in_parts_once_and_asked_for_afterwards(
    node: RecordingNode,
) -> None:
    node.answer = asked_first("false")
    topics = [Topic(f"t{number}") for number in range(5)]
    async with BrokerAgent(settings(split_topics=2), node.address, topics=topics) as agent:
        assert node.registered() == [{"t0", "t1"}, {"t2", "t3"}, {"t4"}]
        await agent.round()
        await agent.put_topic(Topic("t5"))
        await agent.round()
        assert node.codes() == [REGISTER] * 3 + [QUERY, REGISTER, QUERY]
        node.answer = asked_first("true")
        await agent.round()
        assert node.codes()[6:] == [QUERY] + [REGISTER] * 3


async def test_parts_of_a_split_table_that_failed_are_all_sent_again(node: RecordingNode) -> None:
    node.answer = refusing(2)
    topics = [Topic(f"t{number}") for number in range(6)]
    agent = BrokerAgent(settings(split_topics=2), node.address, topics=topics)
    await agent.start()
    await soon("the parts", lambda: agent.status()[0].acknowledged == agent.version)
    assert node.registered() == [
        {"t0", "t1"},
        {"t2", "t3"},
        *[{"t0", "t1"}, {"t2", "t3"}, {"t4", "t5"}],
    ]
    await agent.close()


# -- heartbeats and the end


@pytest.mark.parametrize(
    ("heartbeat", "code"), [("query", QUERY), ("light", RequestCode.BROKER_HEARTBEAT)]
)
async def test_heartbeats_expect_no_answer(
    node: RecordingNode, heartbeat: str, code: RequestCode
) -> None:
    chosen = settings(heartbeat=heartbeat, heartbeat_s=0.01)
    async with nothing_left_behind(), BrokerAgent(chosen, node.address, topics=TOPICS):
        await soon("heartbeats", lambda: len(node.named(code)) >= 3)
        assert all(request.is_oneway for request in node.named(code))


async def test_no_heartbeat_is_sent_to_a_node_that_took_no_registration(
    node: RecordingNode,
) -> None:
    node.answer = lambda _: Reply(ResponseCode.SYSTEM_ERROR, "full", {})
    agent = BrokerAgent(settings(heartbeat="light", heartbeat_s=0.001), node.address, topics=TOPICS)
    await agent.start()
    await soon("several tries", lambda: len(node.named(REGISTER)) >= 3)
    await agent.leave()
    assert set(node.codes()) == {REGISTER, UNREGISTER}


async def test_the_last_word_is_the_goodbye(node: RecordingNode) -> None:
    async with nothing_left_behind():
        agent = BrokerAgent(settings(), node.address, topics=TOPICS)
        await agent.start()
        changes = [
            asyncio.create_task(agent.put_topic(Topic(f"new-{number}"))) for number in range(20)
        ]
        await asyncio.sleep(0)
        await agent.leave()
        await asyncio.gather(*changes)
        await soon("the end of the connection", lambda: node.open_connections == 0)
        assert node.codes().count(UNREGISTER) == 1
        assert node.codes()[-1] == UNREGISTER


async def test_a_registration_under_way_is_not_overtaken_by_the_goodbye(
    node: RecordingNode,
) -> None:
    async with BrokerAgent(settings(), node.address, topics=TOPICS) as agent:
        node.answer = lambda request: None if request.code == REGISTER else Reply()
        change = asyncio.create_task(agent.put_topic(Topic("new")))
        await soon("the change", lambda: len(node.requests) == 2)
        leaving = asyncio.create_task(agent.leave())
        async with NameServerClient(node.address) as client:
            await client.put_kv("any", "other", "request")
        assert node.codes()[:2] == [REGISTER, REGISTER]
        assert UNREGISTER not in node.codes()
        node.answer_late()
        assert all(outcome.ok for outcome in (await change).values())
        assert all(outcome.ok for outcome in (await leaving).values())
    assert node.codes()[-1] == UNREGISTER


async def test_closing_says_nothing(node: RecordingNode) -> None:
    async with nothing_left_behind():
        agent = BrokerAgent(settings(), node.address, topics=TOPICS)
        await agent.start()
        await agent.close()
        await soon("the end of the connection", lambda: node.open_connections == 0)
        assert node.codes() == [REGISTER]


# -- what a real node answers


@pytest.fixture
async def nameserver(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as nameserver:
        yield nameserver


async def test_ordered_topics_are_marked_and_announced(nameserver: NameServer) -> None:
    told: list[frozenset[str]] = []
    async with NameServerClient(nameserver.address) as client:
        await client.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
        await client.put_kv("ORDER_TOPIC_CONFIG", "elsewhere", "broker-b:8")
        agent = BrokerAgent(
            settings(), nameserver.address, topics=TOPICS, on_order_topics=told.append
        )
        async with agent:
            assert told == [frozenset({"orders"})]
            assert agent.topics["orders"].order
            assert not agent.topics["payments"].order
            assert agent.version.counter == 1
            await soon("the mark", lambda: agent.status()[0].acknowledged == agent.version)
            await client.delete_kv("ORDER_TOPIC_CONFIG", "orders")
            await agent.round()
            assert agent.topics["orders"].order
            await client.put_kv("ORDER_TOPIC_CONFIG", "payments", "broker-a:8")
            await agent.round()
            assert told == [frozenset({"orders"}), frozenset({"payments"})]


async def test_a_slave_learns_who_its_master_is(nameserver: NameServer) -> None:
    heard: list[tuple[str | None, str | None]] = []
    where = nameserver.address
    slave = BrokerAgent(
        settings(broker_id=1, addr="10.0.0.2:10911"),
        where,
        topics=TOPICS,
        on_master=lambda master, ha: heard.append((master, ha)),
    )
    async with slave:
        assert heard == []
        master = BrokerAgent(settings(), where, topics=TOPICS, on_master=lambda *_: heard.clear())
        async with master:
            await slave.round()
            await slave.round()
            assert heard == [("10.0.0.1:10911", "10.0.0.1:10912")]
        await slave.round()
        assert heard == [("10.0.0.1:10911", "10.0.0.1:10912"), (None, None)]


async def test_a_callback_that_fails_harms_nobody(
    nameserver: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with NameServerClient(nameserver.address) as client:
        await client.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
    async with BrokerAgent(settings(), nameserver.address, topics=TOPICS):
        slave = BrokerAgent(
            settings(broker_id=1, addr="10.0.0.2:10911"),
            nameserver.address,
            topics=TOPICS,
            on_master=fail,
            on_order_topics=fail,
        )
        with caplog.at_level(logging.ERROR):
            async with slave:
                assert all(outcome.ok for outcome in (await slave.round()).values())
                assert slave.topics["orders"].order
    assert {record.message for record in caplog.records} == {
        "on_master failed",
        "on_order_topics failed",
    }
