"""Incidents: brokers that were down, put together when they went together.

An outage is one time in which no node that was awake listed a broker: what the table of
availability counts as one failure. Outages of several brokers of a cluster are one incident if they
began within ``TOGETHER_MS`` and each began before the others were over. A broker that goes twice
makes two incidents.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.clocks import on_common_clock
from routebook_spark.local_frame import local_frame
from routebook_spark.report.facts import Cover, Incident, Incidents, Outage, Period, in_ms
from routebook_spark.report.rows import collected, during
from routebook_spark.report.witnesses import awake
from routebook_spark.silver.members import OUT_OF_SIGHT
from routebook_spark.tables import BROKER_SESSIONS, CLOCK_SKEW, OPEN, STALE_EXPOSURE, Lake

TOGETHER_MS = 60_000
"""Brokers that die together are given up one by one, as their last heartbeats were."""
AT_ONCE_MS = 1000
"""Those that go within this went together, even if the first is back by then."""
LOOK_BACK = timedelta(minutes=15)
"""The last node may let a broker go as much later than the first."""
CALM = ("unregister", "admin", "moved", "replaced", *OUT_OF_SIGHT)
WORST = 5

BROKER = ("cluster", "broker", "broker_id")

Key = tuple[str, str, int]


class Departure(NamedTuple):
    """A node let a broker go without a goodbye; ``back_at`` is when that node had it again."""

    cluster: str
    broker: str
    broker_id: int
    node: str
    left_at: datetime
    back_at: datetime | None
    cause: str
    topics: int | None


class Exposure(NamedTuple):
    """How long clients could be sent to a broker that a node removed."""

    cluster: str
    broker: str
    broker_id: int
    removed_at: datetime
    last_alive_at: datetime | None
    exposed_until: datetime | None
    exposure_s: float | None


def incidents(
    lake: Lake, outages: Sequence[Outage], covers: Sequence[Cover], period: Period
) -> Incidents:
    """``covers`` are on the common clock, as outages are."""
    found = together(outages)
    worst = sorted(found, key=lambda each: (-each.down_s, each.started_at, each.cluster))[:WORST]
    keys = {_key(outage) for incident in worst for outage in incident.outages}
    departures = _departures(lake, keys, period) if keys else []
    exposures = _exposures(lake, keys, period) if keys else []
    told = explained(outages, departures, exposures, covers)
    return Incidents(
        total=len(found),
        outages=len(outages),
        ongoing=sum(each.left_at < period.from_at for each in outages),
        worst=[
            Incident(each.cluster, tuple(told[_key(one), one.left_at] for one in each.outages))
            for each in worst
        ],
    )


def together(outages: Iterable[Outage]) -> list[Incident]:
    """In order of time; the outages of each by how long they were."""
    groups: dict[str, list[list[Outage]]] = defaultdict(list)
    for outage in sorted(outages, key=lambda each: (each.cluster, each.left_at, _key(each))):
        mine = groups[outage.cluster]
        if mine and _joins(outage, mine[-1]):
            mine[-1].append(outage)
        else:
            mine.append([outage])
    found = [
        Incident(cluster, tuple(sorted(group, key=lambda each: (-each.down_s, _key(each)))))
        for cluster, mine in groups.items()
        for group in mine
    ]
    return sorted(found, key=lambda each: (each.started_at, each.cluster))


def _joins(outage: Outage, group: Sequence[Outage]) -> bool:
    if any(_key(outage) == _key(each) for each in group):
        return False
    waited = (outage.left_at - group[0].left_at) / timedelta(milliseconds=1)
    still = any(each.back_at is None or each.back_at >= outage.left_at for each in group)
    return waited <= AT_ONCE_MS or (waited <= TOGETHER_MS and still)


# -- why, from where, and what clients felt


def explained(
    outages: Iterable[Outage],
    departures: Iterable[Departure],
    exposures: Iterable[Exposure],
    covers: Sequence[Cover],
) -> Mapping[tuple[Key, datetime], Outage]:
    """Each with the departures that led to it: those since the broker was last back.

    Nodes that were asleep let nobody go, and are not among those that could have.
    """
    gone: dict[Key, list[Departure]] = defaultdict(list)
    felt: dict[Key, list[Exposure]] = defaultdict(list)
    for departure in departures:
        gone[_key(departure)].append(departure)
    for exposure in exposures:
        felt[_key(exposure)].append(exposure)
    told: dict[tuple[Key, datetime], Outage] = {}
    for outage, since, until in _windows(outages):
        key = _key(outage)
        left = [
            each
            for each in gone[key]
            if since <= each.left_at <= until
            and (each.back_at is None or each.back_at > outage.left_at)
        ]
        exposed = [each for each in felt[key] if since <= each.removed_at <= until]
        told[key, outage.left_at] = outage._replace(
            nodes=len({each.node for each in left}),
            awake=len(awake(covers, in_ms(outage.left_at)) | {each.node for each in left}),
            cause=_most_frequent(each.cause for each in left),
            topics=max((each.topics for each in left if each.topics is not None), default=None),
            last_alive_at=min((e.last_alive_at for e in exposed if e.last_alive_at), default=None),
            exposed_until=max((e.exposed_until for e in exposed if e.exposed_until), default=None),
            exposure_s=max((e.exposure_s for e in exposed if e.exposure_s), default=None),
        )
    return told


def _windows(outages: Iterable[Outage]) -> Iterator[tuple[Outage, datetime, datetime]]:
    """When nodes can have let the broker go: after it was last back, and before it was away."""
    back: dict[Key, datetime] = {}
    for outage in sorted(outages, key=lambda each: each.left_at):
        key = _key(outage)
        since = max(outage.left_at - LOOK_BACK, back.get(key, outage.left_at - LOOK_BACK))
        yield outage, since, outage.left_at + timedelta(milliseconds=AT_ONCE_MS)
        if outage.back_at is not None:
            back[key] = outage.back_at


def _most_frequent(causes: Iterable[str]) -> str | None:
    counts = Counter(causes)
    return min(counts, key=lambda cause: (-counts[cause], cause), default=None)


def _key(each: Outage | Departure | Exposure) -> Key:
    return each.cluster, each.broker, each.broker_id


# -- from the tables


def _departures(lake: Lake, keys: Collection[Key], period: Period) -> list[Departure]:
    first = F.lit((period.from_at - timedelta(days=1)).date())
    sessions = lake.read(BROKER_SESSIONS).where(F.col("until_day").between(first, F.lit(OPEN)))
    timed = on_common_clock(
        _of(sessions, keys, lake), lake.read(CLOCK_SKEW), "began_at", "ended_at"
    )
    in_order = Window.partitionBy("node", *BROKER).orderBy("began_ms", "from_seq")
    left = timed.withColumn("back_ms", F.lead("began_ms").over(in_order)).where(
        F.col("ended_ms").isNotNull() & ~F.col("cause").isin(*CALM)
    )
    rows = left.select(
        *BROKER,
        "node",
        F.timestamp_millis("ended_ms").alias("left_at"),
        F.timestamp_millis("back_ms").alias("back_at"),
        "cause",
        "topics",
    )
    return [Departure(**row) for row in collected(rows)]


def _exposures(lake: Lake, keys: Collection[Key], period: Period) -> list[Exposure]:
    earlier = period._replace(from_at=period.from_at - LOOK_BACK)
    rows = during(lake.read(STALE_EXPOSURE), earlier, "removed_at")
    return [Exposure(**row) for row in collected(_of(rows, keys, lake).select(*Exposure._fields))]


def _of(rows: DataFrame, keys: Collection[Key], lake: Lake) -> DataFrame:
    named = [dict(zip(BROKER, key, strict=True)) for key in sorted(keys)]
    brokers = local_frame(lake.spark, rows.select(*BROKER).schema, named)
    return rows.join(F.broadcast(brokers), list(BROKER))
