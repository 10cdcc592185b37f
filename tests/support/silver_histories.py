"""Random sessions, suspect times, coverage and clock skew of some nodes: silver rows, seeded.

    history = silver_history(7, days=12)
    history.rows()                              # all of it: what sessions, suspects, ... would hold
    history.rows({"ns-1": 86_400_000, ...})     # what they held when that much of a node had come
    recorded_rows(7)                            # what nodes wrote down, with segments lost

Nodes stop, are killed, start warm and cold, lose records and miss segments. Brokers say goodbye,
crash, hang, flap, are cut off from one node, are held by a guard. Clocks are wrong, and are set
back now and then. Times are ms after the first midnight of the tests, by no clock but the truth.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from support.plain_silver import plain_silver
from support.spark_histories import histories, lost_spans, without
from support.spark_rows import T0, at

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
_NEVER = 1 << 50
_UNSEEN = ("node_restarted", "lost_track")


class SilverRows(NamedTuple):
    sessions: list[dict[str, Any]]
    suspects: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    skew: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Cover:
    since: int
    until: int
    begins: str
    ends: str


@dataclass(frozen=True, slots=True)
class Stay:
    """``told`` is when the node wrote its end down, which may be long after it."""

    node: str
    who: tuple[str, str, int, str]
    since: int
    until: int
    began: str
    cause: str | None
    told: int


@dataclass(frozen=True, slots=True)
class Doubt:
    node: str
    who: tuple[str, str, int, str]
    kind: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class SilverHistory:
    covers: dict[str, list[Cover]]
    stays: list[Stay]
    doubts: list[Doubt]
    ahead_ms: dict[str, int]  # clocks
    days: int

    def rows(self, known_until: Mapping[str, int] | None = None) -> SilverRows:
        limits = known_until or dict.fromkeys(self.covers, _NEVER)
        return SilverRows(
            [self._session(stay, limits) for stay in self.stays if stay.since <= limits[stay.node]],
            [
                self._suspect(each, limits)
                for each in self.doubts
                if each.since <= limits[each.node]
            ],
            [
                self._cover(node, cover, limits[node])
                for node, covers in self.covers.items()
                for cover in covers
                if cover.since <= limits[node]
            ],
            list(self._skew()),
        )

    def _session(self, stay: Stay, limits: Mapping[str, int]) -> dict[str, Any]:
        ended = stay.cause is not None and stay.told <= limits[stay.node]
        return {
            **_broker(stay.who),
            "node": stay.node,
            "from_seq": stay.since,
            "to_seq": max(stay.since, stay.until) if ended else None,
            "began_at": self._wall(stay.node, stay.since),
            "ended_at": self._wall(stay.node, stay.until) if ended else None,
            "began": stay.began,
            "cause": stay.cause if ended else None,
            "heartbeat_timeout_ms": 120_000,
        }

    def _suspect(self, doubt: Doubt, limits: Mapping[str, int]) -> dict[str, Any]:
        ended = doubt.until <= limits[doubt.node]
        return {
            **_broker(doubt.who),
            "node": doubt.node,
            "kind": doubt.kind,
            "from_seq": doubt.since,
            "to_seq": doubt.until if ended else None,
            "from_at": self._wall(doubt.node, doubt.since),
            "to_at": self._wall(doubt.node, doubt.until) if ended else None,
        }

    def _cover(self, node: str, cover: Cover, limit: int) -> dict[str, Any]:
        goes_on = cover.until > limit or cover is self.covers[node][-1]
        return {
            "node": node,
            "from_seq": cover.since,
            "to_seq": None if goes_on else cover.until,
            "from_at": self._wall(node, cover.since),
            "to_at": self._wall(node, min(cover.until, limit)),
            "begins": cover.begins,
            "ends": None if goes_on else cover.ends,
        }

    def _skew(self) -> Iterator[dict[str, Any]]:
        first = min(self.covers)
        for node in sorted(self.covers):
            for day in range(-1, self.days + 1):
                if node != first:
                    yield {
                        "day": (T0 + timedelta(days=day)).date(),
                        "node": node,
                        "against": first,
                        "offset_ms": self.ahead_ms[node] + 7 * day,
                        "uncertainty_ms": 10,
                        "samples": 5,
                    }

    def _wall(self, node: str, ms: int) -> Any:
        return at(ms + self.ahead_ms[node])


def recorded_rows(seed: int) -> SilverRows:
    """Of records as nodes write them; some of their segments are lost."""
    silver = plain_silver(
        {
            node: without(records, lost_spans(records, seed=seed + number))
            for number, (node, records) in enumerate(histories(seed).items())
        }
    )
    return SilverRows(silver.sessions, silver.suspects, silver.coverage, silver.skew)


def silver_history(
    seed: int, *, nodes: int = 3, brokers: int = 5, days: int = 3, restart_hours: float = 7
) -> SilverHistory:
    rng = random.Random(seed)
    names = [f"ns-{number}" for number in range(1, nodes + 1)]
    covers = {name: list(_covers(rng, days * DAY, restart_hours * HOUR)) for name in names}
    stays: list[Stay] = []
    doubts: list[Doubt] = []
    for number in range(brokers):
        who = ("c1", f"broker-{number // 2}", number % 2, f"10.0.0.{number}:10911")
        lives = list(_lives(rng, days * DAY))
        if number == brokers - 1:
            del lives[2:]  # it leaves for good
        for node in names:
            seen = [part for life in lives for part in _parts(rng, life)]
            _play(rng, _Place(node, who), covers[node], seen, stays, doubts)
    ahead = {name: 0 if name == names[0] else rng.randint(-90_000, 90_000) for name in names}
    return SilverHistory(covers, stays, doubts, ahead, days)


@dataclass(frozen=True, slots=True)
class _Life:
    since: int
    until: int
    end: str  # goodbye, crash, hang


class _Place(NamedTuple):
    node: str
    who: tuple[str, str, int, str]


def _covers(rng: random.Random, end: int, mean: float) -> Iterator[Cover]:
    since, begins = rng.randint(0, HOUR), rng.choice(["first_record", "started_cold"])
    while since < end:
        until = min(end - rng.randint(0, 50_000), since + MINUTE + int(rng.expovariate(1 / mean)))
        ends = rng.choice(["stopped", "killed", "records_lost", "records_missing"])
        yield Cover(since, max(since, until), begins, ends)
        gap = {"records_missing": 3 * HOUR, "records_lost": 20 * MINUTE}.get(ends, 10 * MINUTE)
        since = until + rng.randint(1000, gap)
        restated = ends.startswith("records")
        begins = "restated" if restated else rng.choice(["started_cold", "started_warm"])


def _lives(rng: random.Random, end: int) -> Iterator[_Life]:
    since = rng.randint(0, 5 * HOUR)
    while since < end:
        until = since + 1000 + int(rng.expovariate(1 / rng.choice([HOUR, 8 * HOUR, 40 * HOUR])))
        yield _Life(since, until, rng.choice(["goodbye", "crash", "hang"]))
        since = until + rng.choice([MINUTE, HOUR, 8 * HOUR]) + rng.randint(0, HOUR)


def _parts(rng: random.Random, life: _Life) -> Iterator[_Life]:
    """As one node sees a life: with breaks, late, or not at all."""
    if rng.random() < 0.08:
        return
    cuts = [life.since + rng.randint(0, 2000)]
    if rng.random() < 0.5:
        moment = rng.randint(life.since, life.until)
        for _ in range(rng.randint(1, 14)):
            cuts += [moment, moment + rng.randint(0, 60_000)]
            moment = cuts[-1] + rng.randint(0, 5 * MINUTE)
    deaf = life.end == "goodbye" and rng.random() < 0.15
    cuts.append(life.until + rng.randint(0, 1500))
    cuts.sort()
    ends = ["crash"] * (len(cuts) // 2 - 1) + ["hang" if deaf else life.end]
    for (since, until), end in zip(list(pairwise(cuts))[::2], ends, strict=True):
        yield _Life(since, until, end)


def _play(
    rng: random.Random,
    place: _Place,
    covers: list[Cover],
    lives: list[_Life],
    stays: list[Stay],
    doubts: list[Doubt],
) -> None:
    """What a node that is not always there makes of ``lives``."""
    free = 0  # from when a new session may begin
    for life in lives:
        cause, until = _ending(rng, life)
        since = max(life.since, free)
        stay: Stay | None = None
        for cover in covers:
            if stay is not None and cover.begins == "started_cold":
                last = covers[covers.index(cover) - 1].until
                stays.append(replace(stay, until=last, cause="node_restarted", told=cover.since))
                stay, since = None, cover.since + rng.randint(100, 200_000)
            elif stay is not None and cover.begins == "restated" and until < cover.since:
                last = covers[covers.index(cover) - 1].until
                stays.append(replace(stay, until=last, cause="lost_track", told=cover.since))
                stay, since = None, _NEVER
            elif stay is not None and cover.begins == "started_warm":
                alive = until > cover.since
                heard = cover.since + rng.randint(100, 150_000)
                until = max(until, heard) if alive else cover.since + 120_000
                cause = cause if alive else "not_confirmed"
                doubts.append(Doubt(*place, "unconfirmed", cover.since, min(heard, until)))
            if stay is None:
                since = max(since, cover.since)
                if since >= min(until, cover.until) or life.until <= since:
                    continue
                began = "restated" if since == cover.since and life.since < since else "registered"
                stay = Stay(*place, since, _NEVER, began, None, _NEVER)
                if cause == "expired" and rng.random() < 0.2 and until + 5 * MINUTE < cover.until:
                    doubts.append(Doubt(*place, "held", until, until + 5 * MINUTE))
                    until += 5 * MINUTE
            if until <= cover.until:
                back = rng.choice([0] * 30 + [90_000])  # the clock was set back
                stays.append(replace(stay, until=until - back, cause=cause, told=until))
                stay = None
                break
        free = until
        if stay is not None:
            stays.append(stay)
            return


def _ending(rng: random.Random, life: _Life) -> tuple[str, int]:
    if life.end == "goodbye":
        return rng.choice(["unregister", "unregister", "unregister", "admin", "moved"]), life.until
    if life.end == "crash":
        return rng.choice(["connection_closed", "replaced"]), life.until
    return rng.choice(["expired", "idle"]), life.until + 120_000


def _broker(who: tuple[str, str, int, str]) -> dict[str, Any]:
    return dict(zip(("cluster", "broker", "broker_id", "addr"), who, strict=True))
