"""Changes over HTTP: who may make them, what they do, and what journals say of whoever did."""

import re
from pathlib import Path
from typing import Any

import pytest

from routebook.gateway.access import Access
from routebook.gateway.api.table import OPERATIONS
from routebook.testing import Workbench
from support.fleet import Fleet
from support.gateways import GatewayThread, fetch
from support.health import hold
from support.nodes import NodeProcess
from support.ports import free_port
from support.waiting import wait_for

TOKEN = "correct-horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CHANGES = [operation.path for operation in OPERATIONS if operation.access is Access.ADMIN]


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_takes_the_token_and_nothing_else(bench_gateway: GatewayThread, path: str) -> None:
    path = path.replace("{broker}", "broker-a")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"token={TOKEN}"}):
        page = bench_gateway.post(path, **headers)
        error: Any = page.json
        assert (page.status, error["code"]) == (401, "token")
    assert bench_gateway.get(path, **BEARER).status == 405


@pytest.fixture(scope="module")
def bench_gateway(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        nodes = bench.nodes(2)
        bench.broker("broker-a", topics=["orders", "refunds"], nameservers=nodes.addresses)
        addresses = [node.address for node in nodes]
        with GatewayThread(*addresses, admin_token=TOKEN) as gateway:
            yield gateway


def test_a_broker_is_drained_and_given_back_on_every_node(bench_gateway: GatewayThread) -> None:
    page = bench_gateway.post("/v1/drain/broker-a", **BEARER)
    found: Any = page.json
    assert (page.status, found["done"], found["wanted"]) == (200, True, "drained")
    assert [node["topics"] for node in found["nodes"]] == [2, 2]
    for node in bench_gateway.document("/v1/routes/orders?all=true")["nodes"]:
        assert node["route"]["queues"][0]["permission"] == "R--"
    given: Any = bench_gateway.post("/v1/undrain/broker-a", b"{}", **BEARER).json
    assert [node["changed"] for node in given["nodes"]] == [2, 2]
    wait_for(
        "writable topics",
        lambda: bench_gateway.document("/v1/routes/orders")["queues"][0]["permission"],
        until=lambda permission: permission == "RW-",
    )


def test_a_broker_nobody_knows_is_not_drained(bench_gateway: GatewayThread) -> None:
    page = bench_gateway.post("/v1/drain/broker-b", **BEARER)
    error: Any = page.json
    assert (page.status, error["code"]) == (404, "no_broker")
    assert "did you mean broker-a?" in error["error"]


def test_a_body_that_means_nothing_is_refused(bench_gateway: GatewayThread) -> None:
    page = bench_gateway.post("/v1/drain/broker-a", b'{"force":true}', **BEARER)
    error: Any = page.json
    assert (page.status, error["code"]) == (400, "bad_parameter")


def test_held_brokers_are_let_go(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        hold(fleet, on=fleet.ports)
        with GatewayThread(*fleet.addresses, admin_token=TOKEN) as gateway:
            first = gateway.document("/v1/guard")["nodes"][0]
            assert (first["holding"], first["held_in_all"], len(first["held"])) == (True, 12, 12)
            assert first["why"] == "12 of 12 brokers silent within 1 min, more than 6"
            assert 0 < first["left_ms"] <= 600_000
            now = gateway.document("/v1/now")
            assert (now["state"], now["brokers"]["held"]) == ("attention", 12)
            assert "holds 12 silent brokers" in now["text"]
            groups = gateway.document("/v1/brokers")["brokers"]
            assert {group["state"] for group in groups} == {"held"}

            page = gateway.post("/v1/guard/release", **BEARER)
            found: Any = page.json
            assert (page.status, found["done"]) == (200, True)
            assert [(node["dropped"], node["text"]) for node in found["nodes"]] == [
                (12, "let go 12 brokers")
            ] * 2
            wait_for("nobody", lambda: not gateway.document("/v1/guard")["holding"])
            again: Any = gateway.post("/v1/guard/release", **BEARER).json
            assert [node["text"] for node in again["nodes"]] == ["held nobody"] * 2


def test_without_a_token_nothing_is_changed(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench, GatewayThread(bench.nodes(1)[0].address) as gateway:
        page = gateway.post("/v1/guard/release", **BEARER)
        error: Any = page.json
        assert (page.status, error["code"]) == (403, "not_allowed")
        assert "httpAdminToken" in error["error"]


def test_a_broker_is_drained_and_the_journal_says_by_whom(tmp_path: Path) -> None:
    """Through the gateway that a node has by itself."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    secrets = {"ROUTEBOOK_HTTP_ADMIN_TOKEN": TOKEN}
    with (
        NodeProcess(tmp_path / "node", "--gateway-port", str(port), environment=secrets) as node,
        Workbench(tmp_path / "bench") as bench,
    ):
        bench.broker("broker-a", topics=["orders"], nameservers=f"127.0.0.1:{node.port}")
        wait_for("the broker", lambda: _status(url, "/v1/brokers/broker-a") == 200)
        page = fetch(url, "/v1/drain/broker-a", "POST", BEARER)
        found: Any = page.json
        assert (page.status, found["nodes"][0]["text"]) == (
            200,
            "write permission taken from 1 topic",
        )

        def latest() -> Any:
            told: Any = fetch(url, "/v1/history/topic?topic=orders").json
            return told["nodes"][0]["versions"][-1]

        version = wait_for("a record of it", latest, until=lambda found: found["cause"] == "admin")
    assert re.fullmatch(r"admin@127\.0\.0\.1:\d+", version["peer"])
    assert version["brokers"][0]["permission"] == "R--"


def _status(url: str, path: str) -> int | None:
    try:
        return fetch(url, path).status
    except OSError:
        return None  # it does not listen yet
