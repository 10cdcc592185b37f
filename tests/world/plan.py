"""Plans: what is going to happen in a world, drawn from a seed, and told as a story.

A plan is fleets with their nodes and brokers, and deeds at true times, counted in milliseconds from
the beginning of the world. Everything that goes wrong is a deed of its own, so that a plan can be
made smaller by leaving deeds out.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

SECOND = 1000
MINUTE = 60 * SECOND
BEAT = 30 * SECOND
LEASE = 120 * SECOND
TOPICS = ("orders", "refunds", "audit")


@dataclass(frozen=True, slots=True)
class NodePlan:
    """``ahead_ms``: how far its clock is ahead of the truth at the beginning."""

    name: str
    ahead_ms: int = 0
    window_ms: int = MINUTE
    segment: int = 20  # records


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """``starts_ms`` is when its process begins; ``beats_ms`` where in half a minute it beats."""

    name: str
    broker_id: int
    addr: str
    starts_ms: int
    beats_ms: int
    cluster: str = "c1"

    @property
    def label(self) -> str:
        return f"{self.name}:{self.broker_id}"


@dataclass(frozen=True, slots=True)
class FleetPlan:
    name: str
    nodes: tuple[NodePlan, ...]
    brokers: tuple[BrokerPlan, ...]


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that happens at ``at_ms`` in ``fleet``."""

    at_ms: int
    fleet: str


@dataclass(frozen=True, slots=True)
class BrokerStops(Deed):
    """``how``: killed, unregistered or hung. It is back after ``for_ms``."""

    broker: str
    how: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class TopicSet(Deed):
    broker: str
    topic: str
    queues: int


@dataclass(frozen=True, slots=True)
class NodeStalls(Deed):
    """``suspended``: its machine sleeps, monotonic clock and all."""

    node: str
    for_ms: int
    suspended: bool


@dataclass(frozen=True, slots=True)
class NodeDown(Deed):
    """``how``: killed, stopped (in order) or replaced (with an empty disk).

    ``alive_known``: whether a killed node left a sign of life.
    """

    node: str
    how: str
    for_ms: int
    alive_known: bool = True


@dataclass(frozen=True, slots=True)
class ClockSet(Deed):
    node: str
    by_ms: int


@dataclass(frozen=True, slots=True)
class Cut(Deed):
    """Nothing of ``broker`` reaches ``node``, and no connection is closed by it."""

    broker: str
    node: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class DiskFails(Deed):
    """Records of this time are lost, and counted."""

    node: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class SegmentLost(Deed):
    """The segment of ``node`` that was written at this time never arrives."""

    node: str


@dataclass(frozen=True, slots=True)
class SegmentLate(Deed):
    """It arrives ``steps`` deliveries later than its turn; ``half``: first only a part of it."""

    node: str
    steps: int
    half: bool


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    lasts_ms: int
    fleets: tuple[FleetPlan, ...]
    deeds: tuple[Deed, ...]
    deliveries: int = 4

    def without(self, deed: Deed) -> "Plan":
        return replace(self, deeds=tuple(each for each in self.deeds if each is not deed))


def draw(seed: int, *, starving: bool = True) -> Plan:
    """The plan of the world ``seed``; with ``starving`` some nodes have machines that swap."""
    rng = random.Random(seed)
    lasts_ms = rng.choice([12, 20, 40]) * MINUTE
    names = [f"w{seed}a"] if rng.random() < 0.7 else [f"w{seed}a", f"w{seed}b"]
    fleets = tuple(_fleet(rng, name) for name in names)
    deeds: list[Deed] = []
    for fleet in fleets:
        deeds += _deeds(rng, fleet, lasts_ms)
    deliveries = rng.randint(2, 5)
    apart = random.Random(f"apart {seed}")
    if apart.random() < 0.15:
        fleets = (_in_step(fleets[0]), *fleets[1:])
        deeds += _partition(apart, fleets[0], lasts_ms)
    starved = random.Random(f"starved {seed}")
    if starving and starved.random() < 0.15:
        deeds += _starved(starved, fleets[0], lasts_ms)
    deeds.sort(key=lambda deed: deed.at_ms)
    return Plan(seed, lasts_ms, fleets, tuple(deeds), deliveries)


def _in_step(fleet: FleetPlan) -> FleetPlan:
    """Its brokers beat every half minute from their start on, as real ones do."""
    brokers = [replace(each, beats_ms=each.starts_ms % BEAT) for each in fleet.brokers]
    return replace(fleet, brokers=tuple(brokers))


