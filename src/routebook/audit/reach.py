"""Trying addresses: which of them take a connection, and which hosts names stand for."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable

from routebook.client.reasons import why_not_connected
from routebook.wire.address import split_address

PROBE_TIMEOUT_S = 2.0
PROBES_AT_ONCE = 64
LOOKUPS_AT_ONCE = 8


async def probe(
    addresses: Iterable[str],
    *,
    timeout_s: float = PROBE_TIMEOUT_S,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, str | None]:
    """Why each address takes no TCP connection from here; None for one that does."""
    wanted = sorted(set(addresses))
    outcomes: dict[str, str | None] = {}
    turns = asyncio.Semaphore(PROBES_AT_ONCE)

    async def one(address: str) -> None:
        async with turns:
            outcomes[address] = await _refusal(address, timeout_s)
        if progress is not None:
            progress(len(outcomes), len(wanted))

    async with asyncio.TaskGroup() as group:
        for address in wanted:
            group.create_task(one(address))
    return dict(sorted(outcomes.items()))


async def resolve(
    hosts: Iterable[str], *, timeout_s: float = PROBE_TIMEOUT_S
) -> dict[str, frozenset[str]]:
    """The IP addresses each host stands for, none for a name nobody knows."""
    wanted = sorted(set(hosts))
    turns = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def one(host: str) -> frozenset[str]:
        if (numeric := numeric_host(host)) is not None:
            return frozenset({str(numeric)})
        async with turns:
            return await _looked_up(host, timeout_s)

    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


def numeric_host(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address ``host`` is, None for a name. An IPv4 address in IPv6 clothes is IPv4."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


async def _refusal(address: str, timeout_s: float) -> str | None:
    try:
        host, port = split_address(address)
    except ValueError:
        return "not host:port"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
    except TimeoutError:
        return f"no connection within {timeout_s:g} s"
    except OSError as error:
        return why_not_connected(error)
    except UnicodeError:
        return "not a host name"
    transport.abort()
    return None


async def _looked_up(host: str, timeout_s: float) -> frozenset[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # TimeoutError is an OSError
        return frozenset()
    numeric = (numeric_host(str(info[4][0])) for info in found)
    return frozenset(str(address) for address in numeric if address is not None)
