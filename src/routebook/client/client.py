"""NameServerClient: asks one NameServer, keeps to it, and turns to the next when it fails.

async with NameServerClient("10.0.0.1:9876;10.0.0.2:9876") as client:
    route = await client.route("orders")
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from routebook.client.dialing import Dialing
from routebook.client.errors import (
    AllNodesFailed,
    ConnectionLost,
    LeavingNode,
    NameServerError,
    NoAnswer,
    NodeError,
    NoNameServers,
    NotReady,
    Refused,
)
from routebook.client.node import Answer, Node
from routebook.client.relayed import Relayed
from routebook.client.requests import Requests, checked, route_question
from routebook.client.sources import FIRST_REFRESH_S, AddressSource, find_source
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode, Version
from routebook.wire.command import Command

logger = logging.getLogger(__name__)

TIMEOUT_S = 3.0
RECHECK_NAMES_S = 120.0
VERSION_PROBE = "routebook-version-probe"  # a topic that nobody has

Result = TypeVar("Result")


class NodeClient(Requests):
    """The calls, made to one node and no other. Errors are NodeErrors."""

    def __init__(self, node: Node, timeout_s: float) -> None:
        self._node = node
        self._timeout_s = timeout_s

    @property
    def address(self) -> Address:
        """The node that is asked."""
        return self._node.address

    async def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        budget_s = _or(timeout_s, self._timeout_s)
        ours = request.code >= RequestCode.ROUTEBOOK_HEALTH
        if ours and self._is_too_old():
            raise self._not_ours(request)
        try:
            answer = await self._node.ask(request, timeout_s=budget_s)
        except NoAnswer:
            if ours and await self._turns_out_too_old(budget_s):
                raise self._not_ours(request) from None
            raise
        return checked(request, answer)

    def _is_too_old(self) -> bool:
        """RocketMQ's NameServers before 5.0 leave requests they do not know without an answer."""
        return 0 < (self._node.version or 0) < Version.V5_0_0

    async def _turns_out_too_old(self, timeout_s: float) -> bool:
        with suppress(NodeError):
            await self._node.ask(route_question(VERSION_PROBE), timeout_s=timeout_s)
        return self._is_too_old()

    def _not_ours(self, request: Command) -> Refused:
        remark = f"a NameServer of RocketMQ's, older than 5.0, which does not know {request.code}"
        code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return Refused(self.address, request.code, code, remark)

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        """Each successful answer, or the error of that request; raises nothing."""
        answers = await self._node.ask_many(requests, timeout_s=_or(timeout_s, self._timeout_s))
        return [_judged(request, a) for request, a in zip(requests, answers, strict=True)]


