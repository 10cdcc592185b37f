"""Facts of reports about bad days that never were: brokers that flap, nodes that sleep.

What the page says of time is worked out by the product from spells and stretches of coverage that
are made here at random, so that a page can be checked against them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from routebook_spark.report.facts import (
    Availability,
    Balance,
    Convergence,
    Cover,
    Demand,
    Disagreement,
    Divergence,
    Flap,
    FleetReport,
    HeartbeatHealth,
    Heartbeats,
    Incident,
    Incidents,
    Lag,
    LagBucket,
    NodeQuality,
    Outage,
    Outlook,
    Period,
    Quality,
    Spell,
    TopicAsked,
    TopicSpread,
)
from routebook_spark.report.incidents import Departure, Exposure, explained, together
from routebook_spark.report.spells import broker_times, outages, spent, total_time
from routebook_spark.report.witnesses import witnesses
from support.spark_rows import T0, T0_MS

CLUSTER = "c1"
NODES = ("ns-1", "ns-2", "ns-3")
SLO = 0.999
BROKERS = 3
LENGTHS_S = (60, 3600, 86_400)


@dataclass(frozen=True)
class BadDay:
    period: Period
    spells: list[Spell]
    covers: list[Cover]
    facts: FleetReport


def bad_day(seed: int, *, fleet: str = "default") -> BadDay:
    rng = random.Random(seed)
    lasts_s = LENGTHS_S[seed % len(LENGTHS_S)]
    period = Period(T0, T0 + timedelta(seconds=lasts_s))
    spells = [each for n in range(BROKERS) for each in _spells(rng, f"broker-{n}", lasts_s)]
    covers = [each for node in NODES for each in _covers(rng, node, lasts_s)]
    times = broker_times(spells, period, slo=SLO)
    found = outages(spells, period)
    down = sorted((each for each in times if each.down_s), key=lambda each: -each.down_s)
    facts = FleetReport(
        fleet=fleet,
        quality=_quality(covers, period),
        availability=Availability(
            len(times), SLO, total_time(times), spent(spells, period), down[:12]
        ),
        incidents=_incidents(rng, found, covers, period),
        flaps=[Flap(CLUSTER, "broker-0", 0, 7, 3141.6, 61.5, "broker", 3)],
        heartbeats=HeartbeatHealth(
            812, [Heartbeats(CLUSTER, "broker-0", 0, 203, 1, 0, 2, 118_000, 120_000)]
        ),
        convergence=Convergence(
            lags=[
                Lag("broker_left", 4, 1, 1, 800, 1900, 1980, 2000, 1, 2),
                Lag("topic_changed", 2, 2, 0, None, None, None, None, 0, 0),
            ],
            buckets=[LagBucket(512, "broker_left", 1), LagBucket(1024, "broker_left", 1)],
        ),
        divergence=Divergence(
            {"converged": 1, "open": 1},
            [
                Disagreement(
                    *(CLUSTER, "broker-1", 3, "orders", "ns-1", "ns-2", T0, None, 31.5, "open"),
                    *("[4,4,6,0]", "null"),
                ),
                Disagreement(
                    *(CLUSTER, "broker-2", 0, None, "ns-1", "ns-3", T0, T0, 2.5, "converged"),
                    *('{"0":"127.0.0.1:10911"}', "null"),
                ),
            ],
        ),
        balance=Balance(
            3, 1, 0, [(1.0, 2)], [], [TopicSpread(CLUSTER, "pay", 1, 8, 8, 8, 1.0, "broker-3")]
        ),
        demand=Demand(41, 5, 0, 60, [], [TopicAsked("orders", 41, 5, 0, True)], [], [], 0),
        forecast=[
            Outlook(T0.date(), CLUSTER, "broker-0", 20, 4096, 2**24, 1, None, None, None),
        ],
    )
    return BadDay(period, spells, covers, facts)


def _spells(rng: random.Random, broker: str, lasts_s: int) -> Iterator[Spell]:
    at_ms, end_ms = T0_MS - rng.randrange(5000), T0_MS + lasts_s * 1000
    state = "up"
    while at_ms < end_ms:
        until = min(end_ms, at_ms + rng.randrange(lasts_s * 50, lasts_s * 400))
        yield Spell(CLUSTER, broker, 0, state, at_ms, until)
        others = {"up", "suspect", "down", "planned", "unknown"} - {state}
        state, at_ms = rng.choice(sorted(others)), until


def _covers(rng: random.Random, node: str, lasts_s: int) -> Iterator[Cover]:
    at_ms, end_ms = T0_MS - rng.randrange(-3000, 3000), T0_MS + lasts_s * 1000
    while at_ms < end_ms:
        until = min(end_ms, at_ms + rng.randrange(1, lasts_s * 900))
        ends = rng.choice(["stopped", "killed", "stalled", "silent", "clock", "lost", "missing"])
        yield Cover(node, at_ms, until, None if until == end_ms else ends)
        at_ms = until + rng.randrange(1, lasts_s * 300)


def _quality(covers: Sequence[Cover], period: Period) -> Quality:
    found = witnesses(covers, period)
    unwitnessed = [each for witness in found for each in witness.unwitnessed]
    return Quality(
        nodes=[NodeQuality(*witness[:-1], 0, None, None) for witness in found],
        unwitnessed=unwitnessed,
        times_unwitnessed=len(unwitnessed),
        covers=list(covers),
        quarantined=[],
    )


def _incidents(
    rng: random.Random, found: Sequence[Outage], covers: Sequence[Cover], period: Period
) -> Incidents:
    departures = [
        Departure(*each[:3], node, each.left_at, each.back_at, "expired", rng.randrange(9))
        for each in found
        for node in NODES[: rng.randrange(len(NODES) + 1)]
    ]
    exposures = [
        Exposure(
            *each[:3],
            removed_at=each.left_at,
            last_alive_at=each.left_at - timedelta(seconds=120),
            exposed_until=each.left_at + timedelta(seconds=30),
            exposure_s=150.0,
        )
        for each in found
        if rng.random() < 0.5
    ]
    told = explained(found, departures, exposures, covers)
    whole = [
        Incident(
            each.cluster,
            tuple(
                told[(one.cluster, one.broker, one.broker_id), one.left_at] for one in each.outages
            ),
        )
        for each in together(found)
    ]
    return Incidents(
        total=len(whole),
        outages=len(found),
        ongoing=sum(each.left_at < period.from_at for each in found),
        worst=whole,
    )


def seconds_in(day: BadDay, state: str) -> float:
    """Of all brokers together."""
    clipped = (
        min(spell.to_ms, day.period.to_ms) - max(spell.from_ms, day.period.from_ms)
        for spell in day.spells
        if spell.state == state
    )
    return sum(max(0, ms) for ms in clipped) / 1000
