"""What a node writes down of itself, for how long it is kept, and under which name."""

import random
import time
from pathlib import Path

import pytest

from routebook.events import (
    Cause,
    HeartbeatGaps,
    NodeStarted,
    NodeStopped,
    QueryCount,
    RouteQueries,
    TopicsChanged,
)
from support import raw
from support.brokers import Broker
from support.memories import (
    check_sound,
    events_of,
    files_in,
    journal_of,
    names,
    records,
    stopping_first,
    told,
)
from support.nodes import local_node
from support.raw import Peer
from support.waiting import soon

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return journal_of(tmp_path)


# -- the node itself


async def test_each_record_says_when_and_where_in_an_order_without_gaps(
    tmp_path: Path, folder: Path
) -> None:
    began_ms = time.time_ns() // 1_000_000
    async with local_node(tmp_path, node_id="ns-1") as node, Peer(node.port) as peer:
        await A.register(peer)
        await A.unregister(peer)
    async with local_node(tmp_path, node_id="ns-1"):
        pass
    ended_ms = time.time_ns() // 1_000_000

    found = records(folder)
    assert names(found) == [
        "NodeStarted",
        "BrokerRegistered",
        "TopicsChanged",
        "RegistrationCompleted",
        "BrokerLeft",
        "NodeStopped",
        "NodeStarted",
        "NodeStopped",
    ]
    assert [record.seq for record in found] == list(range(1, 9))
    assert {record.node for record in found} == {"ns-1"}
    wall, mono = [record.wall_ms for record in found], [record.mono_ms for record in found]
    assert began_ms <= wall[0]
    assert wall[-1] <= ended_ms
    assert (wall, mono) == (sorted(wall), sorted(mono))
    revisions = [record.event.revision for record in found]
    assert revisions == [0, 1, 2, 3, 4, 4, 4, 4]
    check_sound(folder)


async def test_a_start_and_a_stop_tell_what_the_node_had(tmp_path: Path, folder: Path) -> None:
    async with stopping_first(tmp_path) as (node, peer):
        await A.register(peer)
        first = node.address
    async with local_node(tmp_path) as node:
        second = node.address

    started = [(e.cause, e.address, e.brokers, e.topics) for e in events_of(folder, NodeStarted)]
    assert started == [(Cause.START, first, 0, 0), (Cause.START, second, 1, 2)]
    stopped = [(e.cause, e.brokers, e.topics) for e in events_of(folder, NodeStopped)]
    assert stopped == [(Cause.STOP, 1, 2)] * 2


