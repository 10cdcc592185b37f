"""SimulatedCluster: brokers through the real agent, and what goes wrong with them.

async with SimulatedCluster("10.0.0.1:9876", brokers=5, topics=100) as cluster:
    await cluster.play([Fault(1.0, 0, "kill", lasts_s=5.0)])
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from routebook.agent.agent import Outcomes
from routebook.agent.settings import BrokerSettings
from routebook.client.dialing import Dialing
from routebook.client.sources import AddressSource
from routebook.simulation.broker import BrokerView, SimulatedBroker, spare_address
from routebook.simulation.faults import Fault
from routebook.wire.answers import MASTER_ID, PERM_WRITE
from routebook.wire.broker_requests import Topic

STARTING_AT_ONCE = 16
ROUND_TIMEOUT_S = 5.0
FLAPS = 3
CHURNED_TOPICS = 3
SLAVE_ID = 1


@dataclass(frozen=True, slots=True)
class Happened:
    """``at_s`` counts from the start; ``what`` is a word, ``detail`` is for people."""

    at_s: float
    broker: str
    what: str
    detail: str = ""


class SimulatedCluster:
    """Entering it starts all brokers; leaving it ends them in order.

    Brokers are named ``<prefix>-0`` and so on and have the same topics. With ``listen`` their
    addresses are ports of 127.0.0.1 that accept connections, else some of 127.0.0.0/8.
    ``heartbeat_timeout_s`` is how long a NameServer lists one that hangs.
    """

    def __init__(
        self,
        nameservers: str | Iterable[str] | AddressSource | None = None,
        *,
        brokers: int,
        topics: int,
        queues: int = 8,
        cluster: str = "SimulatedCluster",
        prefix: str = "broker",
        listen: bool = False,
        heartbeat_timeout_s: float = 10.0,
        dialing: Dialing | None = None,
        on_event: Callable[[Happened], None] | None = None,
    ) -> None:
        offered = [Topic(f"topic-{i:04}", queues, queues) for i in range(topics)]
        self.brokers: Sequence[SimulatedBroker] = tuple(
            SimulatedBroker(
                BrokerSettings(
                    name=f"{prefix}-{i}",
                    addr="127.0.0.1:0" if listen else spare_address(i),
                    cluster=cluster,
                    round_timeout_s=ROUND_TIMEOUT_S,
                    heartbeat_timeout_ms=int(heartbeat_timeout_s * 1000),
                    heartbeat="light",
                    heartbeat_s=heartbeat_timeout_s / 5,
                ),
                nameservers,
                topics=offered,
                listen=listen,
                dialing=dialing,
            )
            for i in range(brokers)
        )
        self._turns = [asyncio.Lock() for _ in self.brokers]
        self._on_event = on_event
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._began = 0.0

    async def __aenter__(self) -> "SimulatedCluster":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()

    def views(self) -> list[BrokerView]:
        return [broker.view() for broker in self.brokers]

    async def start(self) -> None:
        """Start all brokers; raises NoNameServers."""
        self._began = asyncio.get_running_loop().time()
        some = asyncio.Semaphore(STARTING_AT_ONCE)

        async def start(broker: SimulatedBroker) -> None:
            async with some:
                self._report(broker, "up", _said(await broker.start()))

        outcomes = await asyncio.gather(*map(start, self.brokers), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            await self.end(kill=True)
            raise failures[0]

    async def play(self, faults: Iterable[Fault]) -> None:
        """Let ``faults``, in the order of their time, happen; until the last one is over."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._idle.clear()
        try:
            async with asyncio.TaskGroup() as group:
                for fault in faults:
                    if await self._ends_within(began + fault.at_s - loop.time()):
                        break
                    group.create_task(self._suffer_in_turn(fault))
        finally:
            self._idle.set()

    async def end(self, *, kill: bool = False) -> None:
        """End ``play`` where it is, then have all brokers leave, or go without a word."""
        self._ending.set()
        await self._idle.wait()
        for broker in self.brokers:
            if broker.state == "up":
                self._report(broker, "killed" if kill else "left")
        await asyncio.gather(
            *(
                broker.kill() if kill or broker.state != "up" else broker.leave()
                for broker in self.brokers
            )
        )

    # -- faults; those that are interrupted by the end restore nothing

    async def _suffer_in_turn(self, fault: Fault) -> None:
        # With a node that hangs everything takes longer than planned.
        async with self._turns[fault.broker]:
            if not self._ending.is_set():
                await self._suffer(self.brokers[fault.broker], fault)

    async def _suffer(self, broker: SimulatedBroker, fault: Fault) -> None:
        self._report(broker, fault.kind, f"for {fault.lasts_s:.1f} s")
        match fault.kind:
            case "kill":
                await broker.kill()
            case "hang":
                await broker.hang()
            case "leave":
                await broker.leave()
            case "flap":
                await self._flap(broker, fault.lasts_s)
                return
            case "churn":
                await self._churn(broker, fault.lasts_s)
                return
            case "drain":
                await self._drain(broker, fault.lasts_s)
                return
            case "role":
                await self._demote(broker, fault.lasts_s)
                return
        if not await self._ends_within(fault.lasts_s):
            await self._return(broker)

    async def _return(self, broker: SimulatedBroker) -> None:
        self._report(broker, "back", _said(await broker.start()))

    async def _flap(self, broker: SimulatedBroker, lasts_s: float) -> None:
        for _ in range(FLAPS):
            await broker.kill()
            await self._return(broker)
            if await self._ends_within(lasts_s / FLAPS):
                return

    async def _churn(self, broker: SimulatedBroker, lasts_s: float) -> None:
        names = [f"{broker.name}-churned-{i}" for i in range(CHURNED_TOPICS)]
        for queues in (4, 8):
            await asyncio.gather(*(broker.put_topic(Topic(name, queues, queues)) for name in names))
            self._report(broker, "topics", f"{', '.join(names)}: {queues} queues")
            if await self._ends_within(lasts_s / 2):
                return
        await asyncio.gather(*map(broker.remove_topic, names))
        self._report(broker, "topics", f"{', '.join(names)}: removed")

    async def _drain(self, broker: SimulatedBroker, lasts_s: float) -> None:
        before = broker.settings.permission
        await broker.set_permission(before & ~PERM_WRITE)
        if not await self._ends_within(lasts_s):
            await broker.set_permission(before)
            self._report(broker, "writable")

    async def _demote(self, broker: SimulatedBroker, lasts_s: float) -> None:
        await broker.become(SLAVE_ID)
        if not await self._ends_within(lasts_s):
            await broker.become(MASTER_ID)
            self._report(broker, "master")

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return False
        return True

    def _report(self, broker: SimulatedBroker, what: str, detail: str = "") -> None:
        if self._on_event is not None:
            at_s = asyncio.get_running_loop().time() - self._began
            self._on_event(Happened(round(at_s, 3), broker.name, what, detail))


def _said(outcomes: Outcomes) -> str:
    failures = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
    text = f"registered with {len(outcomes) - len(failures)} of {len(outcomes)} nodes"
    return text if not failures else f"{text}; {failures[0]}"
