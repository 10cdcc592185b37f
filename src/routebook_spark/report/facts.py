"""What a report is made of: a handful of rows of each table, and some sums."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple


class Period(NamedTuple):
    """``to_at`` is not part of it."""

    from_at: datetime
    to_at: datetime

    @property
    def step(self) -> str:
        """What bars of a plot stand for: ``hour`` or ``day``."""
        return "hour" if self.to_at - self.from_at <= timedelta(days=3) else "day"

    @property
    def seconds(self) -> float:
        return (self.to_at - self.from_at).total_seconds()


# -- how good the data is


class NodeQuality(NamedTuple):
    node: str
    known_s: float
    stops: int
    kills: int
    losses: int  # how often records were lost, or are missing
    missing: int  # records
    offset_ms: int | None
    uncertainty_ms: int | None


class Quarantined(NamedTuple):
    reason: str
    records: int


class Quality(NamedTuple):
    nodes: list[NodeQuality]
    quarantined: list[Quarantined]


# -- availability


class Spent(NamedTuple):
    """Seconds of all brokers together in one hour or day."""

    at: datetime
    down_s: float
    suspect_s: float
    unknown_s: float


class BrokerTime(NamedTuple):
    cluster: str
    broker: str
    broker_id: int
    up_s: float
    suspect_s: float
    down_s: float
    planned_s: float
    unknown_s: float
    failures: int
    repairs: int
    budget_s: float

    @property
    def availability(self) -> float | None:
        there = self.up_s + self.suspect_s
        return there / (there + self.down_s) if there + self.down_s else None


class Availability(NamedTuple):
    brokers: int
    total: BrokerTime
    spent: list[Spent]
    worst: list[BrokerTime]

    @property
    def slo(self) -> float | None:
        """What the budget was made for."""
        known_s = self.total.up_s + self.total.suspect_s + self.total.down_s
        return 1 - self.total.budget_s / known_s if known_s else None


# -- incidents


class Outage(NamedTuple):
    """One broker in an incident; ``back_at`` None: it is still away."""

    broker: str
    broker_id: int
    left_at: datetime
    back_at: datetime | None
    nodes: int
    cause: str
    topics: int | None
    last_alive_at: datetime | None
    exposed_until: datetime | None
    exposure_s: float | None


@dataclass(frozen=True, slots=True)
class Incident:
    """Brokers of a cluster that went one soon after the other; ``outages`` are the longest."""

    cluster: str
    started_at: datetime
    ended_at: datetime | None
    brokers: int
    nodes: int
    cause: str
    away_s: float
    outages: list[Outage]


class Incidents(NamedTuple):
    total: int
    worst: list[Incident]


# -- the rest


class Flap(NamedTuple):
    cluster: str
    broker: str
    broker_id: int
    transitions: int
    peak_penalty: float
    suppressed_s: float
    culprit: str
    nodes: int


class NearMiss(NamedTuple):
    cluster: str
    broker: str
    broker_id: int
    heartbeats: int
    near_misses: int
    over_timeout: int
    gap_max_ms: int
    heartbeat_timeout_ms: int


class Lag(NamedTuple):
    kind: str
    changes: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int
    within_1s: int
    within_30s: int
    incomplete: int  # not every node came to know


class LagBucket(NamedTuple):
    """Changes that took ``from_ms`` to twice as much; 0 for none."""

    from_ms: int
    kind: str
    changes: int


class Convergence(NamedTuple):
    lags: list[Lag]
    buckets: list[LagBucket]


class Disagreement(NamedTuple):
    cluster: str
    broker: str
    topics: int  # 0: about the broker itself
    topic: str | None
    node_a: str
    node_b: str
    from_at: datetime
    to_at: datetime | None
    lasted_s: float
    ending: str
    view_a: str | None
    view_b: str | None


class Divergence(NamedTuple):
    endings: dict[str, int]
    longest: list[Disagreement]


class TopicSpread(NamedTuple):
    cluster: str
    topic: str
    writable_brokers: int
    write_queues: int
    min_queues: int
    max_queues: int
    skew: float
    top_broker: str


class Balance(NamedTuple):
    """As it was at the end."""

    topics: int
    single: int
    unwritable: int
    buckets: list[tuple[float, int]]  # of skew, by its lower bound
    skewed: list[TopicSpread]
    alone: list[TopicSpread]


class Asked(NamedTuple):
    at: datetime
    known: int
    unknown: int
    not_ready: int


class TopicAsked(NamedTuple):
    topic: str
    known: int
    unknown: int
    not_ready: int
    exists: bool


class Storm(NamedTuple):
    topic: str
    hour_at: datetime
    unknown: int
    nodes: int
    exists: bool


class Zombie(NamedTuple):
    topic: str
    unasked_days: int
    last_asked_at: datetime | None


class Demand(NamedTuple):
    asked: list[Asked]
    top: list[TopicAsked]
    storms: list[Storm]
    zombies: list[Zombie]
    zombie_count: int


class Outlook(NamedTuple):
    day: date
    cluster: str
    broker: str
    topics: int
    registration_bytes: int
    limit_bytes: int
    history_days: int
    bytes_per_day: float | None
    days_to_limit: float | None
    limit_on: date | None


class Report(NamedTuple):
    title: str
    period: Period
    quality: Quality
    availability: Availability
    incidents: Incidents
    flaps: list[Flap]
    near_misses: list[NearMiss]
    convergence: Convergence
    divergence: Divergence
    balance: Balance
    demand: Demand
    forecast: list[Outlook]
