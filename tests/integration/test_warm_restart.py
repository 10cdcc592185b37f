"""A node that is restarted goes on with what it knew."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    Cause,
    JournalRecovered,
    NodeStarted,
    NodeStopped,
    TopicsChanged,
)
from routebook.server.report import wall_ms
from support import raw
from support.brokers import Broker
from support.builders import mapping_info, registration_body
from support.memories import (
    all_written,
    bodies,
    check_sound,
    events_of,
    health,
    journal_of,
    records,
    since_the_last_start,
    stopping_first,
    told,
    unconfirmed,
)
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer, Peer
from support.waiting import eventually, wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")

both_ways = pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])


# -- everything there is


class World:
    """Brokers of two clusters, each on a connection of its own, and some that are gone."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack
        a, b = A, Broker("broker-b", addr="10.0.0.3:10911", cluster="c1", acting_master=True)
        self.master = self._join(
            a,
            registration_body(
                ["orders", "payments", "static"],
                filter_servers=["10.0.0.1:5000", "10.0.0.1:5001"],
                mappings={"static": mapping_info("static")},
            ),
            {"__ZONE_NAME": "east"},
        )
        self.slave = self._join(
            replace(a, broker_id=1, addr="10.0.0.2:10911"),
            registration_body(["orders", "payments"]),
            {"__ZONE_NAME": "east"},
        )
        self.gone = self._join(b, registration_body(["orders", "acted"]))
        self.acting = self._join(
            replace(b, broker_id=2, addr="10.0.0.4:10911"),
            registration_body(["orders", "acted"]),
        )
        self.drained = self._join(
            Broker("broker-c", addr="10.0.0.5:10911", cluster="c2"),
            registration_body({"orders": {"readQueueNums": 4}, "refunds": {"topicSysFlag": 1}}),
        )
        for number, leaver in enumerate(("broker-d", "broker-e")):
            broker = Broker(leaver, addr=f"10.0.0.{number + 6}:10911", cluster="c2")
            joined = self._join(broker, registration_body([f"only-{leaver}", "orders"]))
            if number:
                joined.leave()
            else:
                joined.peer.socket.close()
        self.gone.leave()
        admin = self._connect()
        assert admin.call(raw.WIPE_WRITE, brokerName="broker-c").code == raw.SUCCESS
        queues = {"brokerName": "broker-c", "perm": 6, "readQueueNums": 2, "writeQueueNums": 3}
        body = json.dumps({"queueDatas": [{**queues, "topicSysFlag": 0}]}).encode()
        for topic in ("made", "deleted"):
            assert admin.ask(raw.REGISTER_TOPIC, {"topic": topic}, body).code == raw.SUCCESS
        assert admin.call(raw.DELETE_TOPIC, topic="deleted").code == raw.SUCCESS
        assert admin.call(raw.PUT_KV, namespace="ns", key="k", value="v").code == raw.SUCCESS
        wait_for(
            "the closed connection to be noticed",
            lambda: admin.call(raw.ROUTE, topic="only-broker-d").code == raw.TOPIC_NOT_EXIST,
        )
        self.admin = admin

    def _connect(self) -> BlockingPeer:
        return self._stack.enter_context(BlockingPeer(self._port))

    def _join(
        self, broker: Broker, body: bytes, more: dict[str, str] | None = None
    ) -> "JoinedBroker":
        joined = JoinedBroker({**broker.fields, **(more or {})}, body)
        joined.register(self._connect())
        return joined

    @property
    def brokers(self) -> list["JoinedBroker"]:
        return [self.master, self.slave, self.acting, self.drained]


