"""Views of real nodes, what differs between them, and ``routebook compare``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from routebook.audit.compare import MISSING, Kind, compare
from routebook.audit.settle import settled
from routebook.audit.view import TOPICS_AT_ONCE, NodeView, take_view, take_views
from routebook.cli.main import cli
from routebook.client import Address, ConnectionLost, NameServerClient, NotReady, Refused
from routebook.testing import LocalNodes, Workbench
from routebook.wire.answers import BrokerGroup
from support import raw
from support.brokers import Broker
from support.leaks import nothing_left_behind
from support.misbehaving import ROUTE_BODY, Caller, Server, answer
from support.raw import BlockingPeer

ADDR = "127.0.0.2:10911"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path) as bench:
        yield bench


@pytest.fixture
def nodes(bench: Workbench) -> LocalNodes:
    """Two nodes, and broker-a with two topics on both."""
    nodes = bench.nodes(2)
    bench.broker(nameservers=nodes.addresses, topics=["orders", "payments"], addr=ADDR)
    return nodes


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def addresses(nodes: LocalNodes) -> tuple[Address, ...]:
    """As a client sorts them."""
    return tuple(sorted(Address.parse(node.address) for node in nodes))


# -- taking views


async def test_a_view_has_all_brokers_topics_and_routes_of_a_node(nodes: LocalNodes) -> None:
    async with nothing_left_behind(), NameServerClient(nodes[0].address) as client:
        (node,) = await client.nodes()
        seen = await take_view(await client.on(node))
        expected = await client.route("orders")
    assert seen.node == node
    assert seen.whole
    assert seen.errors == {}
    assert seen.cluster.brokers["broker-a"].addrs == {0: ADDR}
    assert sorted(seen.routes) == ["orders", "payments"]
    assert seen.routes["orders"] == expected


async def test_a_view_of_many_topics_is_taken_in_handfuls_and_says_how_far_it_is(
    bench: Workbench,
) -> None:
    count = 2 * TOPICS_AT_ONCE + 50
    topics = [f"topic-{number:04}" for number in range(count)]
    (node,) = bench.nodes(1)
    bench.broker(nameservers=node.address, topics=topics)
    told: list[tuple[int, int]] = []
    async with NameServerClient(node.address) as client:
        views = await take_views(client, progress=lambda done, total: told.append((done, total)))
    (seen,) = views.values()
    assert isinstance(seen, NodeView)
    assert sorted(seen.routes) == topics
    assert told == [(TOPICS_AT_ONCE, count), (2 * TOPICS_AT_ONCE, count), (count, count)]
    groups = {id(group) for route in seen.routes.values() for group in route.brokers}
    assert len(groups) == 1  # shared, however many routes repeat it


async def test_a_topic_that_went_away_before_its_turn_is_no_error(nodes: LocalNodes) -> None:
    async with NameServerClient(nodes.addresses) as client:
        views = await take_views(client, topics=["orders", "nowhere"])
    for seen in views.values():
        assert isinstance(seen, NodeView)
        assert list(seen.routes) == ["orders"]
        assert seen.errors == {}
        assert not seen.whole


async def listing(caller: Caller) -> None:
    """Know four topics: a good one, a broken one, one it refuses, and one that is gone."""
    while True:
        request = await caller.request()
        if request.code == raw.ALL_TOPICS:
            body = b'{"topicList":["broken","gone","good","refused"]}'
            await caller.send(answer(request.opaque, body=body))
        elif request.code == raw.CLUSTER_INFO:
            await caller.send(answer(request.opaque, body=b"{}"))
        else:
            topic = (request.ext_fields or {})["topic"]
            replies = {
                "good": answer(request.opaque, body=ROUTE_BODY),
                "broken": answer(request.opaque, body=b"[]"),
                "refused": answer(request.opaque, raw.SYSTEM_ERROR, remark="no"),
                "gone": answer(request.opaque, raw.TOPIC_NOT_EXIST, remark="gone"),
            }
            await caller.send(replies[topic])


async def test_an_answer_that_is_no_route_spoils_its_topic_only() -> None:
    async with Server(listing) as server, NameServerClient(server.address) as client:
        (node,) = await client.nodes()
        seen = await take_view(await client.on(node))
    assert list(seen.routes) == ["good"]
    assert sorted(seen.errors) == ["broken", "refused"]
    assert "not a topic route" in seen.errors["broken"]
    assert "SYSTEM_ERROR" in seen.errors["refused"]


async def hanging_up(caller: Caller) -> None:
    """Hang up when asked for a route."""
    while True:
        request = await caller.request()
        bodies = {raw.CLUSTER_INFO: b"{}", raw.ALL_TOPICS: b'{"topicList":["a","b"]}'}
        if request.code not in bodies:
            return
        await caller.send(answer(request.opaque, body=bodies[request.code]))


async def test_a_node_that_breaks_off_gives_no_view() -> None:
    async with Server(hanging_up) as server, NameServerClient(server.address) as client:
        (outcome,) = (await take_views(client)).values()
    assert isinstance(outcome, ConnectionLost)


async def test_a_node_that_is_not_ready_gives_no_view(bench: Workbench) -> None:
    (node,) = bench.nodes(1, need_wait_for_service=True, wait_seconds_for_service=600)
    bench.broker(nameservers=node.address, topics=["orders"])
    async with NameServerClient(node.address) as client:
        (outcome,) = (await take_views(client)).values()
    assert isinstance(outcome, NotReady)


async def test_a_node_that_lists_no_topics_gives_a_view_of_named_topics_only(
    bench: Workbench,
) -> None:
    (node,) = bench.nodes(1, enable_all_topic_list=False)
    bench.broker(nameservers=node.address, topics=["orders"])
    async with NameServerClient(node.address) as client:
        (refusal,) = (await take_views(client)).values()
        (seen,) = (await take_views(client, topics=["orders"])).values()
    assert isinstance(refusal, Refused)
    assert isinstance(seen, NodeView)
    assert list(seen.routes) == ["orders"]


# -- differences of real nodes


async def test_a_broker_on_one_node_only_is_one_difference(
    bench: Workbench, nodes: LocalNodes
) -> None:
    bench.broker("broker-b", nameservers=nodes[1].address, topics=["orders", "invoices"])
    async with NameServerClient(nodes.addresses) as client:
        (found,) = compare(await take_views(client)).differences
    assert (found.kind, found.broker) == (Kind.BROKER_MISSING, "broker-b")
    assert found.topics == ("invoices", "orders")
    assert found.says[Address.parse(nodes[0].address)] == MISSING


async def test_a_broker_drained_on_one_node_only_is_one_difference(nodes: LocalNodes) -> None:
    nodes[0].client().wipe_write_permission("broker-a")
    async with NameServerClient(nodes.addresses) as client:
        (found,) = compare(await take_views(client)).differences
    assert (found.kind, found.topics) == (Kind.PERMISSION, ("orders", "payments"))
    drained, open_ = (Address.parse(node.address) for node in nodes)
    assert found.says == {drained: "R-- (4)", open_: "RW- (6)"}


async def test_what_passes_while_settling_is_not_told_and_what_lasts_is(nodes: LocalNodes) -> None:
    nodes[0].client().wipe_write_permission("broker-a")
    async with NameServerClient(nodes.addresses) as client:
        views = await take_views(client)
        lasting = await settled(client, views, settle_s=0.001)
        nodes[0].client().add_write_permission("broker-a")
        passing = await settled(client, views, settle_s=0.001)
        unsettled = await settled(client, views, settle_s=0)
    assert [d.kind for d in lasting.comparison.differences] == [Kind.PERMISSION]
    assert passing.comparison.differences == ()
    assert passing.comparison.complete
    assert compare(passing.views).differences == ()
    assert [d.kind for d in unsettled.comparison.differences] == [Kind.PERMISSION]
    assert unsettled.views is views


async def test_a_node_that_fails_while_settling_could_not_be_asked(nodes: LocalNodes) -> None:
    nodes[0].client().wipe_write_permission("broker-a")
    async with NameServerClient(nodes.addresses, timeout_s=1.0) as client:
        views = await take_views(client)
        nodes[0].stop()
        found = await settled(client, views, settle_s=0.001)
    assert found.comparison.differences == ()
    assert list(found.comparison.failures) == [Address.parse(nodes[0].address)]


async def test_one_name_in_two_clusters_is_told_as_the_nodes_show_it(bench: Workbench) -> None:
    """The table has one place for the name; the older group has it, so nodes may show either."""
    nodes = bench.nodes(2)
    first, second = (node.address for node in nodes)
    bench.broker("b", nameservers=first, addr="127.0.0.2:1", cluster="c1", topics=["t"])
    bench.broker("b", nameservers=second, addr="127.0.0.2:2", cluster="c2", topics=["t"])
    bench.broker("b", nameservers=second, addr="127.0.0.2:1", cluster="c1", topics=["t"])
    bench.broker("b", nameservers=first, addr="127.0.0.2:2", cluster="c2", topics=["t"])
    async with NameServerClient(nodes.addresses) as client:
        views = await take_views(client)
        found = compare(views).differences
    seen = views[Address.parse(second)]
    assert isinstance(seen, NodeView)
    assert seen.cluster.brokers["b"] == BrokerGroup("b", "c2", {0: "127.0.0.2:2"})
    assert [(d.kind, d.topics) for d in found] == [(Kind.MEMBERS, ())]


# -- the command


def test_nodes_that_say_the_same_end_with_0(nodes: LocalNodes) -> None:
    result = run("compare", "-n", nodes.addresses)
    assert (result.exit_code, result.output) == (0, "2 nodes say the same of 2 topics\n")


def test_differences_are_a_table_and_end_with_1(bench: Workbench, nodes: LocalNodes) -> None:
    bench.broker(
        "broker-b", nameservers=nodes[1].address, topics=["orders", "invoices"], addr="127.0.0.2:2"
    )
    nodes[0].client().wipe_write_permission("broker-a")
    result = run("compare", "-n", nodes.addresses, "--settle", "0")
    first, second = addresses(nodes)
    says = {
        Address.parse(nodes[0].address): ("missing", "R-- (4)"),
        Address.parse(nodes[1].address): ("0=127.0.0.2:2", "RW- (6)"),
    }
    broker, permission = zip(says[first], says[second], strict=True)
    rows = [re.split(r" {2,}", line) for line in result.stdout.splitlines() if line]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0] == ["difference", "broker", "topics", str(first), str(second)]
    assert cells[2] == ["broker-missing", "broker-b", "2: invoices, orders", *broker]
    assert cells[3] == ["permission", "broker-a", "2: orders, payments", *permission]
    assert result.stderr == "Error: the nodes differ: 2 differences\n"
    assert result.exit_code == 1


def test_json_has_every_topic_and_what_every_node_says(nodes: LocalNodes) -> None:
    nodes[0].client().delete_topic("orders")
    result = run("compare", "-n", nodes.addresses, "--json", "--settle", "0")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "nodes": [str(node) for node in addresses(nodes)],
        "topics": 2,
        "complete": True,
        "differences": [
            {
                "kind": "topic-missing",
                "broker": None,
                "topics": ["orders"],
                "says": {nodes[0].address: "missing", nodes[1].address: "on broker-a"},
            }
        ],
        "failures": {},
        "unanswered": {},
    }


def test_a_named_topic_is_compared_alone(bench: Workbench, nodes: LocalNodes) -> None:
    bench.broker("broker-b", nameservers=nodes[1].address, topics=["invoices"])
    nodes[0].client().delete_topic("orders")
    here = ("-n", nodes.addresses, "--settle", "0")
    assert run("compare", "payments", *here).exit_code == 0
    result = run("compare", "orders", "payments", "--json", *here)
    assert result.exit_code == 1
    assert [d["kind"] for d in json.loads(result.stdout)["differences"]] == ["topic-missing"]


def test_a_topic_no_node_knows_ends_with_1(nodes: LocalNodes) -> None:
    result = run("compare", "nowhere", "-n", nodes.addresses)
    assert (result.exit_code, result.stderr) == (1, "Error: no node knows nowhere\n")


@pytest.mark.parametrize(("more", "shown"), [((), "5"), (("--all-topics",), "7")])
def test_a_few_topics_stand_for_many_unless_all_are_wanted(
    bench: Workbench, more: tuple[str, ...], shown: str
) -> None:
    nodes = bench.nodes(2)
    topics = [f"t{number}" for number in range(1, 8)]
    bench.broker(nameservers=nodes.addresses, topics=topics, addr=ADDR)
    nodes[0].client().wipe_write_permission("broker-a")
    result = run("compare", "-n", nodes.addresses, "--settle", "0", *more)
    names = ", ".join(topics[: int(shown)])
    assert f"7: {names}" in result.stdout
    assert ("and 2 more" in result.stdout) is (shown == "5")


def test_a_node_that_is_down_leaves_it_incomplete(nodes: LocalNodes) -> None:
    nodes[1].stop()
    result = run("compare", "-n", nodes.addresses)
    assert f"{nodes[1].address} could not be asked: connection refused" in result.stdout
    assert f"{nodes[0].address} knows 2 topics" in result.stdout
    assert (result.exit_code, result.stderr) == (1, "Error: the comparison is incomplete\n")


def test_no_node_at_all_ends_with_3(nodes: LocalNodes) -> None:
    for node in nodes:
        node.stop()
    result = run("compare", "-n", nodes.addresses)
    assert result.exit_code == 3
    assert result.stdout.count("could not be asked") == 2


def test_a_name_from_the_network_cannot_move_the_cursor(bench: Workbench) -> None:
    nodes = bench.nodes(2)
    with BlockingPeer(nodes[0].port) as peer:
        peer.send(Broker("evil\x1b[2J").registration(["t\x1b[1A\nu", "v"]))
        assert peer.read().code == raw.SUCCESS
        result = run("compare", "-n", nodes.addresses, "--settle", "0")
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert "evil" in result.output
