"""Fleet: the nodes a gateway speaks for, and what it knows of each.

A node is asked for a sign of life and for what changed of its groups every second. Everything else
is asked for when somebody wants it, once for all who want it at the same time. All of it together
is bounded, so that what a node does for its gateway does not depend on how many clients that has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import Any, Generic, TypeVar, cast

from routebook.client.dialing import Dialing
from routebook.client.errors import BadAnswer, LeavingNode, NodeError, Refused
from routebook.client.node import Answer
from routebook.client.requests import Requests, checked, command
from routebook.gateway.following import Following
from routebook.gateway.link import Link
from routebook.gateway.pace import Pace
from routebook.gateway.ring import EventRing
from routebook.histogram import Histogram
from routebook.wire import overview
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from routebook.wire.errors import BadBody
from routebook.wire.overview import Condition, GroupTold, Silence, SummaryTold

logger = logging.getLogger(__name__)

T = TypeVar("T")

TICK_S = 1.0
SILENT_S = 10.0  # without an answer to a ping: then the node does not live
TIMEOUT_S = 3.0
REQUESTS_A_SECOND = 200
WAIT_S = 1.0  # for a place among them
LISTS_EVERY_S = 2.0
MOST_KEPT = 64  # answers; some are about names that whoever asks makes up
MOST_SILENCES = 2_000  # members whose silence is asked for every second
PING_GROUP = "routebook-gateway-ping"  # a broker name that nobody has


class NodeBusy(NodeError):
    """The gateway has asked the node for as much as it may in this second."""


@dataclass(frozen=True, slots=True)
class Aged(Generic[T]):
    """Something a node said, and when."""

    value: T
    at_s: float

    @property
    def age_ms(self) -> int:
        return max(0, round((monotonic() - self.at_s) * 1000))


@dataclass(frozen=True, slots=True)
class NodeView:
    """What a node last said of itself: its groups, by cluster and name, and its condition."""

    node: str
    boot: str
    rev: int
    skew_ms: int  # how far its clock is ahead of ours
    condition: Condition
    groups: Mapping[tuple[str, str], GroupTold]
    silences: tuple[Silence, ...] | None


class FollowedNode(Requests):
    """One node. The calls of ``Requests`` ask it, within what the gateway may ask.

    ``name`` is its address, and how the API calls it. ``own``: the gateway is its child.
    """

    def __init__(
        self,
        link: Link,
        ring: EventRing,
        *,
        own: bool = False,
        looked: Callable[[], object] = lambda: None,
    ) -> None:
        self._link = link
        self._looked = looked  # is told after each look, whatever came of it
        self._pace = Pace(REQUESTS_A_SECOND)
        self._flights: dict[str, asyncio.Task[Any]] = {}
        self._kept: dict[str, Aged[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._answered_s = monotonic()  # when it last showed a sign of life, or was begun with
        self._looking = asyncio.Lock()
        self.own = own
        self.following = Following(link, ring)
        self.view: Aged[NodeView] | None = None
        self.ping_s: float | None = None  # how long the last answer took
        self.pings = Histogram()
        self.offers_summary: bool | None = None
        self.answering = False  # whether it answered the last ping
        self.leaving = False
        self.trouble: NodeError | None = None  # why the last sign of life did not come

    @property
    def address(self) -> Address:
        return self._link.address

    @property
    def name(self) -> str:
        return str(self._link.address)

    @property
    def silent_s(self) -> float:
        return monotonic() - self._answered_s

    @property
    def alive(self) -> bool:
        return self.ping_s is not None and self.silent_s <= SILENT_S

    # -- asking

    async def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        if not await self._pace.place(at_most_s=WAIT_S):
            raise NodeBusy(self.address, f"{REQUESTS_A_SECOND} requests a second are its share")
        answer = await self._link.ask(
            request, timeout_s=TIMEOUT_S if timeout_s is None else timeout_s
        )
        return checked(request, answer)

    async def shared(
        self, what: str, ask: Callable[[], Awaitable[T]], *, every_s: float = LISTS_EVERY_S
    ) -> Aged[T]:
        """What ``ask`` gives, asked once for all who want it, and at most every ``every_s``."""
        kept = self._kept.get(what)
        if kept is not None and monotonic() - kept.at_s < every_s:
            return cast(Aged[T], kept)
        flight = self._flights.get(what)
        if flight is None:

            async def fly() -> Aged[T]:
                aged = Aged(await ask(), monotonic())
                self._kept.pop(what, None)
                self._kept[what] = aged
                if len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                return aged

            flight = self._flights[what] = asyncio.create_task(fly())
            flight.add_done_callback(lambda _: self._flights.pop(what, None))
        # Whoever gives up leaves it to the others.
        return cast(Aged[T], await asyncio.shield(flight))

    async def statistics(self) -> Aged[dict[str, Any]]:
        """The counts of the node; raises NodeError."""

        async def ask() -> dict[str, Any]:
            answer = await self.ask(command(RequestCode.ROUTEBOOK_STATISTICS))
            try:
                return overview.decode_statistics(answer.command.body)
            except BadBody as error:
                raise BadAnswer(answer.node, str(error)) from error

        return await self.shared("statistics", ask, every_s=0.5)

    async def health_now(self) -> Aged[dict[str, Any]]:
        """``health``, at most every two seconds."""
        return await self.shared("health", self.health)

    async def topics_now(self) -> Aged[tuple[str, ...]]:
        """``topics``, at most every two seconds."""
        return await self.shared("topics", self.topics)

    # -- following

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._tick_for_ever()),
            asyncio.create_task(self.following.run()),
        ]

    async def close(self) -> None:
        tasks = [*self._tasks, *self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

    async def _tick_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            next_s = loop.time() + TICK_S
            try:
                await self._ping()
                await self.look()
            except NodeError as error:
                self.trouble = error
            except Exception:  # the next look is to come
                logger.exception("looking at %s failed", self.name)
            self._looked()
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    async def _ping(self) -> None:
        """A small request on the way that all requests take."""
        request = command(RequestCode.GET_BROKER_MEMBER_GROUP, {"brokerName": PING_GROUP})
        asked_s = monotonic()
        try:
            checked(request, await self._link.ask(request, timeout_s=SILENT_S))
        except LeavingNode:
            self.leaving = True
        except NodeError:
            self.answering = False
            raise
        else:
            self.leaving = False
        self.answering = True
        self._answered_s = monotonic()
        self.ping_s = self._answered_s - asked_s
        self.pings.add(self.ping_s)
        self.trouble = None

    async def look(self) -> None:
        """See what changed of its groups; raises NodeError."""
        if self.offers_summary is not False:
            async with self._looking:
                await self._look()

    async def _look(self) -> None:
        view = None if self.view is None else self.view.value
        fields: dict[str, str | None] = {}
        if view is not None:
            fields["since"] = f"{view.boot}.{view.rev}"
        if view is not None and view.condition.brokers <= MOST_SILENCES:
            fields["silences"] = "true"
        request = command(RequestCode.ROUTEBOOK_SUMMARY, fields)
        try:
            answer = checked(request, await self._link.ask(request, timeout_s=TIMEOUT_S))
            told = overview.decode_summary(answer.command.body)
        except Refused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self.offers_summary = False
        except BadBody as error:
            raise BadAnswer(self.address, str(error)) from error
        else:
            self.offers_summary = True
            self.view = Aged(_joined(view, told), monotonic())


def _joined(before: NodeView | None, told: SummaryTold) -> NodeView:
    groups = {} if told.full or before is None else dict(before.groups)
    for key in told.gone:
        groups.pop(key, None)
    groups.update((group.key, group) for group in told.groups)
    return NodeView(
        node=told.node,
        boot=told.boot,
        rev=told.rev,
        skew_ms=told.wall_ms - _wall_ms(),
        condition=told.condition,
        groups=groups,
        silences=told.silences,
    )


def _wall_ms() -> int:
    return time_ns() // 1_000_000


class Fleet:
    """The nodes, in the order they were named; ``ring`` has the latest events of all of them.

    ``observers`` are called after each look at a node. ``dialing`` is how others who work for the
    gateway connect to its nodes.
    """

    def __init__(
        self,
        links: Iterable[Link],
        *,
        own: bool = False,
        ring: EventRing | None = None,
        dialing: Dialing | None = None,
    ) -> None:
        self.dialing = dialing or Dialing()
        self.ring = ring or EventRing()
        self.observers: list[Callable[[], object]] = []
        self.nodes = tuple(
            FollowedNode(link, self.ring, own=own, looked=self._looked) for link in links
        )

    async def __aenter__(self) -> "Fleet":
        for node in self.nodes:
            node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(node.close() for node in self.nodes))

    def _looked(self) -> None:
        for observer in self.observers:
            observer()

    def find(self, name: str | None) -> FollowedNode | None:
        """By address or by the node's own id; without a name the first that lives."""
        if name is None:
            return next((node for node in self.nodes if node.alive), self.nodes[0])
        for node in self.nodes:
            if name == node.name or (node.view is not None and name == node.view.value.node):
                return node
        return None
