"""TLS on the port that also speaks plain text."""

import asyncio
import logging
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from routebook.app import NameServer
from support import raw
from support.brokers import Broker
from support.certificates import Identity, authority, identity
from support.nodes import local_node
from support.raw import Hangup, Peer
from support.waiting import eventually, soon


@dataclass(frozen=True, slots=True)
class Keys:
    """Made once: an authority, two servers it signed, its client, and a stranger's client."""

    authority: Identity
    server: Identity
    renewed: Identity
    client: Identity
    stranger: Identity


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    ours, theirs = authority(folder, "ours"), authority(folder, "theirs")
    return Keys(
        authority=ours,
        server=identity(folder, "server", ours),
        renewed=identity(folder, "renewed", ours),
        client=identity(folder, "client", ours),
        stranger=identity(folder, "stranger", theirs),
    )


def trusting(keys: Keys, shown: Identity | None = None) -> ssl.SSLContext:
    """A client that checks the node's certificate, and shows its own if it has one."""
    context = ssl.create_default_context(cafile=str(keys.authority.cert))
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def tls_node(folder: Path, keys: Keys, **settings: object) -> NameServer:
    files: dict[str, object] = {
        "tls_server_cert_path": keys.server.cert,
        "tls_server_key_path": keys.server.key,
    }
    return local_node(folder, **files, **settings)


@pytest.fixture
async def node(tmp_path: Path, keys: Keys) -> AsyncIterator[NameServer]:
    async with tls_node(tmp_path, keys) as node:
        yield node


async def check_served(peer: Peer) -> None:
    assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST


async def check_refused(port: int, context: ssl.SSLContext) -> None:
    """With TLS 1.3 a client learns of its refusal only when it reads."""
    with pytest.raises((ssl.SSLError, OSError, Hangup)):
        async with Peer(port, context=context) as peer:
            await peer.call(raw.ROUTE, topic="nobody")


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


# -- modes


