"""Listening: HTTP on a port, with a bound on everything a stranger can send or hold.

uvicorn on h11 does the protocol. Here a request has ten seconds to arrive, whatever trickles in;
connections, targets and bodies have an upper bound.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from routebook.gateway.answers import error_answer
from routebook.gateway.logs import RequestLog
from routebook.gateway.rarely import Rarely

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 2_048
RECEIVE_S = 10.0
KEEP_ALIVE_S = 30
MAX_HEADER = 16 * 1024
MAX_TARGET = 8 * 1024
MAX_BODY = 4 * 1024
STOP_S = 1
FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0

_rarely = Rarely(logger)


def _unread(status: str, sentence: str, code: str, *headers: str) -> bytes:
    """The answer to a request that nobody has read."""
    body = msgspec.json.encode({"error": sentence, "code": code})
    lines = (
        f"HTTP/1.1 {status}",
        *headers,
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "\r\n",
    )
    return "\r\n".join(lines).encode() + body


_FULL = _unread(
    "503 Service Unavailable", "too many connections; try again in a bit", "busy", "Retry-After: 5"
)
_LATE = _unread(
    "408 Request Timeout", f"the request did not arrive within {RECEIVE_S:g} s", "too_slow"
)


class BoundedProtocol(H11Protocol):
    """Gives up a request that does not arrive, and turns away connections beyond the bound."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._turned_away = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._turned_away = True
            _rarely.warn(f"refusing HTTP connections: {MAX_CONNECTIONS} are open")
            transport.write(_FULL)
            transport.close()
            return
        self._expect()

    def data_received(self, data: bytes) -> None:
        if self._turned_away:
            return
        self._expect()
        super().data_received(data)
        self._judge()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._judge()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(RECEIVE_S, self._late)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _judge(self) -> None:
        """Whether the peer owes the rest of a request."""
        state = self.conn.their_state
        begun = state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0])
        if begun and not self.transport.is_closing():
            self._expect()
        else:
            self._expect_nothing()

    def _late(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        who = "" if self.client is None else str(self.client[0])
        _rarely.warn(
            f"closing HTTP connections whose request took longer than {RECEIVE_S:g} s", who
        )
        if self.conn.our_state is h11.IDLE:
            self.transport.write(_LATE)
            self.transport.close()
        else:
            self.transport.abort()


class _TooLarge(Exception):
    pass


class Bounded:
    """ASGI: refuses targets and bodies beyond the bound, before anybody looks at them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        target = len(scope["raw_path"]) + len(scope["query_string"])
        if target > MAX_TARGET:
            answer = error_answer(414, f"a target has at most {MAX_TARGET} bytes", code="too_large")
            await answer(scope, receive, send)
            return
        room, begun = MAX_BODY, False

        async def receive_some() -> Message:
            nonlocal room
            message = await receive()
            room -= len(message.get("body", b""))
            if room < 0:
                raise _TooLarge
            return message

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            if _declared(scope) > MAX_BODY:
                raise _TooLarge
            await self._app(scope, receive_some, send_noted)
        except _TooLarge:
            if begun:
                raise
            answer = error_answer(
                413,
                f"a body has at most {MAX_BODY} bytes",
                code="too_large",
                headers={"Connection": "close"},
            )
            await answer(scope, receive, send)


def _declared(scope: Scope) -> int:
    """The length of the body, as far as the request says it; h11 has seen that it is a number."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return 0


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the program's."""
        yield


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets on all addresses of ``host``; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if opened and port == 0:
                break  # each would get a port of its own
            sock = socket.socket(family, kind, protocol)
            opened.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(512)
    except OSError:
        for sock in opened:
            sock.close()
        raise
    return opened


class HttpPort:
    """An application on a port. Entering it listens; raises OSError when the port is not to be had.

    ``url`` is where, once it listens.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.url = ""

    async def __aenter__(self) -> "HttpPort":
        sockets = bound_sockets(self._host, self._port)
        config = uvicorn.Config(
            RequestLog(Bounded(self._app)),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody could say to be anybody
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=MAX_HEADER,
        )
        # What it says of strangers is unbounded, and of our own mistakes the handlers say more.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        host, port = sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{port}/"
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets))
        return self

    @property
    def connections(self) -> int:
        return 0 if self._server is None else len(self._server.server_state.connections)

    async def __aexit__(self, *_: object) -> None:
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        with suppress(asyncio.CancelledError):
            await self._task

    async def enter_sometime(self, waiting: Callable[[str], None]) -> None:
        """Listen as soon as the port is to be had. What keeps it from that is said once."""
        rest_s, said = FIRST_REST_S, False
        while True:
            try:
                await self.__aenter__()
            except OSError as error:
                if not said:
                    logger.warning("%s", self.why_not(error))
                    waiting(self.why_not(error))
                said = True
                await asyncio.sleep(rest_s)
                rest_s = min(LONGEST_REST_S, rest_s * 2)
            else:
                return

    def why_not(self, error: OSError) -> str:
        """Why nobody can listen there, and what to do."""
        where = f"{self._host}:{self._port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"the gateway cannot have {where}, which is in use; several nodes on one machine"
                " need a --gateway-port each, or 0 for none"
            )
        if error.errno in (errno.EACCES, errno.EPERM):
            return f"the gateway may not listen on {where}; choose a port above 1023"
        return f"the gateway cannot listen on {where}: {error.strerror or error}"