class JoinedBroker:
    def __init__(self, fields: dict[str, str], body: bytes) -> None:
        self.fields = fields
        self._body = body
        self.peer: BlockingPeer

    @property
    def addr(self) -> str:
        return self.fields["brokerAddr"]

    def register(self, peer: BlockingPeer) -> None:
        self.peer = peer
        answer = peer.ask(raw.REGISTER, self.fields, self._body)
        assert answer.code == raw.SUCCESS, answer

    def leave(self) -> None:
        assert self.peer.ask(raw.UNREGISTER, self.fields).code == raw.SUCCESS

    def changed(self, peer: BlockingPeer) -> str:
        """What a broker is told that asks whether its topics need to be registered."""
        version = json.loads(self._body)["topicConfigSerializeWrapper"]["dataVersion"]
        answer = peer.ask(raw.QUERY_DATA_VERSION, self.fields, json.dumps(version).encode())
        assert answer.code == raw.SUCCESS
        assert answer.ext_fields is not None
        if answer.ext_fields["changed"] == "false":
            assert json.loads(answer.body)["counter"] == version["counter"]
        return answer.ext_fields["changed"]


TOPICS = ("orders", "payments", "static", "acted", "refunds", "made")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def end(node: NodeProcess, how: signal.Signals) -> None:
    if how is signal.SIGTERM:
        assert node.stop() == 0
        return
    with node.connect() as peer:
        all_written(peer)
    node.kill()


@both_ways
def test_the_same_routes_are_served_at_once(
    tmp_path: Path, stack: ExitStack, how: signal.Signals
) -> None:
    node = NodeProcess(tmp_path, "--support-acting-master", "true")
    folder = node.data_dir / "journal"
    with node:
        world = World(node.port, stack)
        before = bodies(world.admin, TOPICS)
        cluster_info = world.admin.call(raw.CLUSTER_INFO).body
        all_topics = set(world.admin.call(raw.ALL_TOPICS).value["topicList"])
        assert health(world.admin)["unconfirmed"] == 0
        end(node, how)

    with node, node.connect() as peer:
        assert bodies(peer, TOPICS) == before
        assert peer.call(raw.CLUSTER_INFO).body == cluster_info
        assert set(peer.call(raw.ALL_TOPICS).value["topicList"]) == all_topics == set(TOPICS)
        for topic in ("deleted", "only-broker-d", "only-broker-e"):
            assert peer.call(raw.ROUTE, topic=topic).code == raw.TOPIC_NOT_EXIST
        assert peer.call(raw.GET_KV, namespace="ns", key="k").ext_fields == {"value": "v"}
        found = health(peer)
        assert (found["brokers"], found["unconfirmed"], found["ok"]) == (4, 4, True)

        # Each says that it is there, as brokers do: first they ask whether they must register.
        for broker in world.brokers:
            assert broker.changed(stack.enter_context(node.connect())) == "false"
        assert health(peer)["unconfirmed"] == 0
        for broker in world.brokers:
            broker.register(stack.enter_context(node.connect()))
        assert bodies(peer, TOPICS) == before  # an administrator's drain included
        node.stop()

    check_sound(folder)
    found_now = since_the_last_start(folder)
    assert not [r for r in found_now if isinstance(r.event, (TopicsChanged, BrokerLeft))]
    confirmed = [r.event for r in found_now if isinstance(r.event, BrokerConfirmed)]
    assert [event.addr for event in confirmed] == [broker.addr for broker in world.brokers]
    assert {event.cause for event in confirmed} == {Cause.RECOVERED}
    started = events_of(folder, NodeStarted)
    assert [(event.brokers, event.topics) for event in started] == [(0, 0), (4, 8)]
    recovered = events_of(folder, JournalRecovered)
    assert len(recovered) == (how is signal.SIGKILL)
    assert len(events_of(folder, NodeStopped)) == 2 - len(recovered)


def test_a_second_restart_finds_what_nobody_has_confirmed_yet(
    tmp_path: Path, stack: ExitStack
) -> None:
    node = NodeProcess(tmp_path, "--support-acting-master", "true")
    with node:
        world = World(node.port, stack)
        before = bodies(world.admin, TOPICS)
        end(node, signal.SIGKILL)
    for how in (signal.SIGKILL, signal.SIGTERM):
        with node:
            end(node, how)
    with node, node.connect() as peer:
        assert bodies(peer, TOPICS) == before
        assert health(peer)["unconfirmed"] == 4
        assert world.drained.changed(peer) == "false"


