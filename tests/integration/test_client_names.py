"""Names that stand for addresses, and lists of nodes that change."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from routebook.client import client as client_module
from routebook.client import node as node_module
from routebook.client.client import NameServerClient
from routebook.client.dialing import (
    MAX_ADDRESSES,
    Dialing,
    Endpoint,
    numeric_endpoints,
    resolved,
)
from routebook.client.errors import AllNodesFailed, CannotConnect, NoNameServers
from routebook.client.node import Node
from routebook.client.requests import route_question
from routebook.wire.address import Address
from support import misbehaving
from support.leaks import nothing_left_behind
from support.misbehaving import Caller, Server, answer, routes, unused_port
from support.waiting import eventually, soon

TIMEOUT_S = 3.0

Resolver = dict[str, list[Endpoint] | OSError]


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left_behind():
        yield


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    """What each name resolves to; may be changed at any time."""
    names: Resolver = {}

    async def resolved(address: Address) -> list[Endpoint]:
        found = names[address.host]
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(node_module, "resolved", resolved)
    return names


def at(port: int, host: str = "127.0.0.1") -> Endpoint:
    return socket.AF_INET, (host, port)


async def by_whom(client: NameServerClient) -> str:
    return str((await client.route("T")).node)


# -- names


async def test_a_name_is_resolved() -> None:
    async with Server(routes) as server, NameServerClient(f"localhost:{server.port}") as client:
        assert await by_whom(client) == f"localhost:{server.port}"


async def test_a_dead_address_of_a_name_does_not_hurt_the_others(resolver: Resolver) -> None:
    async with Server(routes) as server, NameServerClient("names.example:9876") as client:
        resolver["names.example"] = [at(unused_port()), at(unused_port()), at(server.port)]

        assert await by_whom(client) == "names.example:9876"


async def test_an_address_that_never_connects_does_not_hurt_the_others(resolver: Resolver) -> None:
    with misbehaving.black_hole() as hole:
        async with Server(routes) as server, NameServerClient("names.example:9876") as client:
            resolver["names.example"] = [at(hole), at(hole), at(server.port)]

            assert await by_whom(client) == "names.example:9876"
            assert server.accepted == 1


async def test_when_no_address_of_a_name_connects_all_reasons_are_given(
    resolver: Resolver,
) -> None:
    first, second = unused_port(), unused_port()
    resolver["names.example"] = [at(first), at(second)]
    async with NameServerClient("names.example:9876") as client:
        with pytest.raises(AllNodesFailed) as raised:
            await client.route("T")

    assert str(first) in str(raised.value)
    assert str(second) in str(raised.value)


async def test_a_name_with_many_addresses_is_tried_at_a_few(resolver: Resolver) -> None:
    with misbehaving.black_hole() as hole:
        resolver["names.example"] = [at(unused_port()) for _ in range(MAX_ADDRESSES)] + [at(hole)]
        async with NameServerClient("names.example:9876", timeout_s=TIMEOUT_S) as client:
            with pytest.raises(AllNodesFailed, match="connection refused"):
                await client.route("T")


async def test_an_unresolvable_name_does_not_hurt_the_other_nodes(resolver: Resolver) -> None:
    resolver["gone.example"] = socket.gaierror(-2, "Name or service not known")
    async with Server(routes) as server:
        for _ in range(10):  # whichever is chosen first
            async with NameServerClient(["gone.example:9876", server.address]) as client:
                assert await by_whom(client) == server.address

    async with NameServerClient("gone.example:9876") as client:
        with pytest.raises(
            AllNodesFailed, match=r"gone\.example:9876: cannot connect: the name does not resolve"
        ):
            await client.route("T")


async def test_a_name_without_addresses_is_an_error(resolver: Resolver) -> None:
    resolver["empty.example"] = []
    async with NameServerClient("empty.example:9876") as client:
        with pytest.raises(AllNodesFailed, match="no address"):
            await client.route("T")


async def test_a_name_is_resolved_anew_for_each_connection(resolver: Resolver) -> None:
    async with NameServerClient("names.example:9876", timeout_s=TIMEOUT_S) as client:
        async with Server(routes) as old:
            resolver["names.example"] = [at(old.port)]
            await client.route("T")
        async with Server(routes) as new:
            resolver["names.example"] = [at(new.port)]
            await client.route("T")
            assert new.accepted == 1


async def test_all_addresses_of_a_name_are_known_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        sockaddrs = [(f"10.0.0.{n}", port) for n in range(20)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", addr) for addr in sockaddrs * 2]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    # More than are tried: whoever is connected to one of them is connected to the name.
    assert await resolved(Address("names.example", 9876)) == [
        at(9876, f"10.0.0.{n}") for n in range(20)
    ]


@pytest.mark.parametrize("host", ["x" * 64 + ".example", "..", "a..b"])
async def test_what_is_no_name_is_an_error(host: str) -> None:
    with pytest.raises(OSError, match=r"not a host name|not known|No address"):
        await resolved(Address(host, 9876))


async def test_a_slow_resolver_is_asked_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def slow(address: Address) -> list[Endpoint]:
        nonlocal asked
        asked += 1
        await misbehaving.for_ever()
        return []

    monkeypatch.setattr(node_module, "resolved", slow)
    dialing = Dialing(connect_timeout_s=0.2)
    async with NameServerClient("slow.example:9876", timeout_s=0.6, dialing=dialing) as client:
        outcomes = await asyncio.gather(
            *(client.route(f"T{n}") for n in range(20)), return_exceptions=True
        )
        for outcome in outcomes:
            assert isinstance(outcome, AllNodesFailed)
            assert isinstance(outcome.failures[0], CannotConnect)
        with pytest.raises(AllNodesFailed):
            await client.route("T")

    assert asked == 1


async def test_ipv6_is_asked() -> None:
    async with (
        Server(routes, host="::1") as server,
        NameServerClient(f"[::1]:{server.port}") as client,
    ):
        assert await by_whom(client) == f"[::1]:{server.port}"


def test_a_scope_id_is_kept() -> None:
    index = socket.if_nametoindex("lo")
    family, sockaddr = numeric_endpoints(Address.parse("[fe80::1%lo]:9876"))[0]

    assert (family, sockaddr) == (socket.AF_INET6, ("fe80::1", 9876, 0, index))
    assert numeric_endpoints(Address.parse("[fe80::1%nowhere]:9876")) == []
    assert numeric_endpoints(Address.parse("names.example:9876")) == []


async def test_a_scope_that_does_not_exist_is_an_error_of_its_node_only() -> None:
    async with Server(routes) as server:
        for _ in range(5):
            async with NameServerClient(["[fe80::1%nowhere]:9876", server.address]) as client:
                assert await by_whom(client) == server.address


async def test_a_connection_is_left_when_its_name_has_moved(resolver: Resolver) -> None:
    node = Node(Address("names.example", 9876))
    async with Server(routes) as old, Server(routes, host="127.0.0.2") as new:
        resolver["names.example"] = [at(old.port)]
        await node.ask(route_question("T"), timeout_s=TIMEOUT_S)

        # Neither of these is a reason to leave.
        await node.recheck_name()
        resolver["names.example"] = [at(1, f"127.0.0.{n}") for n in range(2, 20)] + [at(old.port)]
        await node.recheck_name()
        resolver["names.example"] = socket.gaierror(-3, "Temporary failure in name resolution")
        await node.recheck_name()
        assert node.connected

        resolver["names.example"] = [at(new.port, "127.0.0.2")]
        await node.recheck_name()
        await node.ask(route_question("T"), timeout_s=TIMEOUT_S)
        assert (old.accepted, new.accepted) == (1, 1)
        await soon("the old one", lambda: old.connections, until=lambda open_: not open_)
        await node.close()


async def test_a_connection_to_an_address_is_never_rechecked(resolver: Resolver) -> None:
    async with Server(routes) as server:
        node = Node(Address.parse(server.address))
        await node.ask(route_question("T"), timeout_s=TIMEOUT_S)

        await node.recheck_name()

        assert node.connected
        assert resolver == {}
        await node.close()


# -- lists


class Changing:
    """A list that a test changes; ``error`` is raised instead when there is one."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.error: Exception | None = None
        self.asked = 0

    @property
    def description(self) -> str:
        return "the test"

    @property
    def refresh_s(self) -> float:
        return 0.02

    async def find(self) -> tuple[Address, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return tuple(map(Address.parse, self.addresses))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Changing:
    monkeypatch.setattr(client_module, "FIRST_REFRESH_S", 0.02)
    return Changing()


async def heard_of(client: NameServerClient, *servers: Server) -> None:
    wanted = tuple(sorted(Address.parse(server.address) for server in servers))
    await eventually("the new list", client.nodes, until=lambda nodes: nodes == wanted)


async def test_a_node_that_joins_is_used_and_one_that_leaves_is_not(source: Changing) -> None:
    async with Server(routes) as old, Server(routes) as new, NameServerClient(source) as client:
        source.addresses = [old.address]
        assert await by_whom(client) == old.address

        source.addresses = [old.address, new.address]
        await heard_of(client, old, new)
        assert await by_whom(client) == old.address  # the choice stays

        source.addresses = [new.address]
        await heard_of(client, new)
        assert await by_whom(client) == new.address
        await soon("the old to be left", lambda: old.connections, until=lambda open_: not open_)


async def test_an_answer_under_way_is_not_lost_when_its_node_leaves_the_list(
    source: Changing,
) -> None:
    changed = asyncio.Event()

    async def slow(caller: Caller) -> None:
        request = await caller.request()
        await changed.wait()
        await caller.send(answer(request.opaque, body=misbehaving.ROUTE_BODY))
        await caller.request()

    async with Server(slow) as old, Server(routes) as new, NameServerClient(source) as client:
        source.addresses = [old.address]
        early = asyncio.create_task(client.route("T"))
        await soon("the question", lambda: old.requests)
        source.addresses = [new.address]
        await heard_of(client, new)
        changed.set()

        assert str((await early).node) == old.address
        await soon("the old to be left", lambda: old.connections, until=lambda open_: not open_)


async def test_closing_does_not_wait_for_nodes_that_leave(source: Changing) -> None:
    async with Server(misbehaving.silence) as old, Server(routes) as new:
        client = NameServerClient(source, timeout_s=60.0)
        source.addresses = [old.address]
        early = asyncio.create_task(client.route("T"))
        await soon("the question", lambda: old.requests)
        source.addresses = [new.address]
        await heard_of(client, new)

        async with asyncio.timeout(4.0):
            await client.close()
            with pytest.raises(AllNodesFailed):
                await early


@pytest.mark.parametrize(
    "error", [NoNameServers("nothing there"), RuntimeError("a bug")], ids=["none", "bug"]
)
async def test_a_source_that_fails_for_a_while_changes_nothing(
    source: Changing, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with Server(routes) as old, Server(routes) as new, NameServerClient(source) as client:
        source.addresses = [old.address]
        await client.route("T")

        source.error = error
        asked = source.asked
        await soon("two more look-ups", lambda: source.asked, until=lambda n: n >= asked + 2)
        assert await by_whom(client) == old.address
        assert {record.levelno for record in caplog.records} <= {logging.WARNING, logging.ERROR}
        assert str(error) in caplog.text

        source.error, source.addresses = None, [new.address]
        await heard_of(client, new)
        assert await by_whom(client) == new.address


async def test_a_source_that_fails_at_first_is_asked_again_by_the_next_call(
    source: Changing,
) -> None:
    source.error = NoNameServers("nothing there")
    async with Server(routes) as server, NameServerClient(source) as client:
        for _ in range(2):
            with pytest.raises(NoNameServers, match="nothing there"):
                await client.route("T")

        source.error, source.addresses = None, [server.address]
        assert await by_whom(client) == server.address


async def test_a_source_that_does_not_answer_ends_the_call_at_its_deadline(
    source: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def undecided() -> tuple[Address, ...]:
        await misbehaving.for_ever()
        return ()

    monkeypatch.setattr(source, "find", undecided)
    async with NameServerClient(source, timeout_s=0.2) as client:
        with pytest.raises(NoNameServers, match=r"the test did not say within 0\.2 s"):
            await client.route("T")


@pytest.mark.parametrize("listed", ["nonsense", "a:1;b", ["127.0.0.1:99999"]])
async def test_a_malformed_address_is_refused_at_once(listed: str | list[str]) -> None:
    with pytest.raises(ValueError, match="not a NameServer address"):
        NameServerClient(listed)


async def test_an_empty_list_has_no_nodes() -> None:
    async with NameServerClient("") as client:
        with pytest.raises(NoNameServers, match="empty"):
            await client.route("T")
