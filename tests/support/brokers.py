"""Brokers as a node sees them: single requests of one, and one that keeps itself registered."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from support.builders import Topics, broker_fields, registration_body
from support.raw import REGISTER, SUCCESS, UNREGISTER, V5_5_0, Answer, Hangup, Peer, request


@dataclass(frozen=True, slots=True)
class Broker:
    """``acting_master`` None: a broker too old to know the field."""

    name: str = "broker-a"
    broker_id: int = 0
    addr: str = "10.0.0.1:10911"
    cluster: str = "DefaultCluster"
    heartbeat_timeout_ms: int | None = None
    acting_master: bool | None = False
    version: int = V5_5_0

    @property
    def fields(self) -> dict[str, str]:
        timeout, acting = self.heartbeat_timeout_ms, self.acting_master
        fields = broker_fields(
            self.name,
            self.broker_id,
            addr=self.addr,
            cluster=self.cluster,
            heartbeatTimeoutMillis=None if timeout is None else str(timeout),
            enableActingMaster=None if acting is None else str(acting).lower(),
        )
        return {key: value for key, value in fields.items() if value is not None}

    def registration(
        self,
        topics: Topics = ("T1", "T2"),
        *,
        counter: int = 1,
        body: bytes | None = None,
        opaque: int = 1,
        flag: int = 0,
        **more: str,
    ) -> bytes:
        """The whole frame of a REGISTER_BROKER; ``more`` are further ext fields."""
        return request(
            REGISTER,
            {**self.fields, **more},
            registration_body(topics, counter=counter) if body is None else body,
            opaque=opaque,
            flag=flag,
            version=self.version,
        )

    async def register(
        self, peer: Peer, topics: Topics = ("T1", "T2"), *, counter: int = 1
    ) -> Answer:
        answer = await peer.ask(
            REGISTER,
            self.fields,
            registration_body(topics, counter=counter),
            version=self.version,
        )
        assert answer.code == SUCCESS, answer
        return answer

    async def unregister(self, peer: Peer) -> None:
        answer = await peer.ask(UNREGISTER, self.fields, version=self.version)
        assert answer.code == SUCCESS, answer


class RegisteringBroker:
    """Registers with every node again and again, as a broker does, each node on its own.

    A node that cannot be reached or does not answer is tried anew on a fresh connection.
    """

    PERIOD_S = 0.1
    TIMEOUT_S = 0.5

    def __init__(self, broker: Broker, ports: Sequence[int], topics: Iterable[str]) -> None:
        self._broker = broker
        self._topics = list(topics)
        self._counter = 1
        self._leaving = False
        self._tasks = [asyncio.create_task(self._keep_registered(port)) for port in ports]

    def add_topic(self, topic: str) -> None:
        self._topics.append(topic)
        self._counter += 1

    async def leave(self) -> None:
        """Unregister from every node that can be reached and go."""
        self._leaving = True
        await asyncio.gather(*self._tasks)

    async def vanish(self) -> None:
        """Go without a word."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_registered(self, port: int) -> None:
        while not self._leaving:
            try:
                async with Peer(port) as peer:
                    await self._stay(peer)
            except (Hangup, OSError, TimeoutError):
                await asyncio.sleep(self.PERIOD_S)

    async def _stay(self, peer: Peer) -> None:
        while not self._leaving:
            async with asyncio.timeout(self.TIMEOUT_S):
                await self._broker.register(peer, self._topics, counter=self._counter)
            await asyncio.sleep(self.PERIOD_S)
        async with asyncio.timeout(self.TIMEOUT_S):
            await self._broker.unregister(peer)
