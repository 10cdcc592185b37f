"""The client and TLS: who is trusted, and what goes wrong."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from routebook.app import NameServer
from routebook.client.client import NameServerClient
from routebook.client.dialing import Dialing, Tls
from routebook.client.errors import AllNodesFailed, CannotConnect, ConnectionLost, NodeError
from support import misbehaving
from support.certificates import Identity, authority, identity
from support.leaks import nothing_left_behind
from support.misbehaving import Behaviour, Server, routes
from support.nodes import local_node
from support.waiting import soon

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Ours has signed the server and the client; theirs is an authority nobody knows.

    ``locked`` is the client's key under the password ``sesame``.
    """

    ours: Identity
    theirs: Identity
    server: Identity
    client: Identity
    stranger: Identity
    locked: Path


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    ours, theirs = authority(folder, "ours"), authority(folder, "theirs")
    client, locked = identity(folder, "client", ours), folder / "locked.key"
    command = ["openssl", "pkcs8", "-topk8", "-passout", "pass:sesame"]
    files = ["-in", str(client.key), "-out", str(locked)]
    subprocess.run([*command, *files], check=True, capture_output=True, timeout=60)
    return Keys(
        ours=ours,
        theirs=theirs,
        server=identity(folder, "server", ours),
        client=client,
        stranger=identity(folder, "stranger", theirs),
        locked=locked,
    )


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left_behind():
        yield


def tls_node(folder: Path, keys: Keys, **settings: object) -> NameServer:
    files: dict[str, object] = {
        "tls_server_cert_path": keys.server.cert,
        "tls_server_key_path": keys.server.key,
        "tls_server_trust_cert_path": keys.ours.cert,
    }
    return local_node(folder, **files, **settings)


def server_context(keys: Keys) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(keys.server.cert, keys.server.key)
    return context


def client_of(
    address: str, tls: Tls | None, *, timeout_s: float = TIMEOUT_S, connect_timeout_s: float = 5.0
) -> NameServerClient:
    dialing = Dialing(tls=tls, connect_timeout_s=connect_timeout_s)
    return NameServerClient(address, timeout_s=timeout_s, dialing=dialing)


async def failure_of(client: NameServerClient) -> NodeError:
    with pytest.raises(AllNodesFailed) as raised:
        await client.topics()
    return raised.value.failures[0]


# -- who is trusted


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("check_hostname", [True, False])
async def test_a_node_with_a_trusted_certificate_is_asked(
    tmp_path: Path, keys: Keys, *, host: str, check_hostname: bool
) -> None:
    tls = Tls(trust=keys.ours.cert, check_hostname=check_hostname)
    async with (
        tls_node(tmp_path, keys, tls_server_mode="enforcing") as node,
        client_of(f"{host}:{node.port}", tls) as client,
    ):
        assert await client.topics() == ()
        await client.put_kv("ns", "key", "x" * 200_000)
        assert await client.find_kv("ns", "key") == "x" * 200_000


async def test_host_names_are_compared_when_asked_for(keys: Keys) -> None:
    async with Server(routes, host="127.0.0.2", context=server_context(keys)) as server:
        async with client_of(server.address, Tls(trust=keys.ours.cert)) as client:
            await client.route("T")
        strict = Tls(trust=keys.ours.cert, check_hostname=True)
        async with client_of(server.address, strict) as client:
            failure = await failure_of(client)

    assert isinstance(failure, CannotConnect)
    assert "127.0.0.2" in failure.what
    assert "certificate verify failed" in failure.what


@pytest.mark.parametrize("platform", [True, False], ids=["platform", "another-authority"])
async def test_a_node_with_an_unknown_certificate_is_not_asked(
    tmp_path: Path, keys: Keys, *, platform: bool
) -> None:
    tls = Tls(trust=None if platform else keys.theirs.cert)
    async with tls_node(tmp_path, keys) as node, client_of(node.address, tls) as client:
        failure = await failure_of(client)

        assert isinstance(failure, CannotConnect)
        assert "certificate verify failed" in failure.what


async def test_anybody_is_trusted_without_verification(tmp_path: Path, keys: Keys) -> None:
    tls = Tls(trust=keys.theirs.cert, verify=False, check_hostname=True)
    async with tls_node(tmp_path, keys) as node, client_of(node.address, tls) as client:
        assert await client.topics() == ()


