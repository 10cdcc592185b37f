"""The client and the agent with RocketMQ's own NameServers, and routes that real brokers made."""

import asyncio
from collections.abc import Iterator

import pytest

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import create_topic
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS, NEW, OLD
from interop.support.servers import NameServerProcess
from routebook.agent import BrokerAgent, BrokerSettings, Topic
from routebook.client import (
    Address,
    BrokerGroup,
    NameServerClient,
    NodeClient,
    NodeError,
    TopicNotFound,
    TopicQueues,
    TopicRoute,
)
from routebook.client.cache import RouteCache
from routebook.client.changes import BrokerDisappeared, RouteChange
from routebook.client.node import Node
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command
from support import raw
from support.fleet import run_program
from support.raw import BlockingPeer
from support.waiting import eventually, soon

GET_BROKER_CONFIG = 26
MANY = 200_000


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NameServerProcess]]:
    """Java's NameServers of both releases and ours."""
    launcher = Launcher(tmp_path_factory.mktemp("three"))
    try:
        yield [
            launcher.java_name_server(),
            launcher.java_name_server(version=OLD),
            launcher.node(),
        ]
    finally:
        launcher.close()


def all_of(three: list[NameServerProcess]) -> str:
    return ";".join(server.address for server in three)


async def answers_of_all(client: NameServerClient, topic: str) -> dict[Address, TopicRoute | None]:
    answers = await client.on_every_node(lambda node: node.find_route(topic))
    assert len(answers) == 3
    routes: dict[Address, TopicRoute | None] = {}
    for node, answer in answers.items():
        assert not isinstance(answer, Exception), answer
        routes[node] = answer
    return routes


async def the_route(client: NameServerClient, topic: str) -> TopicRoute | None:
    """What all three say, once they say the same."""
    routes = await eventually(
        f"one view of {topic}",
        lambda: answers_of_all(client, topic),
        until=lambda seen: all(route == next(iter(seen.values())) for route in seen.values()),
    )
    return next(iter(routes.values()))


def the_queues(route: TopicRoute | None) -> list[TopicQueues]:
    assert route is not None
    return list(route.queues)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({}, id="plain"),
        pytest.param({"compressed": True}, id="compressed"),
        pytest.param({"split_topics": 3}, id="split"),
        pytest.param({"announce": "single"}, id="single"),
        pytest.param({"announce": "full", "force": False}, id="full"),
    ],
)
async def test_the_agent_is_listed_alike_by_all_name_servers(
    three: list[NameServerProcess], form: dict[str, object], request: pytest.FixtureRequest
) -> None:
    name = f"agent-{request.node.callspec.id}"
    settings = BrokerSettings(name=name, addr="10.1.0.1:10911", cluster="agents", **form)  # type: ignore[arg-type]
    topics = [Topic(f"{name}-{n}", read_queues=n, write_queues=n) for n in range(1, 9)]
    async with NameServerClient(all_of(three)) as client:
        async with BrokerAgent(settings, all_of(three), topics=topics) as agent:
            assert all(outcome.ok for outcome in (await agent.round()).values())
            for topic in topics:
                route = await the_route(client, topic.name)
                assert route is not None
                assert route.brokers == (BrokerGroup(name, "agents", {0: "10.1.0.1:10911"}),)
                assert route.queues == (
                    TopicQueues(name, topic.read_queues, topic.write_queues, 6),
                )

            outcomes = await agent.put_topic(Topic(f"{name}-new", read_queues=3, write_queues=5))
            assert all(outcome.ok for outcome in outcomes.values()), outcomes
            assert the_queues(await the_route(client, f"{name}-new")) == [
                TopicQueues(name, 3, 5, 6)
            ]
            outcomes = await agent.put_topic(Topic(f"{name}-1", read_queues=7, write_queues=7))
            assert all(outcome.ok for outcome in outcomes.values()), outcomes
            assert the_queues(await the_route(client, f"{name}-1")) == [TopicQueues(name, 7, 7, 6)]

            await agent.set_permission(4)
            assert the_queues(await the_route(client, f"{name}-2")) == [TopicQueues(name, 2, 2, 4)]
            await agent.set_permission(6)
            assert the_queues(await the_route(client, f"{name}-2")) == [TopicQueues(name, 2, 2, 6)]
        assert await the_route(client, f"{name}-1") is None


async def test_a_broker_of_one_topic_is_taken_by_all_name_servers(
    three: list[NameServerProcess],
) -> None:
    settings = BrokerSettings(name="agent-one", addr="10.1.0.2:10911", cluster="agents")
    async with (
        NameServerClient(all_of(three)) as client,
        BrokerAgent(settings, all_of(three), topics=[Topic("only-one")]) as agent,
    ):
        assert all(status.acknowledged == agent.version for status in agent.status())
        assert the_queues(await the_route(client, "only-one")) == [
            TopicQueues("agent-one", 8, 8, 6)
        ]


