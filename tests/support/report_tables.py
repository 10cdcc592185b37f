"""Tables filled by hand for reports: a week of a made-up fleet, with names nobody should trust."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from routebook_spark import tables
from routebook_spark.gold.availability import broker_availability
from routebook_spark.report.facts import Report
from routebook_spark.report.gather import gather, period_of
from routebook_spark.tables import Lake, Table
from support.report_stories import story_tables
from support.spark_rows import T0, frame

Row = dict[str, Any]

DAYS = 7
NODES = ("ns-1", "ns-2", "ns-3")
SCRIPT = "<script>alert(1)</script>"
TITLE = f"Week 47 {SCRIPT}"
IMAGE = '"><img src=x onerror=alert(1)>'
FORMULA = "$\\frac{1}{$"
REVERSED = "orders\N{RIGHT-TO-LEFT OVERRIDE}gpj"
LONG = "a-topic-with-a-name-" + "that-goes-on-and-on-" * 11
BROKERS = [*(f"broker-{n:02}" for n in range(1, 19)), IMAGE, FORMULA]
CLUSTER = "prod-eu"


def week() -> dict[Table, list[Row]]:
    rng = random.Random(1)
    return {
        tables.NODE_COVERAGE: list(_coverage()),
        tables.CLOCK_SKEW: list(_skew()),
        tables.GAPS: [
            _row(node="ns-3", kind="missing", missing=412, from_at=_at(2), to_at=_at(2.1)),
            _row(node="ns-2", kind="killed", missing=2**20, from_at=_at(4), to_at=_at(4)),
        ],
        tables.QUARANTINE: [
            *([_row(node="ns-1", reason="the line is not JSON", raw="{")] * 3),
            _row(node="ns-2", reason=f"unknown version {SCRIPT}", raw="{}"),
        ],
        tables.BROKER_SESSIONS: list(_sessions()),
        tables.STALE_EXPOSURE: list(_exposure()),
        tables.FLAPS: list(_flaps(rng)),
        tables.HEARTBEAT_HEALTH: list(_heartbeats(rng)),
        tables.CONVERGENCE: list(_convergence(rng)),
        tables.DIVERGENCE: list(_divergence()),
        tables.TOPIC_BALANCE: list(_balance(rng)),
        tables.TOPIC_DEMAND: list(_demand(rng)),
        tables.CAPACITY_FORECAST: list(_forecast()),
    }


@dataclass(frozen=True, slots=True)
class InMemory(Lake):
    """Tables without files."""

    rows: Mapping[Table, Sequence[Row]] = field(default_factory=dict)
    frames: Mapping[Table, DataFrame] = field(default_factory=dict)

    def read(self, table: Table) -> DataFrame:
        made = self.frames.get(table)
        given = self.rows.get(table, ())
        if made is not None and not given:
            return made
        rows = frame(self.spark, table.schema, given)
        return rows if made is None else rows.unionByName(made)


def available(lake: Lake) -> DataFrame:
    return broker_availability(
        lake.read(tables.BROKER_SESSIONS),
        lake.read(tables.SUSPECT_TIMES),
        lake.read(tables.NODE_COVERAGE),
        lake.read(tables.CLOCK_SKEW),
    )


@cache
def reported(spark: SparkSession) -> Report:
    """What is reported of the week: made once for all tests of a session."""
    lake = week_lake(spark)
    return gather(lake, period_of(lake), title=TITLE)


@cache
def week_lake(spark: SparkSession) -> Lake:
    """The week of one fleet, and the bad days of another, made by the functions of gold."""
    made = {table: rows.cache() for table, rows in story_tables(spark).items()}
    return InMemory(spark, "memory", week(), made)


def _row(**columns: Any) -> Row:
    return columns


def _at(days: float) -> Any:
    return T0 + timedelta(days=days)


def _seq(at: datetime) -> int:
    """A record a second, as good as any."""
    return 10**6 + round((at - T0).total_seconds())


def _coverage() -> Iterator[Row]:
    yield _cover("ns-1", 0, DAYS - 0.0001)
    yield _cover("ns-2", 0, 4, "killed")
    yield _cover("ns-2", 4.03, DAYS - 0.001)
    yield _cover("ns-3", 0, 2, "records_missing")
    yield _cover("ns-3", 2.4, DAYS - 0.002)


def _cover(node: str, since: float, until: float, ends: str | None = None) -> Row:
    times = {"from_at": _at(since), "to_at": _at(until), "from_seq": _seq(_at(since))}
    return times | _row(node=node, to_seq=ends and _seq(_at(until)), ends=ends, begins="restated")


def _skew() -> Iterator[Row]:
    for day in range(DAYS):
        for node, offset in zip(NODES, (0, 38, -412), strict=True):
            yield _row(
                **{"day": _at(day).date(), "node": node, "against": "ns-1", "samples": 40},
                offset_ms=offset + day,
                uncertainty_ms=12,
            )


# Which brokers went, when, for how long (s), and why.
_OUTAGES = [
    *((name, 2.134 + n * 0.0001, 1700 + 210 * n, "expired") for n, name in enumerate(BROKERS[2:9])),
    (BROKERS[10], 4.61, 95, "connection_closed"),
    (BROKERS[10], 4.62, 95, "connection_closed"),
    (IMAGE, 5.3, 640, "idle"),
    (BROKERS[17], 6.2, None, "expired"),
]


def _sessions() -> Iterator[Row]:
    for node in NODES:
        for broker in BROKERS:
            common = {"node": node, "cluster": CLUSTER, "broker": broker, "broker_id": 0}
            common |= {"addr": f"10.0.0.{BROKERS.index(broker)}:10911", "topics": 240}
            began = _at(-1)
            for _, day, lasts, cause in (each for each in _OUTAGES if each[0] == broker):
                left = _at(day) + timedelta(seconds=NODES.index(node) * 2)
                yield common | _row(
                    **{"from_seq": _seq(began), "to_seq": _seq(left), "cause": cause},
                    began_at=began,
                    ended_at=left,
                )
                began = left + timedelta(seconds=lasts or 0)
            if broker != BROKERS[17]:
                yield common | _row(from_seq=_seq(began), began_at=began)
    leaver = _row(node="ns-1", cluster=CLUSTER, broker="leaver", broker_id=0, cause="unregister")
    seqs = {"from_seq": _seq(_at(1)), "to_seq": _seq(_at(2))}
    yield leaver | seqs | _row(began_at=_at(1), ended_at=_at(2))


def _exposure() -> Iterator[Row]:
    for node in NODES:
        for broker, day, _, cause in _OUTAGES:
            removed = _at(day) + timedelta(seconds=NODES.index(node) * 2)
            quick = cause == "connection_closed"
            alive = removed - timedelta(seconds=1 if quick else 121)
            yield _row(
                **{"day": removed.date(), "node": node, "cluster": CLUSTER, "broker": broker},
                **{"broker_id": 0, "last_alive_at": alive, "removed_at": removed, "cause": cause},
                exposed_until=removed + timedelta(seconds=30),
                exposure_s=31.0 if quick else 151.0,
                topics=240,
            )


def _flaps(rng: random.Random) -> Iterator[Row]:
    blamed = ("broker", "network", "node")
    for number, broker in enumerate((BROKERS[10], IMAGE, FORMULA, *BROKERS[3:9])):
        for node in NODES:
            yield _row(
                **{"day": _at(4).date(), "window_at": _at(4.5), "cluster": CLUSTER},
                **{"broker": broker, "broker_id": 0, "node": node},
                transitions=max(2, 14 - 2 * number),
                peak_penalty=9000.0 / (number + 1) + rng.random(),
                suppressed_s=max(0.0, 4000.0 - 900 * number),
                culprit=blamed[number % 3],
            )


def _heartbeats(rng: random.Random) -> Iterator[Row]:
    for broker in BROKERS[:5]:
        yield _row(
            **{"day": _at(3).date(), "hour_at": _at(3), "node": "ns-1", "cluster": CLUSTER},
            **{"broker": broker, "broker_id": 0, "heartbeats": 120, "over_timeout": 0},
            near_misses=rng.randint(0, 4),
            gap_max_ms=rng.randint(60_000, 118_000),
            heartbeat_timeout_ms=120_000,
        )


def _convergence(rng: random.Random) -> Iterator[Row]:
    kinds = ("broker_joined", "broker_left", "topic_changed")
    for number in range(600):
        lag = None if number == 5 else round(rng.lognormvariate(4.5, 1.6))
        at = _at(rng.uniform(0, DAYS))
        yield _row(
            **{"day": at.date(), "kind": kinds[min(number % 7, 2)], "cluster": CLUSTER},
            **{"broker": BROKERS[0], "first_at": at, "nodes_knowing": 3, "lag_ms": lag},
            nodes=2 if lag is None else 3,
            within_1s=lag is not None and lag <= 1000,
            within_30s=lag is not None and lag <= 30_000,
        )


def _divergence() -> Iterator[Row]:
    common = {"day": _at(2).date(), "cluster": CLUSTER, "broker": BROKERS[2]}
    common |= {"node_a": "ns-1", "node_b": "ns-3", "from_at": _at(2.2), "uncertainty_ms": 20}
    common |= {"view_a": "[8,8,6,0]", "view_b": "null"}
    ended = _row(to_at=_at(2.21), lasted_s=864.0, ending="converged", until_day=_at(2).date())
    for number in range(40):
        yield common | ended | _row(topic=f"topic-{number:03}")
    yield (
        common
        | ended
        | _row(topic=None, view_a='{"0":"10.0.0.3:10911"}', to_at=_at(2.22), lasted_s=1700.0)
    )
    yield common | _row(
        **{"topic": SCRIPT, "ending": "open", "lasted_s": 3600.0, "from_at": _at(6.9)},
        **{"view_a": SCRIPT, "day": _at(6).date(), "until_day": tables.OPEN},
    )


def _balance(rng: random.Random) -> Iterator[Row]:
    names = [SCRIPT, FORMULA, REVERSED, LONG, "TBW102", *(f"topic-{n:03}" for n in range(240))]
    for number, topic in enumerate(names):
        for day in (DAYS - 2, DAYS - 1):
            brokers = 1 if number % 12 == 3 else rng.choice([2, 4, 8])
            queues = [rng.choice([8] * 12 + [16, 24]) for _ in range(brokers)]
            yield _row(
                **{"day": _at(day).date(), "hour_at": _at(day), "cluster": CLUSTER},
                **{"topic": topic, "brokers": brokers, "writable_brokers": brokers},
                **{"write_queues": sum(queues), "read_queues": sum(queues)},
                **{"min_queues": min(queues), "max_queues": max(queues)},
                skew=max(queues) * brokers / sum(queues),
                top_broker=BROKERS[0],
                single_broker=brokers == 1,
                single_broker_s=3600.0 if brokers == 1 else 0.0,
            )


def _demand(rng: random.Random) -> Iterator[Row]:
    topics = [(f"topic-{n:03}", 4000 // (n + 1)) for n in range(15)]
    topics += [(SCRIPT, 300), (REVERSED, 2500)]
    for hour in range(0, 24 * DAYS, 2):
        at = _at(hour / 24)
        busy = 1 + 0.6 * (9 <= hour % 24 <= 18)
        common = {"day": at.date(), "hour_at": at, "nodes": 3, "not_ready": 0, "zombie": False}
        for topic, asked in topics:
            known = round(asked * busy * rng.uniform(0.8, 1.2))
            yield common | _row(topic=topic, known=known, unknown=0, exists=True, unasked_days=0)
        if 80 <= hour < 96:
            yield common | _row(topic="ordres", known=0, unknown=2200, exists=False)
    for topic, silent in (("old-orders", 31), (IMAGE, 12), *((f"tmp-{n}", 9) for n in range(30))):
        yield _row(
            **{"day": _at(DAYS - 1).date(), "topic": topic, "exists": True, "zombie": True},
            unasked_days=silent,
            last_asked_at=None if silent > 28 else _at(-3),
        )


def _forecast() -> Iterator[Row]:
    for number, broker in enumerate(BROKERS[:8]):
        size = (15 - number * 1.6) * 1024 * 1024
        growth = 220_000.0 if number < 2 else None if number == 5 else -10.0
        days = (16 * 1024 * 1024 - size) / growth if growth and growth > 0 else None
        day = _at(DAYS - 1).date()
        yield _row(
            **{"day": day, "cluster": CLUSTER, "broker": broker, "topics": 60_000 - number * 6000},
            **{"registration_bytes": int(size), "history_days": 7, "bytes_per_day": growth},
            days_to_limit=days,
            limit_on=None if days is None else day + timedelta(days=round(days)),
            limit_bytes=16 * 1024 * 1024,
        )
