"""What a node tells of its memory: its health, its latest records, and why there is no route."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from routebook import __version__
from routebook.client.client import NameServerClient
from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    GroupRestated,
    NodeStarted,
    QueryCount,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.record import Record, decode
from routebook.server.recorder import MAX_RECENT
from routebook.wire.codes import RequestCode
from support import raw
from support.brokers import Broker
from support.memories import journal_of, names, records, stopping_first, told
from support.nodes import local_node
from support.raw import Peer
from support.waiting import eventually, soon

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
B = Broker("broker-b", addr="10.0.0.2:10911", cluster="c1")
RECENT = int(RequestCode.ROUTEBOOK_RECENT)
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def same(record: Record) -> tuple[object, ...]:
    return (record.seq, record.wall_ms, record.mono_ms, record.node, record.event)


# -- health


async def test_health_tells_what_the_node_has_and_how_its_journal_is(tmp_path: Path) -> None:
    async with stopping_first(tmp_path, node_id="ns-1") as (node, peer):
        await A.register(peer, ["orders", "payments"])
        await B.register(peer, ["orders", "refunds"])
        async with NameServerClient(node.address) as client:
            found = await client.health()
        assert found["uptime_ms"] >= 0
        journal = found.pop("journal")
        assert set(found.pop("memory")) >= {"limit", "resident", "tables", "kinds", "peers"}
        assert set(found.pop("stalls")) == {"count", "paused_ms", "last"}
        work = found.pop("work")
        assert set(work) == {"waiting", "refused"}
        assert set(work["refused"].values()) == {0}
        assert set(found.pop("watch").values()) == {0}
        del found["uptime_ms"], found["wall_ms"], found["incarnation"], found["boot"]
        assert found == {
            "node": "ns-1",
            "version": __version__,
            "address": node.address,
            "revision": 6,
            "brokers": 2,
            "unconfirmed": 0,
            "topics": 3,
            "routes": 4,
            "guard": {"held": []},
            "gateway": None,
            "fleet": "",
            "tasks": {"failing": {}, "errors": 0, "last_error": None},
            "ok": True,
        }
        assert (journal["node"], journal["last_seq"]) == ("ns-1", 7)
        assert (journal["lost"], journal["errors"], journal["failing"]) == (0, 0, False)
        await soon("a sync", lambda: node.health()["journal"]["synced_seq"] == 7)  # type: ignore[index]


async def test_a_node_without_a_journal_is_well_too(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path, journal=False) as node,
        NameServerClient(node.address) as client,
    ):
        found = await client.health()
    assert (found["ok"], found["journal"]) == (True, {})
    assert re.fullmatch(r"[A-Za-z0-9._-]+-[0-9a-f]{8}", found["node"])


# -- the latest records

STATED = GroupRestated | StateRestated


async def recent(address: str, **about: str) -> list[Record]:
    """Without the state they begin with."""
    async with NameServerClient(address) as client:
        found = [decode(line) for line in await client.recent(**about)]  # type: ignore[arg-type]
    stated = [number for number, record in enumerate(found) if isinstance(record.event, STATED)]
    return found[stated[-1] + 1 :]


async def test_the_latest_records_are_those_of_the_journal(tmp_path: Path) -> None:
    async with stopping_first(tmp_path) as (node, peer):
        await A.register(peer)
        await A.unregister(peer)
        found = await recent(node.address)
        written = await soon(
            "the journal", lambda: records(journal_of(tmp_path)), until=lambda got: len(got) == 5
        )
    assert [same(record) for record in found] == [same(record) for record in written]


async def test_the_latest_records_can_be_asked_for_a_topic(tmp_path: Path) -> None:
    async with stopping_first(tmp_path, journal_window_seconds=1) as (node, peer):
        await A.register(peer, ["orders", "payments"])
        await B.register(peer, ["refunds", "returns"])
        for topic in ("orders", "refunds"):
            await peer.call(raw.ROUTE, topic=topic)
        await told(journal_of(tmp_path), RouteQueries)
        found = await recent(node.address, topic="orders")
    changes = [r.event for r in found if isinstance(r.event, TopicsChanged)]
    assert [[change.topic for change in event.changes] for event in changes] == [["orders"]]
    queries = [r.event for r in found if isinstance(r.event, RouteQueries)]
    assert [event.topics for event in queries] == [(QueryCount("orders", 1, 0, 0),)]
    joined = [r.event.broker for r in found if isinstance(r.event, BrokerRegistered)]
    assert joined == ["broker-a", "broker-b"]  # what may explain it


async def test_the_latest_records_can_be_asked_for_a_broker(tmp_path: Path) -> None:
    async with stopping_first(tmp_path, journal_window_seconds=1) as (node, peer):
        await A.register(peer, ["orders", "payments"])
        await B.register(peer, ["refunds", "returns"])
        await A.unregister(peer)
        await peer.call(raw.ROUTE, topic="orders")
        await told(journal_of(tmp_path), RouteQueries)
        found = await recent(node.address, broker="broker-a")
    assert names(found) == [
        "NodeStarted",
        "BrokerRegistered",
        "TopicsChanged",
        "RegistrationCompleted",
        "BrokerLeft",
    ]


async def test_the_latest_records_fit_into_an_answer(tmp_path: Path) -> None:
    padding = "x" * 200
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        for counter in range(1, 25):
            queues = {f"{padding}-{n}": {"readQueueNums": counter} for n in range(1000)}
            await A.register(peer, queues, counter=counter)

        async def look() -> raw.Answer:
            return await peer.call(RECENT)

        answer = await eventually(
            "a state", look, until=lambda a: (a.ext_fields or {}).get("state") == "yes"
        )
        assert answer.ext_fields is not None
        dropped, from_seq = (int(answer.ext_fields[name]) for name in ("dropped", "from_seq"))
        lines = [line for line in answer.body.splitlines(True) if decode(line).seq >= from_seq]
        # The newest ones, without a gap, as many as there is room for, and the one before them.
        assert MAX_RECENT * 0.9 < sum(map(len, lines[1:])) <= MAX_RECENT
        assert [decode(line).seq for line in lines] == list(range(dropped, dropped + len(lines)))
        assert from_seq == dropped
        narrow = await peer.call(RECENT, topic=f"{padding}-7")
        assert narrow.ext_fields == {"dropped": "0", "from_seq": "1", "state": "yes"}


async def test_a_node_remembers_lately_also_without_a_journal(tmp_path: Path) -> None:
    async with local_node(tmp_path, journal=False, node_id="ns-1") as node, Peer(node.port) as peer:
        await A.register(peer)
        await A.unregister(peer)
        found = await recent(node.address)
    assert names(found)[-1] == "BrokerLeft"
    assert [record.seq for record in found] == [1, 2, 3, 4, 5]
    assert {record.node for record in found} == {"ns-1"}
    assert isinstance(found[0].event, NodeStarted)


# -- why there is no route


async def reason(peer: Peer, topic: str) -> str:
    """The third line; the first two are RocketMQ's own."""
    answer = await peer.call(raw.ROUTE, topic=topic)
    assert answer.code == raw.TOPIC_NOT_EXIST
    first, second, third = (answer.remark or "").split("\n")
    assert first == f"No topic route info in name server for the topic: {topic}"
    assert second.startswith("See https://rocketmq.apache.org/")
    assert third.startswith("Reason: ")
    return third.removeprefix("Reason: ")


