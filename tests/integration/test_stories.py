"""Several nodes and brokers over time: partitions, lost nodes, late goodbyes, silence."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import pytest

from routebook.app import NameServer
from support import raw
from support.brokers import Broker, RegisteringBroker
from support.faults import Relay
from support.nodes import local_node
from support.raw import Answer, Hangup, Peer
from support.waiting import eventually, soon

# -- three nodes

View = dict[str, object]


async def view(port: int) -> View:
    """All a node tells of brokers and topics, in an order of its own making."""
    async with Peer(port) as peer:
        info = (await peer.call(raw.CLUSTER_INFO)).value
        topics: list[str] = (await peer.call(raw.ALL_TOPICS)).value["topicList"]
        answers = {topic: await peer.call(raw.ROUTE, topic=topic) for topic in topics}
    # The last broker of a topic may go while one asks.
    routes = {topic: route.value for topic, route in answers.items() if route.code == raw.SUCCESS}
    clusters = {name: sorted(brokers) for name, brokers in info["clusterAddrTable"].items()}
    return {
        "brokers": info["brokerAddrTable"],
        "clusters": clusters,
        "routes": {
            topic: {
                "brokers": sorted(route["brokerDatas"], key=lambda data: str(data["brokerName"])),
                "queues": sorted(route["queueDatas"], key=lambda data: str(data["brokerName"])),
            }
            for topic, route in routes.items()
        },
    }


def topics_by_broker(seen: View) -> dict[str, set[str]]:
    routes = seen["routes"]
    assert isinstance(routes, dict)
    found: dict[str, set[str]] = {}
    for topic, route in routes.items():
        for data in route["queues"]:
            found.setdefault(data["brokerName"], set()).add(topic)
    return found


async def find_route(ports: Iterable[int], topic: str) -> Answer:
    """What a client does: one NameServer after the other until one answers."""
    for port in ports:
        try:
            async with Peer(port) as peer:
                return await peer.call(raw.ROUTE, topic=topic)
        except (OSError, Hangup):
            continue
    raise AssertionError("no node answers")


@dataclass(slots=True)
class Cluster:
    """Three nodes, each behind a relay, and brokers that register with all of them."""

    nodes: list[NameServer]
    links: list[Relay]
    brokers: dict[str, RegisteringBroker] = field(default_factory=dict)
    started: int = 0

    @property
    def ports(self) -> list[int]:
        """The nodes themselves, as clients next to them see them."""
        return [node.port for node in self.nodes]

    def start_broker(self, name: str, *topics: str) -> None:
        self.started += 1
        # Silence is noticed after three seconds: thirty missed registrations.
        broker = Broker(name, addr=f"10.0.0.{self.started}:10911", heartbeat_timeout_ms=3000)
        ports = [link.port for link in self.links]
        self.brokers[name] = RegisteringBroker(broker, ports, topics)

    async def views(self) -> list[View]:
        return [await view(port) for port in self.ports]

    async def converged_to(self, expected: Mapping[str, set[str]]) -> None:
        def reached(seen: Sequence[View]) -> bool:
            return all(v == seen[0] for v in seen) and topics_by_broker(seen[0]) == expected

        await eventually("the nodes to agree", self.views, until=reached, timeout_s=30)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(local_node(tmp_path / name)) for name in ("a", "b", "c")
        ]
        links = [await stack.enter_async_context(Relay(node.port)) for node in nodes]
        cluster = Cluster(nodes, links)
        try:
            yield cluster
        finally:
            for broker in cluster.brokers.values():
                await broker.vanish()


async def test_a_node_that_was_cut_off_catches_up_when_it_is_back(cluster: Cluster) -> None:
    cluster.start_broker("broker-a", "orders", "payments")
    cluster.start_broker("broker-b", "orders", "refunds")
    cluster.start_broker("broker-c", "orders", "returns")
    before = {
        "broker-a": {"orders", "payments"},
        "broker-b": {"orders", "refunds"},
        "broker-c": {"orders", "returns"},
    }
    await cluster.converged_to(before)

    cluster.links[2].cut()
    # The third node is not told: one broker leaves, one dies, one joins, one gets a topic.
    await cluster.brokers.pop("broker-b").leave()
    await cluster.brokers.pop("broker-c").vanish()
    cluster.start_broker("broker-d", "orders", "audits")
    cluster.brokers["broker-a"].add_topic("invoices")
    after = {
        "broker-a": {"orders", "payments", "invoices"},
        "broker-d": {"orders", "audits"},
    }

    async def connected() -> list[dict[str, set[str]]]:
        return [topics_by_broker(await view(port)) for port in cluster.ports[:2]]

    await eventually("the other two", connected, until=lambda seen: seen == [after, after])
    # The lonely one has heard of nothing of this; what it knew ends with the brokers' silence.
    alone = topics_by_broker(await view(cluster.ports[2]))
    assert alone in (before, {})

    async def forgotten() -> View:
        return await view(cluster.ports[2])

    empty: View = {"brokers": {}, "clusters": {}, "routes": {}}
    await eventually("silence to be noticed", forgotten, until=lambda seen: seen == empty)
    assert await connected() == [after, after]

    cluster.links[2].heal()  # old registrations that were under way arrive now as well

    await cluster.converged_to(after)


async def test_a_short_cut_changes_nothing_in_the_end(cluster: Cluster) -> None:
    cluster.start_broker("broker-a", "orders", "payments")
    cluster.start_broker("broker-b", "orders", "refunds")
    everything = {"broker-a": {"orders", "payments"}, "broker-b": {"orders", "refunds"}}
    await cluster.converged_to(everything)

    for cut_off, link in enumerate(cluster.links):
        link.cut()
        topic = f"during-cut-{cut_off}"
        cluster.brokers["broker-a"].add_topic(topic)
        everything["broker-a"].add(topic)
        others = [port for number, port in enumerate(cluster.ports) if number != cut_off]

        async def codes(topic: str = topic, ports: Sequence[int] = others) -> list[int]:
            return [(await find_route([port], topic)).code for port in ports]

        await eventually("the others", codes, until=lambda codes: set(codes) == {raw.SUCCESS})
        link.heal()

    await cluster.converged_to(everything)


async def test_with_two_of_three_nodes_gone_clients_still_find_routes(tmp_path: Path) -> None:
    async with AsyncExitStack() as last, AsyncExitStack() as others:
        third = await last.enter_async_context(local_node(tmp_path / "c"))
        first, second = [
            await others.enter_async_context(local_node(tmp_path / name)) for name in ("a", "b")
        ]
        ports = [first.port, second.port, third.port]
        broker = RegisteringBroker(Broker(), ports, ["orders", "payments"])
        try:

            async def everywhere() -> list[int]:
                return [(await find_route([port], "orders")).code for port in ports]

            await eventually("all nodes", everywhere, until=lambda codes: codes == [0, 0, 0])

            await others.aclose()

            route = await find_route(ports, "orders")
            assert route.value["brokerDatas"][0]["brokerName"] == "broker-a"
            # And what happens from now on is seen as well.
            broker.add_topic("invoices")

            async def code() -> int:
                return (await find_route(ports, "invoices")).code

            await eventually("the new topic", code, until=lambda code: code == raw.SUCCESS)
        finally:
            await broker.vanish()


async def test_a_node_that_restarts_empty_is_told_everything_again(tmp_path: Path) -> None:
    async with local_node(tmp_path / "a") as steady:
        async with local_node(tmp_path / "b") as restarting:
            port = restarting.port
            broker = RegisteringBroker(Broker(), [steady.port, port], ["orders", "payments"])

            async def same() -> list[View]:
                return [await view(steady.port), await view(port)]

            def known(seen: Sequence[View]) -> bool:
                return seen[0] == seen[1] and bool(seen[0]["routes"])

            await eventually("both nodes", same, until=known)
        try:
            # In a folder of its own: from that of before it would know all without being told.
            async with local_node(tmp_path / "c", listen_port=port):
                await eventually("the restarted node", same, until=known)
        finally:
            await broker.vanish()


# -- one node: who is gone, and who only seems to be


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as node:
        yield node


@pytest.fixture
async def client(node: NameServer) -> AsyncIterator[Peer]:
    async with Peer(node.port) as client:
        yield client


async def code_of(client: Peer, topic: str) -> int:
    return (await client.call(raw.ROUTE, topic=topic)).code


async def gone(client: Peer, topic: str) -> None:
    async def code() -> int:
        return await code_of(client, topic)

    await eventually(
        f"the route of {topic} to go", code, until=lambda code: code == raw.TOPIC_NOT_EXIST
    )


async def names(client: Peer) -> list[str]:
    return sorted((await client.call(raw.CLUSTER_INFO)).value["brokerAddrTable"])


def events(caplog: pytest.LogCaptureFixture, kind: str) -> list[dict[str, object]]:
    lines = [record.getMessage() for record in caplog.records if record.name == "routebook.events"]
    return [event for event in map(json.loads, lines) if event["event"] == kind]


@pytest.mark.parametrize("ending", ["close", "abort", "unregister"])
async def test_the_late_end_of_an_old_connection_does_not_take_a_newer_registration(
    node: NameServer, client: Peer, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    broker = Broker()
    async with Peer(node.port) as new:
        async with Peer(node.port) as old:
            await broker.register(old)
            await broker.register(new)
            if ending == "abort":
                old.abort()
            elif ending == "unregister":
                await broker.unregister(old)
        # The node has seen the end when a later connection of its own is served and closed.
        async with Peer(node.port) as later:
            assert await code_of(later, "T1") == raw.SUCCESS
        assert await code_of(client, "T1") == raw.SUCCESS
        assert events(caplog, "BrokerLeft") == []
        # It hangs on the new connection now.
        assert await code_of(new, "T1") == raw.SUCCESS

    await gone(client, "T1")
    [left] = events(caplog, "BrokerLeft")
    assert left["cause"] == "connection_closed"


async def test_a_broker_heard_on_another_connection_outlives_the_one_it_registered_on(
    node: NameServer, client: Peer
) -> None:
    broker = Broker()
    async with Peer(node.port) as second:
        async with Peer(node.port) as first:
            await broker.register(first)
            await second.send(raw.request(raw.HEARTBEAT, broker.fields, flag=raw.ONEWAY))
            assert await code_of(second, "T1") == raw.SUCCESS
        async with Peer(node.port) as later:
            assert await code_of(later, "T1") == raw.SUCCESS
        assert await code_of(client, "T1") == raw.SUCCESS
    await gone(client, "T1")


async def test_a_silent_broker_expires_and_its_connection_is_closed(
    node: NameServer, client: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with Peer(node.port) as silent, Peer(node.port) as alive:
        await Broker(heartbeat_timeout_ms=300).register(silent, ["T1", "T2"])
        other = Broker("broker-b", addr="10.0.0.2:10911", heartbeat_timeout_ms=60_000)
        await other.register(alive, ["T1", "T3"])

        assert await silent.hung_up() == b""

        assert await names(client) == ["broker-b"]
        assert await code_of(client, "T2") == raw.TOPIC_NOT_EXIST
        assert await code_of(client, "T1") == raw.SUCCESS
        [left] = events(caplog, "BrokerLeft")
        assert (left["broker"], left["cause"], left["topics_lost"]) == ("broker-a", "expired", 2)


@pytest.mark.parametrize("code", [raw.HEARTBEAT, raw.QUERY_DATA_VERSION, raw.REGISTER])
async def test_a_broker_that_is_heard_does_not_expire(
    node: NameServer, client: Peer, code: int
) -> None:
    broker = Broker(heartbeat_timeout_ms=2000)
    registration = broker.registration(flag=raw.ONEWAY)
    async with Peer(node.port) as peer:
        await broker.register(peer)
        loop = asyncio.get_running_loop()
        until = loop.time() + 3.5
        while loop.time() < until:
            if code == raw.REGISTER:
                await peer.send(registration)
            else:
                await peer.send(raw.request(code, broker.fields, flag=raw.ONEWAY))
            assert await code_of(client, "T1") == raw.SUCCESS
            await asyncio.sleep(0.1)


async def test_all_brokers_of_one_connection_leave_with_it(
    node: NameServer, client: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference removes the first one it finds and leaves the others to the timeout."""
    caplog.set_level(logging.INFO, "routebook.events")
    async with Peer(node.port) as container, Peer(node.port) as other:
        for number in range(4):
            broker = Broker(f"broker-{number}", addr=f"10.0.0.{number}:10911")
            await broker.register(container, ["shared", f"own-{number}"])
        await Broker("broker-z", addr="10.0.0.9:10911").register(other, ["shared", "own-z"])
        await container.close()

        async def left() -> list[str]:
            return await names(client)

        await eventually("the brokers to go", left, until=lambda names: names == ["broker-z"])
        topics = (await client.call(raw.ALL_TOPICS)).value["topicList"]
        assert sorted(topics) == ["own-z", "shared"]
        assert {event["broker"] for event in events(caplog, "BrokerLeft")} == {
            f"broker-{number}" for number in range(4)
        }