# -- being confirmed, or not


async def left_alone(node: NameServer) -> None:
    """Wait until but one connection is left."""

    async def connections() -> int:
        return len(node._service._connections)  # type: ignore[union-attr]

    await eventually("the hang-up", connections, until=lambda number: number == 1)


@pytest.mark.parametrize(
    ("code", "flag"),
    [
        pytest.param(raw.HEARTBEAT, 0, id="heartbeat"),
        pytest.param(raw.HEARTBEAT, raw.ONEWAY, id="oneway-heartbeat"),
        pytest.param(raw.QUERY_DATA_VERSION, 0, id="data-version"),
        pytest.param(raw.QUERY_DATA_VERSION, raw.ONEWAY, id="oneway-data-version"),
        pytest.param(raw.REGISTER, 0, id="registration"),
        pytest.param(raw.REGISTER, raw.ONEWAY, id="oneway-registration"),
    ],
)
async def test_any_sign_of_life_confirms_a_broker(tmp_path: Path, code: int, flag: int) -> None:
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path) as (node, peer):
        assert await unconfirmed(peer) == 1
        async with Peer(node.port) as broker:
            await broker.send(
                raw.request(code, A.fields, registration_body(["T1", "T2"]), flag=flag)
            )
            await eventually("the confirmation", lambda: unconfirmed(peer), until=lambda n: n == 0)
            [event] = await told(journal_of(tmp_path), BrokerConfirmed)
            assert (event.peer, event.addr, event.generation) == (broker.address, A.addr, 1)
            assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        if code != raw.REGISTER:  # anybody may have said so
            await left_alone(node)
            assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
            return
        # From now on it lives by that connection.
        [left] = await told(journal_of(tmp_path), BrokerLeft)
        assert (left.cause, left.generation) == (Cause.CONNECTION_CLOSED, 1)
        assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST


async def test_a_broker_that_is_not_heard_of_leaves_after_its_lease(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await replace(A, heartbeat_timeout_ms=700).register(peer)
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        [left] = await told(folder, BrokerLeft)
        answer = await peer.call(raw.ROUTE, topic="T1")
        assert answer.code == raw.TOPIC_NOT_EXIST
        assert await unconfirmed(peer) == 0
    assert (left.cause, left.peer, left.topics_lost) == (Cause.NOT_CONFIRMED, "", 2)
    assert "it was not heard of after this node was restarted" in (answer.remark or "")
    started, gone = (
        next(record for record in reversed(records(folder)) if isinstance(record.event, kind))
        for kind in (NodeStarted, BrokerLeft)
    )
    assert gone.mono_ms - started.mono_ms >= 690


async def test_a_lease_begins_with_the_restart_however_long_the_node_was_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    later_ms = wall_ms() + 7 * 86_400_000
    monkeypatch.setattr("routebook.app.wall_ms", lambda: later_ms)
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        node._service.expire_brokers()  # type: ignore[union-attr]
        assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        assert await unconfirmed(peer) == 1


async def test_an_unconfirmed_broker_can_be_unregistered(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path) as (_, peer):
        await A.unregister(peer)
        assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST
    async with stopping_first(tmp_path) as (node, peer):
        assert node.health()["brokers"] == 0
    [left] = events_of(folder, BrokerLeft)
    assert (left.cause, left.generation, left.topics_lost) == (Cause.UNREGISTER, 1, 2)
    check_sound(folder)


async def test_connections_that_are_no_brokers_take_nothing_with_them(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer)
    async with stopping_first(tmp_path) as (node, peer):
        async with Peer(node.port) as stranger:
            assert (await stranger.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        async with Peer(node.port) as second:
            async with Peer(node.port) as first:
                await A.register(first)  # confirms it
                await A.register(second)  # and this is another generation
            assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
            address = second.address
        [left] = await told(folder, BrokerLeft)
        assert (left.peer, left.generation) == (address, 2)
