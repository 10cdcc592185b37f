"""Brokers that are not what they were before a restart, and nodes that start without memory."""

import signal
from dataclasses import replace
from pathlib import Path

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Cause,
    KvChanged,
    RegistrationCompleted,
    TopicsChanged,
)
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.memories import (
    check_sound,
    events_of,
    journal_of,
    names,
    records,
    since_the_last_start,
    stopping_first,
    told,
    unconfirmed,
    written,
)
from support.nodes import NodeProcess, local_node
from support.raw import Peer
from support.waiting import wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")


# -- what happens to brokers that are not what they were


async def test_another_address_takes_the_place_of_an_unconfirmed_broker(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path) as (_, peer):
        await replace(A, addr="10.0.0.9:10911").register(peer, counter=2)
        route = (await peer.call(raw.ROUTE, topic="T1")).value
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.9:10911"}
        assert await unconfirmed(peer) == 0
    [left] = events_of(folder, BrokerLeft)
    assert (left.cause, left.addr) == (Cause.REPLACED, A.addr)
    assert [event.generation for event in events_of(folder, BrokerRegistered)] == [1, 2]


async def test_a_broker_that_returns_under_another_name_leaves_the_old_one(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer, ["old", "both"])
    async with stopping_first(tmp_path) as (_, peer):
        await replace(A, name="renamed").register(peer, ["new", "both"])
        assert (await peer.call(raw.ROUTE, topic="old")).code == raw.TOPIC_NOT_EXIST
        route = (await peer.call(raw.ROUTE, topic="both")).value
        assert [data["brokerName"] for data in route["brokerDatas"]] == ["renamed"]
    assert [event.cause for event in events_of(folder, BrokerLeft)] == [Cause.MOVED]
    async with local_node(tmp_path) as node:
        assert node.health()["topics"] == 2


async def test_a_slave_that_was_promoted_meanwhile_is_listed_once(tmp_path: Path) -> None:
    slave = replace(A, broker_id=1, addr="10.0.0.2:10911")
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
        await slave.register(peer)
        await A.unregister(peer)
    async with stopping_first(tmp_path) as (_, peer):
        await replace(slave, broker_id=0).register(peer)
        route = (await peer.call(raw.ROUTE, topic="T1")).value
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": slave.addr}
    async with local_node(tmp_path) as node:
        assert node.health()["brokers"] == 1


async def test_a_master_that_is_not_confirmed_leaves_its_slave_to_act(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    master = replace(A, acting_master=True, heartbeat_timeout_ms=700)
    slave = replace(master, broker_id=1, addr="10.0.0.2:10911", heartbeat_timeout_ms=60_000)
    settings = {"support_acting_master": True}
    async with stopping_first(tmp_path, **settings) as (_, peer):
        await master.register(peer)
        await slave.register(peer)
    async with stopping_first(tmp_path, **settings) as (_, peer):
        assert (await peer.ask(raw.HEARTBEAT, slave.fields)).code == raw.SUCCESS
        [left] = await told(folder, BrokerLeft)
        assert (left.cause, left.addr) == (Cause.NOT_CONFIRMED, master.addr)
        route = (await peer.call(raw.ROUTE, topic="T1")).value
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": slave.addr}
        assert [data["perm"] for data in route["queueDatas"]] == [4]


async def test_a_registration_with_something_new_changes_just_that(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer, ["same", "changed"])
        await peer.call(raw.WIPE_WRITE, brokerName="broker-a")
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer, {"same": {}, "changed": {"readQueueNums": 4}}, counter=2)
        perms = {
            topic: (await peer.call(raw.ROUTE, topic=topic)).value["queueDatas"][0]["perm"]
            for topic in ("same", "changed")
        }
    assert perms == {"same": 6, "changed": 6}  # a new version of it all ends a drain
    found = [record.event for record in since_the_last_start(folder)]
    [changed] = [event for event in found if isinstance(event, TopicsChanged)]
    assert {(c.topic, c.before, c.after) for c in changed.changes} == {
        ("same", (8, 8, 4, 0), (8, 8, 6, 0)),
        ("changed", (8, 8, 4, 0), (4, 8, 6, 0)),
    }
    [completed] = [event for event in found if isinstance(event, RegistrationCompleted)]
    assert completed.generation == 1