async def test_a_change_of_roles_lists_no_address_twice(node: NameServer, client: Peer) -> None:
    one, two = Broker(addr="10.0.0.1:10911"), Broker(broker_id=1, addr="10.0.0.2:10911")

    async def addrs() -> object:
        return (await client.call(raw.ROUTE, topic="T1")).value["brokerDatas"][0]["brokerAddrs"]

    async with Peer(node.port) as first, Peer(node.port) as second:
        await one.register(first)
        await two.register(second)
        assert await addrs() == {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}
        await replace(two, broker_id=0).register(second)  # promoted while the old one still lives
        assert await addrs() == {"0": "10.0.0.2:10911"}
        await replace(one, broker_id=1).register(first)
        assert await addrs() == {"0": "10.0.0.2:10911", "1": "10.0.0.1:10911"}


# -- telling brokers (905)


class ListeningBroker:
    """A broker that takes what the node sends to its address."""

    def __init__(self) -> None:
        self.told: list[Answer] = []

    async def __aenter__(self) -> "ListeningBroker":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.addr = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.told += raw.answers_in(await reader.read())
        writer.close()

    @property
    def fields_told(self) -> list[dict[str, str] | None]:
        return [command.ext_fields for command in self.told]

    async def is_told(self, count: int) -> None:
        await soon("a notification", lambda: self.told, until=lambda told: len(told) == count)


