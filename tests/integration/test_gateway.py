"""The gateway over nodes that listen: probes, metrics, addresses, what it knows of its nodes."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from routebook.client.watch import RouteTold
from routebook.gateway.metric_table import METRICS, PREFIX, Type
from routebook.testing import Workbench
from support import raw
from support.brokers import Broker
from support.documents import ROOT, blocks_of
from support.gateways import RunningGateway, gateway_of
from support.health import BROKERS
from support.misbehaving import unused_port
from support.nodes import local_node
from support.waiting import eventually, soon

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scraped(gateway: RunningGateway, **headers: str) -> Samples:
    """All samples, by name and labels."""
    page = await gateway.get("/metrics", **headers)
    assert page.status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


# -- probes


async def test_it_lives_and_is_ready_while_its_node_is(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, gateway_of(node.address) as gateway:
        await gateway.settled()
        alive = await gateway.get("/livez")
        ready = await gateway.get("/readyz?verbose")
        quiet = await gateway.get("/readyz")
    assert (alive.status, alive.text) == (200, "ok\n")
    assert (ready.status, ready.text) == (200, f"{node.address}: ready\nready\n")
    assert quiet.text == "ready\n"


async def test_it_is_not_ready_before_its_node_has_answered() -> None:
    async with gateway_of(f"127.0.0.1:{unused_port()}") as gateway:
        page = await gateway.get("/readyz")
        alive = await gateway.get("/livez")
    assert page.status == 503
    assert "not ready: starting: the node has not answered yet" in page.text
    assert alive.status == 200  # it has ten seconds


async def test_it_is_ready_while_one_of_several_nodes_is(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{unused_port()}"
    async with local_node(tmp_path) as node, gateway_of(nobody, node.address) as gateway:
        page = await eventually(
            "it to be ready",
            lambda: gateway.get("/readyz?verbose"),
            until=lambda page: page.status == 200,
        )
    assert f"{nobody}: not ready: starting" in page.text
    assert f"{node.address}: ready\n" in page.text


async def test_a_node_that_waits_for_its_brokers_is_not_ready(tmp_path: Path) -> None:
    waiting = local_node(tmp_path, need_wait_for_service=True, wait_seconds_for_service=3600)
    async with waiting as node, gateway_of(node.address) as gateway:
        await gateway.settled()
        page = await gateway.get("/readyz")
    assert page.status == 503
    assert "waiting for service" in page.text


async def test_a_node_that_stops_is_draining_until_it_is_gone(tmp_path: Path) -> None:
    node = local_node(tmp_path, enable_shutdown_gracefully=True, shutdown_wait_time_seconds=60)
    await node.__aenter__()
    # Who stays has the node wait.
    async with raw.Peer(node.port), gateway_of(node.address) as gateway:
        await gateway.settled()
        stopping = asyncio.create_task(node.__aexit__(None, None, None))
        page = await eventually(
            "draining", lambda: gateway.get("/readyz"), until=lambda page: page.status == 503
        )
    await stopping
    assert "draining: the node stops" in page.text


# -- groups


async def test_it_knows_the_groups_of_its_node_and_what_changes(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        node = bench.nodes(1)[0]
        bench.broker("broker-a", topics=["orders"], nameservers=node.address)
        async with gateway_of(node.address) as gateway:
            await gateway.settled()
            followed = gateway.fleet.nodes[0]

            def brokers() -> dict[str, tuple[int, str]]:
                assert followed.view is not None
                groups = followed.view.value.groups.values()
                return {group.broker: (group.topics, group.digest) for group in groups}

            assert [*brokers()] == ["broker-a"]
            other = bench.broker("broker-b", topics=["orders", "refunds"], nameservers=node.address)
            await soon("broker-b", brokers, until=lambda seen: "broker-b" in seen)
            before = brokers()["broker-b"]
            assert len(before[1]) == 16
            await asyncio.to_thread(other.put_topic, "returns")
            changed = await soon(
                "another digest", brokers, until=lambda seen: seen["broker-b"][1] != before[1]
            )
            assert changed["broker-b"][0] == before[0] + 1
            await asyncio.to_thread(other.kill)
            await soon("its end", brokers, until=lambda seen: "broker-b" not in seen)
            kinds = {entry.kind for entry in gateway.fleet.ring.after(0).entries}
            assert kinds == {"began", "event"}


async def test_a_summary_is_told_in_this_shape(tmp_path: Path) -> None:
    """The example of the page, member by member."""
    [block] = [b for b in blocks_of(ROOT / "docs/gateway.md") if b.language == "json"]
    shown = json.loads(block.text)
    async with local_node(tmp_path) as node, raw.Peer(node.port) as peer:
        await Broker().register(peer, ["orders", "refunds"])
        answer = await peer.call(19_009, silences="true")
    told = json.loads(answer.body)
    assert shape(told) == shape(shown)


def shape(value: Any) -> Any:
    """Names and types, without what they are."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