async def test_signs_of_life_and_queries_are_counted_in_windows(
    tmp_path: Path, folder: Path
) -> None:
    async with local_node(tmp_path, journal_window_seconds=1) as node, Peer(node.port) as peer:
        await A.register(peer, ["orders", "payments"])
        for _ in range(3):
            await peer.call(
                raw.HEARTBEAT, clusterName="c1", brokerName="broker-a", brokerAddr=A.addr
            )
        for topic in ("orders", "orders", "typo", "orders"):
            await peer.call(raw.ROUTE, topic=topic)
        [gaps] = await told(folder, HeartbeatGaps)
        [queries] = await told(folder, RouteQueries)
        for _ in range(2):
            await peer.call(raw.ROUTE, topic="payments")
        queries_then = await told(folder, RouteQueries, until=lambda found: len(found) == 2)

    assert (gaps.cause, gaps.peer, gaps.addr, gaps.generation) == (Cause.WINDOW, "", A.addr, 1)
    assert len(gaps.gaps_ms) == 3
    assert all(0 <= gap < 1000 for gap in gaps.gaps_ms)
    assert set(queries.topics) == {QueryCount("orders", 3, 0, 0), QueryCount("typo", 0, 1, 0)}
    assert (queries.cause, queries.others) == (Cause.WINDOW, 0)
    assert queries_then[1].topics == (QueryCount("payments", 2, 0, 0),)
    assert {w.window_ms // 1000 for w in (gaps, queries, queries_then[1])} == {1}


async def test_queries_while_the_node_is_not_ready_are_counted_apart(
    tmp_path: Path, folder: Path
) -> None:
    async with local_node(tmp_path, need_wait_for_service=True) as node, Peer(node.port) as peer:
        answer = await peer.call(raw.ROUTE, topic="orders")
        assert (answer.code, answer.remark) == (raw.SYSTEM_ERROR, "name server not ready")
    # What a window had not yet told is told at the end.
    [queries] = events_of(folder, RouteQueries)
    assert queries.topics == (QueryCount("orders", 0, 0, 1),)


async def test_queries_for_many_topics_are_told_in_several_records(
    tmp_path: Path, folder: Path
) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        for number in range(2300):
            peer.send_soon(raw.request(raw.ROUTE, {"topic": f"topic-{number}"}, opaque=number))
        for _ in range(2300):
            await peer.read()
    queries = events_of(folder, RouteQueries)
    assert [len(event.topics) for event in queries] == [1000, 1000, 300]
    counts = {count for event in queries for count in event.topics}
    assert counts == {QueryCount(f"topic-{number}", 0, 1, 0) for number in range(2300)}
    assert {event.window_ms for event in queries} == {queries[0].window_ms}
    assert queries[0].window_ms < 60_000  # that of a node that is stopped ends with it


async def test_a_slice_of_many_topics_is_one_record(tmp_path: Path, folder: Path) -> None:
    topics = [f"topic-{number}" for number in range(2500)]
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        await A.register(peer, topics)
    slices = events_of(folder, TopicsChanged)
    assert [len(event.changes) for event in slices] == [1000, 1000, 500]
    assert [change.topic for event in slices for change in event.changes] == topics
    check_sound(folder)


# -- what is kept, and under which name


async def test_without_a_journal_nothing_is_written(tmp_path: Path) -> None:
    async with local_node(tmp_path, journal=False) as node, Peer(node.port) as peer:
        await A.register(peer)
        assert node.health()["journal"] == {}
    assert files_in(tmp_path) == []


async def test_a_node_is_given_a_name_once(tmp_path: Path, folder: Path) -> None:
    async with local_node(tmp_path) as node:
        name = node.health()["node"]
    async with local_node(tmp_path) as node:
        assert node.health()["node"] == name
    assert (folder.parent / "node-id").read_text() == f"{name}\n"
    assert {record.node for record in records(folder)} == {name}

    async with local_node(tmp_path / "other") as node:
        assert node.health()["node"] != name


async def test_a_name_that_is_set_is_used_and_not_kept(tmp_path: Path, folder: Path) -> None:
    async with local_node(tmp_path) as node:
        name = node.health()["node"]
    async with local_node(tmp_path, node_id="ns-east.1") as node:
        assert node.health()["node"] == "ns-east.1"
    async with local_node(tmp_path) as node:
        assert node.health()["node"] == name
    assert [record.node for record in records(folder)][::2] == [name, "ns-east.1", name]
    check_sound(folder)


async def test_a_journal_is_cut_into_segments_and_read_as_one(tmp_path: Path, folder: Path) -> None:
    topics = [f"a-topic-with-a-long-name-{number}" for number in range(1000)]
    async with stopping_first(tmp_path, journal_rotate_bytes=65_536) as (_, peer):
        for counter in range(1, 13):
            queues = {topic: {"readQueueNums": counter} for topic in topics}
            await A.register(peer, queues, counter=counter)
        await soon("sealed segments", lambda: len(list(folder.glob("*.manifest.json"))) >= 4)
    assert len(events_of(folder, TopicsChanged)) == 12
    check_sound(folder)
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        route = await peer.call(raw.ROUTE, topic=topics[0])
        assert route.value["queueDatas"][0]["readQueueNums"] == 12


async def test_old_segments_go_when_a_snapshot_holds_what_they_told(
    tmp_path: Path, folder: Path
) -> None:
    chance = random.Random(1)
    settings = {"journal_rotate_bytes": 65_536, "journal_retain_megabytes": 1}
    async with stopping_first(tmp_path, **settings) as (_, peer):
        await A.register(peer, ["kept-1", "kept-2"])
        for counter in range(2, 24):
            # Names that gzip cannot do much about.
            noise = [chance.randbytes(100).hex() for _ in range(1000)]
            await A.register(peer, noise, counter=counter)
        await soon("a snapshot", lambda: list(folder.glob("snapshot-*.json.gz")))
        await A.register(peer, [chance.randbytes(100).hex() for _ in range(1000)], counter=99)
        await soon("the removal", lambda: next(iter(records(folder))).seq > 1)
    check_sound(folder)
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        assert (await peer.call(raw.ROUTE, topic="kept-1")).code == raw.SUCCESS
        assert node.health()["unconfirmed"] == 1
