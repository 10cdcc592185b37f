"""Agents: the agents of a brokers.toml, moved from one version of the file to the next.

What a running agent can take over, it does: topics, permission, the list of NameServers. A broker
with other changes gets a new agent. It starts before the old one closes, so that nobody finds the
broker missing, unless its name or id is another: then the old one unregisters first.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from routebook.agent.agent import BrokerAgent
from routebook.agent.config import AgentConfig, BrokerConfig
from routebook.agent.registration import NodeStatus
from routebook.client.dialing import Dialing
from routebook.client.sources import AddressSource, find_source
from routebook.wire.address import Address
from routebook.wire.answers import PERM_WRITE

logger = logging.getLogger(__name__)

WATCH_S = 0.5

_Key = tuple[str, str]  # cluster and address: what NameServers know a broker by


@dataclass(slots=True)
class _Member:
    config: BrokerConfig
    agent: BrokerAgent

    @property
    def name(self) -> str:
        return self.config.settings.name


class Agents:
    """TLS of ``dialing`` is stronger than the file's; ``timeout_s`` is for each change."""

    def __init__(self, dialing: Dialing, *, timeout_s: float) -> None:
        self._dialing = dialing
        self._timeout_s = timeout_s
        self._members: dict[_Key, _Member] = {}
        self._config: AgentConfig | None = None
        self._seen: dict[tuple[_Key, Address], bool] = {}  # whether registered, when last looked

    def __len__(self) -> int:
        return len(self._members)

    def statuses(self) -> Iterator[tuple[str, NodeStatus]]:
        """Broker name and how it stands at one node, for all of both."""
        for member in self._members.values():
            for status in member.agent.status():
                yield member.name, status

    async def apply(self, config: AgentConfig) -> None:
        """Be what ``config`` says; raises NoNameServers, and then nothing has changed."""
        source = find_source(config.nameservers, unit=config.unit)
        nodes = await source.find()
        before, self._config = self._config, config
        reach = _Reach(
            source, nodes, config, replace(self._dialing, tls=self._dialing.tls or config.tls)
        )
        reached_alike = before is not None and _reached_alike(before, config)
        wanted = {_key(broker): broker for broker in config.brokers}
        await _all(
            [
                *(self._dismiss(key) for key in self._members.keys() - wanted.keys()),
                *(
                    self._bring(key, broker, reach, alike=reached_alike)
                    for key, broker in wanted.items()
                ),
            ]
        )

    async def _bring(
        self, key: _Key, broker: BrokerConfig, reach: "_Reach", *, alike: bool
    ) -> None:
        member = self._members.get(key)
        if member is None:
            logger.info("%s: new", broker.settings.name)
            await self._start(key, broker, reach)
            return
        changes = member.config.needs_restart(broker)
        if changes or not alike:
            logger.info("%s: new agent for %s", member.name, ", ".join(changes) or "NameServers")
            if {"name", "broker_id"} & set(changes):
                await self._dismiss(key)
                await self._start(key, broker, reach)
            else:
                await self._start(key, broker, reach)
                await member.agent.close()
            return
        await self._change(member, broker, reach)

    async def _start(self, key: _Key, broker: BrokerConfig, reach: "_Reach") -> None:
        agent = BrokerAgent(
            broker.settings, reach.source, topics=broker.topics, dialing=reach.dialing
        )
        await agent.start()
        self._members[key] = _Member(broker, agent)

    async def _change(self, member: _Member, broker: BrokerConfig, reach: "_Reach") -> None:
        before, member.config = member.config, broker
        agent, timeout_s = member.agent, self._timeout_s
        if reach.config.nameservers is not None and set(reach.nodes) != set(agent.nodes):
            logger.info("%s: NameServers are now %s", member.name, ", ".join(map(str, reach.nodes)))
            await agent.use(reach.nodes, timeout_s=timeout_s)
        if broker.topics != before.topics:
            logger.info("%s: topics have changed", member.name)
            await agent.replace_topics(broker.topics, timeout_s=timeout_s)
        permission = broker.settings.permission
        if permission != before.settings.permission:
            logger.info("%s: permission is now %d", member.name, permission)
            await agent.set_permission(permission, timeout_s=timeout_s)

    async def _dismiss(self, key: _Key) -> None:
        member = self._members.pop(key)
        try:
            outcomes = await member.agent.leave()
        finally:
            await member.agent.close()  # it may have been interrupted
        left = sum(outcome.ok for outcome in outcomes.values())
        logger.info("%s: unregistered from %d of %d nodes", member.name, left, len(outcomes))

    async def leave(self, *, wait_s: float = 0.0) -> None:
        """Take write permission away and wait, if there is time to wait; then leave everywhere."""
        if wait_s and self._members:
            await _all(
                member.agent.set_permission(
                    member.agent.permission & ~PERM_WRITE, timeout_s=self._timeout_s
                )
                for member in self._members.values()
            )
            logger.info("write permission is off; leaving in %g s", wait_s)
            await asyncio.sleep(wait_s)
        await _all(self._dismiss(key) for key in list(self._members))

    # -- watching

    async def watch(self) -> None:
        """Log whatever changes at a node, until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(WATCH_S)

    def _look(self) -> None:
        seen: dict[tuple[_Key, Address], bool] = {}
        for key, member in self._members.items():
            for status in member.agent.status():
                place = (key, status.address)
                registered = seen[place] = status.acknowledged is not None
                before = self._seen.get(place)
                if registered and before is None:
                    logger.info("%s: registered with %s", member.name, status.address)
                elif registered and not before:
                    logger.info("%s: back at %s", member.name, status.address)
                elif before and not registered:
                    logger.warning("%s: lost at %s", member.name, status.address)
                elif before is None:
                    logger.warning(
                        "%s: not registered with %s: %s", member.name, status.address, status.error
                    )
        self._seen = seen

    def log_status(self) -> None:
        for name, status in self.statuses():
            version = status.acknowledged
            held = "not registered" if version is None else f"registered, version {version.counter}"
            said = f"; last error: {status.error}" if status.error else ""
            logger.info("status: %s at %s: %s%s", name, status.address, held, said)


@dataclass(frozen=True, slots=True)
class _Reach:
    """Which NameServers are spoken to, and how."""

    source: AddressSource
    nodes: tuple[Address, ...]
    config: AgentConfig
    dialing: Dialing


def _reached_alike(before: AgentConfig, after: AgentConfig) -> bool:
    """Whether agents can go on: the lists may differ, where they come from may not."""
    listed = before.nameservers is not None and after.nameservers is not None
    found = before.nameservers is None and after.nameservers is None and before.unit == after.unit
    return (listed or found) and before.tls == after.tls


def _key(broker: BrokerConfig) -> _Key:
    return broker.settings.cluster, broker.settings.addr


async def _all(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Everything to its end, then the first error."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
