"""What a node writes down of what it is asked: who, what, when, where and why."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.events import (
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    ConfigChanged,
    Event,
    HeartbeatGaps,
    KvChanged,
    MappingsChanged,
    MinBrokerChanged,
    NodeStarted,
    QueueChange,
    RegistrationCompleted,
    RequestRefused,
    RouteQueries,
    StaticMapping,
    TopicsChanged,
)
from support import raw
from support.brokers import Broker
from support.builders import mapping_info, registration_body
from support.memories import (
    READ_ONLY,
    SHAPE,
    journal_of,
    records,
    stopping_first,
    told,
)
from support.nodes import local_node
from support.raw import Peer
from support.waiting import soon

STAMP = (0, 1_700_000_000_000, 1)
A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return journal_of(tmp_path)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path, node_id="ns-1", allow_remote_config=True) as node:
        yield node


@pytest.fixture
async def peer(node: NameServer) -> AsyncIterator[Peer]:
    async with Peer(node.port) as peer:
        yield peer


class Story:
    """The events of a journal, one step after the other. Starts and windows are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = 0

    def _events(self) -> list[Event]:
        passed_over = (NodeStarted, RouteQueries, HeartbeatGaps)
        found = [record.event for record in records(self._folder)]
        return [event for event in found if not isinstance(event, passed_over)]

    async def next(self, count: int) -> list[Event]:
        """The next ``count`` events; there must not be more."""
        wanted = self._seen + count
        events = await soon(
            f"{wanted} events", self._events, until=lambda events: len(events) >= wanted
        )
        seen, self._seen = self._seen, wanted
        assert len(events) == wanted, events[seen:]
        return events[seen:]


@pytest.fixture
async def story(node: NameServer, folder: Path) -> Story:
    return Story(folder)


def changed(
    revision: int,
    cause: Cause,
    peer: str,
    *changes: QueueChange,
    broker: str = "broker-a",
) -> TopicsChanged:
    return TopicsChanged(
        revision=revision, cause=cause, peer=peer, cluster="c1", broker=broker, changes=changes
    )


# -- brokers


async def test_a_first_registration_is_told_in_full(peer: Peer, story: Story) -> None:
    await A.register(peer, ["orders", "payments"])

    about = {"cluster": "c1", "broker": "broker-a", "broker_id": 0, "addr": A.addr, "generation": 1}
    assert await story.next(3) == [
        BrokerRegistered(
            revision=1,
            cause=Cause.REGISTER,
            peer=peer.address,
            **about,  # type: ignore[arg-type]
            ha_addr="10.0.0.1:10912",
            heartbeat_timeout_ms=120_000,
            acting_master=False,
            zone=None,
            epoch=0,
            filter_servers=(),
            addrs_before={},
            addrs_after={0: A.addr},
        ),
        changed(
            2,
            Cause.REGISTER,
            peer.address,
            QueueChange("orders", None, SHAPE),
            QueueChange("payments", None, SHAPE),
        ),
        RegistrationCompleted(
            revision=3,
            cause=Cause.REGISTER,
            peer=peer.address,
            **about,  # type: ignore[arg-type]
            topics=2,
            data_version=STAMP,
        ),
    ]


async def test_later_registrations_are_told_as_what_they_change(peer: Peer, story: Story) -> None:
    await A.register(peer, ["orders", "payments"])
    await story.next(3)

    await A.register(peer, ["orders", "payments"])  # to the letter
    await A.register(peer, {"orders": {}, "payments": {"perm": 4}, "refunds": {}}, counter=2)
    assert (await story.next(2))[0] == changed(
        4,
        Cause.REGISTER,
        peer.address,
        QueueChange("payments", SHAPE, READ_ONLY),
        QueueChange("refunds", None, SHAPE),
    )

    body = registration_body({"orders": {}}, counter=2, filter_servers=["10.0.0.1:5000"])
    fields = {**A.fields, "__ZONE_NAME": "east"}
    assert (await peer.ask(raw.REGISTER, fields, body)).code == raw.SUCCESS
    updated, completed = await story.next(2)
    assert isinstance(updated, BrokerUpdated)
    assert isinstance(completed, RegistrationCompleted)
    differences = {
        name: (before, updated.after[name])
        for name, before in updated.before.items()
        if before != updated.after[name]
    }
    assert differences == {"zone": (None, "east"), "filter_servers": ((), ("10.0.0.1:5000",))}


