"""Write permission of a broker, taken or given back on every node until it is so everywhere.

A round asks every node for the routes of all topics and tells those nodes again that still have
a topic the other way. One request is not the end of it: a registration may bring permissions back,
new topics come writable, and a node that was down has heard nothing. A node that refuses has made
up its mind: it is not asked again, and the rounds end with it.

What is given back is what was taken. Routebook's nodes know that: they keep what a broker
registered apart from what clients are told. Others give write permission to all topics.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from routebook.audit.view import NodeView, take_views
from routebook.client import Address, NameServerClient, NameServerError, NodeClient, Refused
from routebook.client.errors import answered, what
from routebook.client.queues import first_queues
from routebook.client.requests import Requests
from routebook.wire.codes import ResponseCode

ROUND_S = 1.0


@dataclass(frozen=True, slots=True)
class PermissionChange:
    """What a node did when it was told: ``changed`` of ``topics`` topics.

    ``kept`` were registered without write permission, ``waiting`` are without until their master
    is back. ``blunt``: the node cannot tell these from others, and gave it to all of them.
    """

    topics: int
    changed: int
    kept: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    blunt: bool = False


@dataclass(frozen=True, slots=True)
class NodeState:
    """``topics`` of the broker at one node, and those ``left`` to be changed; None: not known.

    ``error`` says why this node is not done, whatever the numbers say; ``refused``: and will not
    be. ``told`` is None for a node that was not told.
    """

    topics: int | None = None
    left: tuple[str, ...] | None = None
    error: str | None = None
    refused: bool = False
    told: PermissionChange | None = None

    @property
    def done(self) -> bool:
        return self.error is None and not self.left


@dataclass(frozen=True, slots=True)
class Round:
    """What all nodes say.

    ``undone`` are nodes that had been told and have topics the other way again. ``ordered`` topics
    have an order configuration that names the broker; writers follow it whatever the permission.
    ``differing`` are topics of the broker whose permission differs from node to node.
    """

    nodes: Mapping[Address, NodeState]
    undone: tuple[Address, ...] = ()
    ordered: frozenset[str] = field(default=frozenset())
    differing: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return all(state.done for state in self.nodes.values()) and not self._to_be_agreed

    @property
    def refused(self) -> bool:
        return any(state.refused for state in self.nodes.values())

    @property
    def blunt(self) -> tuple[Address, ...]:
        """Nodes that gave write permission to all topics, since they know no better."""
        return tuple(n for n, state in self.nodes.items() if state.told and state.told.blunt)

    @property
    def _to_be_agreed(self) -> bool:
        """Whether nodes differ that should not: a registration is on its way to one of them."""
        return bool(self.differing) and not self.blunt


class WritePermission:
    """``wanted``: whether the topics of ``broker`` shall be writable."""

    def __init__(self, client: NameServerClient, broker: str, *, wanted: bool) -> None:
        self._client = client
        self._broker = broker
        self._wanted = wanted
        self._told: dict[Address, PermissionChange] = {}
        self._refusals: dict[Address, str] = {}

    async def known(self) -> Mapping[Address, bool | NameServerError]:
        """Which nodes know a broker of that name."""

        async def knows(node: NodeClient) -> bool:
            view = await node.cluster_view()
            return any(self._broker in names for names in view.clusters.values())

        return await self._client.on_every_node(knows)

    async def tell(self) -> Round:
        """Ask every node once to change it."""
        results = await self._client.on_every_node(self._change)
        self._note(results)
        return Round(
            {
                node: NodeState(error=what(result), refused=node in self._refusals)
                if isinstance(result, NameServerError)
                else NodeState(topics=result.topics, told=result)
                for node, result in results.items()
            }
        )

    async def settle(
        self, told: Round, *, within_s: float, round_s: float, report: Callable[[Round], None]
    ) -> Round:
        """Rounds until it is so on every node, one refuses, or ``within_s`` passed; the last."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        untold = {node for node, state in told.nodes.items() if state.error is not None}
        while True:
            seen = await self._look(untold)
            report(seen)
            if seen.done or seen.refused or loop.time() + round_s > deadline:
                return seen
            untold = await self._tell_again(seen)
            await asyncio.sleep(round_s)

    async def _look(self, untold: set[Address]) -> Round:
        views = await take_views(self._client)
        states = {node: self._state(node, view) for node, view in views.items()}
        seen = [view for view in views.values() if isinstance(view, NodeView)]
        ordered = {
            topic
            for view in seen
            for topic, route in view.routes.items()
            if self._broker in _brokers(route.order_conf)
        }
        undone = tuple(n for n, state in states.items() if state.left and n not in untold)
        return Round(states, undone, frozenset(ordered), self._differing(seen))

    def _state(self, node: Address, view: NodeView | NameServerError) -> NodeState:
        told, refusal = self._told.get(node), self._refusals.get(node)
        if isinstance(view, NameServerError):
            if refusal is None and told is not None and _is_final(view):
                refusal = f"it was told, and does not say what came of it: {what(view)}"
            return NodeState(error=refusal or what(view), refused=refusal is not None, told=told)
        held = self._permissions(view)
        excused = {*told.kept, *told.waiting} if told is not None else set()
        left = sorted(
            topic
            for topic, writable in held.items()
            if writable != self._wanted and topic not in excused
        )
        unread = next(iter(view.errors.items()), None)
        error = None if unread is None else f"the route of {unread[0]}: {unread[1]}"
        state = NodeState(len(held), tuple(left), error, told=told)
        return state if refusal is None else replace(state, error=refusal, refused=True)

    def _permissions(self, view: NodeView) -> dict[str, bool]:
        """Whether each topic of the broker is writable there."""
        return {
            topic: queues.writable
            for topic, route in view.routes.items()
            if (queues := first_queues(route).get(self._broker)) is not None
        }

    def _differing(self, views: list[NodeView]) -> tuple[str, ...]:
        said: dict[str, set[bool]] = {}
        for view in views:
            for topic, writable in self._permissions(view).items():
                said.setdefault(topic, set()).add(writable)
        return tuple(sorted(topic for topic, answers in said.items() if len(answers) > 1))

    async def _tell_again(self, seen: Round) -> set[Address]:
        """Tell the nodes that are not done; those that could not be told."""
        todo = {node for node, state in seen.nodes.items() if not state.done}
        if not todo:  # they differ, so what one of them knows is not what another knows
            todo = set(seen.nodes)

        async def changed(node: NodeClient) -> PermissionChange | None:
            return await self._change(node) if node.address in todo else None

        results = await self._client.on_every_node(changed)
        self._note(results)
        return {node for node, result in results.items() if isinstance(result, NameServerError)}

    def _note(self, results: Mapping[Address, PermissionChange | NameServerError | None]) -> None:
        for node, result in results.items():
            if isinstance(result, PermissionChange):
                self._told[node] = result
            elif isinstance(result, NameServerError) and _is_final(result):
                self._refusals[node] = what(result)

    async def _change(self, node: NodeClient) -> PermissionChange:
        return await change_permission(node, self._broker, wanted=self._wanted)


async def change_permission(node: Requests, broker: str, *, wanted: bool) -> PermissionChange:
    """Have ``node`` change it, once; raises NameServerError."""
    if not wanted:
        count = await node.wipe_write_permission(broker)
        return PermissionChange(count, count)
    try:
        state = await node.restore_write_permission(broker)
    except Refused as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    else:
        return PermissionChange(state.topics, state.restored, state.kept, state.taken)
    count = await node.add_write_permission(broker)
    return PermissionChange(count, count, blunt=True)


def _is_final(error: NameServerError) -> bool:
    """Whether asking again would be answered the same."""
    busy = isinstance(error, Refused) and error.code == ResponseCode.SYSTEM_BUSY
    return answered(error) and not busy


def _brokers(order_conf: str | None) -> set[str]:
    return {item.partition(":")[0].strip() for item in (order_conf or "").split(";")}
