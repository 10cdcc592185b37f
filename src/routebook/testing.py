"""NameServers and brokers for tests, in a thread of this process; the pytest fixtures give these.

with Workbench(tmp_path) as bench:
    node = bench.nodes(1)[0]
    broker = bench.broker("broker-a", topics=["orders"], nameservers=node.address)
    assert node.client().find_route("orders") is not None

All calls wait until they are done, and may be made from any thread and from coroutines alike.
"""

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from routebook.agent import BrokerSettings, Outcome, Topic
from routebook.app import NameServer
from routebook.client.client import NameServerClient, NodeClient
from routebook.client.errors import NameServerError
from routebook.client.sync import LoopThread, SyncNameServerClient
from routebook.settings import SettingsError, make_settings
from routebook.simulation.broker import SimulatedBroker, spare_address

__all__ = ["LocalBroker", "LocalNode", "LocalNodes", "NotRegistered", "Workbench"]

NOTICE_S = 5.0  # for nodes to see that a broker is gone
PORT_S = 5.0  # for a port to be free again
POLL_S = 0.01


class NotRegistered(Exception):
    """No NameServer took the registration of a broker."""


class LocalNode:
    """A NameServer on 127.0.0.1. ``settings`` are those of ``make_settings``."""

    def __init__(self, thread: LoopThread, folder: Path, **settings: object) -> None:
        self._thread = thread
        self._folder = folder
        self._settings = settings
        self._running: NameServer | None = None
        self._clients = ExitStack()
        self.host = "127.0.0.1"
        self.port = 0

    @property
    def address(self) -> str:
        """``host:port``, for clients."""
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._running is not None

    def start(self) -> None:
        """Listen, on the same port as before; does nothing when it runs.

        Routes are gone after a restart, key-value pairs are not.
        """
        if self._running is None:
            self._running = self._thread.run(self._started())
            self.port = self._running.port

    def stop(self) -> None:
        """Stop in order; does nothing when it does not run."""
        node, self._running = self._running, None
        if node is not None:
            self._thread.run(node.__aexit__(None, None, None))

    def client(self, *, timeout_s: float = 3.0) -> SyncNameServerClient:
        """A client without ``await``, closed at the end of the test."""
        return self._clients.enter_context(SyncNameServerClient(self.address, timeout_s=timeout_s))

    def close(self) -> None:
        """Stop, and close the clients it gave."""
        self._clients.close()
        self.stop()

    async def _started(self) -> NameServer:
        # Without a memory of its own unless asked for: what a test registers is what there is.
        defaults = {"bind_address": self.host, "warm_restart": False}
        values = {**defaults, **self._settings, "listen_port": self.port}
        settings = make_settings(self._folder, **values)
        deadline = asyncio.get_running_loop().time() + PORT_S
        while True:
            try:
                return await NameServer(settings).__aenter__()
            except SettingsError:
                # The port of a stopped node is anybody's, if only for the moment of a connection.
                if not self.port or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(POLL_S)


class LocalNodes(list[LocalNode]):
    """Several nodes, which know nothing of each other, as those of a real cluster."""

    @property
    def addresses(self) -> str:
        """What NAMESRV_ADDR would say."""
        return ";".join(node.address for node in self)


