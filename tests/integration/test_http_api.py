"""What nodes know now, over HTTP: pages, ETags, errors, several nodes, and who may ask."""

import gzip
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from routebook.gateway.access import Access
from routebook.gateway.route_memory import RouteMemory
from routebook.gateway.table import ENDPOINTS
from routebook.testing import LocalNodes, Workbench
from support.gateways import GatewayThread
from support.waiting import wait_for

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        yield bench


@pytest.fixture(scope="module")
def nodes(bench: Workbench) -> LocalNodes:
    nodes = bench.nodes(2)
    topics = [f"t{number:03}" for number in range(25)]
    bench.broker("broker-a", topics=["orders", *topics], nameservers=nodes.addresses)
    bench.broker("broker-b", topics=["orders"], nameservers=nodes[0].address)
    return nodes


@pytest.fixture(scope="module")
def gateway(nodes: LocalNodes) -> Iterator[GatewayThread]:
    with GatewayThread(*(node.address for node in nodes)) as gateway:
        yield gateway


def refused(gateway: GatewayThread, path: str) -> tuple[int, str, str]:
    page = gateway.get(path)
    found: Any = page.json
    return page.status, found["code"], found["error"]


# -- the table


def test_every_endpoint_has_a_class() -> None:
    classes = {(each.method, each.path): each.access for each in ENDPOINTS}
    assert len(classes) == len(ENDPOINTS)
    opened = {path for (_, path), access in classes.items() if access is Access.OPEN}
    assert all(re.match(r"/(livez|readyz|metrics|rocketmq/)", path) for path in opened), opened
    for (method, path), access in classes.items():
        assert isinstance(access, Access)
        assert (access is Access.ADMIN) == (method == "POST"), path


# -- routes and topics


