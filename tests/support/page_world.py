"""PageWorld: nodes, a gateway for them, and brokers that come and vanish, for the live page."""

import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from support.brokers import Broker
from support.builders import Topics, registration_body
from support.nodes import NodeProcess
from support.programs import Program
from support.raw import HEARTBEAT, ONEWAY, ROUTE, SUCCESS, BlockingPeer, request

ADMIN_TOKEN = "let-me-change-things"
PATIENCE_MS = 600_000  # of nodes with brokers, however slow the machine is
_READY = re.compile(r"gateway ready on (\S+) ")
_OWN = re.compile(r"page, HTTP API and metrics on (\S+)")


def free_ports(count: int) -> list[int]:
    """They stay the same when a program is started again."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


class GatewayProgram(Program):
    """``routebook gateway`` for nodes on this machine."""

    def __init__(self, folder: Path, nodes: Iterable[int]) -> None:
        [port] = free_ports(1)
        named = ";".join(f"127.0.0.1:{node}" for node in nodes)
        words = ("gateway", "--nodes", named, "--port", str(port))
        token = {"ROUTEBOOK_HTTP_ADMIN_TOKEN": ADMIN_TOKEN}
        super().__init__(folder, *words, ready="gateway ready on", environment=token)

    @property
    def url(self) -> str:
        found = _READY.search(self.stdout)
        assert found is not None, self.log
        return found[1]


class PageWorld:
    """Entered, it runs; ``join`` and ``vanish`` are what brokers do.

    One node has a gateway of its own, which reads its journal; several have one for all of them.
    """

    def __init__(self, folder: Path, *, nodes: int = 2) -> None:
        self._stack = ExitStack()
        self._brokers: dict[Broker, list[BlockingPeer]] = {}
        self.nodes = [
            NodeProcess(
                *(folder / f"ns-{i}", "--listen-port", str(port), "--node-id", f"ns-{i}"),
                *("--journal-window-seconds", "2"),
                *("--gateway-port", str(free_ports(1)[0] if nodes == 1 else 0)),
            )
            for i, port in enumerate(free_ports(nodes), 1)
        ]
        self._folder = folder

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                self._stack.enter_context(node)
            self._url = self._opened()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for peers in self._brokers.values():
            for peer in peers:
                peer.socket.close()
        self._stack.close()

    def _opened(self) -> str:
        if len(self.nodes) > 1:
            ports = [node.port for node in self.nodes]
            self.gateway = GatewayProgram(self._folder / "gateway", ports)
            self._stack.enter_context(self.gateway)
            return self.gateway.url
        [node] = self.nodes
        node.wait_for_output("page, HTTP API and metrics on")
        found = _OWN.search(node.stdout)
        assert found is not None
        return found[1]

    def at(self, place: str = "") -> str:
        """The address of a view, as in the address bar."""
        return f"{self._url.rstrip('/')}/#{place}"

    def join(
        self,
        name: str,
        topics: Topics | bytes,
        *,
        broker_id: int = 0,
        cluster: str = "orders",
        nodes: Sequence[NodeProcess] | None = None,
    ) -> None:
        """Register with ``nodes``, all of them unless told; it stays until it vanishes.

        ``topics`` may be the body of a registration, for who has many brokers alike.
        """
        number = len(self._brokers) + 1
        addr = f"127.0.{number // 250}.{number % 250 + 1}:10911"
        broker = Broker(name, broker_id, addr, cluster, heartbeat_timeout_ms=PATIENCE_MS)
        body = topics if isinstance(topics, bytes) else registration_body(topics)
        frame = broker.registration(body=body)
        for node in self.nodes if nodes is None else nodes:
            peer = node.connect()
            peer.send(frame)
            answer = peer.read()
            assert answer.code == SUCCESS, answer
            self._brokers.setdefault(broker, []).append(peer)

    def vanish(self, name: str) -> None:
        """The connections of a group end, as when its processes are killed."""
        for broker in [each for each in self._brokers if each.name == name]:
            for peer in self._brokers.pop(broker):
                peer.socket.close()

    def beat(self) -> None:
        """A sign of life of every broker whose connection is still there."""
        for broker, peers in self._brokers.items():
            for peer in peers:
                with suppress(OSError):
                    peer.send(request(HEARTBEAT, broker.fields, flag=ONEWAY))

    def query(self, topic: str) -> None:
        """As a client asks for a route, of every node."""
        for node in self.nodes:
            with node.connect() as peer:
                peer.call(ROUTE, topic=topic)
