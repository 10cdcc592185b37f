"""Routes over HTTP when they change: what is told, what is spared, and who tells it."""

from collections.abc import Iterator

import pytest

from routebook.testing import LocalNodes, Workbench
from support.gateways import GatewayThread
from support.waiting import wait_for


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        yield bench


@pytest.fixture
def nodes(bench: Workbench) -> LocalNodes:
    return bench.nodes(2)


@pytest.fixture
def gateway(nodes: LocalNodes) -> Iterator[GatewayThread]:
    with GatewayThread(*(node.address for node in nodes)) as gateway:
        wait_for(
            "watches",
            lambda: [node.following.live for node in gateway.gateway.fleet.nodes],
            until=all,
        )
        yield gateway


def test_a_change_of_a_route_is_told(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    with gateway.stream("/v1/watch?topic=orders") as stream:
        reset, gone, _ = stream.until("synced")
        assert (reset.event, reset.data["reason"]) == ("reset", "new")
        assert reset.data["address"] == nodes[0].address
        assert gone.event == "gone"
        assert gone.data["why"].startswith("not seen by this node since it started")
        broker = bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
        told = stream.next("route").data
        assert [group["broker"] for group in told["route"]["brokers"]] == ["broker-a"]
        assert told["etag"] == gateway.document("/v1/routes/orders")["etag"]
        broker.kill()
        assert "the last one, broker-a" in stream.next("gone").data["why"]


def test_who_has_a_route_is_not_told_it_again(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    bench.broker("broker-a", topics=["orders", "refunds"], nameservers=nodes.addresses)
    etag = gateway.document("/v1/routes/orders")["etag"]
    with gateway.stream(f"/v1/watch?topic=orders@{etag}&topic=refunds") as stream:
        told = [(sent.event, sent.data.get("topic")) for sent in stream.until("synced")]
    assert told == [("reset", None), ("route", "refunds"), ("synced", None)]


def test_another_node_tells_when_one_falls_silent(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
    with gateway.stream("/v1/watch?topic=orders") as stream:
        first = stream.until("synced")
        assert [sent.event for sent in first] == ["reset", "route", "synced"]
        nodes[0].stop()
        reset = stream.next("reset").data
        assert (reset["address"], reset["reason"]) == (nodes[1].address, "other_node")
        # Its etags are the same: there is nothing to tell.
        assert [sent.event for sent in stream.until("synced")] == ["synced"]


def test_a_node_that_comes_back_goes_on_telling(bench: Workbench) -> None:
    node = bench.nodes(1)[0]
    broker = bench.broker("broker-a", topics=["orders"], nameservers=node.address)
    with (
        GatewayThread(node.address) as gateway,
        gateway.stream("/v1/watch?topic=orders") as stream,
    ):
        stream.until("synced")
        broker.kill()
        stream.next("gone")
        node.stop()
        assert "tells nothing at the moment" in stream.next("lost").data["text"]
        node.start()
        assert stream.next("reset").data["reason"] == "restarted"
        stream.until("synced")
