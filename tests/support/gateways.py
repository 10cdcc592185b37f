"""Gateways in the test's own event loop, over nodes that listen, and HTTP as it is on the wire."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from routebook.client.node import Node
from routebook.client.sync import LoopThread
from routebook.gateway.app import make_app
from routebook.gateway.gateway import Gateway
from routebook.gateway.listening import HttpPort
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from routebook.wire.address import Address
from support.waiting import soon


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: its status, headers by their names in lower case, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class RunningGateway:
    gateway: Gateway
    url: str

    @property
    def fleet(self) -> Fleet:
        return self.gateway.fleet

    async def get(self, path: str, **headers: str) -> Page:
        return await self.ask("GET", path, headers)

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Page:
        return await asyncio.to_thread(fetch, self.url, path, method, headers, body)

    async def settled(self) -> None:
        """Until every node has been looked at, whatever came of it."""

        def looked_at() -> list[bool]:
            return [
                bool(node.view or node.trouble) or node.offers_summary is False
                for node in self.fleet.nodes
            ]

        await soon("a look at every node", looked_at, until=all)


def fetch(
    url: str,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Page:
    place = urlsplit(url).netloc
    connection = http.client.HTTPConnection(place, timeout=30)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Page(answer.status, told, answer.read())
    finally:
        connection.close()


@asynccontextmanager
async def gateway_of(
    *addresses: str, own: bool = False, **options: object
) -> AsyncIterator[RunningGateway]:
    """A gateway on a free port of 127.0.0.1 for nodes at ``addresses``.

    ``own``: as if it were their child, with the journal in ``data_dir``.
    """
    links = [Node(Address.parse(address)) for address in addresses]
    given = msgspec.convert({"port": 0, **options}, GatewayOptions)
    fleet = Fleet(links, own=own)
    app = make_app(fleet, given)
    gateway: Gateway = app.state.gateway
    async with fleet, HttpPort(app, given.bind, given.port) as port:
        try:
            yield RunningGateway(gateway, port.url)
        finally:
            gateway.stopping.set()
            await gateway.close()


class GatewayThread:
    """A gateway in a thread of its own, for tests that wait; to be entered."""

    def __init__(self, *addresses: str, own: bool = False, **options: object) -> None:
        self._entering = gateway_of(*addresses, own=own, **options)
        self._thread = LoopThread()
        self.url = ""
        self.gateway: Gateway

    def __enter__(self) -> "GatewayThread":
        async def entered() -> RunningGateway:
            running = await self._entering.__aenter__()
            await running.settled()
            return running

        running = self._thread.run(entered())
        self.gateway, self.url = running.gateway, running.url
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.run(self._left())
        finally:
            self._thread.stop()

    async def _left(self) -> None:
        await self._entering.__aexit__(None, None, None)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the loop of the gateway."""
        self._thread.run(work)

    def get(self, path: str, **headers: str) -> Page:
        return fetch(self.url, path, headers=headers)

    def document(self, path: str) -> Any:
        """That of an answer that is one."""
        page = self.get(path)
        assert page.status == 200, page.text
        return page.json

    def post(self, path: str, body: bytes | None = None, /, **headers: str) -> Page:
        return fetch(self.url, path, "POST", headers, body)

    def stream(self, path: str, **headers: str) -> "Stream":
        return Stream(self.url, path, headers)


@dataclass(frozen=True, slots=True)
class Sent:
    """One server-sent event."""

    event: str
    data: Any
    id: str | None = None


class Stream:
    """Server-sent events as they come; to be entered."""

    def __init__(self, url: str, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._connection.request("GET", path, headers=dict(headers or {}))
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[Sent]:
        fields: dict[str, str] = {}
        for line in self._answer:
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield Sent(fields["event"], msgspec.json.decode(fields["data"]), fields.get("id"))
                fields = {}
            else:
                fields = {}

    def until(self, *events: str) -> list[Sent]:
        """All that comes up to the first of these events, with it."""
        seen: list[Sent] = []
        for sent in self:
            seen.append(sent)
            if sent.event in events:
                return seen
        raise AssertionError(f"the stream ended before {events}: {seen}")

    def next(self, event: str, wanted: Callable[[Any], object] = lambda data: True) -> Sent:
        """The next of this event whose data are wanted."""
        for sent in self:
            if sent.event == event and wanted(sent.data):
                return sent
        raise AssertionError(f"the stream ended before {event}")