async def test_no_generation_is_given_twice(tmp_path: Path) -> None:
    for _ in range(3):
        async with stopping_first(tmp_path) as (node, peer):
            await A.register(peer)
            async with Peer(node.port) as other:
                await A.register(other)
                await A.unregister(other)
    generations = [event.generation for event in events_of(journal_of(tmp_path), BrokerRegistered)]
    assert generations == list(range(1, 7))


# -- off, and on again


async def test_without_warm_restart_a_node_starts_empty_and_its_journal_goes_on(
    tmp_path: Path,
) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path, warm_restart=False) as (node, peer):
        assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST
        assert node.health()["brokers"] == 0
        await replace(A, name="broker-b").register(peer)
    found = records(folder)
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert names(found)[5:7] == ["NodeStarted", "BrokerRegistered"]
    revisions = [record.event.revision for record in found]
    assert revisions == sorted(revisions)
    # What was not taken over is not believed later either.
    async with stopping_first(tmp_path) as (node, peer):
        route = (await peer.call(raw.ROUTE, topic="T1")).value
        assert [data["brokerName"] for data in route["brokerDatas"]] == ["broker-b"]
    check_sound(folder)


async def test_without_a_journal_a_node_starts_empty(tmp_path: Path) -> None:
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path, journal=False) as (node, peer):
        assert node.health()["brokers"] == 0


def test_brokers_sent_away_by_a_graceful_stop_are_there_after_it(tmp_path: Path) -> None:
    node = NodeProcess(
        tmp_path, "--enable-shutdown-gracefully", "true", "--shutdown-wait-time-seconds", "2"
    )
    broker = replace(A, heartbeat_timeout_ms=500)
    with node, node.connect() as slow:
        with node.connect() as peer:
            assert peer.ask(raw.REGISTER, broker.fields, registration_body()).code == raw.SUCCESS
            node.signal(signal.SIGTERM)
            wait_for(
                "the request to go",
                lambda: peer.call(raw.ROUTE, topic="orders").code == raw.GO_AWAY,
            )
        # It goes, and cannot come back; the slow one keeps the node waiting for all of its time.
        assert node.ended() == 0
        slow.hung_up()
    assert events_of(node.data_dir / "journal", BrokerLeft) == []
    with node, node.connect() as peer:
        assert peer.call(raw.ROUTE, topic="orders").code == raw.SUCCESS


# -- pairs


def test_pairs_the_journal_has_missed_are_told_at_the_next_start(tmp_path: Path) -> None:
    """They are on disk before they are acknowledged; the journal may be a moment later."""
    node = NodeProcess(tmp_path)
    folder = node.data_dir / "journal"
    node.kv_path.write_text('{"configTable":{"theirs":{"a":"1","b":"2"}}}')
    with node, node.connect() as peer:
        written(folder, KvChanged, until=lambda found: len(found) == 2)
        assert peer.call(raw.PUT_KV, namespace="ours", key="k", value="v").code == raw.SUCCESS
        assert node.stop() == 0
    node.kv_path.write_text('{"configTable":{"theirs":{"a":"1","b":"3"},"ours":{}}}')
    with node:
        written(folder, KvChanged, until=lambda found: len(found) == 5)
        node.stop()
    told = [
        (event.cause, event.namespace, event.key, event.before, event.after)
        for event in events_of(folder, KvChanged)
    ]
    assert told == [
        (Cause.RECOVERED, "theirs", "a", None, "1"),
        (Cause.RECOVERED, "theirs", "b", None, "2"),
        (Cause.ADMIN, "ours", "k", None, "v"),
        (Cause.RECOVERED, "ours", "k", "v", None),
        (Cause.RECOVERED, "theirs", "b", "2", "3"),
    ]
    check_sound(folder)
