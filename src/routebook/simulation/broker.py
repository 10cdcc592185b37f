"""SimulatedBroker: the real agent without a broker behind it.

broker = SimulatedBroker(BrokerSettings(name="broker-a", addr="10.0.0.5:10911"), "10.0.0.1:9876")
await broker.start()
await broker.kill()
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from routebook.agent.agent import BrokerAgent, Outcomes
from routebook.agent.announcement import whole_table
from routebook.agent.settings import BrokerSettings
from routebook.asyncio_server import close_server
from routebook.client.dialing import Dialing
from routebook.client.errors import NodeError
from routebook.client.node import Node
from routebook.client.sources import AddressSource, find_source
from routebook.wire.answers import PERM_WRITE
from routebook.wire.broker_requests import Topic

SILENT_TIMEOUT_S = 5.0

State = Literal["off", "up", "killed", "hung", "left"]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """How a simulated broker stands; ``registered`` of ``nodes`` NameServers hold its table."""

    name: str
    addr: str
    broker_id: int
    state: State
    writable: bool
    topics: int
    registered: int
    nodes: int
    error: str | None


class SimulatedBroker:
    """One broker, kept registered by the real agent whenever it is up.

    It starts, goes and changes its role one after the other: no two of these at the same time.

    With ``listen`` it takes the host of ``settings.addr`` and a port of its own there, which
    accepts connections and closes them: enough for a look whether the broker can be reached.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        nameservers: str | Iterable[str] | AddressSource | None = None,
        *,
        topics: Iterable[Topic] = (),
        listen: bool = False,
        dialing: Dialing | None = None,
    ) -> None:
        self._source = find_source(nameservers)
        self._settings = settings
        self._topics = {topic.name: topic for topic in topics}
        self._listen = listen
        self._dialing = dialing
        self._port = 0
        self._listener: asyncio.Server | None = None
        self._agent: BrokerAgent | None = None
        self._silent: list[Node] = []  # hold the connections of a broker that hangs
        self.state: State = "off"

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def settings(self) -> BrokerSettings:
        return self._settings

    def view(self) -> BrokerView:
        statuses = [] if self._agent is None else self._agent.status()
        version = None if self._agent is None else self._agent.version
        return BrokerView(
            self.name,
            self._settings.addr,
            self._settings.broker_id,
            self.state,
            bool(self._settings.permission & PERM_WRITE),
            len(self._topics),
            sum(status.acknowledged == version for status in statuses),
            len(statuses),
            next((s.error for s in statuses if s.error and s.acknowledged != version), None),
        )

    async def start(self) -> Outcomes:
        """Register, as a process does that has just been started; raises NoNameServers."""
        await self.kill()
        if self._listen:
            await self._open_port()
        agent = self._new_agent()
        outcomes = await agent.start()
        self._agent, self.state = agent, "up"
        return outcomes

    async def kill(self) -> None:
        """Close everything without a word."""
        await self._close_port()
        silent, self._silent = self._silent, []
        await asyncio.gather(*(node.close() for node in silent))
        if self._agent is not None:
            await self._agent.close()
            self._agent, self.state = None, "killed"

    async def hang(self) -> None:
        """Fall silent with the connections open, until ``start``.

        An agent cannot be made to hang. What it has registered is registered once more, over
        connections that nobody speaks on afterwards; to a NameServer the latest connection is
        the broker's, so the agent can close its own.
        """
        agent = self._agent
        if agent is None:
            return
        announcement = whole_table(
            list(agent.topics.values()),
            self._settings,
            version=agent.version,
            permission=agent.permission,
            mapping_version=agent.version,
        )
        nodes = [Node(address, self._dialing) for address in agent.nodes]
        self._silent += nodes

        async def register(node: Node) -> None:
            for request in announcement.parts:
                await node.ask(request, timeout_s=SILENT_TIMEOUT_S)

        outcomes = await asyncio.gather(*map(register, nodes), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NodeError):
                raise outcome
        await agent.close()
        self._agent, self.state = None, "hung"

    async def leave(self) -> None:
        """Unregister everywhere and close."""
        if self._agent is not None:
            await self._agent.leave()
        await self.kill()
        self.state = "left"

    async def set_permission(self, permission: int) -> None:
        self._settings = replace(self._settings, permission=permission)
        if self._agent is not None:
            await self._agent.set_permission(permission)

    async def become(self, broker_id: int) -> None:
        """Take another id within the group: 0 is the master."""
        self._settings = replace(self._settings, broker_id=broker_id)
        former = self._agent
        if former is not None:
            successor = self._new_agent()
            await successor.start()
            self._agent = successor
            await former.close()

    async def put_topic(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        if self._agent is not None:
            await self._agent.put_topic(topic)

    async def remove_topic(self, name: str) -> None:
        self._topics.pop(name, None)
        if self._agent is not None:
            await self._agent.remove_topic(name)

    def _new_agent(self) -> BrokerAgent:
        return BrokerAgent(
            self._settings, self._source, topics=self._topics.values(), dialing=self._dialing
        )

    async def _open_port(self) -> None:
        host = self._settings.addr.rpartition(":")[0]
        self._listener = await asyncio.get_running_loop().create_server(
            _Door, host.strip("[]"), self._port, reuse_address=True
        )
        self._port = self._listener.sockets[0].getsockname()[1]
        self._settings = replace(self._settings, addr=f"{host}:{self._port}")

    async def _close_port(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await close_server(listener)
            await listener.wait_closed()


class _Door(asyncio.Protocol):
    """Opens, and closes at once: there is nobody inside."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def spare_address(index: int) -> str:
    """One of 127.0.0.0/8 for each index, at which nothing listens as a rule.

    Agents, clients and ``doctor`` connect to what a route names; a loopback address keeps that on
    this machine. They begin with 127.1.0.1: real programs have those of 127.0.0.0/16.
    """
    number = index + 1
    return f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}:10911"
