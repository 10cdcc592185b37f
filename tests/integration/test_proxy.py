"""HAProxy's PROXY headers: believed from trusted peers, an offence from everybody else."""

import asyncio
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from routebook.app import NameServer
from support import raw
from support.brokers import Broker
from support.certificates import authority, identity
from support.nodes import local_node
from support.raw import Peer

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1 = b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 9876\r\n"
V1_IPV6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 9876\r\n"


def v2(payload: bytes, *, command: int = 0x21, family: int = 0x11) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(payload)) + payload


IPV4 = bytes([203, 0, 113, 7, 192, 0, 2, 1]) + struct.pack(">HH", 56324, 9876)
IPV6 = bytes.fromhex("20010db8" + "0" * 22 + "07" + "20010db8" + "0" * 22 + "01") + struct.pack(
    ">HH", 56324, 9876
)
TLV = b"\x01\x00\x02h2"

CLAIMED, CLAIMED_IPV6 = "203.0.113.7:56324", "[2001:db8::7]:56324"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A node behind a proxy on this machine."""
    async with local_node(tmp_path, trusted_proxies="10.0.0.0/8;127.0.0.1") as node:
        yield node


def events_of(caplog: pytest.LogCaptureFixture, kind: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if f'"{kind}"' in r.getMessage()]


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("header", "peer_text"),
    [
        pytest.param(V1, CLAIMED, id="v1"),
        pytest.param(V1_IPV6, CLAIMED_IPV6, id="v1-ipv6"),
        pytest.param(v2(IPV4), CLAIMED, id="v2"),
        pytest.param(v2(IPV4 + TLV), CLAIMED, id="v2-with-more"),
        pytest.param(v2(IPV6, family=0x21), CLAIMED_IPV6, id="v2-ipv6"),
        pytest.param(b"PROXY UNKNOWN\r\n", None, id="v1-unknown"),
        pytest.param(b"PROXY UNKNOWN some words\r\n", None, id="v1-unknown-with-words"),
        pytest.param(v2(b"", command=0x20, family=0), None, id="v2-local"),
        pytest.param(v2(b"x" * 216, family=0x31), None, id="v2-unix-socket"),
        pytest.param(b"", None, id="no-header"),
    ],
)
async def test_the_claimed_peer_is_the_one_in_events_and_complaints(
    node: NameServer, caplog: pytest.LogCaptureFixture, header: bytes, peer_text: str | None
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with Peer(node.port, before=header) as peer:
        expected = peer_text or peer.address
        await Broker().register(peer)
        await peer.send(raw.frame(b"null"))
        assert await peer.hung_up() == b""

    [registered] = events_of(caplog, "BrokerRegistered")
    assert f'"peer":"{expected}"' in registered
    [complaint] = complaints(caplog)
    assert expected in complaint


@pytest.mark.parametrize("header", [V1, v2(IPV4 + TLV)], ids=["v1", "v2"])
async def test_a_header_may_come_in_any_pieces(
    node: NameServer, caplog: pytest.LogCaptureFixture, header: bytes
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    stream = header + Broker().registration(opaque=6)
    for size in (1, 5, 11, 12, 13, len(header) - 1, len(header), len(header) + 1):
        caplog.clear()
        async with Peer(node.port) as peer:
            for start in range(0, len(header) + 20, size):
                await peer.send(stream[start : start + size])
                await asyncio.sleep(0)  # the node, in this same loop, reads it now
            sent = range(0, len(header) + 20, size)[-1] + size
            await peer.send(stream[sent:])

            assert (await peer.read()).opaque == 6
        [registered] = events_of(caplog, "BrokerRegistered")
        assert f'"peer":"{CLAIMED}"' in registered


async def test_the_header_and_the_first_requests_may_share_a_segment(node: NameServer) -> None:
    requests = b"".join(raw.request(raw.ROUTE, {"topic": "T"}, opaque=n) for n in range(3))
    async with Peer(node.port, before=V1 + requests) as peer:
        assert [(await peer.read()).opaque for _ in range(3)] == [0, 1, 2]


async def test_only_the_first_bytes_can_be_a_header(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Peer(node.port, before=V1 + V1) as peer:
        assert await peer.hung_up() == b""

    [complaint] = complaints(caplog)
    assert CLAIMED in complaint


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"PROXY TCP4 203.0.113.7 192.0.2.1 56324\r\n", id="v1-field-missing"),
        pytest.param(b"PROXY TCP4 203.0.113.700 192.0.2.1 1 2\r\n", id="v1-no-address"),
        pytest.param(b"PROXY TCP4 2001:db8::7 192.0.2.1 1 2\r\n", id="v1-other-family"),
        pytest.param(b"PROXY TCP4 203.0.113.7 192.0.2.1 70000 2\r\n", id="v1-no-port"),
        pytest.param(b"PROXY UDP4 203.0.113.7 192.0.2.1 1 2\r\n", id="v1-no-tcp"),
        pytest.param(b"PROXYTCP4 203.0.113.7 192.0.2.1 1 2\r\n", id="v1-no-space"),
        pytest.param(b"PROXY TCP4 " + b"1" * 200, id="v1-without-end"),
        pytest.param(v2(IPV4, command=0x11), id="v2-of-version-1"),
        pytest.param(v2(IPV4, command=0x2F), id="v2-unknown-command"),
        pytest.param(v2(IPV4[:-1]), id="v2-too-short"),
        pytest.param(v2(IPV6[:-1], family=0x21), id="v2-ipv6-too-short"),
    ],
)
async def test_a_malformed_header_closes_that_connection_only(
    node: NameServer, caplog: pytest.LogCaptureFixture, header: bytes
) -> None:
    async with Peer(node.port) as neighbour, Peer(node.port) as peer:
        await peer.send(header + Broker().registration())

        assert await peer.hung_up() == b""
        [complaint] = complaints(caplog)
        assert peer.address in complaint
        assert (await neighbour.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST


@pytest.mark.parametrize("header", [V1, v2(IPV4)], ids=["v1", "v2"])
@pytest.mark.parametrize("trusted", ["", "10.0.0.0/8", "::1"], ids=["none", "others", "ipv6"])
async def test_a_header_of_an_untrusted_peer_is_closed_and_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, header: bytes, trusted: str
) -> None:
    caplog.set_level(logging.INFO)
    async with local_node(tmp_path, trusted_proxies=trusted) as node, Peer(node.port) as peer:
        await peer.send(header + Broker().registration())

        assert await peer.hung_up() == b""
        [complaint] = complaints(caplog)
        assert peer.address in complaint
        assert CLAIMED not in caplog.text
        assert events_of(caplog, "BrokerRegistered") == []


async def test_a_header_that_does_not_go_on_is_closed_like_any_slow_sender(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"trusted_proxies": "127.0.0.1", "frame_timeout_seconds": 1}
    async with local_node(tmp_path, **settings) as node, Peer(node.port) as peer:
        await peer.send(V1[:-5])

        assert await peer.hung_up() == b""
        [complaint] = complaints(caplog)
        assert peer.address in complaint


async def test_tls_begins_after_the_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    ours = authority(tmp_path, "ours")
    server = identity(tmp_path, "server", ours)
    settings: dict[str, object] = {
        "trusted_proxies": "127.0.0.1",
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": server.cert,
        "tls_server_key_path": server.key,
    }
    context = ssl.create_default_context(cafile=str(ours.cert))
    async with local_node(tmp_path, **settings) as node:
        for header in (V1, v2(IPV4)):
            caplog.clear()
            async with Peer(node.port, context=context, before=header) as peer:
                await Broker().register(peer)
            [registered] = events_of(caplog, "BrokerRegistered")
            assert f'"peer":"{CLAIMED}"' in registered

        # Enforcing counts after the header as well.
        async with Peer(node.port, before=V1 + Broker().registration()) as plain:
            assert await plain.hung_up() == b""
        [complaint] = complaints(caplog)
        assert CLAIMED in complaint