@asynccontextmanager
async def listening(count: int) -> AsyncIterator[list[ListeningBroker]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ListeningBroker()) for _ in range(count)]


async def test_brokers_are_told_when_the_smallest_id_joins_and_leaves(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path, notify_min_broker_id_changed=True) as node,
        listening(3) as (master, slave, second_slave),
        Peer(node.port) as to_slaves,
    ):
        members = [
            Broker(broker_id=number, addr=listener.addr, acting_master=True)
            for number, listener in enumerate((master, slave, second_slave))
        ]
        await members[2].register(to_slaves)
        await members[1].register(to_slaves)
        joined = {"minBrokerId": "1", "minBrokerAddr": slave.addr, "haBrokerAddr": "10.0.0.2:10912"}
        await second_slave.is_told(1)
        assert second_slave.fields_told == [joined]
        async with Peer(node.port) as to_master:
            await members[0].register(to_master)
            joined = {
                "minBrokerId": "0",
                "minBrokerAddr": master.addr,
                "haBrokerAddr": "10.0.0.1:10912",
            }
            await slave.is_told(1)
            await second_slave.is_told(2)
            assert slave.fields_told == [joined]
            assert second_slave.fields_told[1:] == [joined]
            assert master.told == []  # it knows

        left = {"minBrokerId": "1", "minBrokerAddr": slave.addr, "offlineBrokerAddr": master.addr}
        await slave.is_told(2)
        await second_slave.is_told(3)
        assert slave.fields_told[1:] == [left]
        assert second_slave.fields_told[2:] == [left]
        assert {(c.code, c.flag, c.body) for c in slave.told} == {
            (raw.MIN_BROKER_CHANGED, raw.ONEWAY, b"")
        }