async def test_a_held_broker_that_is_heard_of_again_is_held_no_longer(tmp_path: Path) -> None:
    """No event says so."""
    async with local_node(tmp_path) as node, AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(gateway_of(node.address))
        peers = [await stack.enter_async_context(raw.Peer(node.port)) for _ in BROKERS]
        for broker, peer in zip(BROKERS, peers, strict=True):
            await broker.register(peer)

        def held() -> set[str]:
            view = gateway.fleet.nodes[0].view
            groups = () if view is None else view.value.groups.values()
            return {g.broker for g in groups for member in g.members if member.held}

        everybody = {broker.name for broker in BROKERS}
        await soon("all to be held", held, until=lambda seen: seen == everybody)

        async def beaten() -> set[str]:
            beat = raw.request(raw.HEARTBEAT, BROKERS[0].fields, flag=raw.ONEWAY)
            await peers[0].send(beat)
            return held()

        others = everybody - {BROKERS[0].name}
        await eventually("one less", beaten, until=lambda seen: seen == others)
        page = await gateway.get("/readyz?verbose")
    assert page.status == 200
    assert re.search(r"warning: the guard holds \d+ silent brokers", page.text)


# -- watching


async def test_a_topic_is_watched_once_for_all_who_listen_and_after_a_restart_too(
    tmp_path: Path,
) -> None:
    first, second = list[RouteTold](), list[RouteTold]()
    with Workbench(tmp_path) as bench:
        node = bench.nodes(1)[0]
        bench.broker("broker-a", topics=["orders", "refunds"], nameservers=node.address)
        async with gateway_of(node.address) as gateway:
            following = gateway.fleet.nodes[0].following
            following.listen("orders", first.append)
            await soon("the route", lambda: first)
            following.listen("orders", second.append)
            assert second == first  # from what is known here; nobody is asked
            assert node.client().health()["watch"]["topics"] == 1
            boot = following.boot
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(node.start)
            await soon("the next boot", lambda: following.live and following.boot != boot)
            # The agent registers again with the node, and clients are told the same as before.
            bench.broker("broker-b", topics=["orders", "x"], nameservers=node.address)
            told = await soon(
                "broker-b", lambda: first[-1].route or b"", until=lambda body: b"broker-b" in body
            )
            assert second[-1].route == told
            following.unlisten("orders", first.append)
            following.unlisten("orders", second.append)
            await soon(
                "nothing to be watched",
                lambda: node.client().health()["watch"]["topics"],
                until=lambda count: count == 0,
            )
            kinds = [entry.kind for entry in gateway.fleet.ring.after(0).entries]
            assert kinds.count("began") == 2


# -- metrics


async def test_every_metric_of_the_table_is_told_and_no_other(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        kept = bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
        gone = bench.broker("broker-b", topics=["orders"], nameservers=nodes.addresses)
        await asyncio.to_thread(gone.kill)
        async with gateway_of(*(node.address for node in nodes)) as gateway:
            await gateway.settled()
            await gateway.get("/livez")
            page = await gateway.get("/metrics")
        assert kept.name == "broker-a"
    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    assert {PREFIX + metric.name for metric in METRICS} == set(families)
    for metric in METRICS:
        family = families[PREFIX + metric.name]
        assert family.type == metric.type.value
        assert family.documentation == metric.help
        labels = {name for sample in family.samples for name in sample.labels}
        node = set() if metric.name == "gateway_requests" else {"node"}
        le = {"le"} if metric.type is Type.HISTOGRAM else set()
        assert labels == {*metric.labels, *node, *le}, metric.name


async def test_numbers_are_those_of_the_node(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path) as node,
        gateway_of(node.address) as gateway,
        raw.Peer(node.port) as peer,
    ):
        await gateway.settled()
        await Broker().register(peer, ["orders", "refunds"])
        for _ in range(5):
            await peer.call(raw.ROUTE, topic="orders")
        await peer.call(raw.ROUTE, topic="nothing")
        samples = await scraped(gateway)
    of = ("node", node.address)

    def value(name: str, **labels: str) -> float:
        return samples[PREFIX + name, tuple(sorted([of, *labels.items()]))]

    assert value("requests_total", request_type="route-read", result="success") == 6
    assert value("route_request_total") == 6
    assert value("route_errors_total", result="not_found") == 1
    assert value("route_cache_events_total", event="hit") == 4
    assert value("route_cache_events_total", event="miss") == 2
    assert value("broker_registrations_total", result="success") == 1
    assert value("active_brokers") == value("brokers", state="confirmed") == 1
    assert (value("topics"), value("route_entries")) == (2, 2)
    assert value("up") == 1
    assert value("watchers", kind="feed") == 1
    assert value("loop_lag_seconds_bucket", le="+Inf") == value("loop_lag_seconds_count")


