"""A relay whose nodes fail, restart, forget, or are asked for more than they can answer."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.relay.upstream import MAX_ASKING
from support import raw
from support.brokers import Broker
from support.health import HEALTH
from support.misbehaving import Caller, Server, answer
from support.nodes import local_node
from support.raw import Peer
from support.relays import (
    ClockAhead,
    age_ms,
    is_older,
    is_stale,
    local_relay,
    register_all,
    route_body,
)
from support.waiting import eventually, soon

SYSTEM_BUSY = 2
V4_9_3 = 399
EAST = {"__ZONE_MODE": "true", "__ZONE_NAME": "east"}
POLL_S = 0.1
TOPICS = ("orders", "payments")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path / "node") as node:
        yield node


async def test_refreshing_goes_on_after_a_mistake_of_ours_which_health_tells(
    node: NameServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[bool] = []

    async def fails() -> bool:
        turns.append(True)
        raise LookupError("no turn")

    async with local_relay(node.address, poll_s=POLL_S) as relay, Peer(relay.port) as peer:
        monkeypatch.setattr(relay._upstream, "turn", fails)
        await soon("the second turn", lambda: len(turns), until=lambda count: count > 1)
        told = (await peer.call(HEALTH)).value
    assert told["last_error"] == "refreshing failed: LookupError('no turn')"
    assert "refreshing failed" in caplog.text


# -- outages


async def test_a_relay_goes_on_without_nodes_says_so_and_is_fresh_when_they_are_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="routebook.relay")
    questions: list[tuple[int, dict[str, str]]] = [
        (raw.ROUTE, {"topic": "orders"}),
        (raw.CLUSTER_INFO, {}),
        (raw.ALL_TOPICS, {}),
        (raw.MEMBER_GROUP, {"clusterName": "c2", "brokerName": "broker-b"}),
    ]
    async with AsyncExitStack() as stack:
        async with local_node(tmp_path / "first") as node, Peer(node.port) as broker:
            await register_all(broker)
            relay = await stack.enter_async_context(local_relay(node.address, poll_s=POLL_S))
            peer = await stack.enter_async_context(Peer(relay.port))
            fresh = [await peer.ask(code, fields) for code, fields in questions]
            assert not any(map(is_stale, fresh))
            port = node.port

        for (code, fields), before in zip(questions, fresh, strict=True):
            stale = await eventually(
                "a stale answer", partial(peer.ask, code, fields), until=is_stale
            )
            assert stale.body == before.body
            assert stale.remark is not None
            assert f"127.0.0.1:{port}" in stale.remark
            older = await eventually(
                "an older answer",
                partial(peer.ask, code, fields),
                until=partial(is_older, than=stale),
            )
            assert older.body == before.body

        old_client = await peer.call(raw.ROUTE, topic="orders", version=V4_9_3)
        in_east = await peer.ask(raw.ROUTE, {"topic": "orders", **EAST})
        assert b'{0:"' in old_client.body
        assert [b["brokerName"] for b in in_east.value["brokerDatas"]] == ["brö/ker"]

        never_seen = await peer.call(raw.ROUTE, topic="never-seen")
        assert never_seen.code == raw.SYSTEM_ERROR
        assert never_seen.remark is not None
        assert "has never seen the topic never-seen" in never_seen.remark
        assert f"127.0.0.1:{port}: connection refused" in never_seen.remark
        status = relay.status()
        assert status.outage_s is not None
        assert status.last_error is not None

        again = await stack.enter_async_context(local_node(tmp_path / "again", listen_port=port))
        broker = await stack.enter_async_context(Peer(again.port))
        await register_all(broker)
        for code, fields in questions:
            back = await eventually(
                "a fresh answer",
                partial(peer.ask, code, fields),
                until=lambda a: not is_stale(a),
            )
            assert back.remark is None
        assert relay.status().outage_s is None
        messages = [record.getMessage() for record in caplog.records]
        assert len([m for m in messages if m.startswith("no NameServer answered")]) == 1
        assert len([m for m in messages if "s without NameServers" in m]) == 1


async def test_a_relay_starts_before_its_nodes_and_works_once_they_are_there(
    tmp_path: Path,
) -> None:
    async with local_node(tmp_path / "gone") as gone:
        port = gone.port
    async with (
        local_relay(f"127.0.0.1:{port}", poll_s=POLL_S) as relay,
        Peer(relay.port) as peer,
    ):
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SYSTEM_ERROR
        async with local_node(tmp_path / "node", listen_port=port), Peer(port) as broker:
            await Broker().register(broker, TOPICS)
            await eventually(
                "the route",
                lambda: peer.call(raw.ROUTE, topic="orders"),
                until=lambda relayed: relayed.code == raw.SUCCESS,
            )


async def test_another_node_is_asked_when_one_is_gone(tmp_path: Path) -> None:
    async with AsyncExitStack() as all_nodes:
        lives: dict[str, AsyncExitStack] = {}
        for name in ("one", "two"):
            life = await all_nodes.enter_async_context(AsyncExitStack())
            node = await life.enter_async_context(local_node(tmp_path / name))
            await Broker().register(await life.enter_async_context(Peer(node.port)), TOPICS)
            lives[node.address] = life
        async with local_relay(*lives, poll_s=POLL_S) as relay, Peer(relay.port) as peer:
            assert not is_stale(await peer.call(raw.ROUTE, topic="orders"))
            first = relay.status().chosen
            assert first is not None
            assert set(relay.status().nodes) == set(lives)
            await lives[first].aclose()
            await soon("the other node", relay.status, until=lambda s: s.chosen != first)
            assert not is_stale(await peer.call(raw.ROUTE, topic="orders"))


async def test_a_node_that_has_just_restarted_takes_no_route_away(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with local_node(tmp_path / "first") as node, Peer(node.port) as broker:
            await Broker().register(broker, TOPICS)
            relay = await stack.enter_async_context(local_relay(node.address, poll_s=POLL_S))
            peer = await stack.enter_async_context(Peer(relay.port))
            before = await peer.call(raw.ROUTE, topic="orders")
            port = node.port
        await stack.enter_async_context(local_node(tmp_path / "again", listen_port=port))
        denied = await eventually(
            "the empty node to be asked",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda a: "answers with code 17" in (a.remark or ""),
        )
        assert denied.body == before.body
        assert is_stale(denied)


async def test_a_deleted_topic_is_gone_when_the_nodes_have_kept_to_it(node: NameServer) -> None:
    async with (
        Peer(node.port) as broker,
        local_relay(node.address, poll_s=POLL_S, forget_after_s=5 * POLL_S) as relay,
        Peer(relay.port) as peer,
    ):
        await Broker().register(broker, TOPICS)
        for topic in TOPICS:
            assert (await peer.call(raw.ROUTE, topic=topic)).code == raw.SUCCESS
        assert (await broker.call(raw.DELETE_TOPIC, topic="orders")).code == raw.SUCCESS
        expected = await broker.call(raw.ROUTE, topic="orders")
        gone = await eventually(
            "the topic to go",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda a: a.code != raw.SUCCESS,
        )
        assert (gone.code, gone.remark) == (raw.TOPIC_NOT_EXIST, expected.remark)
        assert (await peer.call(raw.ROUTE, topic="payments")).code == raw.SUCCESS
        await Broker().register(broker, TOPICS, counter=2)
        await eventually(
            "the topic to be back",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda a: a.code == raw.SUCCESS,
        )


async def test_a_relay_of_a_relay_adds_the_ages(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with local_node(tmp_path) as node, Peer(node.port) as broker:
            await Broker().register(broker, TOPICS)
            near = await stack.enter_async_context(local_relay(node.address, poll_s=POLL_S))
            far = await stack.enter_async_context(local_relay(near.address, poll_s=POLL_S))
            peer = await stack.enter_async_context(Peer(far.port))
            assert not is_stale(await peer.call(raw.ROUTE, topic="orders"))
        stale = await eventually(
            "an old answer that is said to be stale",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda a: is_stale(a) and age_ms(a) > 3 * POLL_S * 1000,
        )
        assert stale.remark is not None
        assert near.address in stale.remark
        assert far.status().outage_s is None


# -- storms


async def knows_orders_only(caller: Caller) -> None:
    while True:
        request = await caller.request()
        if (request.ext_fields or {}).get("topic") == "orders":
            await caller.send(answer(request.opaque, body=route_body("10.0.0.1:10911")))


async def test_a_storm_of_unknown_topics_reaches_nodes_in_part_and_costs_no_good_answer() -> None:
    async with (
        Server(knows_orders_only) as server,
        local_relay(server.address, timeout_s=1.5) as relay,
        Peer(relay.port) as peer,
        AsyncExitStack() as stack,
    ):
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS
        stormers = [await stack.enter_async_context(Peer(relay.port)) for _ in range(20)]
        for number, stormer in enumerate(stormers):
            for opaque in range(100):
                topic = f"unknown-{number}-{opaque}"
                stormer.send_soon(raw.request(raw.ROUTE, {"topic": topic}, opaque=opaque))
        await soon("the storm", relay.status, until=lambda status: status.busy > 0)
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS

        answers = [await stormer.read() for stormer in stormers for _ in range(100)]
        assert {a.code for a in answers} == {SYSTEM_BUSY, raw.SYSTEM_ERROR}
        assert any("try again" in (a.remark or "") for a in answers)
        assert len([r for r in server.requests if "unknown" in str(r.ext_fields)]) <= MAX_ASKING
        assert relay.status().topics == 1
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS


async def test_a_storm_of_unknown_topics_is_answered_when_nodes_keep_up(node: NameServer) -> None:
    async with local_relay(node.address) as relay, Peer(relay.port) as peer:
        for opaque in range(3000):
            peer.send_soon(raw.request(raw.ROUTE, {"topic": f"t{opaque}"}, opaque=opaque))
        codes = {(await peer.read()).code for _ in range(3000)}
        assert codes == {raw.TOPIC_NOT_EXIST}
        assert relay.status().entries == 0


# -- what nobody asked for lately, and what there was no room for


async def test_what_nobody_asked_for_in_an_hour_is_still_known(tmp_path: Path) -> None:
    clock = ClockAhead()
    async with AsyncExitStack() as stack:
        node_stack = await stack.enter_async_context(AsyncExitStack())
        node = await node_stack.enter_async_context(local_node(tmp_path / "node"))
        broker = await node_stack.enter_async_context(Peer(node.port))
        await Broker().register(broker, ["orders", "payments"])
        relay = await stack.enter_async_context(
            local_relay(node.address, poll_s=POLL_S, clock=clock)
        )
        peer = await stack.enter_async_context(Peer(relay.port))
        before = {t: await peer.call(raw.ROUTE, topic=t) for t in ("orders", "payments")}
        clock.ahead_s += 3600
        await soon("both to rest", relay.status, until=lambda status: status.resting == 2)

        await Broker().register(broker, {"orders": {"perm": 4}, "payments": {}}, counter=2)
        again = await peer.call(raw.ROUTE, topic="orders")
        assert age_ms(again) < 3_600_000
        assert not is_stale(again)
        assert again.value["queueDatas"][0]["perm"] == 4  # asked again before it was told
        assert relay.status().resting == 1

        await node_stack.aclose()
        await soon("the outage", relay.status, until=lambda status: status.outage_s is not None)
        last = await peer.call(raw.ROUTE, topic="payments")
        assert (last.body, is_stale(last)) == (before["payments"].body, True)
        assert age_ms(last) >= 3_600_000
        never = await peer.call(raw.ROUTE, topic="never-seen")
        assert "has never seen the topic never-seen" in (never.remark or "")


async def test_what_was_forgotten_for_room_is_not_called_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        node_stack = await stack.enter_async_context(AsyncExitStack())
        node = await node_stack.enter_async_context(local_node(tmp_path / "node"))
        broker = await node_stack.enter_async_context(Peer(node.port))
        await Broker().register(broker, ["orders", "payments"])
        relay = await stack.enter_async_context(
            local_relay(node.address, poll_s=POLL_S, max_topics=1)
        )
        peer = await stack.enter_async_context(Peer(relay.port))
        for topic in ("orders", "payments"):
            assert (await peer.call(raw.ROUTE, topic=topic)).code == raw.SUCCESS
        await soon("the log", lambda: [r for r in caplog.records if "want of room" in r.message])
        await node_stack.aclose()
        await soon("the outage", relay.status, until=lambda status: status.outage_s is not None)

        forgotten = await peer.call(raw.ROUTE, topic="orders")

        assert forgotten.code == raw.SYSTEM_ERROR
        assert "this relay forgot the topic orders" in (forgotten.remark or "")
        assert "to make room for others" in (forgotten.remark or "")
        assert relay.health()["forgotten_for_room"] == 1