async def test_a_node_that_wants_a_certificate_gets_it(tmp_path: Path, keys: Keys) -> None:
    shown = Tls(trust=keys.ours.cert, cert=keys.client.cert, key=keys.client.key)
    async with (
        tls_node(tmp_path, keys, tls_server_need_client_auth="require") as node,
        client_of(node.address, shown) as client,
    ):
        assert await client.topics() == ()


async def test_a_node_that_wants_a_certificate_refuses_who_shows_none_or_another(
    tmp_path: Path, keys: Keys
) -> None:
    wrong = Tls(trust=keys.ours.cert, cert=keys.stranger.cert, key=keys.stranger.key)
    async with tls_node(tmp_path, keys, tls_server_need_client_auth="require") as node:
        for tls in (Tls(trust=keys.ours.cert), wrong):
            async with client_of(node.address, tls) as client:
                # With TLS 1.3 a client learns of its refusal only when it reads.
                assert isinstance(await failure_of(client), CannotConnect | ConnectionLost)


# -- one side speaks it, the other does not


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(misbehaving.hang_up, id="closes"),
        pytest.param(misbehaving.indifference, id="silent"),
        pytest.param(misbehaving.greeting(b"220 mail.example ESMTP\r\n"), id="greets"),
    ],
)
async def test_a_server_without_tls_is_an_error(behaviour: Behaviour) -> None:
    async with (
        Server(behaviour) as server,
        client_of(server.address, Tls(verify=False), connect_timeout_s=0.3) as client,
    ):
        assert isinstance(await failure_of(client), CannotConnect)


async def test_a_node_without_tls_is_an_error(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path, tls_server_mode="disabled") as node,
        client_of(node.address, Tls(verify=False)) as client,
    ):
        assert isinstance(await failure_of(client), CannotConnect)


async def test_a_node_with_nothing_but_tls_is_an_error_in_plain_text(
    tmp_path: Path, keys: Keys
) -> None:
    async with (
        tls_node(tmp_path, keys, tls_server_mode="enforcing") as node,
        client_of(node.address, None) as client,
    ):
        assert isinstance(await failure_of(client), ConnectionLost)


async def test_a_server_with_nothing_but_tls_is_an_error_in_plain_text(keys: Keys) -> None:
    async with (
        Server(routes, context=server_context(keys)) as server,
        client_of(server.address, None, timeout_s=1.0) as client,
    ):
        assert isinstance(await failure_of(client), NodeError)


# -- files


async def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, keys: Keys, capfd: pytest.CaptureFixture[str]
) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    missing = tmp_path / "missing.pem"
    bad = {
        missing: Tls(trust=missing),
        nonsense: Tls(trust=nonsense),
        keys.server.key: Tls(cert=keys.client.cert, key=keys.server.key),
        keys.locked: Tls(cert=keys.client.cert, key=keys.locked),
    }
    async with Server(routes) as server:
        for path, tls in bad.items():
            async with client_of(server.address, tls) as client:
                failure = await failure_of(client)
            assert isinstance(failure, CannotConnect)
            assert str(path) in failure.what
        assert server.accepted == 0  # never in plain text instead

    usable = Tls(verify=False, cert=keys.client.cert, key=keys.locked, key_password="sesame")
    async with (
        Server(routes, context=server_context(keys)) as server,
        client_of(server.address, usable) as client,
    ):
        await client.route("T")
    assert "sesame" not in repr(usable)
    assert "pass" not in capfd.readouterr().err  # nobody was asked for one


async def test_files_are_read_for_each_new_connection(tmp_path: Path, keys: Keys) -> None:
    trust = tmp_path / "trust.pem"
    trust.write_bytes(keys.theirs.cert.read_bytes())
    async with (
        Server(routes, context=server_context(keys)) as server,
        client_of(server.address, Tls(trust=trust)) as client,
    ):
        await failure_of(client)

        trust.write_bytes(keys.ours.cert.read_bytes())

        await client.route("T")


# -- the end


async def test_a_server_that_does_not_say_goodbye_does_not_stop_the_closing(keys: Keys) -> None:
    async with Server(misbehaving.deafness, context=server_context(keys)) as server:
        client = client_of(server.address, Tls(trust=keys.ours.cert), timeout_s=60.0)
        call = asyncio.create_task(client.put_kv("ns", "key", "x" * (8 << 20)))
        await soon("a connection", lambda: server.accepted)

        await client.close()

        with pytest.raises(AllNodesFailed):
            await call