async def test_a_topic_nobody_has_had_is_said_to_be_new_to_the_node(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        text = await reason(peer, "typo")
    assert re.fullmatch(rf"not seen by this node since it started at {TIME}", text)


async def test_a_topic_that_was_deleted_is_said_to_be(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        await A.register(peer, ["orders", "payments"])
        await peer.call(raw.DELETE_TOPIC, topic="orders")
        text = await reason(peer, "orders")
        assert re.fullmatch(rf"deleted from broker-a at {TIME} by {peer.address}", text)
        await A.register(peer, ["orders", "payments"], counter=2)
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS


@pytest.mark.parametrize(
    ("leaving", "because"),
    [
        pytest.param("unregister", "it unregistered", id="unregistered"),
        pytest.param("close", "its connection was closed", id="closed"),
        pytest.param("silence", "it was not heard of in time", id="silent"),
        pytest.param("move", "its address registered under another name", id="moved"),
    ],
)
async def test_a_topic_whose_broker_left_is_said_to_be_without_one(
    tmp_path: Path, leaving: str, because: str
) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        broker = replace(A, heartbeat_timeout_ms=50 if leaving == "silence" else None)
        async with Peer(node.port) as own:
            await broker.register(own, ["orders", "payments"])
            if leaving == "unregister":
                await broker.unregister(own)
            elif leaving == "move":
                await replace(broker, name="renamed").register(own, ["other", "topics"])
            elif leaving == "silence":
                await told(journal_of(tmp_path), BrokerLeft)
        await eventually(
            "the topic to go",
            lambda: peer.call(raw.ROUTE, topic="orders"),
            until=lambda answer: answer.code == raw.TOPIC_NOT_EXIST,
        )
        text = await reason(peer, "orders")
        assert re.fullmatch(
            r"known, but no live broker has it: the last one, broker-a \(10\.0\.0\.1:10911\),"
            rf" left at {TIME}, {because}",
            text,
        )


async def test_no_reason_is_looked_for_under_a_name_no_topic_can_have(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        answer = await peer.call(raw.ROUTE, topic="x" * 5000)
        assert answer.code == raw.TOPIC_NOT_EXIST
        assert len((answer.remark or "").split("\n")) == 2
