"""What a gateway logs of requests: one line each, with an id that whoever asked knows too."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.access import Access
from routebook.gateway.app import make_app
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.listening import HttpPort
from routebook.gateway.logs import gateway_log
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from support.gateways import Page, fetch, gateway_of
from support.nodes import local_node


async def broken(request: Request, gateway: Gateway) -> Response:
    raise ValueError("a fault of ours")


BROKEN = Endpoint("GET", "/v1/broken", Access.OPEN, broken, "Fails.")


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


async def asked(path: str, headers: Mapping[str, str] | None = None) -> Page:
    """Of a gateway with nothing but a fault in it."""
    app = make_app(Fleet([]), GatewayOptions(), [BROKEN])
    async with HttpPort(app, "127.0.0.1", 0) as port:
        return await asyncio.to_thread(fetch, port.url, path, "GET", headers)


async def test_a_request_is_a_line_with_the_id_of_its_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with gateway_log("json"):
        answer = await asked("/v1/nothing?limit=3")
    [line] = lines_of(capsys)
    assert line["logger"] == "routebook.gateway.requests"
    assert (line["method"], line["path"], line["query"]) == ("GET", "/v1/nothing", "limit=3")
    assert (line["status"], line["bytes"]) == (404, len(answer.body))
    assert line["peer"].startswith("127.0.0.1:")
    assert line["request_id"] == answer.headers["x-request-id"]


async def test_who_asks_may_bring_the_id(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log("text"):
        answer = await asked("/v1/nothing", {"X-Request-Id": "from-the-proxy.7"})
    assert answer.headers["x-request-id"] == "from-the-proxy.7"
    [line] = capsys.readouterr().err.splitlines()
    assert " INFO routebook.gateway.requests [from-the-proxy.7] GET /v1/nothing answered " in line


@pytest.mark.parametrize("odd", ["", "x" * 65, "a b", 'a"b', "ü"])
async def test_an_id_that_could_be_anything_else_is_not_taken(
    capsys: pytest.CaptureFixture[str], odd: str
) -> None:
    with gateway_log("json"):
        answer = await asked("/v1/nothing", {"X-Request-Id": odd})
    [line] = lines_of(capsys)
    assert line["request_id"] == answer.headers["x-request-id"] != odd


async def test_a_path_cannot_leave_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log("text"):
        await asked("/v1/%0a2026-01-01T00:00:00.000Z%20ERROR%20forged%1b[2J")
    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert "/v1/\\u000a2026-01-01T00:00:00.000Z ERROR forged\\u001b[2J" in line


async def test_all_lines_about_a_fault_have_the_id_of_its_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with gateway_log("json"):
        answer = await asked("/v1/broken")
    assert answer.status == 500
    fault, request = lines_of(capsys)
    assert fault["traceback"].endswith("ValueError: a fault of ours")
    assert (request["status"], request["level"]) == (500, "WARNING")
    assert fault["request_id"] == request["request_id"] == answer.headers["x-request-id"]


async def test_probes_are_no_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with local_node(tmp_path) as node, gateway_of(node.address) as gateway:
        await gateway.settled()
        capsys.readouterr()
        with gateway_log("json"):
            answers = [await gateway.get(path) for path in ("/livez", "/readyz")]
    assert [answer.status for answer in answers] == [200, 200]
    assert all(answer.headers["x-request-id"] for answer in answers)
    lines = [line for line in lines_of(capsys) if line["logger"] == "routebook.gateway.requests"]
    assert lines == []
