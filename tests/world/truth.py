"""What really happened in a world, by true time in milliseconds from its beginning.

A life is one life of a node's data folder: a node whose disk is replaced has a second one. What
a life knew, said and wrote down is kept with the true time of it; what readers of its journal can
know of it follows from that, see ``knowledge``.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from routebook.events import Shape
from routebook.journal.record import Record
from world.plan import Plan

EPOCH_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z, the true wall time of the beginning

Key = tuple[str, str]  # cluster and broker name


@dataclass(frozen=True, slots=True)
class Listed:
    """A broker group as a node has it: addresses by id, and queues by topic."""

    addrs: tuple[tuple[int, str], ...]
    queues: Mapping[str, Shape]


Belief = Mapping[Key, Listed]


@dataclass(frozen=True, slots=True)
class Written:
    """A record and its true time."""

    true_ms: float
    record: Record


@dataclass(frozen=True, slots=True)
class Span:
    """Of true time, from ``from_ms`` up to but without ``to_ms``."""

    from_ms: float
    to_ms: float
    why: str = ""

    def holds(self, true_ms: float) -> bool:
        return self.from_ms <= true_ms < self.to_ms


@dataclass(slots=True)
class Life:
    """``phases`` are awake, stalled, stopped and killed, one after the other.

    ``clock`` is since when its clock was how far ahead. ``alive`` are the last signs of life a
    killed node left, by the true time of the kill.
    """

    node: str
    fleet: str
    incarnation: str
    window_ms: int
    segment: int
    clock: list[tuple[float, int]] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    beliefs: list[tuple[float, Belief]] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)  # from the last tick before, as recorded
    losses: list[Span] = field(default_factory=list)  # from the first lost to the restatement
    signs: list[Span] = field(default_factory=list)  # from the last sign of life to the start
    boots: list[int] = field(default_factory=list)  # the first sequence number of each
    ends_ms: float = 0

    def wall_ms(self, true_ms: float) -> int:
        place = bisect_right(self.clock, (true_ms, 1 << 62)) - 1
        return EPOCH_MS + int(true_ms) + self.clock[max(place, 0)][1]

    def true_times(self, wall_ms: float) -> list[float]:
        """When its clock showed ``wall_ms``: never, once, or more than once."""
        found = []
        ends = [since for since, _ in self.clock[1:]] + [self.ends_ms]
        for (since, ahead_ms), until in zip(self.clock, ends, strict=True):
            true_ms = wall_ms - EPOCH_MS - ahead_ms
            if since <= true_ms < until:
                found.append(true_ms)
        return found

    def phase(self, true_ms: float) -> str:
        place = bisect_right(self.phases, (true_ms, "~")) - 1
        return self.phases[place][1] if place >= 0 else "unborn"

    def belief(self, true_ms: float) -> Belief:
        place = bisect_right(self.beliefs, true_ms, key=lambda each: each[0]) - 1
        return self.beliefs[place][1] if place >= 0 else {}

    def changes_near(self, true_ms: float, within_ms: float) -> bool:
        """Whether it came to believe something else at about this time."""
        return any(abs(since - true_ms) <= within_ms for since, _ in self.beliefs)


@dataclass(slots=True)
class BrokerLife:
    """When the process of one broker was alive, and when it hung meanwhile."""

    fleet: str
    label: str
    addr: str
    alive: list[Span] = field(default_factory=list)
    hung: list[Span] = field(default_factory=list)

    def is_alive(self, true_ms: float) -> bool:
        return any(span.holds(true_ms) for span in self.alive)


@dataclass(slots=True)
class Truth:
    plan: Plan
    lives: list[Life]
    brokers: dict[tuple[str, str], BrokerLife]  # by fleet and label

    def fleet(self, name: str) -> list[Life]:
        return [life for life in self.lives if life.fleet == name]