async def test_a_slave_that_comes_or_goes_is_nobodys_news(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path, notify_min_broker_id_changed=True) as node,
        listening(2) as (master, slave),
        Peer(node.port) as to_both,
    ):
        main = Broker(addr=master.addr, acting_master=True)
        second = Broker(broker_id=1, addr=slave.addr, acting_master=True)
        await main.register(to_both)
        await second.register(to_both)
        await second.unregister(to_both)
        await second.register(to_both)
        # The first news anybody gets is that the master left.
        await main.unregister(to_both)

        await slave.is_told(1)
        assert [told and told.get("offlineBrokerAddr") for told in slave.fields_told] == [
            master.addr
        ]
        assert master.told == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "127.0.0.1:99999", "no-such-host.invalid:1", "nonsense", ":"]
)
async def test_a_broker_that_cannot_be_told_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    async with (
        local_node(tmp_path, notify_min_broker_id_changed=True) as node,
        listening(1) as [slave],
        Peer(node.port) as peer,
    ):
        deaf = Broker(broker_id=2, addr=address, acting_master=True)
        await deaf.register(peer)
        await Broker(broker_id=3, addr=slave.addr, acting_master=True).register(peer)
        await Broker(broker_id=1, addr="127.0.0.1:2", acting_master=True).register(peer)

        await slave.is_told(1)

        def complaints() -> list[str]:
            return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]

        await soon("the complaint", complaints)
        assert all(address in complaint for complaint in complaints())
        assert len(complaints()) == 1


async def test_nobody_is_told_unless_configured(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path) as node,
        local_node(tmp_path / "telling", notify_min_broker_id_changed=True) as telling,
        listening(2) as (master, slave),
    ):
        for port, lowest in ((node.port, 6), (telling.port, 0)):
            main = Broker(broker_id=lowest, addr=master.addr, acting_master=True)
            async with Peer(port) as peer:
                second = Broker(broker_id=lowest + 1, addr=slave.addr, acting_master=True)
                await second.register(peer)
                await main.register(peer)
                await main.unregister(peer)

        await slave.is_told(2)
        # The first node would have spoken earlier.
        assert {told and told["minBrokerId"] for told in slave.fields_told} == {"0", "1"}
