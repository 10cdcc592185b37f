"""Gateway: what handlers work with."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from routebook.gateway.access import AccessRules
from routebook.gateway.fleet_state import FleetState
from routebook.gateway.live_feed import LiveFeed
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from routebook.gateway.route_memory import RouteMemory
from routebook.gateway.streams import StreamSlots
from routebook.gateway.surveys import Surveys
from routebook.gateway.worker.process import Worker


@dataclass(slots=True)
class Gateway:
    """The parts of one gateway, joined by ``app``.

    ``requests`` counts answers by path (of the table) and status. Streams end when it is
    ``stopping``.
    """

    fleet: Fleet
    options: GatewayOptions
    rules: AccessRules = field(init=False)
    state: FleetState = field(init=False)
    routes: RouteMemory = field(default_factory=RouteMemory)
    history: Worker = field(default_factory=Worker)
    surveys: Surveys = field(init=False)
    streams: StreamSlots = field(default_factory=StreamSlots)
    live: LiveFeed = field(init=False)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.rules = AccessRules.of(self.options)
        self.state = FleetState(self.fleet)
        self.live = LiveFeed(self.fleet, self.state)
        self.fleet.observers += (self.state.look, self.live.look)  # in this order
        self.fleet.ring.observers.append(self.live.note_event)
        self.surveys = Surveys(tuple(node.name for node in self.fleet.nodes), self.fleet.dialing)

    async def close(self) -> None:
        """End the processes it has started."""
        await self.history.close()
        await self.surveys.close()