async def test_the_series_of_a_broker_that_is_gone_is_gone_at_the_next_scrape(
    tmp_path: Path,
) -> None:
    def heard(samples: Samples) -> list[str]:
        name = f"{PREFIX}broker_last_heard_seconds"
        return sorted(dict(labels)["broker"] for n, labels in samples if n == name)

    with Workbench(tmp_path) as bench:
        node = bench.nodes(1)[0]
        bench.broker("broker-a", topics=["orders"], nameservers=node.address)
        gone = bench.broker("broker-b", topics=["orders"], nameservers=node.address)
        async with gateway_of(node.address) as gateway:
            await eventually(
                "both",
                lambda: scraped(gateway),
                until=lambda seen: heard(seen) == ["broker-a", "broker-b"],
            )
            await asyncio.to_thread(gone.kill)  # returns when the node has noticed
            assert heard(await scraped(gateway)) == ["broker-a"]


async def test_two_nodes_that_tell_different_things_are_counted(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        bench.broker("both", topics=["orders"], nameservers=nodes.addresses)
        bench.broker("one", topics=["orders"], nameservers=nodes[0].address)
        async with gateway_of(*(node.address for node in nodes)) as gateway:
            await gateway.settled()
            samples = await scraped(gateway)
    labels = (("node", nodes[0].address), ("other", nodes[1].address))
    assert samples[f"{PREFIX}divergent_groups", labels] == 1


async def test_a_node_that_does_not_answer_is_down_and_nothing_else_is_told_of_it() -> None:
    address = f"127.0.0.1:{unused_port()}"
    async with gateway_of(address) as gateway:
        samples = await scraped(gateway)
    told = {name.removeprefix(PREFIX): value for (name, _), value in samples.items()}
    assert told["up"] == 0
    assert all(name.startswith(("up", "ping_seconds", "gateway_")) for name in told)


@pytest.mark.parametrize(
    ("accept", "told"),
    [
        pytest.param("", "text/plain; version=0.0.4", id="prometheus"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3",
            "application/openmetrics-text; version=1.0.0",
            id="openmetrics",
        ),
        pytest.param("text/plain;version=x.y.z", "text/plain; version=0.0.4", id="no-version"),
    ],
)
async def test_who_scrapes_says_in_which_text(tmp_path: Path, accept: str, told: str) -> None:
    async with local_node(tmp_path) as node, gateway_of(node.address) as gateway:
        page = await gateway.get("/metrics", Accept=accept)
        packed = await gateway.get("/metrics", **{"Accept-Encoding": "gzip"})
    assert page.status == 200
    assert page.headers["content-type"].startswith(told)
    assert (packed.headers["content-encoding"], packed.body[:2]) == ("gzip", b"\x1f\x8b")


# -- addresses


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("nsaddr", "ns1:9876;ns2:9876", id="common"),
        pytest.param("nsaddr-east?nofix=1", "ns3:9876", id="unit"),
        pytest.param("nsaddr-west?nofix=1&k=v", "ns1:9876;ns2:9876", id="unit-without-a-list"),
    ],
)
async def test_addresses_are_those_of_the_settings(tmp_path: Path, path: str, text: str) -> None:
    lists = {"": ["ns1:9876", "ns2:9876"], "east": ["ns3:9876"]}
    async with (
        local_node(tmp_path) as node,
        gateway_of(node.address, name_servers=lists) as gateway,
    ):
        page = await gateway.get(f"/rocketmq/{path}", Host="any.thing")
    assert (page.status, page.text) == (200, f"{text}\n")


async def test_without_a_list_the_nodes_are_told_but_for_one_that_stops(tmp_path: Path) -> None:
    leaving = local_node(
        tmp_path / "leaving", enable_shutdown_gracefully=True, shutdown_wait_time_seconds=60
    )
    await leaving.__aenter__()
    async with (
        local_node(tmp_path / "other") as other,
        raw.Peer(leaving.port),
        gateway_of(leaving.address, other.address) as gateway,
    ):
        await gateway.settled()
        both = await gateway.get("/rocketmq/nsaddr")
        stopping = asyncio.create_task(leaving.__aexit__(None, None, None))
        one = await eventually(
            "one less",
            lambda: gateway.get("/rocketmq/nsaddr"),
            until=lambda page: ";" not in page.text,
        )
    await stopping
    assert both.text == f"{leaving.address};{other.address}\n"
    assert one.text == f"{other.address}\n"


async def test_an_unknown_name_is_answered_with_a_body() -> None:
    """Without one Java's client throws."""
    async with gateway_of("127.0.0.1:1") as gateway:
        page = await gateway.get("/rocketmq/other")
    assert page.status == 404
    assert page.text


@pytest.mark.parametrize("path", ["/v1/nothing", "/livez/x"])
async def test_what_is_not_there_is_said_to_be_so(path: str) -> None:
    async with gateway_of("127.0.0.1:1") as gateway:
        answer = await gateway.get(path)
        posted = await gateway.ask("POST", "/livez", {})
    assert answer.status == 404
    assert re.search(rb'^\{"error":"there is nothing here', answer.body)
    assert posted.status == 405
