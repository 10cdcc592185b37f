"""A node that sleeps now and then, and brokers that do not.

The real service, its connections and tables on a made-up clock. What brokers send waits on wires
until the loop looks at its sockets; while the node sleeps it looks at nothing.
"""

import asyncio
from typing import Any, cast

from routebook.events import BrokerLeft
from routebook.server.connection import Connection
from routebook.server.loop_clock import LoopClock
from routebook.server.service import Service
from routebook.settings import ListenSettings, TlsSettings
from routebook.state.listening import TICK_MS, Reading, Stall
from support import raw
from support.brokers import Broker
from support.desk import Desk

STEP_MS = 50
HEARTBEAT = 904


class _Transport(asyncio.Transport):
    """Says who is there, and takes what is written."""

    def __init__(self, wire: "Wire") -> None:
        super().__init__()
        self._wire = wire

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.9", self._wire.number) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return self._wire.closed

    def close(self) -> None:
        self._wire.hang_up()

    abort = close

    def pause_reading(self) -> None:
        self._wire.paused = True

    def resume_reading(self) -> None:
        self._wire.paused = False


class Wire:
    """One connection: waiting to be accepted, then to be read, then closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: list[bytes] = []
        self.closed = False
        self.paused = False
        self._connection: Connection | None = None
        self._over = False

    def send(self, data: bytes) -> None:
        if not self.closed:
            self.waiting.append(data)

    def hang_up(self) -> None:
        self.closed = True

    def turn(self, service: Service) -> None:
        """What a loop does for one socket in one turn: accept, or read, or see the end."""
        if self._over or self.paused:
            return
        if self._connection is None:
            self._connection = Connection(service)
            self._connection.connection_made(_Transport(self))
        elif self.waiting:
            data, self.waiting = b"".join(self.waiting), []
            self._connection.data_received(data)
        elif self.closed:
            self._over = True
            self._connection.connection_lost(None)


class LivelyBroker:
    """Sends a heartbeat four times within its lease, whatever the node does."""

    def __init__(self, number: int, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.broker = Broker(
            f"b{number}", addr=f"127.0.0.{number + 1}:10911", heartbeat_timeout_ms=lease_ms
        )
        self.wire: Wire | None = None
        self.alive = True
        self._sent_ms = -lease_ms
        self._returns_ms: int | None = None

    def act(self, now_ms: int, world: "SleepyNode") -> None:
        if not self.alive:
            return
        if self._returns_ms is not None and now_ms >= self._returns_ms:
            self._returns_ms = None
            self.dial(world)
        if self.wire is not None and now_ms - self._sent_ms >= self.lease_ms // 4:
            self._sent_ms = now_ms
            self.wire.send(raw.request(HEARTBEAT, self.broker.fields, flag=2))

    def dial(self, world: "SleepyNode") -> None:
        """Hang up, if need be, and register over a new connection."""
        if self.wire is not None:
            self.wire.hang_up()
        self.wire = world.new_wire()
        self.wire.send(self.broker.registration())

    def give_up(self, *, until_ms: int) -> None:
        """Hang up, and be back then."""
        if self.wire is not None:
            self.wire.hang_up()
        self.wire = None
        self._returns_ms = until_ms

    def die(self, *, goodbye: bool) -> None:
        """``goodbye``: its machine is there to close the connection."""
        self.alive = False
        if goodbye and self.wire is not None:
            self.wire.hang_up()


class SleepyNode:
    """To be made within a loop."""

    def __init__(self, leases_ms: list[int]) -> None:
        self.now_ms = 1_000_000
        self.stalls: list[Stall] = []
        self._wires: list[Wire] = []
        self._ticked_ms = self.now_ms
        self._desk = Desk()
        self._clock = LoopClock(self.stalls.append, read=self._read, mono_ms=lambda: self.now_ms)
        self._desk.services.now_ms = self._clock.now_ms
        self.service = Service(ListenSettings(), TlsSettings(), self._desk.services, self._clock)
        self.brokers = [LivelyBroker(number, lease) for number, lease in enumerate(leases_ms)]
        for broker in self.brokers:
            broker.dial(self)

    def _read(self) -> Reading:
        return Reading(self.now_ms, self.now_ms, 1_700_000_000_000 + self.now_ms)

    @property
    def heard_ms(self) -> int:
        return self._clock.heard_ms

    @property
    def listened_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def left(self) -> list[BrokerLeft]:
        return [event for event in self._desk.events if isinstance(event, BrokerLeft)]

    @property
    def listed(self) -> set[str]:
        return {member.group.name for member in self._desk.routes.members.live()}

    def new_wire(self) -> Wire:
        wire = Wire(len(self._wires) + 1)
        self._wires.append(wire)
        return wire

    def sleep(self, ms: int) -> None:
        """Be stopped; the world goes on."""
        for _ in range(ms // STEP_MS):
            self._pass()

    async def be_awake(self, ms: int, *, timers_first: bool = False) -> None:
        """Run. ``timers_first``: the first turn sees no sockets, as after an interrupted poll."""
        looking = None if timers_first else asyncio.create_task(self._look())
        try:
            for _ in range(ms // STEP_MS):
                if self.now_ms - self._ticked_ms >= TICK_MS:
                    self._ticked_ms = self.now_ms
                    hearing = asyncio.create_task(self.service._hear())
                    await asyncio.sleep(0)
                    looking = looking or asyncio.create_task(self._look())
                    await hearing
                looking = looking or asyncio.create_task(self._look())
                for _ in range(3):
                    await asyncio.sleep(0)
                self._pass()
        finally:
            cast(asyncio.Task[None], looking).cancel()

    async def _look(self) -> None:
        while True:
            for wire in reversed(self._wires):  # the order of sockets is anybody's guess
                wire.turn(self.service)
            await asyncio.sleep(0)

    def _pass(self) -> None:
        self.now_ms += STEP_MS
        for broker in self.brokers:
            broker.act(self.now_ms, self)