class NameServerClient(Requests):
    """Asks the NameServers found by ``nameservers``, or as a RocketMQ client finds them.

    A call tries the chosen node first and then the others in turn. Each gets half of the time
    that is left, the last one all of it, so a node that hangs does not use up the deadline.
    A node that refuses a request has answered: it stays chosen and the refusal is raised.
    Raises AllNodesFailed when no node answers, NoNameServers when none is known.
    """

    def __init__(
        self,
        nameservers: str | Iterable[str] | AddressSource | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        dialing: Dialing | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._source = find_source(nameservers)
        self._timeout_s = timeout_s
        self._dialing = dialing or Dialing()
        self._rng = rng or random.Random()
        self._nodes: list[Node] = []  # in the order they take turns
        self._chosen = 0
        self._finding: asyncio.Task[None] | None = None
        self._refresher: asyncio.Task[None] | None = None
        self._leaving: dict[Node, asyncio.Task[None]] = {}
        self._closed = False

    async def __aenter__(self) -> "NameServerClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        tasks = [task for task in (self._refresher, self._finding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        nodes = [*self._nodes, *self._leaving]
        await asyncio.gather(*(node.close() for node in nodes), *self._leaving.values())

    @property
    def source(self) -> AddressSource:
        """Where the list of nodes comes from."""
        return self._source

    @property
    def chosen(self) -> Address | None:
        """The node asked first, or None before any is known."""
        return self._nodes[self._chosen].address if self._nodes else None

    @property
    def relays(self) -> dict[Address, Relayed]:
        """Of what is asked here, those that turned out to be relays, and their oldest answers."""
        return {node.address: node.relayed for node in self._nodes if node.relayed is not None}

    async def nodes(self, *, timeout_s: float | None = None) -> tuple[Address, ...]:
        """All known nodes, sorted; raises NoNameServers."""
        await self._found(_or(timeout_s, self._timeout_s))
        return tuple(sorted(node.address for node in self._nodes))

    async def on(self, address: Address | str) -> NodeClient:
        """The calls for one of the known nodes; raises NoNameServers for another address."""
        wanted = Address.parse(address) if isinstance(address, str) else address
        await self._found(self._timeout_s)
        for node in self._nodes:
            if node.address == wanted:
                return NodeClient(node, self._timeout_s)
        raise NoNameServers(f"{wanted} is not one of the NameServers of {self._source.description}")

    async def on_every_node(
        self, call: Callable[[NodeClient], Awaitable[Result]]
    ) -> dict[Address, Result | NameServerError]:
        """The outcome of one call on every node, all at the same time."""
        await self._found(self._timeout_s)
        nodes = sorted(self._nodes, key=lambda node: node.address)

        async def outcome(node: Node) -> Result | NameServerError:
            try:
                return await call(NodeClient(node, self._timeout_s))
            except NameServerError as error:
                return error

        outcomes = await asyncio.gather(*map(outcome, nodes))
        return {node.address: outcome for node, outcome in zip(nodes, outcomes, strict=True)}

    async def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        (answer,) = await self.ask_many([request], timeout_s=timeout_s)
        if isinstance(answer, NameServerError):
            raise answer
        return answer

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        """Each successful answer, or the error of that request, all asked at once."""
        loop = asyncio.get_running_loop()
        budget_s = _or(timeout_s, self._timeout_s)
        deadline = loop.time() + budget_s
        try:
            await self._found(budget_s)
        except NoNameServers as error:
            return [error for _ in requests]
        outcomes: list[Answer | NameServerError | None] = [None] * len(requests)
        failures: list[list[NodeError]] = [[] for _ in requests]
        open_ones = list(range(len(requests)))
        turn = deque(self._in_turn())
        again: set[Node] = set()
        while turn and open_ones:
            node = turn.popleft()
            left_s = max(0.0, deadline - loop.time())
            share_s = left_s / 2 if turn else left_s
            answers = await node.ask_many([requests[i] for i in open_ones], timeout_s=share_s)
            still_open: list[int] = []
            for i, answer in zip(open_ones, answers, strict=True):
                judged = _judged(requests[i], answer)
                if isinstance(answer, NodeError) or isinstance(judged, NotReady | LeavingNode):
                    assert isinstance(judged, NodeError)
                    failures[i].append(judged)
                    still_open.append(i)
                else:
                    outcomes[i] = judged
            if len(still_open) < len(open_ones):
                self._stick_to(node)
            if node not in again and any(_worth_another_try(failures[i][-1]) for i in still_open):
                again.add(node)
                turn.append(node)
            open_ones = still_open
        return [
            AllNodesFailed(failed) if outcome is None else outcome
            for outcome, failed in zip(outcomes, failures, strict=True)
        ]

    # -- which nodes there are

    async def _found(self, timeout_s: float) -> None:
        """Know the nodes; raises NoNameServers."""
        if self._nodes:
            return
        if self._closed:
            raise NoNameServers("this client is closed")
        if self._finding is None:
            self._finding = asyncio.create_task(self._find())
            self._finding.add_done_callback(self._find_ended)
        finding = self._finding
        await asyncio.wait([finding], timeout=timeout_s)
        if not finding.done():
            raise NoNameServers(
                f"{self._source.description} did not say within {timeout_s:.3g} s where the"
                " NameServers are"
            )
        if finding.cancelled():
            raise NoNameServers("this client is closed")
        finding.result()

    async def _find(self) -> None:
        self._use(await self._source.find())
        if self._refresher is None:
            self._refresher = asyncio.create_task(self._refresh())

    def _find_ended(self, task: "asyncio.Task[None]") -> None:
        self._finding = None
        if not task.cancelled():
            task.exception()  # seen by those who wait, if any still do

    async def _refresh(self) -> None:
        """Follow the list, and the names in it, as they change."""
        wait_s = FIRST_REFRESH_S if self._source.refresh_s is not None else RECHECK_NAMES_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self._source.refresh_s or RECHECK_NAMES_S
            try:
                self._use(await self._source.find())
            except NoNameServers as error:
                logger.warning("keeping the NameServers known so far: %s", error)
            except Exception:  # a source of somebody else's must not end the refreshing
                logger.exception("keeping the NameServers known so far")
            await asyncio.gather(*(node.recheck_name() for node in self._nodes))

    def _use(self, addresses: Sequence[Address]) -> None:
        known = {node.address: node for node in self._nodes}
        if set(known) == set(addresses):
            return
        chosen = self._nodes[self._chosen] if self._nodes else None
        wanted = list(addresses)
        self._rng.shuffle(wanted)  # clients spread over the nodes
        self._nodes = [
            known.pop(address) if address in known else Node(address, self._dialing, rng=self._rng)
            for address in wanted
        ]
        self._chosen = self._nodes.index(chosen) if chosen in self._nodes else 0
        for node in known.values():
            self._leaving[node] = asyncio.create_task(self._leave(node))

    async def _leave(self, node: Node) -> None:
        await node.leave()
        del self._leaving[node]

    def _in_turn(self) -> list[Node]:
        """The chosen node and those after it; those that rest come last."""
        turn = self._nodes[self._chosen :] + self._nodes[: self._chosen]
        return sorted(turn, key=lambda node: node.rest_s)

    def _stick_to(self, node: Node) -> None:
        if node in self._nodes:
            self._chosen = self._nodes.index(node)


async def nodes_in_turn(client: NameServerClient) -> list[Node]:
    """The nodes, in the order they would be asked now; raises NoNameServers."""
    await client._found(client._timeout_s)
    return client._in_turn()


def stick_to(client: NameServerClient, node: Node) -> None:
    """Have this one asked first from now on."""
    client._stick_to(node)


def _worth_another_try(error: NodeError) -> bool:
    """A connection that was open for long may be found closed; a new one may do."""
    return isinstance(error, ConnectionLost | LeavingNode)


def _judged(request: Command, answer: Answer | NodeError) -> Answer | NameServerError:
    if isinstance(answer, NodeError):
        return answer
    try:
        return checked(request, answer)
    except NodeError as error:
        return error


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