async def test_a_registration_over_a_new_connection_is_another_generation(
    node: NameServer, peer: Peer, story: Story
) -> None:
    await A.register(peer)
    async with Peer(node.port) as other:
        await A.register(other)
        events = await story.next(5)
        again = events[3]
        assert isinstance(again, BrokerRegistered)
        assert (again.peer, again.generation) == (other.address, 2)
        assert again.addrs_before == again.addrs_after == {0: A.addr}
        # Nobody is told to leave: what the first connection does is no longer its business.
        await peer.close()
        await A.unregister(other)
        [left] = await story.next(1)
    assert isinstance(left, BrokerLeft)
    assert left.generation == 2


async def test_static_mappings_are_told(peer: Peer, story: Story) -> None:
    body = registration_body(["static", "other"], mappings={"static": mapping_info("static")})
    assert (await peer.ask(raw.REGISTER, A.fields, body)).code == raw.SUCCESS

    found = [event for event in await story.next(4) if isinstance(event, MappingsChanged)]
    assert found == [
        MappingsChanged(
            revision=3,
            cause=Cause.REGISTER,
            peer=peer.address,
            cluster="c1",
            broker="broker-a",
            mappings=(
                StaticMapping(
                    topic="static",
                    bname="broker-a",
                    total_queues=4,
                    epoch=1_700_000_000_123,
                    scope="__global__",
                    dirty=False,
                    curr_id_map=((0, 0), (1, 1)),
                ),
            ),
        )
    ]


def left(revision: int, cause: Cause, peer: str, *, topics_lost: int = 2) -> BrokerLeft:
    return BrokerLeft(
        revision=revision,
        cause=cause,
        peer=peer,
        cluster="c1",
        broker="broker-a",
        broker_id=0,
        addr=A.addr,
        generation=1,
        addrs_before={0: A.addr},
        addrs_after={},
        topics_lost=topics_lost,
    )


async def test_a_broker_that_unregisters_has_left_for_that(peer: Peer, story: Story) -> None:
    await A.register(peer)
    await story.next(3)
    await A.unregister(peer)
    assert await story.next(1) == [left(4, Cause.UNREGISTER, peer.address)]


async def test_a_broker_whose_connection_ends_has_left_for_that(
    node: NameServer, story: Story
) -> None:
    async with Peer(node.port) as peer:
        await A.register(peer)
        address = peer.address
    assert (await story.next(4))[3] == left(4, Cause.CONNECTION_CLOSED, address)


async def test_a_broker_that_falls_silent_has_left_for_that(peer: Peer, story: Story) -> None:
    await replace(A, heartbeat_timeout_ms=50).register(peer)
    assert (await story.next(4))[3] == left(4, Cause.EXPIRED, "")


async def test_a_connection_that_is_idle_for_too_long_takes_its_broker_with_it(
    tmp_path: Path, folder: Path
) -> None:
    async with stopping_first(tmp_path, server_channel_max_idle_time_seconds=1) as (_, peer):
        await A.register(peer)
        [gone] = await told(folder, BrokerLeft)
        assert gone == left(4, Cause.IDLE, peer.address)


async def test_a_change_of_masters_is_told_with_all_that_follows_from_it(
    node: NameServer, peer: Peer, story: Story
) -> None:
    master = replace(A, acting_master=True)
    slave = replace(A, broker_id=1, addr="10.0.0.2:10911", acting_master=True)
    await master.register(peer, ["orders", "payments"])
    async with Peer(node.port) as other:
        await slave.register(other, ["orders", "payments"])
        await story.next(5)
        await master.unregister(peer)
        gone, topics, lowest = await story.next(3)
        assert isinstance(gone, BrokerLeft)
        assert (gone.addrs_after, gone.topics_lost) == ({1: slave.addr}, 0)
        assert topics == changed(
            7,
            Cause.UNREGISTER,
            "",
            QueueChange("orders", SHAPE, READ_ONLY, SHAPE),
            QueueChange("payments", SHAPE, READ_ONLY, SHAPE),
        )
        assert lowest == MinBrokerChanged(
            revision=8,
            cause=Cause.UNREGISTER,
            peer=peer.address,
            cluster="c1",
            broker="broker-a",
            min_broker_id=1,
            min_broker_addr=slave.addr,
            offline_addr=master.addr,
            ha_addr=None,
            recipients=(slave.addr,),
        )


async def test_two_claims_to_one_identity_are_told_with_the_one_that_is_believed(
    node: NameServer, peer: Peer, story: Story
) -> None:
    twin = replace(A, addr="10.0.0.99:10911")
    await A.register(peer)
    async with Peer(node.port) as other:
        await twin.register(other)
        conflict, gone, joined = (await story.next(7))[3:6]
        assert conflict == BrokerConflict(
            revision=4,
            cause=Cause.CONFLICT,
            peer=other.address,
            cluster="c1",
            broker="broker-a",
            broker_id=0,
            kept=twin.addr,
            other=A.addr,
            reason="another address registered under the same name and id; the last one counts",
        )
        assert isinstance(gone, BrokerLeft)
        assert (gone.cause, gone.addr, gone.topics_lost) == (Cause.REPLACED, A.addr, 0)
        assert isinstance(joined, BrokerRegistered)
        assert joined.addr == twin.addr