async def test_a_slave_learns_its_master_and_ordered_topics_are_marked(
    three: list[NameServerProcess],
) -> None:
    masters: list[tuple[str | None, str | None]] = []
    ordered: list[frozenset[str]] = []
    master = BrokerSettings(name="pair", addr="10.1.0.3:10911", ha_addr="10.1.0.3:10912")
    slave = BrokerSettings(name="pair", addr="10.1.0.4:10911", broker_id=1)
    topics = [Topic("pair-1"), Topic("pair-2")]
    async with NameServerClient(all_of(three)) as client:
        await client.on_every_node(
            lambda node: node.put_kv("ORDER_TOPIC_CONFIG", "pair-1", "pair:8")
        )
        async with (
            BrokerAgent(
                master, all_of(three), topics=topics, on_order_topics=ordered.append
            ) as agent,
            BrokerAgent(
                slave, all_of(three), topics=topics, on_master=lambda *said: masters.append(said)
            ),
        ):
            await soon("the order", lambda: ordered, until=bool)
            assert ordered == [frozenset({"pair-1"})]
            assert agent.topics["pair-1"].order
            await soon("the master", lambda: masters, until=bool)
            assert masters == [("10.1.0.3:10911", "10.1.0.3:10912")]
            route = await the_route(client, "pair-2")
            assert route is not None
            assert route.brokers[0].addrs == {0: "10.1.0.3:10911", 1: "10.1.0.4:10911"}
        await client.on_every_node(lambda node: node.delete_kv("ORDER_TOPIC_CONFIG", "pair-1"))


