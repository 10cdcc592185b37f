"""Events as they happen, over HTTP: sentences, resuming, state, bounds, slow readers."""

import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from routebook.gateway import live_feed, streams
from routebook.gateway.ring import LOST
from routebook.gateway.streams import StreamSlots
from routebook.testing import LocalNodes, Workbench
from support.gateways import GatewayThread, Stream, fetch
from support.waiting import wait_for


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        yield bench


@pytest.fixture(scope="module")
def nodes(bench: Workbench) -> LocalNodes:
    nodes = bench.nodes(2)
    bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
    return nodes


@pytest.fixture(scope="module")
def gateway(nodes: LocalNodes) -> Iterator[GatewayThread]:
    with GatewayThread(*(node.address for node in nodes)) as gateway:
        wait_for(
            "feeds",
            lambda: [node.following.live for node in gateway.gateway.fleet.nodes],
            until=all,
        )
        yield gateway


def is_about(broker: str, kind: str) -> Any:
    return lambda data: data["broker"] == broker and data["type"] == kind


def test_an_event_is_told_as_a_sentence_with_cause_and_peer(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    with gateway.stream("/v1/events") as stream:
        hello = stream.next("hello")
        assert [node["address"] for node in hello.data["nodes"]] == [n.address for n in nodes]
        broker = bench.broker("broker-b", topics=["refunds"], nameservers=nodes[0].address)
        came = stream.next("event", is_about("broker-b", "BrokerRegistered")).data
        broker.kill()
        left = stream.next("event", is_about("broker-b", "BrokerLeft"))
    assert came["addresses"] == {"0": broker.addr}
    assert re.fullmatch(
        rf"broker-b \({re.escape(broker.addr)}, id 0, cluster DefaultCluster\) registered from"
        r" 127\.\S+\.",
        came["text"],
    )
    assert left.data == {
        "node": came["node"],
        "seq": left.data["seq"],
        "at": left.data["at"],
        "type": "BrokerLeft",
        "kind": "change",
        "cause": "connection_closed",
        "alarming": True,
        "peer": came["peer"],
        "cluster": "DefaultCluster",
        "broker": "broker-b",
        "broker_id": 0,
        "address": broker.addr,
        "addresses": {},
        "topics": [],
        "topics_in_all": 1,
        "text": "broker-b left: its connection was closed by the peer; it had 1 topic.",
    }
    assert left.id is not None
    incident = wait_for("the incident", lambda: gateway.document("/v1/now")["incidents"])[0]
    assert incident == left.data


def test_who_comes_back_is_told_what_was_missed(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    with gateway.stream("/v1/events") as stream:
        stream.next("hello")
        broker = bench.broker("broker-c", topics=["c"], nameservers=nodes[0].address)
        seen = stream.next("event", is_about("broker-c", "BrokerRegistered"))
    broker.kill()
    assert seen.id is not None
    for path, headers in (
        (f"/v1/events?since={seen.id}", {}),
        ("/v1/events", {"Last-Event-ID": seen.id}),
    ):
        with gateway.stream(path, **headers) as again:
            told = [sent.data["type"] for sent in _events_until(again, "BrokerLeft")]
        assert "BrokerRegistered" not in told
        assert told[-1] == "BrokerLeft"


def _events_until(stream: Stream, kind: str) -> list[Any]:
    seen = []
    for sent in stream:
        if sent.event == "event":
            seen.append(sent)
            if sent.data["type"] == kind:
                return seen
    raise AssertionError("the stream ended")


def test_the_latest_events_come_first_if_wanted(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    broker = bench.broker("broker-d", topics=["d"], nameservers=nodes[0].address)
    with gateway.stream("/v1/events") as stream:
        stream.next("hello")
        broker.kill()
        stream.next("event", is_about("broker-d", "BrokerLeft"))
    with gateway.stream("/v1/events?last=1") as stream:
        assert stream.next("event").data["broker"] == "broker-d"


def test_an_id_of_another_gateway_is_told_to_be_of_no_use(gateway: GatewayThread) -> None:
    with gateway.stream("/v1/events?since=0123abcd-17") as stream:
        seen = stream.until("lost")
    assert "another gateway" in seen[0].data["text"]
    assert seen[-1].data["node"] is None


def test_groups_and_nodes_are_told_at_first_and_when_they_change(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    with gateway.stream("/v1/events?state=true") as stream:
        first = stream.next("nodes").data
        assert [node["state"] for node in first["nodes"]] == ["up", "up"]
        assert first["state"] == "well"
        told = {}
        for _ in nodes:
            data = stream.next("groups", lambda data: data.get("first")).data
            told[data["address"]] = [group["broker"] for group in data["groups"]]
        assert told == {node.address: ["broker-a"] for node in nodes}
        broker = bench.broker("broker-e", topics=["e"], nameservers=nodes[0].address)
        new = stream.next("groups", lambda data: data["groups"]).data
        assert [group["broker"] for group in new["groups"]] == ["broker-e"]
        assert (new["address"], new["gone"]) == (nodes[0].address, [])
        broker.kill()
        gone = stream.next("groups", lambda data: data["gone"]).data
        assert gone["gone"] == [["DefaultCluster", "broker-e"]]


def test_who_only_looks_takes_no_place(gateway: GatewayThread) -> None:
    page = fetch(gateway.url, "/v1/events", "HEAD")
    assert (page.status, page.headers["content-type"]) == (
        200,
        "text/event-stream; charset=utf-8",
    )
    assert len(gateway.gateway.streams) == 0


def test_a_stopped_gateway_says_goodbye(nodes: LocalNodes) -> None:
    with GatewayThread(nodes[0].address) as gateway:
        stream = gateway.stream("/v1/events")
        stream.next("hello")
    with stream:
        assert stream.next("bye").data["reason"] == "draining"


def test_streams_beyond_the_bound_are_turned_away(nodes: LocalNodes) -> None:
    with GatewayThread(nodes[0].address) as gateway:
        gateway.gateway.streams = StreamSlots(most=3, most_of_address=2)
        opened = [gateway.stream("/v1/events") for _ in range(2)]
        for stream in opened:
            stream.next("hello")
        page = gateway.get("/v1/events")
        error: Any = page.json
        assert (page.status, error["code"]) == (429, "too_many")
        assert page.headers["retry-after"] == "5"
        opened[0].close()
        wait_for("room", lambda: len(gateway.gateway.streams) < 2)
        with gateway.stream("/v1/events") as another:
            another.next("hello")
        opened[1].close()


def test_five_thousand_attempts_hold_no_more_than_the_bound(nodes: LocalNodes) -> None:
    """Each is answered; none of them is kept from being closed, nor others from asking."""
    request = b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with GatewayThread(nodes[0].address) as gateway:
        place = gateway.url.removeprefix("http://").rstrip("/").split(":")
        answers = {b"200": 0, b"429": 0}
        held: list[socket.socket] = []
        for _ in range(50):
            peers = [
                socket.create_connection((place[0], int(place[1])), timeout=30) for _ in range(100)
            ]
            for peer in peers:
                peer.sendall(request)
            for peer in peers:
                status = peer.recv(16)[9:12]
                answers[status] += 1
                if status == b"200":
                    held.append(peer)
                else:
                    peer.close()
        assert answers == {b"200": streams.MOST_OF_ADDRESS, b"429": 5000 - streams.MOST_OF_ADDRESS}
        assert len(gateway.gateway.streams) == streams.MOST_OF_ADDRESS
        assert gateway.get("/v1/now").status == 200
        for peer in held:
            peer.close()
        wait_for("all of them are gone", lambda: len(gateway.gateway.streams) == 0)


def test_who_falls_behind_is_told_so_and_how_everything_is(
    nodes: LocalNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is queued: the feed goes on, and a reader goes on with the present."""
    monkeypatch.setattr(live_feed, "MOST_THINGS", 20)
    with GatewayThread(nodes[0].address) as gateway:
        ring = gateway.gateway.fleet.ring

        async def burst() -> None:
            for number in range(40):
                ring.add(LOST, nodes[0].address, f"token-{number}", b'{"from":1,"to":2}')

        with gateway.stream("/v1/events?state=true") as stream:
            stream.next("groups", lambda data: data.get("first"))
            gateway.run(burst())
            lost = stream.next("lost", lambda data: data["node"] is None)
            assert lost.id == gateway.gateway.live.id_of(gateway.gateway.live.last)
            assert stream.next("nodes").data["nodes"]
            assert stream.next("groups").data["first"]


def test_a_reader_that_reads_nothing_is_left(
    bench: Workbench, nodes: LocalNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SLOW_S", 0.5)
    with GatewayThread(nodes[0].address) as gateway:
        place = gateway.url.removeprefix("http://").rstrip("/").split(":")
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect((place[0], int(place[1])))
        peer.sendall(b"GET /v1/events?state=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_for("the stream", lambda: len(gateway.gateway.streams) == 1)
        big = b"x" * 8_000_000

        async def flood() -> None:
            gateway.gateway.live._add_state(streams.sse("nodes", {"filler": big.decode()}))

        gateway.run(flood())
        wait_for("it is left", lambda: len(gateway.gateway.streams) == 0)
        peer.close()
