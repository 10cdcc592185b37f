"""What a node counted: signs of life of a broker, and questions for a topic, window by window."""

from bisect import bisect_left
from dataclasses import dataclass

from routebook.events import (
    BrokerRegistered,
    BrokerUpdated,
    HeartbeatGaps,
    QueryCount,
    RouteQueries,
)
from routebook.history.finding.journals import Journal
from routebook.history.questions import Period
from routebook.journal.record import type_written
from routebook.journal.selection import name_written

GAP_LIMITS_MS = (1000, 5000, 10_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000)

_QUERIES = type_written(RouteQueries)
_ALL_LISTED = b'"others":0'
_SIGNS = tuple(map(type_written, (HeartbeatGaps, BrokerRegistered, BrokerUpdated)))


@dataclass(frozen=True, slots=True)
class Asked:
    """How often a topic was asked for in the window that ended at ``wall_ms``."""

    wall_ms: int
    window_ms: int
    count: QueryCount


@dataclass(frozen=True, slots=True)
class Demand:
    """``unlisted``: windows with more topics than are listed, of which this may be one."""

    node: str
    points: tuple[Asked, ...]
    unlisted: int


def demand_for(journal: Journal, topic: str, asked: Period) -> Demand:
    name = name_written(topic)

    def wanted(line: bytes) -> bool:
        return _QUERIES in line and (name in line or _ALL_LISTED not in line)

    points: list[Asked] = []
    unlisted = 0
    for record in journal.records(after_seq=asked.after_seq, to_seq=asked.to_seq, wanted=wanted):
        event = record.event
        if not isinstance(event, RouteQueries):
            continue
        count = next((count for count in event.topics if count.topic == topic), None)
        if count is not None:
            points.append(Asked(record.wall_ms, event.window_ms, count))
        elif event.others:
            unlisted += 1
    return Demand(journal.node, tuple(points), unlisted)


@dataclass(frozen=True, slots=True)
class Signs:
    """Times between signs of life in the window that ended at ``wall_ms``."""

    wall_ms: int
    window_ms: int
    gaps_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberSigns:
    """One address under one id; ``timeout_ms`` None: the journal does not say."""

    cluster: str
    broker_id: int
    addr: str
    timeout_ms: int | None
    points: tuple[Signs, ...]

    @property
    def histogram(self) -> list[int]:
        """How many gaps up to each of ``GAP_LIMITS_MS``, and how many that are longer."""
        counts = [0] * (len(GAP_LIMITS_MS) + 1)
        for point in self.points:
            for gap_ms in point.gaps_ms:
                counts[bisect_left(GAP_LIMITS_MS, gap_ms)] += 1
        return counts


def signs_of(journal: Journal, broker: str, asked: Period) -> tuple[MemberSigns, ...]:
    """Of every member of the groups called ``broker`` that gave any, by cluster, id, address."""
    name = b'"broker":' + name_written(broker)

    def wanted(line: bytes) -> bool:
        return name in line and any(kind in line for kind in _SIGNS)

    timeouts: dict[tuple[str, int, str], int] = {}
    for known in next(journal.bases(asked.after_seq)).view.brokers():
        if known.broker == broker:
            fact = known.member.known
            key = known.cluster, known.broker_id, fact.addr
            timeouts[key] = fact.heartbeat_timeout_ms
    points: dict[tuple[str, int, str], list[Signs]] = {}
    for record in journal.records(after_seq=asked.after_seq, to_seq=asked.to_seq, wanted=wanted):
        event = record.event
        if isinstance(event, BrokerRegistered):
            timeouts[event.cluster, event.broker_id, event.addr] = event.heartbeat_timeout_ms
        elif isinstance(event, BrokerUpdated):
            timeout_ms = event.after.get("heartbeat_timeout_ms")
            if isinstance(timeout_ms, int):
                timeouts[event.cluster, event.broker_id, event.addr] = timeout_ms
        elif isinstance(event, HeartbeatGaps):
            key = event.cluster, event.broker_id, event.addr
            signs = Signs(record.wall_ms, event.window_ms, event.gaps_ms)
            points.setdefault(key, []).append(signs)
    return tuple(
        MemberSigns(*key, timeouts.get(key), tuple(found)) for key, found in sorted(points.items())
    )