async def test_what_is_refused_is_told_with_the_reason(
    node: NameServer, peer: Peer, story: Story
) -> None:
    fields = {**A.fields, "bodyCrc32": "1"}
    assert (await peer.ask(raw.REGISTER, fields, registration_body())).code == raw.SYSTEM_ERROR
    assert (await peer.call(raw.PUT_KV, namespace="ns", value="v")).code == raw.SYSTEM_ERROR
    single = registration_body(["only"])
    assert (await peer.ask(raw.REGISTER, A.fields, single)).code == raw.SYSTEM_ERROR

    crc, kv, alone = await story.next(3)
    assert crc == RequestRefused(
        revision=1,
        cause=Cause.REFUSED,
        peer=peer.address,
        request="REGISTER_BROKER",
        subject=f"c1 broker-a {A.addr}",
        reason="crc32 not match",
        answered_success=False,
    )
    assert isinstance(kv, RequestRefused)
    assert (kv.request, kv.subject) == ("PUT_KV_CONFIG", "ns")
    assert "key" in kv.reason
    assert isinstance(alone, RequestRefused)
    assert (alone.cause, alone.reason) == (Cause.REGISTER, "a single topic")


# -- administrators


async def test_permissions_are_told_with_what_the_broker_said(peer: Peer, story: Story) -> None:
    await A.register(peer, ["orders", "payments"])
    await story.next(3)
    await peer.call(raw.WIPE_WRITE, brokerName="broker-a")
    await peer.call(raw.WIPE_WRITE, brokerName="broker-a")  # there is nothing left to wipe
    await peer.call(raw.ADD_WRITE, brokerName="broker-a")
    assert await story.next(2) == [
        changed(
            4,
            Cause.ADMIN,
            peer.address,
            QueueChange("orders", SHAPE, READ_ONLY, SHAPE),
            QueueChange("payments", SHAPE, READ_ONLY, SHAPE),
        ),
        changed(
            5,
            Cause.ADMIN,
            peer.address,
            QueueChange("orders", READ_ONLY, SHAPE),
            QueueChange("payments", READ_ONLY, SHAPE),
        ),
    ]


async def test_topics_that_are_registered_and_deleted_are_told(peer: Peer, story: Story) -> None:
    await A.register(peer)
    await story.next(3)
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
    body = json.dumps({"queueDatas": [{**queues, "topicSysFlag": 0}]}).encode()
    assert (await peer.ask(raw.REGISTER_TOPIC, {"topic": "made"}, body)).code == raw.SUCCESS
    assert (await peer.call(raw.DELETE_TOPIC, topic="made")).code == raw.SUCCESS
    assert (await peer.call(raw.DELETE_TOPIC, topic="nobody")).code == raw.SUCCESS
    assert await story.next(2) == [
        changed(4, Cause.REGISTER, peer.address, QueueChange("made", None, (2, 2, 6, 0))),
        changed(5, Cause.ADMIN, peer.address, QueueChange("made", (2, 2, 6, 0), None)),
    ]


async def test_pairs_are_told_with_their_values_before_and_after(peer: Peer, story: Story) -> None:
    for value in ("1", "2"):
        await peer.call(raw.PUT_KV, namespace="ns", key="k", value=value)
    await peer.call(raw.DELETE_KV, namespace="ns", key="k")
    about = {"cause": Cause.ADMIN, "peer": peer.address, "namespace": "ns", "key": "k"}
    assert await story.next(3) == [
        KvChanged(revision=number, before=before, after=after, **about)  # type: ignore[arg-type]
        for number, (before, after) in enumerate([(None, "1"), ("1", "2"), ("2", None)], 1)
    ]


async def test_settings_are_told_with_their_values_before_and_after(
    peer: Peer, story: Story
) -> None:
    update = b"enableTopicList=false\nsupportActingMaster=true\n"
    assert (await peer.call(raw.UPDATE_CONFIG, update)).code == raw.SUCCESS
    assert await story.next(1) == [
        ConfigChanged(
            revision=1,
            cause=Cause.ADMIN,
            peer=peer.address,
            before={"enableTopicList": "true", "supportActingMaster": "false"},
            after={"enableTopicList": "false", "supportActingMaster": "true"},
        )
    ]