class LocalBroker:
    """A broker kept registered by the real agent, with nothing behind its address."""

    def __init__(self, thread: LoopThread, broker: SimulatedBroker, nameservers: str) -> None:
        self._thread = thread
        self._broker = broker
        self._nameservers = nameservers

    @property
    def name(self) -> str:
        """The broker name."""
        return self._broker.name

    @property
    def addr(self) -> str:
        """The address it registers, where nobody is unless it listens."""
        return self._broker.settings.addr

    def start(self) -> dict[str, Outcome]:
        """Register anew, as after a restart; raises NotRegistered when no node takes it."""
        outcomes = self._thread.run(self._broker.start())
        if not any(outcome.ok for outcome in outcomes.values()):
            said = "; ".join(str(outcome.error) for outcome in outcomes.values())
            raise NotRegistered(f"{self.name}: {said}")
        return {str(address): outcome for address, outcome in outcomes.items()}

    def kill(self) -> None:
        """Close all connections without a word; returns when the nodes have noticed."""
        self._thread.run(self._broker.kill())
        self._thread.run(self._gone())

    def hang(self) -> None:
        """Say nothing more over connections that stay open.

        Nodes list the broker until ``heartbeat_timeout_ms`` has passed, two minutes unless given.
        """
        self._thread.run(self._broker.hang())

    def leave(self) -> None:
        """Unregister and close."""
        self._thread.run(self._broker.leave())

    def put_topic(self, topic: str | Topic) -> None:
        """Offer a topic, new or changed; the nodes know when this returns."""
        self._thread.run(self._broker.put_topic(_topic(topic)))

    def remove_topic(self, name: str) -> None:
        """Offer a topic no longer; nodes list it without permissions."""
        self._thread.run(self._broker.remove_topic(name))

    def set_permission(self, permission: int) -> None:
        """What all topics may at most be used for: 4 read, 2 write."""
        self._thread.run(self._broker.set_permission(permission))

    def close(self) -> None:
        """Close all connections without a word, and wait for nobody."""
        self._thread.run(self._broker.kill())

    async def _gone(self) -> None:
        async def lists_it(node: NodeClient) -> bool:
            groups = (await node.cluster_view()).brokers.values()
            return any(self.addr in group.addrs.values() for group in groups)

        loop = asyncio.get_running_loop()
        deadline = loop.time() + NOTICE_S
        async with NameServerClient(self._nameservers, timeout_s=1.0) as client:
            while loop.time() < deadline:
                outcomes = await client.on_every_node(lists_it)
                if all(isinstance(o, NameServerError) or not o for o in outcomes.values()):
                    return
                await asyncio.sleep(POLL_S)


class Workbench:
    """Makes nodes and brokers, and ends them all when it is left; ``folder`` is for their files.

    Without ``thread`` it has one of its own.
    """

    def __init__(self, folder: Path, thread: LoopThread | None = None) -> None:
        self._folder = folder
        self._things = ExitStack()
        if thread is None:
            thread = LoopThread()
            self._things.callback(thread.stop)
        self._thread = thread
        self._nodes = 0
        self._brokers = 0

    def __enter__(self) -> "Workbench":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all nodes and brokers."""
        self._things.close()

    def nodes(self, count: int = 1, **settings: object) -> LocalNodes:
        """Started nodes on free ports; ``settings`` are those of ``make_settings``."""
        return LocalNodes(self._node(settings) for _ in range(count))

    def _node(self, settings: dict[str, object]) -> LocalNode:
        folder = self._folder / f"node-{self._nodes}"
        self._nodes += 1
        node = LocalNode(self._thread, folder, **settings)
        self._things.callback(node.close)
        node.start()
        return node

    def broker(
        self,
        name: str = "broker-a",
        *,
        nameservers: str,
        topics: Iterable[str | Topic] = (),
        addr: str | None = None,
        listen: bool = False,
        **settings: Any,
    ) -> LocalBroker:
        """A registered broker; ``settings`` are those of ``BrokerSettings``.

        ``addr`` is one that nobody has unless given; with ``listen`` it is a port of 127.0.0.1 that
        accepts connections and closes them. Raises NotRegistered when no node takes it.
        """
        if addr is None:
            addr = "127.0.0.1:0" if listen else spare_address(self._brokers)
        self._brokers += 1
        simulated = SimulatedBroker(
            BrokerSettings(name=name, addr=addr, **settings),
            nameservers,
            topics=map(_topic, topics),
            listen=listen,
        )
        broker = LocalBroker(self._thread, simulated, nameservers)
        self._things.callback(broker.close)
        broker.start()
        return broker


def _topic(topic: str | Topic) -> Topic:
    return Topic(topic) if isinstance(topic, str) else topic
