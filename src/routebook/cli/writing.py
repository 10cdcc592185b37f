"""Write permission of a broker, taken or given on every node until it is so everywhere.

A round asks every node for the routes of all topics and tells those nodes again that still have
a topic the other way. One request is not the end of it: a registration may bring permissions back,
new topics come writable, and a node that was down has heard nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from routebook.audit.view import NodeView, take_views
from routebook.cli.nameservers import what
from routebook.client import Address, NameServerClient, NameServerError, NodeClient
from routebook.client.queues import first_queues

ROUND_S = 1.0


@dataclass(frozen=True, slots=True)
class NodeState:
    """``topics`` of the broker at one node, and those ``left`` to be changed; None: not known.

    ``error`` says why this node is not done, whatever the numbers say.
    """

    topics: int | None = None
    left: tuple[str, ...] | None = None
    error: str | None = None

    @property
    def done(self) -> bool:
        return self.error is None and not self.left


@dataclass(frozen=True, slots=True)
class Round:
    """What all nodes say.

    ``undone`` are nodes that had been told and have topics the other way again. ``ordered`` topics
    have an order configuration that names the broker; writers follow it whatever the permission.
    """

    nodes: Mapping[Address, NodeState]
    undone: tuple[Address, ...] = ()
    ordered: frozenset[str] = field(default=frozenset())

    @property
    def done(self) -> bool:
        return all(state.done for state in self.nodes.values())


class WritePermission:
    """``wanted``: whether the topics of ``broker`` shall be writable."""

    def __init__(self, client: NameServerClient, broker: str, *, wanted: bool) -> None:
        self._client = client
        self._broker = broker
        self._wanted = wanted

    async def known(self) -> Mapping[Address, bool | NameServerError]:
        """Which nodes know a broker of that name."""

        async def knows(node: NodeClient) -> bool:
            view = await node.cluster_view()
            return any(self._broker in names for names in view.clusters.values())

        return await self._client.on_every_node(knows)

    async def tell(self) -> Round:
        """Ask every node once to change it."""
        results = await self._client.on_every_node(self._change)
        return Round(
            {
                node: NodeState(error=what(result))
                if isinstance(result, NameServerError)
                else NodeState(topics=result)
                for node, result in results.items()
            }
        )

    async def settle(
        self, told: Round, *, within_s: float, round_s: float, report: Callable[[Round], None]
    ) -> Round:
        """Rounds until it is so on every node, or ``within_s`` have passed; the last one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        untold = {node for node, state in told.nodes.items() if state.error is not None}
        while True:
            seen = await self._look(untold)
            report(seen)
            if seen.done or loop.time() + round_s > deadline:
                return seen
            untold = await self._tell_again(seen)
            await asyncio.sleep(round_s)

    async def _look(self, untold: set[Address]) -> Round:
        views = await take_views(self._client)
        states = {node: self._state(view) for node, view in views.items()}
        ordered = {
            topic
            for view in views.values()
            if isinstance(view, NodeView)
            for topic, route in view.routes.items()
            if self._broker in _brokers(route.order_conf)
        }
        undone = tuple(n for n, state in states.items() if state.left and n not in untold)
        return Round(states, undone, frozenset(ordered))

    def _state(self, view: NodeView | NameServerError) -> NodeState:
        if isinstance(view, NameServerError):
            return NodeState(error=what(view))
        held = {
            topic: queues
            for topic, route in view.routes.items()
            if (queues := first_queues(route).get(self._broker)) is not None
        }
        left = sorted(t for t, queues in held.items() if queues.writable != self._wanted)
        unread = next(iter(view.errors.items()), None)
        error = None if unread is None else f"the route of {unread[0]}: {unread[1]}"
        return NodeState(len(held), tuple(left), error)

    async def _tell_again(self, seen: Round) -> set[Address]:
        """Tell the nodes that are not done; those that could not be told."""
        todo = {node for node, state in seen.nodes.items() if not state.done}

        async def changed(node: NodeClient) -> None:
            if node.address in todo:
                await self._change(node)

        results = await self._client.on_every_node(changed)
        return {node for node, result in results.items() if isinstance(result, NameServerError)}

    async def _change(self, node: NodeClient) -> int:
        if self._wanted:
            return await node.add_write_permission(self._broker)
        return await node.wipe_write_permission(self._broker)


def _brokers(order_conf: str | None) -> set[str]:
    return {item.partition(":")[0].strip() for item in (order_conf or "").split(";")}
