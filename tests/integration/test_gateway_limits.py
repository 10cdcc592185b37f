"""What a stranger can send to a gateway, or hold of it, has a bound."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from routebook.gateway import listening
from support.gateways import RunningGateway, gateway_of

NOBODY = "127.0.0.1:1"


async def exchanged(gateway: RunningGateway, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """What is answered to bytes as they are, until the gateway closes."""
    place = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_request_has_a_while_to_arrive_however_it_trickles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "RECEIVE_S", 0.5)
    async with gateway_of(NOBODY) as gateway:
        trickled = exchanged(gateway, *[b"GET /livez HTTP/1.1\r\n", *[b"a"] * 200], pause_s=0.02)
        silent = exchanged(gateway)
        body = exchanged(
            gateway, b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"
        )
        answers = await asyncio.gather(trickled, silent, body)
        again = await gateway.get("/livez")
    assert answers[0] in (b"", listening._LATE)  # it may be reset under bytes that still come
    assert answers[1] == listening._LATE
    assert answers[2].startswith(b"HTTP/1.1 404 ") or answers[2] == b""
    assert again.status == 200


async def test_a_connection_that_stays_open_is_no_request_that_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "RECEIVE_S", 0.3)
    async with gateway_of(NOBODY) as gateway:
        place = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for _ in range(3):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await reader.readuntil(b"ok\n")
            assert answer.startswith(b"HTTP/1.1 200 OK")
            await asyncio.sleep(0.4)
        writer.close()


async def test_connections_beyond_the_bound_are_told_to_come_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 2)
    async with gateway_of(NOBODY) as gateway:
        place = urlsplit(gateway.url)
        held = [await asyncio.open_connection(place.hostname, place.port) for _ in range(2)]
        for _, writer in held:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for reader, _ in held:
            await reader.readuntil(b"ok\n")
        refused = [await gateway.get("/livez") for _ in range(3)]
        for _, writer in held:
            writer.close()
    assert {page.status for page in refused} == {503}
    assert refused[0].headers["retry-after"] == "5"
    assert len([line for line in caplog.messages if "refusing HTTP connections" in line]) <= 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(
            b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 8193), 414, id="target"
        ),
        pytest.param(
            b"GET /livez?%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 8193), 414, id="query"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nA: %b\r\n\r\n" % (b"a" * 65536), 400, id="header"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="nonsense"),
        pytest.param(
            b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4097\r\n\r\n",
            413,
            id="body",
        ),
    ],
)
async def test_what_is_too_large_is_refused(sent: bytes, status: int) -> None:
    async with gateway_of(NOBODY) as gateway:
        answer = await exchanged(
            gateway, sent.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        well = await gateway.get("/livez")
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert well.status == 200


@pytest.mark.parametrize(
    "path",
    ["//etc/passwd", "/../../etc/passwd", "/%2e%2e/x", "/rocketmq/..%2f..%2fx", "/livez%00"],
)
async def test_no_path_leads_anywhere_else(tmp_path: Path, path: str) -> None:
    async with gateway_of(NOBODY) as gateway:
        assert (await gateway.get(path)).status == 404


async def test_what_a_proxy_says_of_its_client_is_not_believed() -> None:
    async with gateway_of(NOBODY) as gateway:
        page = await gateway.get("/rocketmq/nsaddr", **{"X-Forwarded-For": "10.9.9.9"})
    assert page.text == f"{NOBODY}\n"
