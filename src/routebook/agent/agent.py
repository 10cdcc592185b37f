"""BrokerAgent: keeps a broker, or any service that wants to be found, listed by all NameServers.

settings = BrokerSettings(name="broker-a", addr="10.0.0.5:10911")
async with BrokerAgent(settings, "10.0.0.1:9876;10.0.0.2:9876", topics=[Topic("orders")]) as agent:
    await agent.put_topic(Topic("payments", read_queues=4, write_queues=4))
    ...
    await agent.leave(traffic_has_ended, timeout_s=60)
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType

from routebook.agent.announcement import Announcer
from routebook.agent.registration import NodeRegistration, NodeStatus, Outcome
from routebook.agent.settings import MAX_PERMISSION, BrokerSettings
from routebook.agent.topics import TopicTable
from routebook.client.client import RECHECK_NAMES_S
from routebook.client.dialing import Dialing
from routebook.client.errors import NoNameServers
from routebook.client.node import Node
from routebook.client.sources import FIRST_REFRESH_S, AddressSource, find_source
from routebook.wire.address import Address
from routebook.wire.answers import MASTER_ID, PERM_WRITE, decode_kv
from routebook.wire.broker_requests import Topic
from routebook.wire.command import Command
from routebook.wire.errors import BadBody
from routebook.wire.registration import DataVersion

logger = logging.getLogger(__name__)

FIRST_ROUND_S = 10.0  # after the start, which is a round itself
CHANGE_TIMEOUT_S = 3.0
QUIET_TIMEOUT_S = 60.0

Outcomes = dict[Address, Outcome]
OnMaster = Callable[[str | None, str | None], None]
OnOrderTopics = Callable[[frozenset[str]], None]


class BrokerAgent:
    """Entering it registers with every node; leaving it unregisters and closes.

    Every change returns what became of it at each node. A node that failed is tried again and
    again in the background, and is told everything once it answers; nobody needs to
    repeat a call because of it.

    ``on_master`` is called with the master's address and its replication address, None for
    none, whenever an answer to a slave changes them. ``on_order_topics`` is called with
    the names of topics that NameServers declare to be ordered and that were not marked so
    before; the agent has marked them already. Both run in the event loop.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        nameservers: str | Iterable[str] | AddressSource | None = None,
        *,
        topics: Iterable[Topic] = (),
        dialing: Dialing | None = None,
        on_master: OnMaster | None = None,
        on_order_topics: OnOrderTopics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._source = find_source(nameservers)
        self._settings = settings
        self._dialing = dialing or Dialing()
        self._on_master = on_master
        self._on_order_topics = on_order_topics
        self._rng = rng or random.Random()
        self._table = TopicTable(
            topics,
            permission=settings.permission,
            state_version=settings.state_version,
            now_ms=_now_ms(),
        )
        self._announcer = Announcer(settings, self._table)
        self._registrations: dict[Address, NodeRegistration] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: dict[Address, asyncio.Task[Outcome]] = {}
        self._round = 0
        self._answered_round = 0
        self._master: tuple[str | None, str | None] = (None, None)
        self._ended = False

    async def __aenter__(self) -> "BrokerAgent":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.leave()

    @property
    def settings(self) -> BrokerSettings:
        """What the agent was made with."""
        return self._settings

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics on offer, by name."""
        return self._table.topics

    @property
    def version(self) -> DataVersion:
        """The data version of the topics on offer; every change of them is a new one."""
        return self._table.version

    @property
    def permission(self) -> int:
        """What all topics may at most be used for: 4 read, 2 write."""
        return self._table.permission

    @property
    def nodes(self) -> tuple[Address, ...]:
        """The NameServers the agent speaks to, sorted."""
        return tuple(sorted(self._registrations))

    def status(self) -> tuple[NodeStatus, ...]:
        """How each node stands, sorted by address."""
        return tuple(self._registrations[address].status() for address in self.nodes)

    # -- registering

    async def start(self) -> Outcomes:
        """Find the nodes and register with all of them; raises NoNameServers."""
        self._check_running()
        if self._tasks:
            raise RuntimeError("this agent has been started already")
        addresses = await self._source.find()
        self._tasks = [
            asyncio.create_task(self._keep_registering()),
            asyncio.create_task(self._follow_nodes()),
        ]
        try:
            return await self.use(addresses)
        except BaseException:
            await self.close()
            raise

    async def round(self, timeout_s: float | None = None) -> Outcomes:
        """Register with every node again, all at the same time."""
        self._check_running()
        if timeout_s is None:
            timeout_s = self._settings.round_timeout_s
        return await self._inform(self._registrations.values(), confirm=True, timeout_s=timeout_s)

    async def put_topic(self, topic: Topic, *, timeout_s: float = CHANGE_TIMEOUT_S) -> Outcomes:
        """Offer a topic, new or changed, and announce it at once."""
        self._check_running()
        self._table.put(topic, now_ms=_now_ms())
        return await self._announce(timeout_s)

    async def remove_topic(self, name: str, *, timeout_s: float = CHANGE_TIMEOUT_S) -> Outcomes:
        """Offer a topic no longer. Nodes list it without permissions from now on."""
        self._check_running()
        self._table.remove(name, now_ms=_now_ms())
        return await self._announce(timeout_s)

    async def replace_topics(
        self, topics: Iterable[Topic], *, timeout_s: float | None = None
    ) -> Outcomes:
        """Offer these topics and no others."""
        self._check_running()
        self._table.replace(topics, now_ms=_now_ms())
        return await self._announce(timeout_s)

    async def set_permission(self, permission: int, *, timeout_s: float | None = None) -> Outcomes:
        """What all topics of this broker may at most be used for: 4 read, 2 write."""
        self._check_running()
        if not 0 <= permission <= MAX_PERMISSION:
            raise ValueError(f"a permission must be 0 to {MAX_PERMISSION}, not {permission}")
        self._table.set_permission(permission, now_ms=_now_ms())
        return await self._announce(timeout_s)

    async def _announce(self, timeout_s: float | None) -> Outcomes:
        """Have every node told what it lacks; those that lack nothing are not spoken to."""
        if timeout_s is None:
            timeout_s = self._settings.round_timeout_s
        return await self._inform(self._registrations.values(), confirm=False, timeout_s=timeout_s)

    async def _inform(
        self, registrations: Iterable[NodeRegistration], *, confirm: bool, timeout_s: float
    ) -> Outcomes:
        demands = self._demand(registrations, confirm=confirm)
        if not demands:
            return {}
        await asyncio.wait(demands.values(), timeout=timeout_s)
        late = Outcome(f"not done within {timeout_s:g} s; it goes on in the background")
        return {
            address: demand.result() if demand.done() else late
            for address, demand in demands.items()
        }

    def _demand(
        self, registrations: Iterable[NodeRegistration], *, confirm: bool
    ) -> dict[Address, "asyncio.Future[Outcome]"]:
        self._round += 1
        return {
            registration.address: registration.demand(self._round, confirm=confirm)
            for registration in registrations
        }

    async def _keep_registering(self) -> None:
        wait_s = FIRST_ROUND_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self._settings.period_s
            self._demand(self._registrations.values(), confirm=True)

    # -- which nodes there are

    async def use(
        self, addresses: Iterable[Address], *, timeout_s: float | None = None
    ) -> Outcomes:
        """Speak to these nodes from now on; what became of it at those added and removed.

        Those added are told everything, those removed that the broker leaves. No address at
        all is taken for a mistake of the source and changes nothing.
        """
        self._check_running()
        wanted = dict.fromkeys(addresses)
        if not wanted:
            return {}
        if timeout_s is None:
            timeout_s = self._settings.round_timeout_s
        gone = [address for address in self._registrations if address not in wanted]
        farewells = {address: self._dismiss(address) for address in gone}
        added = [self._add(address) for address in wanted if address not in self._registrations]
        outcomes = await self._inform(added, confirm=True, timeout_s=timeout_s)
        return outcomes | await _results(farewells)

    def _add(self, address: Address) -> NodeRegistration:
        registration = NodeRegistration(
            Node(address, self._dialing, rng=self._rng),
            self._announcer,
            self._settings,
            heard=self._heard,
            rng=self._rng,
        )
        self._registrations[address] = registration
        registration.start(self._leaving.get(address))
        return registration

    def _dismiss(self, address: Address, *, silently: bool = False) -> "asyncio.Task[Outcome]":
        registration = self._registrations.pop(address)
        leaving = asyncio.create_task(registration.close() if silently else registration.leave())
        self._leaving[address] = leaving
        leaving.add_done_callback(lambda task: self._left(address, task))
        return leaving

    def _left(self, address: Address, leaving: "asyncio.Task[Outcome]") -> None:
        if self._leaving.get(address) is leaving:
            del self._leaving[address]

    async def _follow_nodes(self) -> None:
        """Follow the source's list, and the names in it, as they change."""
        refresh_s = self._source.refresh_s
        wait_s = RECHECK_NAMES_S if refresh_s is None else FIRST_REFRESH_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = refresh_s or RECHECK_NAMES_S
            # A fixed list is not asked again: it must not undo what use() was told.
            if refresh_s is not None:
                try:
                    await self.use(await self._source.find())
                except NoNameServers as error:
                    logger.warning("keeping the NameServers known so far: %s", error)
            await asyncio.gather(
                *(registration.recheck_name() for registration in self._registrations.values())
            )

    # -- leaving

    async def leave(
        self,
        quiet: Callable[[], Awaitable[object]] | None = None,
        *,
        timeout_s: float = QUIET_TIMEOUT_S,
    ) -> Outcomes:
        """Take the write permission away, await ``quiet``, unregister everywhere and close.

        ``quiet`` returns when clients have stopped sending; after ``timeout_s`` they had their
        time. Without it nothing is waited for, and the nodes are told of the departure only.
        An agent that has left, or is closed, stays so.
        """
        if quiet is not None and not self._ended:
            writable_no_more = self.permission & ~PERM_WRITE
            await self.set_permission(writable_no_more, timeout_s=CHANGE_TIMEOUT_S)
            await self._until(quiet, timeout_s)
        return await self._end(silently=False)

    async def close(self) -> None:
        """Close all connections without a word; nodes notice that and forget the broker."""
        await self._end(silently=True)

    async def _end(self, *, silently: bool) -> Outcomes:
        self._ended = True
        for address in list(self._registrations):
            self._dismiss(address, silently=silently)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return await _results(dict(self._leaving))

    async def _until(self, quiet: Callable[[], Awaitable[object]], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await quiet()
        except TimeoutError:
            logger.warning("traffic has not ended within %g s; leaving all the same", timeout_s)
        except Exception:
            # A broken callback of the user must not keep a broker listed that is going away.
            logger.exception("waiting for the end of traffic failed; leaving all the same")

    def _check_running(self) -> None:
        if self._ended:
            raise RuntimeError("this agent has left or is closed; make a new one")

    # -- what nodes answer

    def _heard(self, round_number: int, answer: Command) -> None:
        """Take the first answer of a round, and no other, as brokers do."""
        if round_number <= self._answered_round:
            return
        self._answered_round = round_number
        if self._settings.broker_id != MASTER_ID:
            fields = answer.ext_fields
            self._use_master((fields.get("masterAddr"), fields.get("haServerAddr")))
        if answer.body:
            try:
                ordered = decode_kv(answer.body)
            except BadBody as error:
                logger.warning("the order configuration is not readable: %s", error)
            else:
                self._use_ordered(ordered)

    def _use_master(self, master: tuple[str | None, str | None]) -> None:
        if master == self._master:
            return
        self._master = master
        logger.info("the master is %s, replicating from %s", *master)
        if self._on_master is not None:
            try:
                self._on_master(*master)
            except Exception:  # the user's, and the loop must go on
                logger.exception("on_master failed")

    def _use_ordered(self, names: Iterable[str]) -> None:
        marked = self._table.mark_ordered(names, now_ms=_now_ms())
        if not marked:
            return
        for registration in self._registrations.values():
            registration.poke()
        if self._on_order_topics is not None:
            try:
                self._on_order_topics(marked)
            except Exception:  # the user's, and the loop must go on
                logger.exception("on_order_topics failed")


async def _results(tasks: Mapping[Address, "asyncio.Task[Outcome]"]) -> Outcomes:
    """Whoever is cancelled here leaves the tasks alone."""
    if tasks:
        await asyncio.wait(tasks.values())
    return {address: task.result() for address, task in tasks.items()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
