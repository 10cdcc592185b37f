"""RouteMemory: routes that were asked for lately, kept up to date by the watch.

The first question for a topic has the node tell of it from then on, so those after it cost the node
nothing and are answered as of now. What nobody asked for lately is let go for what somebody does.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from routebook.client.watch import RouteTold
from routebook.gateway.following import CannotListen
from routebook.gateway.nodes import FollowedNode

MOST_TOPICS = 1000  # of each node
WAIT_S = 2.0


class _Remembered:
    """What a node last told of a topic; ``first`` is done when it told anything."""

    def __init__(self) -> None:
        self.told: RouteTold | None = None
        self.first = asyncio.Event()

    def __call__(self, told: RouteTold) -> None:
        self.told = told
        self.first.set()


class RouteMemory:
    def __init__(self, most: int = MOST_TOPICS) -> None:
        self._most = most
        self._kept: dict[str, OrderedDict[str, _Remembered]] = {}

    async def find(self, node: FollowedNode, topic: str) -> RouteTold | None:
        """What the node tells of ``topic`` now; None where it has to be asked instead."""
        if not node.following.live:
            return None
        kept = self._kept.setdefault(node.name, OrderedDict())
        remembered = kept.get(topic)
        if remembered is None:
            remembered = _Remembered()
            try:
                node.following.listen(topic, remembered)
            except CannotListen:
                return None
            kept[topic] = remembered
            self._let_go(kept, node.following.unlisten)
        kept.move_to_end(topic)
        if remembered.told is None:
            try:
                async with asyncio.timeout(WAIT_S):
                    await remembered.first.wait()
            except TimeoutError:
                return None
        return remembered.told

    def _let_go(
        self,
        kept: "OrderedDict[str, _Remembered]",
        unlisten: Callable[[str, Callable[[RouteTold], object]], None],
    ) -> None:
        while len(kept) > self._most:
            topic, remembered = kept.popitem(last=False)
            unlisten(topic, remembered)