async def test_two_hundred_thousand_topics_register_within_the_frame_limit(
    three: list[NameServerProcess],
) -> None:
    settings = BrokerSettings(name="wide", addr="10.1.0.5:10911", cluster="agents")
    topics = [Topic(f"wide-{n:06}") for n in range(MANY)]
    async with (
        NameServerClient(all_of(three), timeout_s=30.0) as client,
        BrokerAgent(settings, all_of(three), topics=topics) as agent,
    ):
        assert all(status.acknowledged == agent.version for status in agent.status())
        listed = await client.on_every_node(lambda node: node.topics())
        for answer in listed.values():
            assert not isinstance(answer, Exception), answer
            assert sum(topic.startswith("wide-") for topic in answer) == MANY
        for topic in (topics[0], topics[MANY // 2], topics[-1]):
            assert the_queues(await the_route(client, topic.name)) == [TopicQueues("wide", 8, 8, 6)]


async def test_every_call_works_with_the_name_servers_of_rocketmq(
    three: list[NameServerProcess],
) -> None:
    async def calls(node: NodeClient) -> None:
        await node.put_kv("ns-1", "key", "värde")
        assert await node.find_kv("ns-1", "key") == "värde"
        assert await node.kv_table("ns-1") == {"key": "värde"}
        await node.delete_kv("ns-1", "key")
        assert await node.find_kv("ns-1", "key") is None
        assert "orderMessageEnable" in await node.config()
        assert await node.wipe_write_permission("caller") == 2
        assert [q.perm for q in (await node.route("called-1")).queues] == [4]
        assert await node.add_write_permission("caller") == 2
        assert "called-1" in await node.topics_of_cluster("callers")
        assert "callers" in (await node.system_topics()).topics
        assert await node.unit_topics() == await node.unit_sub_topics() == ()
        assert "caller" in (await node.cluster_view()).brokers
        await node.delete_topic("called-2")
        with pytest.raises(TopicNotFound):
            await node.route("called-2")

    settings = BrokerSettings(name="caller", addr="10.1.0.6:10911", cluster="callers")
    topics = [Topic("called-1"), Topic("called-2")]
    async with (
        BrokerAgent(settings, all_of(three), topics=topics),
        NameServerClient(all_of(three)) as client,
    ):
        for server in three:
            await calls(await client.on(server.address))
        for server in (three[0], three[2]):  # the request came with 5.0
            node = await client.on(server.address)
            group = await node.broker_group("callers", "caller")
            assert group is not None
            assert group.addrs == {0: "10.1.0.6:10911"}


@pytest.mark.parametrize("version", BROKER_VERSIONS)
async def test_routes_of_real_brokers_are_read_alike_from_all_name_servers(
    three: list[NameServerProcess], launcher: Launcher, version: str
) -> None:
    # A 4.9 broker writes each server its own registration; a 5.5.0 one the same to all.
    broker = await asyncio.to_thread(
        launcher.broker, version, all_of(three), registered=False, name=f"real-{version}"
    )
    async with NameServerClient(all_of(three)) as client:
        route = await eventually(
            "the broker at all name servers",
            lambda: the_route(client, broker.name),
            until=lambda seen: seen is not None,
            timeout_s=60,
        )
        assert route is not None
        assert [group.addrs for group in route.brokers] == [{0: broker.address}]
        topics = await client.topics_of_cluster(broker.cluster)
        assert len(topics) > 5
        for topic in topics:
            assert await the_route(client, topic) is not None


async def test_nameservers_of_rocketmq_offer_no_watch_and_caches_poll_them(
    three: list[NameServerProcess],
) -> None:
    java, _, ours = three
    with BlockingPeer(java.port) as peer:
        refusal = peer.call(RequestCode.ROUTEBOOK_WATCH, b'{"topics":{"T":""}}')
    assert refusal.code == raw.NOT_SUPPORTED
    ran = await asyncio.to_thread(run_program, "watch", "T", "-n", java.address)
    assert ran.exit_code == 1
    assert "does not offer watch" in ran.stderr
    async with NameServerClient(java.address) as client, RouteCache(client, poll_s=0.1) as cache:
        cache.use("watched-where")
        await soon("a poll", lambda: cache.last_error("watched-where"))
        assert not cache.watched
        settings = BrokerSettings(name="watched", addr="10.1.0.9:10911", cluster="agents")
        async with BrokerAgent(
            settings, all_of(three), topics=[Topic("watched-where"), Topic("w")]
        ):
            await soon("the route, by polling", lambda: cache.entry("watched-where"))
    async with NameServerClient(all_of(three)) as client, RouteCache(client) as cache:
        cache.use("watched-where")
        await soon("the watch at the one node that offers it", lambda: cache.watched)
        assert client.chosen == Address.parse(ours.address)


async def test_a_caller_gets_through_when_a_real_broker_is_killed(
    launcher: Launcher, admin: Admin
) -> None:
    """Three nodes, two brokers; one broker gets SIGKILL while queues are picked and used."""
    nodes = [launcher.node() for _ in range(3)]
    namesrv = ";".join(node.address for node in nodes)

    def start() -> list[Broker]:
        made = [
            launcher.broker(NEW, namesrv, name=f"picked-{n}", cluster="picked", registered=False)
            for n in range(2)
        ]
        for broker in made:
            create_topic(admin, nodes[0].address, broker, "picking")
        return made

    changes: list[RouteChange] = []
    dead, alive = await asyncio.to_thread(start)
    async with (
        NameServerClient(namesrv) as client,
        RouteCache(client) as cache,
    ):
        cache.listen(changes.append)
        await eventually(
            "both brokers on every node",
            lambda: client.on_every_node(lambda node: node.find_route("picking")),
            until=lambda seen: all(
                isinstance(route, TopicRoute) and len(route.brokers) == 2 for route in seen.values()
            ),
            timeout_s=60,
        )
        await cache.refresh("picking")
        assert {await use_a_queue(cache) for _ in range(16)} == {dead.address, alive.address}
        dead.kill()
        assert {await use_a_queue(cache) for _ in range(32)} == {alive.address}
        await soon(
            "the route without the broker",
            lambda: [change for told in changes for change in told.changes],
            until=lambda told: BrokerDisappeared(dead.name, {0: dead.address}) in told,
        )
        assert {queue.broker for queue in cache.publish_queues("picking")} == {alive.name}


async def use_a_queue(cache: RouteCache) -> str:
    """Ask the broker of the next queue something; the next broker when that fails."""
    queue = None
    for _ in range(3):
        queue = cache.pick("picking", avoiding=queue)
        assert queue is not None
        address = cache.address_of(queue)
        assert address is not None
        node = Node(Address.parse(address))
        try:
            answer = await node.ask(Command(code=GET_BROKER_CONFIG), timeout_s=5.0)
        except NodeError:
            cache.failed(queue)
            continue
        finally:
            await node.close()
        assert answer.command.code == 0
        return address
    raise AssertionError("three attempts failed")


async def test_only_ours_knows_what_a_drain_took_and_the_others_are_warned_of(
    three: list[NameServerProcess],
) -> None:
    settings = BrokerSettings(name="drained", addr="10.1.0.7:10911", cluster="drains")
    topics = [Topic("open"), Topic("archive", perm=4)]
    nodes = all_of(three)
    async with (
        BrokerAgent(settings, all_of(three), topics=topics),
        NameServerClient(all_of(three)) as client,
    ):
        drained = await asyncio.to_thread(run_program, "drain", "drained", namesrv_addr=nodes)
        assert drained.exit_code == 0, drained
        ran = await asyncio.to_thread(run_program, "undrain", "drained", namesrv_addr=nodes)
        assert ran.exit_code == 0, ran
        *java, ours = (server.address for server in three)
        (warning,) = (line for line in ran.stderr.splitlines() if line.startswith("Warning"))
        assert all(address in warning for address in java)
        assert ours not in warning
        assert "archive among them" in warning
        for server in three:
            node = await client.on(server.address)
            (queues,) = (await node.route("open")).queues
            assert queues.perm == 6
        (kept,) = (await (await client.on(ours)).route("archive")).queues
        assert kept.perm == 4


def test_name_servers_of_rocketmq_cannot_tell_their_health_whatever_their_age(
    three: list[NameServerProcess],
) -> None:
    ran = run_program("health", namesrv_addr=all_of(three))
    assert ran.exit_code == 0, ran
    foreign = [line.split()[0] for line in ran.lines if line.endswith("not a Routebook node")]
    assert sorted(foreign) == sorted(server.address for server in three[:2])
