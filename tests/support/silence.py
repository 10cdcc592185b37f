"""Silence: a route table with a guard, told the time, and brokers 0, 1, 2, … that may fall silent.

Broker 3 is the master of its own group ``b3`` at ``b3:1`` and registers on link 4. Times stand for
each other as in the defaults of a node: a broker has 1000 ms (120 s there), the window is half of
that, a hold five times as long.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from routebook.events import Event
from routebook.slices import carried_out
from routebook.state.guard import GuardSettings
from routebook.state.model import Link, Member, QueueShape, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

E = TypeVar("E", bound=Event)

START_MS = 100_000
TIMEOUT_MS = 1000
WINDOW_MS = 500
HOLD_MS = 5000
ALL = range(12)
DEFAULTS = {"share_percent": 50, "min_brokers": 10}


class Silence:
    def __init__(
        self, brokers: int = len(ALL), *, timeout_ms: int = TIMEOUT_MS, **guard: int
    ) -> None:
        settings: dict[str, Any] = {**DEFAULTS, "window_ms": WINDOW_MS, "hold_ms": HOLD_MS, **guard}
        self.now_ms = START_MS
        self.table = RouteTable(
            Revision(),
            max_topics_per_broker=100,
            max_route_entries=10_000,
            max_brokers_per_group=64,
            guard=GuardSettings(**settings),
        )
        self.events: list[Event] = []
        self.links: list[Link] = []  # to be closed, of the last thing noticed
        self.register(*range(brokers), timeout_ms=timeout_ms)

    # -- what brokers do

    def register(
        self,
        *numbers: int,
        timeout_ms: int = TIMEOUT_MS,
        link: Link | None = None,
        group: str | None = None,
        broker_id: int = 0,
        acting_master: bool | None = None,
        peer: str | None = None,
    ) -> None:
        for number in numbers:
            steps = self.table.register(
                Registration(
                    cluster="c",
                    name=group or f"b{number}",
                    broker_id=broker_id,
                    addr=f"b{number}:1",
                    ha_addr=None,
                    heartbeat_timeout_ms=timeout_ms,
                    acting_master=acting_master,
                    zone=None,
                    state_version=0,
                    stamp=VersionStamp(0, 1, 1),
                    topics={topic: QueueShape(8, 8, 6, 0) for topic in ("orders", f"own-{number}")},
                    mappings=(),
                    filter_servers=None,
                    fingerprint=number,
                    link=number + 1 if link is None else link,
                    peer=f"p{number}" if peer is None else peer,
                ),
                now_ms=self.now_ms,
            )
            self._take(steps)

    def _take(self, steps: Iterator[list[Event]]) -> None:
        while True:
            try:
                self.events += next(steps)
            except StopIteration as done:
                self.events += done.value.events
                return

    def hear(self, *numbers: int, link: Link | None = None) -> None:
        """A heartbeat of each, over its own connection unless told which."""
        for number in numbers:
            member, events = self.table.heartbeat(
                "c",
                f"b{number}:1",
                link=number + 1 if link is None else link,
                peer=f"p{number}",
                now_ms=self.now_ms,
            )
            assert member is not None, f"b{number} is not registered"
            self.events += events

    def renew(self, number: int) -> None:
        """The last registration again, to the letter."""
        result = self.table.renew(
            "c", f"b{number}:1", fingerprint=number, link=number + 1, now_ms=self.now_ms
        )
        assert result is not None, "not a repeat"

    def unregister(self, *numbers: int) -> None:
        for number in numbers:
            addr, group = f"b{number}:1", self.member(number).group.name
            leaving = self.table.unregister("c", group, addr, link=number + 1, peer="p")
            self.events += carried_out(leaving)[0]

    # -- what the node notices

    def pass_time(self, ms: int) -> list[Event]:
        """Let time pass and brokers expire; what happened at the end of it."""
        self.now_ms += ms
        events, self.links = carried_out(self.table.expire(self.now_ms))
        self.events += events
        return events

    def idle(self, *numbers: int) -> list[Event]:
        """The connections of these are closed because nothing came over them."""
        closed = {number + 1: f"p{number}" for number in numbers}
        events, self.links = carried_out(self.table.idle_links(closed, now_ms=self.now_ms))
        self.events += events
        return events

    def release(self) -> list[Event]:
        _, released = self.table.release_guard("admin:1", now_ms=self.now_ms)
        events, self.links = carried_out(released)
        self.events += events
        return events

    # -- what is believed

    @property
    def live(self) -> set[int]:
        return _numbers(self.table.members.live())

    @property
    def held(self) -> set[int]:
        return _numbers(self.table.guard.held)

    def member(self, number: int) -> Member:
        member = self.table.members.find_live("c", f"b{number}:1")
        assert member is not None, f"b{number} is not registered"
        return member

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


def all_held(brokers: int = len(ALL), **guard: int) -> Silence:
    """Every broker fell silent at once, and is held."""
    silence = Silence(brokers, **guard)
    silence.pass_time(TIMEOUT_MS + 1)
    assert silence.held == silence.live == set(range(brokers))
    return silence


def kinds(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def _numbers(members: Iterable[Member]) -> set[int]:
    return {int(member.known.addr[1:].partition(":")[0]) for member in members}