async def test_permissive_serves_both_on_one_port(node: NameServer, keys: Keys) -> None:
    async with Peer(node.port) as plain, Peer(node.port, context=trusting(keys)) as secret:
        await Broker().register(secret)

        assert (await plain.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        assert (await secret.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS
        assert secret.certificate == keys.server.der


async def test_a_broker_that_ends_its_tls_session_leaves(node: NameServer, keys: Keys) -> None:
    async with Peer(node.port) as plain:
        async with Peer(node.port, context=trusting(keys)) as secret:
            await Broker().register(secret)

        async def code() -> int:
            return (await plain.call(raw.ROUTE, topic="T1")).code

        await eventually("the route to go", code, until=lambda code: code == raw.TOPIC_NOT_EXIST)


async def test_disabled_closes_a_tls_hello(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_node(tmp_path, keys, tls_server_mode="disabled") as node:
        await check_refused(node.port, trusting(keys))
        async with Peer(node.port) as plain:
            await check_served(plain)

        assert len(complaints(caplog)) == 1


async def test_without_a_certificate_a_tls_hello_is_closed_and_said_why(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path) as node:
        await check_refused(node.port, trusting(keys))
        async with Peer(node.port) as plain:
            await check_served(plain)

        [complaint] = complaints(caplog)
        assert "tls.server.certPath" in complaint


async def test_enforcing_carries_out_no_plain_request(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference closes the connection but executes what came in its first segment."""
    put = raw.request(raw.PUT_KV, {"namespace": "ns", "key": "k", "value": "v"})
    async with tls_node(tmp_path, keys, tls_server_mode="enforcing") as node:
        async with Peer(node.port) as plain:
            await plain.send(put + Broker().registration())
            assert await plain.hung_up() == b""
            address = plain.address

        async with Peer(node.port, context=trusting(keys)) as secret:
            found = await secret.call(raw.GET_KV, namespace="ns", key="k")
            assert found.code == raw.QUERY_NOT_FOUND
            assert (await secret.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST
        [complaint] = complaints(caplog)
        assert address in complaint
        assert "plain text" in complaint


async def test_enforcing_looks_at_the_very_first_byte(tmp_path: Path, keys: Keys) -> None:
    settings = {"tls_server_mode": "enforcing"}
    async with tls_node(tmp_path, keys, **settings) as node, Peer(node.port) as plain:
        await plain.send(b"\x00")
        assert await plain.hung_up() == b""


# -- client certificates


@pytest.mark.parametrize(
    ("auth", "shown", "served"),
    [
        pytest.param("none", None, True, id="none-without"),
        pytest.param("none", "stranger", True, id="none-looks-at-nothing"),
        pytest.param("optional", None, True, id="optional-without"),
        pytest.param("optional", "client", True, id="optional-with-ours"),
        pytest.param("optional", "stranger", False, id="optional-with-a-strangers"),
        pytest.param("require", None, False, id="require-without"),
        pytest.param("require", "client", True, id="require-with-ours"),
        pytest.param("require", "stranger", False, id="require-with-a-strangers"),
    ],
)
async def test_client_certificates(
    tmp_path: Path,
    keys: Keys,
    caplog: pytest.LogCaptureFixture,
    auth: str,
    shown: str | None,
    served: bool,
) -> None:
    settings: dict[str, object] = {
        "tls_server_need_client_auth": auth,
        "tls_server_trust_cert_path": keys.authority.cert,
    }
    context = trusting(keys, None if shown is None else getattr(keys, shown))
    async with tls_node(tmp_path, keys, **settings) as node:
        if served:
            async with Peer(node.port, context=context) as peer:
                await check_served(peer)
            assert complaints(caplog) == []
        else:
            await check_refused(node.port, context)
            [complaint] = complaints(caplog)
            assert "TLS failed" in complaint


async def test_a_client_that_refuses_our_certificate_is_logged_once(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_it() -> None:
        with (
            socket.create_connection(("127.0.0.1", node.port)) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")

    await asyncio.to_thread(refuse_it)

    [complaint] = await soon("the complaint", lambda: complaints(caplog))
    assert "TLS failed" in complaint


@pytest.mark.parametrize(
    "hello",
    [
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\x00" * 100, id="record-too-long"),
        pytest.param(b"\x16\x03\x01\x00\x05hello", id="no-hello"),
        pytest.param(b"\x16" * 64, id="noise"),
    ],
)
async def test_a_broken_hello_closes_that_connection_only(
    node: NameServer, keys: Keys, caplog: pytest.LogCaptureFixture, hello: bytes
) -> None:
    async with Peer(node.port) as broken, Peer(node.port, context=trusting(keys)) as secret:
        await broken.send(hello)
        await broken.hung_up()

        await check_served(secret)
        [complaint] = complaints(caplog)
        assert broken.address in complaint


async def test_a_handshake_that_does_not_go_on_is_closed_like_any_slow_sender(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_node(tmp_path, keys, frame_timeout_seconds=1) as node:
        async with Peer(node.port) as slow:
            await slow.send(b"\x16\x03\x01\x02\x00\x01\x00")
            assert await slow.hung_up() == b""

        [complaint] = complaints(caplog)
        assert slow.address in complaint


# -- new files


async def test_replaced_files_are_used_by_new_connections_without_a_restart(
    tmp_path: Path, keys: Keys
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(keys.server.cert, cert)
    shutil.copy(keys.server.key, key)
    async with (
        local_node(tmp_path, tls_server_cert_path=cert, tls_server_key_path=key) as node,
        Peer(node.port, context=trusting(keys)) as before,
    ):
        assert before.certificate == keys.server.der

        shutil.copy(keys.renewed.cert, cert)
        shutil.copy(keys.renewed.key, key)

        async def shown() -> bytes:
            async with Peer(node.port, context=trusting(keys)) as peer:
                await check_served(peer)
                return peer.certificate

        await eventually("the new certificate", shown, until=lambda der: der == keys.renewed.der)
        await check_served(before)  # open connections go on with what they have


async def test_a_file_that_goes_while_it_is_loaded_is_waited_for(
    tmp_path: Path,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(keys.server.cert, cert)
    shutil.copy(keys.server.key, key)
    load, failed = ssl.SSLContext.load_cert_chain, asyncio.Event()

    def load_late(context: ssl.SSLContext, *arguments: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise FileNotFoundError(2, "No such file or directory")
        load(context, *arguments)

    async with local_node(tmp_path, tls_server_cert_path=cert, tls_server_key_path=key) as node:
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_late)
        shutil.copy(keys.renewed.cert, cert)
        shutil.copy(keys.renewed.key, key)
        await asyncio.wait_for(failed.wait(), 20)

        async def shown() -> bytes:
            async with Peer(node.port, context=trusting(keys)) as peer:
                return peer.certificate

        await eventually("the new certificate", shown, until=lambda der: der == keys.renewed.der)
    assert any("cannot be used yet" in record.message for record in caplog.records)


async def test_files_that_do_not_fit_together_leave_the_old_ones_in_use(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(keys.server.cert, cert)
    shutil.copy(keys.server.key, key)
    async with local_node(tmp_path, tls_server_cert_path=cert, tls_server_key_path=key) as node:

        async def shown() -> bytes:
            async with Peer(node.port, context=trusting(keys)) as peer:
                return peer.certificate

        assert await shown() == keys.server.der
        shutil.copy(keys.renewed.cert, cert)
        await soon("the complaint", lambda: complaints(caplog))
        assert await shown() == keys.server.der
        key.unlink()
        shutil.copy(keys.renewed.key, key)
        await eventually("the new certificate", shown, until=lambda der: der == keys.renewed.der)

        assert len(complaints(caplog)) == 1


async def test_a_replaced_trust_file_is_used_by_new_connections(tmp_path: Path, keys: Keys) -> None:
    trust = tmp_path / "trust.pem"
    shutil.copy(keys.stranger.cert, trust)
    settings: dict[str, object] = {
        "tls_server_need_client_auth": "require",
        "tls_server_trust_cert_path": trust,
    }
    async with tls_node(tmp_path, keys, **settings) as node:
        context = trusting(keys, keys.client)
        await check_refused(node.port, context)
        shutil.copy(keys.authority.cert, trust)

        async def served() -> bool:
            try:
                async with Peer(node.port, context=context) as peer:
                    await check_served(peer)
            except (ssl.SSLError, OSError, Hangup):
                return False
            return True

        await eventually("the client to be let in", served)


# -- much over TLS


async def test_a_long_pipeline_with_large_answers(node: NameServer, keys: Keys) -> None:
    topics = [f"{'long' * 10}-{number}" for number in range(4_000)]
    async with Peer(node.port, context=trusting(keys)) as peer:
        await Broker().register(peer, topics)  # several TLS records in one request
        count = 300

        async def ask() -> None:
            for opaque in range(1000, 1000 + count):
                await peer.send(
                    raw.request(raw.ALL_TOPICS, opaque=opaque)
                    + raw.request(raw.ROUTE, {"topic": topics[opaque]}, opaque=-opaque)
                )

        asking = asyncio.create_task(ask())
        answers = [await peer.read() for _ in range(2 * count)]
        await asking

    lists, routes = answers[0::2], answers[1::2]
    assert [answer.opaque for answer in lists] == list(range(1000, 1000 + count))
    assert [answer.opaque for answer in routes] == [-number for number in range(1000, 1000 + count)]
    assert {answer.body for answer in lists} == {lists[0].body}
    assert sorted(lists[0].value["topicList"]) == sorted(topics)
    assert {answer.code for answer in routes} == {raw.SUCCESS}


async def test_a_frame_in_many_small_records(node: NameServer, keys: Keys) -> None:
    async with Peer(node.port, context=trusting(keys)) as peer:
        for byte in raw.request(raw.ROUTE, {"topic": "nobody"}, opaque=3):
            await peer.send(bytes([byte]))

        assert (await peer.read()).opaque == 3


async def test_a_bad_frame_over_tls_closes_and_is_logged_once(
    node: NameServer, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async with Peer(node.port, context=trusting(keys)) as peer:
        await peer.send(raw.request(raw.ROUTE, {"topic": "nobody"}) + raw.frame(b"null"))

        assert len(raw.answers_in(await peer.hung_up())) == 1
        [complaint] = complaints(caplog)
        assert peer.address in complaint


async def test_large_answers_come_whole_and_others_are_served_between_their_pieces(
    node: NameServer, keys: Keys
) -> None:
    many = [f"{number:05d}{'x' * 110}" for number in range(20_000)]  # 2.4 MB of names
    async with (
        Peer(node.port, context=trusting(keys)) as one,
        Peer(node.port, context=trusting(keys)) as other,
    ):
        await Broker("big", addr="10.0.0.1:10911").register(one, many)
        for _ in range(3):
            asked = asyncio.create_task(one.call(raw.ALL_TOPICS))
            await check_served(other)
            assert set(many) <= set((await asked).value["topicList"])