def _partition(rng: random.Random, fleet: FleetPlan, lasts_ms: int) -> Iterator[Deed]:
    """No broker reaches one of the nodes; they all do again at the same moment."""
    node = rng.choice(fleet.nodes).name
    at_ms = rng.choice([SECOND, rng.randint(SECOND, lasts_ms // 2)])
    for_ms = rng.choice([40, 150, 400]) * SECOND + rng.randint(0, 3000)
    for broker in fleet.brokers:
        yield Cut(at_ms, fleet.name, broker.label, node, for_ms)


def _starved(rng: random.Random, fleet: FleetPlan, lasts_ms: int) -> Iterator[Deed]:
    """One of the nodes has a machine that swaps: it wakes for moments only."""
    node = rng.choice(fleet.nodes).name
    at_ms = rng.randint(10 * SECOND, lasts_ms - 60 * SECOND)
    for _ in range(rng.randint(2, 4)):
        for_ms = rng.randint(1500, 12_000)
        yield NodeStalls(at_ms, fleet.name, node, for_ms, suspended=False)
        at_ms += for_ms + rng.choice([1, 1, 300, 1200])


def _fleet(rng: random.Random, name: str) -> FleetPlan:
    synchronised = rng.random() < 0.4
    nodes = tuple(
        NodePlan(
            f"{name}-ns-{number}",
            rng.randint(-40, 40) if synchronised else rng.choice(_AHEAD) + rng.randint(-500, 500),
            rng.choice([MINUTE, MINUTE, 20 * SECOND]),
            rng.choice([8, 20, 60, 400]),
        )
        for number in range(1, rng.choice([1, 2, 2, 3]) + 1)
    )
    brokers: list[BrokerPlan] = []
    for letter in "abc"[: rng.randint(1, 3)]:
        for broker_id in range(rng.choice([1, 1, 2])):
            addr = f"127.{ord(letter) - 96}.{broker_id}.1:10911"
            starts_ms = rng.choice([2, 2, 2, 90]) * SECOND + rng.randint(0, 5000)
            brokers.append(
                BrokerPlan(f"broker-{letter}", broker_id, addr, starts_ms, rng.randint(0, BEAT))
            )
    return FleetPlan(name, nodes, tuple(brokers))


_AHEAD = (0, 0, 3 * SECOND, -20 * SECOND, 5 * MINUTE, -3600 * SECOND, 30 * 3600 * SECOND)


def _deeds(rng: random.Random, fleet: FleetPlan, lasts_ms: int) -> Iterator[Deed]:
    for _ in range(rng.randint(0, 9)):
        at_ms = rng.randint(10 * SECOND, lasts_ms - 10 * SECOND)
        node = rng.choice(fleet.nodes).name
        broker = rng.choice(fleet.brokers).label
        some_ms = rng.choice([3 * SECOND, 40 * SECOND, 130 * SECOND, 200 * SECOND, 400 * SECOND])
        some_ms += rng.randint(0, 3000)
        match rng.choice(_KINDS):
            case "broker":
                how = rng.choice(["killed", "killed", "unregistered", "hung"])
                yield BrokerStops(at_ms, fleet.name, broker, how, some_ms)
            case "topic":
                queues = rng.choice([1, 2, 4, 8])
                yield TopicSet(at_ms, fleet.name, broker, rng.choice(TOPICS), queues)
            case "stall":
                yield NodeStalls(at_ms, fleet.name, node, some_ms, rng.random() < 0.3)
            case "down":
                how = rng.choice(["killed", "killed", "stopped", "replaced"])
                yield NodeDown(at_ms, fleet.name, node, how, some_ms, rng.random() < 0.6)
            case "clock":
                by_ms = rng.choice([-1, 1]) * rng.choice([5, 45, 600, 86_400]) * SECOND
                yield ClockSet(at_ms, fleet.name, node, by_ms)
            case "cut":
                yield Cut(at_ms, fleet.name, broker, node, some_ms)
            case "disk":
                yield DiskFails(at_ms, fleet.name, node, some_ms)
            case "lost":
                yield SegmentLost(at_ms, fleet.name, node)
            case "late":
                yield SegmentLate(at_ms, fleet.name, node, rng.randint(1, 3), rng.random() < 0.5)


_KINDS = (
    *("broker", "broker", "topic", "topic", "stall", "stall", "down", "down"),
    *("clock", "cut", "cut", "disk", "lost", "late"),
)


def story(plan: Plan) -> str:
    """For people."""
    lines = [f"world {plan.seed}, {plan.lasts_ms / MINUTE:g} minutes"]
    for fleet in plan.fleets:
        for node in fleet.nodes:
            lines.append(
                f"  node {node.name}: clock {node.ahead_ms / SECOND:+g} s, window"
                f" {node.window_ms // SECOND} s, segments of {node.segment} records"
            )
        for broker in fleet.brokers:
            lines.append(
                f"  broker {fleet.name}/{broker.label} at {broker.addr} from"
                f" {clock(broker.starts_ms)}, beats at {broker.beats_ms / SECOND:g} s"
            )
    lines += [f"  {clock(deed.at_ms)} {_told(deed)}" for deed in plan.deeds]
    return "\n".join(lines)


def clock(true_ms: float) -> str:
    """A true time, counted from the beginning of the world."""
    minutes, seconds = divmod(true_ms / SECOND, 60)
    return f"{int(minutes):02d}:{seconds:06.3f}"


def _told(deed: Deed) -> str:
    match deed:
        case BrokerStops():
            words = {"killed": "is killed", "hung": "hangs"}.get(deed.how, "says goodbye")
            return f"{deed.fleet}/{deed.broker} {words}, back after {_s(deed.for_ms)}"
        case TopicSet():
            return f"{deed.fleet}/{deed.broker} has {deed.queues} queues of {deed.topic}"
        case NodeStalls():
            how = "is suspended with its machine" if deed.suspended else "is frozen"
            return f"{deed.node} {how} for {_s(deed.for_ms)}"
        case NodeDown(how="replaced"):
            return f"{deed.node} loses its disk, back with an empty one after {_s(deed.for_ms)}"
        case NodeDown():
            sign = "" if deed.how == "stopped" or deed.alive_known else ", without a sign of life"
            return f"{deed.node} is {deed.how}, back after {_s(deed.for_ms)}{sign}"
        case ClockSet():
            return f"the clock of {deed.node} is set by {deed.by_ms / SECOND:+g} s"
        case Cut():
            return f"{deed.fleet}/{deed.broker} cannot reach {deed.node} for {_s(deed.for_ms)}"
        case DiskFails():
            return f"the disk of {deed.node} fails for {_s(deed.for_ms)}"
        case SegmentLost():
            return f"the segment of {deed.node} of this time gets lost"
        case SegmentLate():
            half = ", half copied meanwhile" if deed.half else ""
            return f"the segment of {deed.node} of this time comes {deed.steps} steps late{half}"
    return str(deed)


def _s(ms: int) -> str:
    return f"{ms / SECOND:g} s"
