"""Trying addresses, and finding the hosts of names."""

import asyncio
from typing import NoReturn

import pytest

from routebook.audit.reach import PROBES_AT_ONCE, probe, resolve
from support.leaks import nothing_left_behind
from support.misbehaving import Server, silence


@pytest.fixture
def slow_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object, **kwargs: object) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", never)


async def test_an_address_that_takes_connections_has_no_reason_and_others_have_one() -> None:
    dead = "127.0.0.2:1"
    async with nothing_left_behind(), Server(silence) as server:
        found = await probe([server.address, dead, "nonsense", "nowhere.invalid:1", "a..b:1"])
    assert found == {
        server.address: None,
        dead: "connection refused",
        "nonsense": "not host:port",
        "nowhere.invalid:1": "the name does not resolve",
        "a..b:1": "not a host name",
    }


async def test_more_addresses_than_probes_at_once_are_all_tried_and_counted() -> None:
    told: list[tuple[int, int]] = []
    async with Server(silence) as server:
        wanted = [f"127.0.0.{n}:{server.port}" for n in range(2, PROBES_AT_ONCE + 12)]
        found = await probe(
            [f"127.0.0.1:{server.port}", *wanted, *wanted],
            progress=lambda done, total: told.append((done, total)),
        )
    assert {address for address, reason in found.items() if reason is None} == {server.address}
    assert set(found) == {server.address, *wanted}
    assert told == [(number, len(found)) for number in range(1, len(found) + 1)]


@pytest.mark.usefixtures("slow_resolver")
async def test_an_address_that_never_answers_is_given_up() -> None:
    found = await probe(["slow.example:1"], timeout_s=0.01)
    assert found == {"slow.example:1": "no connection within 0.01 s"}


async def test_hosts_are_ip_addresses_however_they_are_written() -> None:
    found = await resolve(["10.0.0.1", "0:0:0:0:0:0:0:1", "::ffff:10.0.0.2", "nowhere.invalid"])
    assert found == {
        "10.0.0.1": {"10.0.0.1"},
        "0:0:0:0:0:0:0:1": {"::1"},
        "::ffff:10.0.0.2": {"10.0.0.2"},
        "nowhere.invalid": frozenset(),
    }


async def test_a_name_stands_for_its_addresses() -> None:
    assert "127.0.0.1" in (await resolve(["localhost"]))["localhost"]


@pytest.mark.usefixtures("slow_resolver")
async def test_a_resolver_that_never_answers_knows_no_host() -> None:
    assert await resolve(["slow.example", "a..b"], timeout_s=0.01) == {
        "slow.example": frozenset(),
        "a..b": frozenset(),
    }
