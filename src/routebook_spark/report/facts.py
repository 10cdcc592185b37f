"""What a report is made of: a handful of rows of each table, and some sums."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86_400
STEPS_S = (
    *(n * _SECOND for n in (1, 5, 15, 30)),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 3, 6)),
    *(n * _DAY for n in (1, 7, 28, 364)),
)
"""What one bar of a plot may stand for."""
MOST_STEPS = 120
"""Bars of a plot: more cannot be told from each other."""


class Period(NamedTuple):
    """``to_at`` is not part of it."""

    from_at: datetime
    to_at: datetime

    @property
    def seconds(self) -> float:
        return (self.to_at - self.from_at).total_seconds()

    @property
    def step_s(self) -> int:
        """What one bar stands for: a minute is shown in seconds, a month in quarters of days."""
        return next((s for s in STEPS_S if self.seconds <= s * MOST_STEPS), STEPS_S[-1])

    @property
    def from_ms(self) -> int:
        return in_ms(self.from_at)

    @property
    def to_ms(self) -> int:
        return in_ms(self.to_at)


def in_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def instant(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


# -- how good the data is


class Cover(NamedTuple):
    """A stretch of time in which a node is a witness; ``ends`` None: it goes on."""

    node: str
    from_ms: int
    to_ms: int
    ends: str | None
    incarnation: str = ""


class NodeQuality(NamedTuple):
    node: str
    known_s: float
    unknown_s: float
    stops: int
    kills: int
    stalls: int  # and other times it was silent, or its clock jumped
    losses: int  # how often records were lost, or are missing
    missing: int  # records
    offset_ms: int | None
    uncertainty_ms: int | None
    clock_assumed: bool = False  # too little was measured, and nothing speaks against it


class Unwitnessed(NamedTuple):
    """A time in which a node was no witness, and why; by its own clock."""

    node: str
    from_at: datetime
    to_at: datetime
    why: str

    @property
    def lasted_s(self) -> float:
        return (self.to_at - self.from_at).total_seconds()


class Quarantined(NamedTuple):
    reason: str
    records: int


class Quality(NamedTuple):
    """``unwitnessed`` are the longest of ``times_unwitnessed``; ``covers`` is all the others."""

    nodes: list[NodeQuality]
    unwitnessed: list[Unwitnessed]
    times_unwitnessed: int
    covers: list[Cover]
    quarantined: list[Quarantined]


# -- availability


class Spell(NamedTuple):
    """A broker in one state, from one change to the next."""

    cluster: str
    broker: str
    broker_id: int
    state: str  # up, suspect, down, planned, unknown
    from_ms: int
    to_ms: int


class Spent(NamedTuple):
    """Seconds of all brokers together in one step of time."""

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
    def known_s(self) -> float:
        """Of this, one that had said goodbye was neither there nor missing."""
        return self.up_s + self.suspect_s + self.down_s

    @property
    def availability(self) -> float | None:
        return (self.up_s + self.suspect_s) / self.known_s if self.known_s else None


class Availability(NamedTuple):
    brokers: int
    slo: float
    total: BrokerTime
    spent: list[Spent]
    worst: list[BrokerTime]


# -- incidents


class Outage(NamedTuple):
    """One broker that no node listed, once. ``back_at`` None: it is still away.

    ``down_s`` is what is known of it within the period, ``unknown_s`` the time in between in which
    no node was a witness. ``nodes`` let it go, of those ``awake`` then.
    """

    cluster: str
    broker: str
    broker_id: int
    left_at: datetime
    back_at: datetime | None
    down_s: float
    unknown_s: float
    unknown: tuple[tuple[int, int], ...] = ()  # from, to, in ms
    nodes: int = 0
    awake: int = 0
    cause: str | None = None
    topics: int | None = None
    last_alive_at: datetime | None = None
    exposed_until: datetime | None = None
    exposure_s: float | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Outages of a cluster that began together and were at the same time, the longest first."""

    cluster: str
    outages: tuple[Outage, ...]

    @property
    def started_at(self) -> datetime:
        return min(each.left_at for each in self.outages)

    @property
    def last_left_at(self) -> datetime:
        return max(each.left_at for each in self.outages)

    @property
    def ended_at(self) -> datetime | None:
        """None: a broker is still away."""
        ends = [each.back_at for each in self.outages if each.back_at is not None]
        return max(ends) if len(ends) == len(self.outages) else None

    @property
    def down_s(self) -> float:
        return sum(each.down_s for each in self.outages)


class Incidents(NamedTuple):
    """``outages`` are those of all incidents, ``ongoing`` those that began before the period."""

    total: int
    outages: int
    ongoing: int
    worst: list[Incident]


# -- the rest


class Flap(NamedTuple):
    cluster: str
    broker: str
    broker_id: int
    transitions: int
    peak_penalty: float
    suppressed_s: float
    culprit: str | None
    nodes: int


class Heartbeats(NamedTuple):
    """Of a broker: how regular they were, and how often nodes gave it up for want of one."""

    cluster: str
    broker: str
    broker_id: int
    heartbeats: int
    near_misses: int
    over_timeout: int
    given_up: int
    gap_max_ms: int | None
    heartbeat_timeout_ms: int | None


class HeartbeatHealth(NamedTuple):
    """``late`` are brokers with any that were late, nearly late or did not come."""

    heartbeats: int
    late: list[Heartbeats]


class Lag(NamedTuple):
    """Changes of a kind that two nodes or more could show.

    ``incomplete`` did not come to all of them; ``unmeasured`` did, but their clocks cannot be
    compared. Percentiles are of the rest, and are None where there is none.
    """

    kind: str
    changes: int
    incomplete: int
    unmeasured: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    within_1s: int
    within_30s: int

    @property
    def judged(self) -> int:
        """Those of which it is known whether they were in time."""
        return self.changes - self.unmeasured


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
    """``step_s`` is what one of ``asked`` stands for: nodes count queries by windows."""

    known: int
    unknown: int
    not_ready: int
    step_s: int
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


class FleetReport(NamedTuple):
    """All that is told of one fleet, by its own nodes."""

    fleet: str
    quality: Quality
    availability: Availability
    incidents: Incidents
    flaps: list[Flap]
    heartbeats: HeartbeatHealth
    convergence: Convergence
    divergence: Divergence
    balance: Balance
    demand: Demand
    forecast: list[Outlook]


class Report(NamedTuple):
    title: str
    period: Period
    fleets: list[FleetReport]
