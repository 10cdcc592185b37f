"""The log of a gateway: a line for each request, and an id that every line about it carries.

Whoever asks may bring the id (``X-Request-Id``) and is told it in the answer, so a line here can be
found from the other end. Probes, scrapes and the address service are asked all the time; of them
only failures are told.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from secrets import token_hex
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from routebook.logs.lines import TEXT
from routebook.logs.writing import LogWriter, logging_to_stderr

logger = logging.getLogger("routebook.gateway.requests")

REQUEST_ID = "x-request-id"
QUIET = ("/livez", "/readyz", "/metrics", "/rocketmq/", "/assets/")
LONGEST_QUERY = 256

request_id: ContextVar[str] = ContextVar("request_id", default="")
trace_id: ContextVar[str] = ContextVar("trace_id", default="")

_USABLE = re.compile(rb"[A-Za-z0-9._-]{1,64}")


@contextmanager
def gateway_log(log_format: str = TEXT) -> Iterator[LogWriter]:
    """Log to standard error until the block ends, each line with the request it is about."""
    with logging_to_stderr(log_format=log_format, note=_with_ids) as writer:
        yield writer


def _with_ids(record: logging.LogRecord) -> bool:
    record.request_id, record.trace_id = request_id.get(), trace_id.get()
    return True


class RequestLog:
    """An ASGI application around another one, and around whatever answers its errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        this = _given_id(scope) or token_hex(8)
        outer = request_id.set(this)
        answer = _Answer(send, this)
        try:
            await self._app(scope, receive, answer.send)
        finally:
            _tell(scope, answer)
            request_id.reset(outer)


class _Answer:
    """What was sent: status, bytes, and since when."""

    def __init__(self, send: Send, this: str) -> None:
        self._send = send
        self._header = (REQUEST_ID.encode(), this.encode())
        self._began = perf_counter()
        self.status = 0  # nothing was answered
        self.bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), self._header]}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    @property
    def ms(self) -> float:
        return round((perf_counter() - self._began) * 1000, 1)


def _given_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == REQUEST_ID.encode() and _USABLE.fullmatch(value):
            return str(value.decode())
    return ""


def _tell(scope: Scope, answer: _Answer) -> None:
    failed = answer.status in (0, 500)
    if scope["path"].startswith(QUIET) and not failed:
        return
    query = scope["query_string"].decode("ascii", "replace")[:LONGEST_QUERY]
    members = {
        "method": scope["method"],
        "path": scope["path"],
        "query": query,
        "status": answer.status,
        "bytes": answer.bytes,
        "ms": answer.ms,
        "peer": ":".join(map(str, scope["client"] or ())),
    }
    logger.log(
        logging.WARNING if failed else logging.INFO,
        "%s %s%s answered %d with %d bytes in %s ms to %s",
        members["method"],
        members["path"],
        f"?{query}" if query else "",
        members["status"],
        members["bytes"],
        members["ms"],
        members["peer"],
        extra={"members": members},
    )