def test_a_route_is_told_with_its_etag_and_stays_up_to_date(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    broker = bench.broker("broker-r", topics=["returns"], nameservers=nodes[0].address)
    found = gateway.document("/v1/routes/returns")
    assert [each["broker"] for each in found["brokers"]] == ["broker-r"]
    assert re.fullmatch("[0-9a-f]{16}", found["etag"])
    assert (found["address"], found["age_ms"] < 10_000) == (nodes[0].address, True)
    broker.kill()
    gone = wait_for(
        "no route", lambda: gateway.get("/v1/routes/returns"), until=lambda page: page.status == 404
    )
    error: Any = gone.json
    assert error["code"] == "no_route"
    assert "the last one, broker-r" in error["error"]


def test_an_unknown_topic_has_no_route_and_the_answer_says_so(gateway: GatewayThread) -> None:
    status, code, error = refused(gateway, "/v1/routes/refunds")
    assert (status, code) == (404, "no_route")
    assert "not seen by this node since it started" in error


@pytest.mark.parametrize("name", ["*", "\x01", "é" * 250, "a\nb", "x" * 255])
def test_a_name_no_topic_can_have_does_not_end_the_watch_of_others(
    gateway: GatewayThread, name: str
) -> None:
    following = gateway.gateway.fleet.nodes[0].following
    wait_for("the watch", lambda: following.live)
    assert gateway.get(f"/v1/routes/{quote(name)}").status in (400, 404)
    assert gateway.document("/v1/routes/orders")["etag"] is not None
    assert following.live


def test_only_so_many_routes_are_kept_up_to_date(nodes: LocalNodes) -> None:
    with GatewayThread(nodes[0].address) as gateway:
        gateway.gateway.routes = RouteMemory(most=2)
        following = gateway.gateway.fleet.nodes[0].following
        wait_for("the watch", lambda: following.live)
        for topic in ("t001", "t002", "t001", "t003"):
            assert gateway.document(f"/v1/routes/{topic}")["etag"] is not None
        assert [*following._listeners] == ["t001", "t003"]


def test_the_routes_of_all_nodes_are_compared(nodes: LocalNodes, gateway: GatewayThread) -> None:
    found = gateway.document("/v1/routes/orders?all=true")
    assert found["agree"] is False
    by_address = {each["address"]: each for each in found["nodes"]}
    assert [*by_address] == [node.address for node in nodes]
    brokers = [
        [group["broker"] for group in by_address[node.address]["route"]["brokers"]]
        for node in nodes
    ]
    assert brokers == [["broker-a", "broker-b"], ["broker-a"]]
    assert gateway.document("/v1/routes/t001?all=true")["agree"] is True


def test_pages_of_topics_have_each_of_them_once(gateway: GatewayThread) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = gateway.document(f"/v1/topics?limit=7&system=false{cursor}")
        seen += (each["topic"] for each in page["topics"])
        assert page["total"] == 26
        if page["next"] is None:
            break
        assert len(page["topics"]) == 7
        cursor = f"&cursor={page['next']}"
    assert seen == sorted(["orders", *(f"t{number:03}" for number in range(25))])


def test_topics_are_found_by_a_part_of_their_name(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/topics?q=T01")
    assert [each["topic"] for each in found["topics"]] == [f"t01{number}" for number in range(10)]


def test_names_are_told_as_they_are(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    """Whoever shows them makes them harmless; JSON and its type are."""
    broker = bench.broker(HOSTILE, topics=["hostile"], nameservers=nodes[0].address)
    try:
        page = wait_for(
            "the broker",
            lambda: gateway.get(f"/v1/brokers/{quote(HOSTILE)}"),
            until=lambda page: page.status == 200,
        )
    finally:
        broker.kill()
        wait_for(
            "its end",
            lambda: gateway.get(f"/v1/brokers/{quote(HOSTILE)}"),
            until=lambda page: page.status == 404,
        )
    found: Any = page.json
    assert found["broker"] == HOSTILE
    assert page.headers["content-type"] == "application/json"
    assert page.headers["x-content-type-options"] == "nosniff"


# -- brokers and nodes


def test_brokers_are_told_with_their_members(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/brokers?q=broker-a")
    (group,) = found["brokers"]
    assert (group["cluster"], group["broker"], group["topics"]) == (
        "DefaultCluster",
        "broker-a",
        26,
    )
    (member,) = group["members"]
    assert (member["id"], member["role"], member["state"]) == (0, "master", "confirmed")
    assert member["timeout_ms"] == 120_000
    assert re.fullmatch("[0-9a-f]{16}", group["digest"])


def test_a_node_is_chosen_by_address_or_by_id(nodes: LocalNodes, gateway: GatewayThread) -> None:
    second = gateway.document(f"/v1/brokers?node={nodes[1].address}")
    assert [group["broker"] for group in second["brokers"]] == ["broker-a"]
    assert gateway.document(f"/v1/brokers?node={second['node']}")["address"] == nodes[1].address
    assert refused(gateway, "/v1/brokers?node=nobody")[:2] == (404, "no_node")


def test_nodes_that_differ_are_told_with_since_when(
    nodes: LocalNodes, gateway: GatewayThread
) -> None:
    found = gateway.document("/v1/nodes?differing=true")
    assert found["agree"] is False
    assert "They differ in broker-b since" in found["text"]
    (group,) = found["groups"]
    assert (group["broker"], group["agree"]) == ("broker-b", False)
    assert group["digests"][nodes[1].address] is None
    assert [node["state"] for node in found["nodes"]] == ["up", "up"]
    differences = gateway.document("/v1/differences")["differences"]
    assert [(each["kind"], each["broker"]) for each in differences] == [
        ("broker-missing", "broker-b")
    ]


def test_what_differed_is_told_when_it_is_over(
    bench: Workbench, nodes: LocalNodes, gateway: GatewayThread
) -> None:
    late = bench.broker("broker-l", topics=["late"], nameservers=nodes[1].address)
    wait_for(
        "a difference",
        lambda: gateway.document("/v1/nodes?differing=true")["groups"],
        until=lambda groups: "broker-l" in [group["broker"] for group in groups],
    )
    late.kill()
    wait_for(
        "its end",
        lambda: gateway.document("/v1/nodes")["converged"],
        until=lambda passed: "broker-l" in [each["broker"] for each in passed],
    )


def test_everything_is_told_in_a_sentence(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/now")
    assert found["nodes"] == {"up": 2, "known": 2}
    assert found["brokers"] == {"confirmed": 2, "unconfirmed": 0, "held": 0}
    assert "2 nodes know 2 brokers" in found["text"]


def test_a_node_that_is_gone_is_told_to_be_down(bench: Workbench) -> None:
    pair = bench.nodes(2)
    with GatewayThread(*(node.address for node in pair)) as gateway:
        pair[1].stop()
        found = wait_for(
            "its end",
            lambda: gateway.document("/v1/nodes"),
            until=lambda found: found["nodes"][1]["state"] in ("down", "draining"),
        )
        assert found["agree"] is None
        down = wait_for(
            "it is missed",
            lambda: gateway.document("/v1/now"),
            until=lambda found: found["state"] == "attention",
        )
        assert down["text"].startswith(f"{pair[1].address} has not answered for")
        assert down["reasons"][0]["see"] == "/v1/nodes"
        at_node = gateway.document("/v1/routes/orders?all=true")["nodes"][1]
        assert (at_node["route"], at_node["why"]) == (None, None)
        assert at_node["error"]


def test_findings_are_those_of_the_doctor(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/doctor")
    assert "not-on-all-nodes" in [each["check"] for each in found["findings"]]
    assert gateway.document("/v1/doctor")["at"] == found["at"]  # one look for all


def test_nobody_is_held(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/guard")
    assert found["holding"] is False
    assert [node["held"] for node in found["nodes"]] == [[], []]


# -- what all answers share


def test_an_etag_spares_what_is_known(gateway: GatewayThread) -> None:
    first = gateway.get("/v1/topics")
    again = gateway.get("/v1/topics", **{"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert int(again.headers["routebook-age-ms"]) >= 0
    other = gateway.get("/v1/topics?limit=1", **{"If-None-Match": first.headers["etag"]})
    assert other.status == 200


def test_long_answers_are_packed_for_who_takes_it(gateway: GatewayThread) -> None:
    plain = gateway.get("/v1/openapi.json")
    packed = gateway.get("/v1/openapi.json", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/topics?limt=3", "there is no parameter 'limt'"),
        ("/v1/topics?limit=0", "limit is a number from 1 to 1000"),
        ("/v1/topics?limit=1001", "limit is a number from 1 to 1000"),
        ("/v1/topics?limit=1&limit=2", "limit may be given once"),
        ("/v1/topics?cursor=%7B", "cursor is none of ours"),
        ("/v1/topics?system=perhaps", "system is true or false"),
        ("/v1/brokers?cluster=", "cluster takes 1 to 255 characters"),
        ("/v1/history/route", "the parameter topic is missing"),
        ("/v1/history/diff?from=yesterday", "from is no moment"),
        ("/v1/history/compare?from=seq:3", "give times"),
        ("/v1/watch", "the parameter topic is missing"),
        ("/v1/watch?topic=*", "topic cannot be watched: * is no topic"),
        ("/v1/watch?topic=a@b", "topic is a name, or a name, @ and the 16 digits"),
        ("/v1/events?last=5000", "last is a number from 0 to 1000"),
        ("/v1/routes/orders?all=true&node=x", "not both"),
    ],
)
def test_a_parameter_that_means_nothing_is_refused(
    gateway: GatewayThread, path: str, said: str
) -> None:
    status, code, error = refused(gateway, path)
    assert (status, code) == (400, "bad_parameter")
    assert said in error


def test_a_name_nobody_has_is_answered_with_those_like_it(gateway: GatewayThread) -> None:
    status, code, error = refused(gateway, "/v1/brokers/broker-aa")
    assert (status, code) == (404, "no_broker")
    assert "did you mean" in error


def test_without_any_node_everything_says_so() -> None:
    with GatewayThread("127.0.0.1:1") as gateway:
        wait_for(
            "why",
            lambda: gateway.document("/v1/now"),
            until=lambda found: found["text"].startswith("No node answers"),
        )
        found = gateway.document("/v1/now")
        assert (found["state"], found["brokers"], found["topics"]) == ("unknown", None, None)
        for path in ("/v1/topics", "/v1/brokers", "/v1/routes/orders", "/v1/kv", "/v1/doctor"):
            page = gateway.get(path)
            error = msgspec.json.decode(page.body)
            assert (page.status, error["code"]) == (503, "node_away"), path
            assert "retry-after" in page.headers
