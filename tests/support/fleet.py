"""Fleet: nodes and brokers for tests of the program, which is run beside them.

with Fleet(tmp_path) as fleet:
    fleet.register(Broker(), ["orders", "payments"])
    assert fleet.run("topics").lines == ["orders", "payments"]

The nodes share an event loop in a thread of its own; the program runs in the test's thread.
"""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from click.testing import CliRunner

from routebook.app import NameServer
from routebook.cli.main import cli
from routebook.relay.relay import Relay
from support import raw
from support.brokers import Broker
from support.builders import Topics, registration_body
from support.nodes import local_node
from support.raw import BlockingPeer
from support.relays import local_relay

Result = TypeVar("Result")

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """Cells of a table without its head; cells with blanks in them fall apart."""
        return [line.split() for line in self.lines[2:]]

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


def run_program(*words: str, namesrv_addr: str | None = None, answers: str | None = None) -> Ran:
    """Run ``routebook`` in this process; a traceback fails the test."""
    environment = {"NAMESRV_ADDR": namesrv_addr, "ROCKETMQ_NAMESRV_DOMAIN": "127.0.0.1:1"}
    result = CliRunner(env=environment).invoke(
        cli, list(words), input=answers, prog_name="routebook", catch_exceptions=False
    )
    return Ran(result.exit_code, result.stdout, result.stderr)


class Fleet:
    """``count`` nodes, ordered by port as the program orders them."""

    def __init__(self, folder: Path, count: int = 2, **settings: object) -> None:
        self._folder = folder
        self._count = count
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stacks: dict[int, AsyncExitStack] = {}  # by port
        self._numbers: dict[int, int] = {}  # of folders, by port
        self._relays: list[Relay] = []
        self._peers: dict[tuple[int, str, int], BlockingPeer] = {}

    def __enter__(self) -> "Fleet":
        self._thread.start()
        for number in range(self._count):
            self.start(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for relay in self._relays:
            self._wait(relay.__aexit__(None, None, None))
        for port in list(self._stacks):
            self.stop(port)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    @property
    def ports(self) -> list[int]:
        return sorted(self._stacks)

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]

    def start(self, number: int, *, port: int = 0) -> int:
        """Start a node with a folder by that number; its port."""

        async def started() -> int:
            stack = AsyncExitStack()
            folder = self._folder / f"node-{number}"
            node = local_node(folder, **{**self._settings, "listen_port": port})
            entered: NameServer = await stack.enter_async_context(node)
            self._stacks[entered.port] = stack
            self._numbers[entered.port] = number
            return entered.port

        return self._wait(started())

    def stop(self, port: int) -> None:
        """Brokers leave it first."""
        self._hang_up(port)
        self._wait(self._stacks.pop(port).aclose())

    def _hang_up(self, port: int) -> None:
        for key in [key for key in self._peers if key[0] == port]:
            self._peers.pop(key).socket.close()

    def restart(self, port: int) -> None:
        """Stop a node in order and start it with its folder; it still knows its brokers."""
        self._wait(self._stacks.pop(port).aclose())
        self._hang_up(port)
        self.start(self._numbers[port], port=port)

    def relay(self, **settings: Any) -> Relay:
        """A relay of all nodes, which ends with them."""

        async def started() -> Relay:
            return await local_relay(*self.addresses, **settings).__aenter__()

        relay = self._wait(started())
        self._relays.append(relay)
        return relay

    def register(
        self,
        broker: Broker,
        topics: Topics = ("orders", "payments"),
        *,
        on: Iterable[int] | None = None,
        counter: int = 1,
        mappings: Mapping[str, Mapping[str, Any]] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Register with all nodes, or those ``on`` ports, and stay connected.

        The first registration must have two topics or more. ``more`` are further ext fields.
        """
        body = registration_body(topics, counter=counter, mappings=mappings)
        for port in self.ports if on is None else on:
            key = port, broker.name, broker.broker_id
            if key not in self._peers:
                self._peers[key] = BlockingPeer(port)
            answer = self._peers[key].ask(raw.REGISTER, {**broker.fields, **(more or {})}, body)
            assert answer.code == raw.SUCCESS, answer

    def ask(self, port: int, code: int, **fields: str) -> raw.Answer:
        with BlockingPeer(port) as peer:
            return peer.ask(code, fields)

    def permission(self, port: int, topic: str, broker: str = "broker-a") -> int:
        queues = self.ask(port, raw.ROUTE, topic=topic).value["queueDatas"]
        (found,) = (q["perm"] for q in queues if q["brokerName"] == broker)
        return int(found)

    def run(self, *words: str, answers: str | None = None) -> Ran:
        """Run ``routebook`` with all nodes."""
        return run_program(*words, namesrv_addr=";".join(self.addresses), answers=answers)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)
