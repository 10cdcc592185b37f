"""How a connection to a NameServer is made: names, several addresses of one name, TLS."""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from routebook.client.connection import Connection
from routebook.client.reasons import why_not_connected
from routebook.wire.address import Address
from routebook.wire.frame import MAX_FRAME
from routebook.wire.signature import Credentials

CONNECT_TIMEOUT_S = 3.0
STAGGER_S = 0.25  # a name's next address is tried when the one before takes longer
MAX_ADDRESSES = 8  # of one name are tried

Endpoint = tuple[int, Any]  # family, socket address


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS towards NameServers, by its files, which are read for each new connection.

    Certificates are verified against ``trust``, or the platform's authorities without it. Nodes are
    mostly known by address, so host names are compared only when asked for.
    """

    trust: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = False

    def context(self) -> ssl.SSLContext:
        """Raises OSError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.trust)
            context.check_hostname = self.verify and self.check_hostname
            if not self.verify:
                context.verify_mode = ssl.CERT_NONE
            if self.cert is not None:
                # An encrypted key without a password must fail, not ask on the terminal.
                context.load_cert_chain(self.cert, self.key, lambda: self.key_password or "")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            names = ", ".join(str(path) for path in (self.trust, self.cert, self.key) if path)
            raise OSError(f"TLS files {names} cannot be used: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class Dialing:
    """How connections are made. ``tls`` None: plain text.

    Every request is signed with ``credentials`` when there are any.
    """

    tls: Tls | None = None
    credentials: Credentials | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    max_frame: int = MAX_FRAME


def numeric_endpoints(address: Address) -> list[Endpoint]:
    """The endpoint of an address that is no name, scope ids included; asks nobody."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except (socket.gaierror, UnicodeError):
        return []
    return [(info[0], info[4]) for info in found[:1]]


async def resolved(address: Address) -> list[Endpoint]:
    """All endpoints of a name, asked anew each time; raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{address.host[:100]!r} is not a host name") from error
    endpoints: list[Endpoint] = [(info[0], info[4]) for info in found]
    return list(dict.fromkeys(endpoints))


async def dial(address: Address, endpoints: Sequence[Endpoint], dialing: Dialing) -> Connection:
    """A connection to the first endpoint that answers; raises OSError."""
    context = None if dialing.tls is None else dialing.tls.context()
    name = address.host.partition("%")[0] if context and context.check_hostname else ""
    sock = await _first_connected(endpoints)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(
                address, max_frame=dialing.max_frame, credentials=dialing.credentials
            ),
            sock=sock,
            ssl=context,
            server_hostname=None if context is None else name,
        )
    except BaseException:
        sock.close()
        raise
    return connection


async def _first_connected(endpoints: Sequence[Endpoint]) -> socket.socket:
    attempts: dict[asyncio.Task[socket.socket], Endpoint] = {}
    failures: dict[str, list[str]] = {}  # where, by reason
    waiting = list(endpoints[:MAX_ADDRESSES])
    try:
        while waiting or attempts:
            if waiting:
                endpoint = waiting.pop(0)
                attempts[asyncio.create_task(_connected(endpoint))] = endpoint
            done, _ = await asyncio.wait(
                attempts,
                timeout=STAGGER_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner: socket.socket | None = None
            for attempt in done:
                _, (host, port, *_) = attempts.pop(attempt)
                error = attempt.exception()
                if error is not None:
                    why = why_not_connected(error) if isinstance(error, OSError) else str(error)
                    failures.setdefault(why, []).append(str(Address(host, port)))
                elif winner is None:
                    winner = attempt.result()
                else:
                    attempt.result().close()
            if winner is not None:
                return winner
    finally:
        # Nothing is awaited here: who is cancelled meanwhile would lose the winner.
        for attempt in attempts:
            attempt.add_done_callback(_close_unwanted)
            attempt.cancel()
    raise OSError("; ".join(_told(failures, len(endpoints))) or "the name has no address")


def _told(failures: Mapping[str, Sequence[str]], endpoints: int) -> list[str]:
    """Each reason once; and of a name that stands for several addresses, which they were."""
    return [
        f"{why} ({', '.join(where)})" if endpoints > 1 else why for why, where in failures.items()
    ]


def _close_unwanted(attempt: "asyncio.Task[socket.socket]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _connected(endpoint: Endpoint) -> socket.socket:
    family, sockaddr = endpoint
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock
