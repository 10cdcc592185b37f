"""Availability: each definition by a story, all of them at once against a slow reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from routebook_spark import schemas
from routebook_spark.gold.availability import broker_availability
from support.plain_hours import STATES, availability
from support.silver_histories import DAY, SilverRows, recorded_rows, silver_history
from support.spark_rows import T0, T0_MS, at, frame

SLOT_MS = 20 * DAY  # between stories: longer than anything is remembered
EVER = 7200  # how long the nodes of a story tell it, unless it says otherwise

Stay = tuple[str, int, int | None, str | None]
"""Node, from and to in seconds, and the cause of the end."""


@dataclass(frozen=True, slots=True)
class Story:
    """What happens to one broker, in seconds, and the seconds it is what in its first ``hours``."""

    stays: tuple[Stay, ...]
    expected: Mapping[str, float]
    covers: tuple[tuple[str, int, int, str], ...] = (("n1", 0, EVER, "started_warm"),)
    doubts: tuple[tuple[str, int, int], ...] = ()
    ahead_s: Mapping[str, int] | None = None
    hours: int = 2


BOTH = (("n1", 0, EVER, "started_warm"), ("n2", 0, EVER, "started_warm"))
ALWAYS = (("n1", 0, 15 * 86_400, "started_warm"),)
WEEK = 7 * 86_400

STORIES = {
    "a broker that is listed and was heard of is up": Story((("n1", 0, None, None),), {"up": EVER}),
    "there is nothing before it appears": Story((("n1", 1800, None, None),), {"up": EVER - 1800}),
    "one node that lists it is enough": Story((("n2", 0, None, None),), {"up": EVER}, covers=BOTH),
    "one that is recovered and not heard of is suspect": Story(
        (("n1", 0, None, None),), {"suspect": 50, "up": EVER - 50}, doubts=(("n1", 0, 50),)
    ),
    "a node that has heard of it is believed before one that has not": Story(
        (("n1", 0, None, None), ("n2", 0, None, None)),
        {"up": EVER},
        covers=BOTH,
        doubts=(("n1", 0, 50),),
    ),
    "one in doubt for two reasons is as much there as for one": Story(
        (("n1", 0, None, None), ("n2", 0, None, None)),
        {"up": EVER},
        covers=BOTH,
        doubts=(("n1", 0, 50), ("n1", 10, 60)),
    ),
    "one held by the guard is suspect until it is dropped, then down": Story(
        (("n1", 0, 1600, "expired"),),
        {"up": 1000, "suspect": 600, "down": EVER - 1600, "failures": 1},
        doubts=(("n1", 1000, 1600),),
    ),
    "one that expires and returns failed once and was repaired once": Story(
        (("n1", 0, 3600, "expired"), ("n1", 3660, None, None)),
        {"up": EVER - 60, "down": 60, "failures": 1, "repairs": 1},
    ),
    "a node that misses it does not make it down while another lists it": Story(
        (("n1", 0, 3600, "expired"), ("n2", 0, None, None)), {"up": EVER}, covers=BOTH
    ),
    "one that unregistered is away by plan": Story(
        (("n1", 0, 3600, "unregister"),), {"up": 3600, "planned": 3600}
    ),
    "one that has gone on under another id is away by plan": Story(
        (("n1", 0, 3600, "moved"),), {"up": 3600, "planned": 3600}
    ),
    "its goodbye counts though another node let it expire later": Story(
        (("n1", 0, 3600, "unregister"), ("n2", 0, 4320, "expired")),
        {"up": 4320, "planned": EVER - 4320},
        covers=BOTH,
    ),
    "its goodbye does not count when another node listed it for long after": Story(
        (("n1", 0, 3600, "unregister"), ("n2", 0, 4501, "expired")),
        {"up": 4501, "down": EVER - 4501, "failures": 1},
        covers=BOTH,
    ),
    "its goodbye does not count once it has come back": Story(
        (("n1", 0, 3600, "unregister"), ("n2", 3610, 3700, "connection_closed")),
        {"up": 3690, "planned": 10, "down": EVER - 3700, "failures": 1},
        covers=BOTH,
    ),
    "one whose id another address takes is up all the time": Story(
        (("n1", 0, 3600, "replaced"), ("n1", 3600, None, None)), {"up": EVER}
    ),
    "a node that is down knows nothing, and is not sure when it is back": Story(
        (("n1", 0, None, None),),
        {"up": 1000 + EVER - 1620, "unknown": 600, "suspect": 20},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1600, EVER, "started_warm")),
        doubts=(("n1", 1600, 1620),),
    ),
    "what a node that is down does not see another does": Story(
        (("n1", 0, None, None), ("n2", 0, 1200, "expired"), ("n2", 1300, None, None)),
        {"up": EVER - 100, "down": 100, "failures": 1, "repairs": 1},
        covers=(
            ("n1", 0, 1000, "started_warm"),
            ("n1", 1600, EVER, "started_warm"),
            ("n2", 0, EVER, "started_warm"),
        ),
    ),
    "a node that starts with nothing does not know until the broker registers": Story(
        (("n1", 0, 1000, "node_restarted"), ("n1", 1630, None, None)),
        {"up": 1000 + EVER - 1630, "unknown": 630},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1600, EVER, "started_cold")),
    ),
    "a node that starts with nothing knows after two minutes that it is gone": Story(
        (("n1", 0, 1000, "node_restarted"),),
        {"up": 1000, "unknown": 720, "down": EVER - 1720, "failures": 1},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1600, EVER, "started_cold")),
    ),
    "a node that starts with nothing knows of one that came and left again": Story(
        (("n1", 0, 1000, "node_restarted"), ("n1", 1610, 1620, "expired")),
        {"up": 1010, "unknown": 610, "down": EVER - 1620, "failures": 1},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1600, EVER, "started_cold")),
    ),
    "a node that lost records and wrote all down again knows at once": Story(
        (("n1", 0, 1000, "lost_track"),),
        {"up": 1000, "unknown": 600, "down": EVER - 1600, "failures": 1},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1600, EVER, "restated")),
    ),
    "one that is down before and after a time nobody knows failed once": Story(
        (("n1", 0, 1000, "expired"), ("n1", 3000, None, None)),
        {
            "up": 1000 + EVER - 3000,
            "down": 1400,
            "unknown": 600,
            "failures": 1,
            "repairs": 1,
        },
        covers=(("n1", 0, 1500, "started_warm"), ("n1", 2100, EVER, "started_warm")),
    ),
    "one away by plan stays so though its node starts with nothing": Story(
        (("n1", 0, 1000, "unregister"),),
        {"up": 1000, "planned": 200 + EVER - 1720, "unknown": 520},
        covers=(("n1", 0, 1200, "started_warm"), ("n1", 1600, EVER, "started_cold")),
    ),
    "one that is gone for a week is retired": Story(
        (("n1", 0, 3600, "expired"),),
        {"up": 3600, "down": WEEK, "failures": 1},
        covers=ALWAYS,
        hours=14 * 24,
    ),
    "one that returns from retirement was not repaired": Story(
        (("n1", 0, 3600, "expired"), ("n1", 3600 + 2 * WEEK, None, None)),
        {"up": 3600 + 3600, "down": WEEK, "failures": 1},
        covers=ALWAYS,
        hours=14 * 24 + 2,
    ),
    "there are no hours in which nobody was awake": Story(
        (("n1", 0, None, None),), {"up": EVER}, hours=14 * 24
    ),
    "a clock that leaps over days makes none of them": Story(
        (("n1", 0, None, None),),
        {"up": 1000 + 1000, "unknown": 2600 + 1600},  # of hours with somebody awake
        covers=(("n1", 0, 1000, "first_record"), ("n1", 868_600, 869_600, "clock_set")),
        hours=14 * 24,
    ),
    "a node that slept does not know": Story(
        (("n1", 0, None, None),),
        {"up": EVER - 135, "unknown": 135},
        covers=(("n1", 0, 1000, "started_warm"), ("n1", 1135, EVER, "woke")),
    ),
    "nodes of another fleet neither list it nor miss it": Story(
        (("n1", 0, 3600, "node_restarted"),),
        {"up": 3600},
        covers=(("n1", 0, 3600, "started_warm"), ("other/n1", 0, EVER, "started_warm")),
    ),
    "a node with another disk does not know what it knew before": Story(
        (("n1", 0, 1000, "node_restarted"), ("n1#2", 1100, None, None)),
        {"up": 1000 + EVER - 1100, "unknown": 100},
        covers=(("n1", 0, 1000, "started_warm"), ("n1#2", 1060, EVER, "first_record")),
    ),
    "clocks that differ do not make a gap longer": Story(
        (
            ("n1", 0, 3600, "expired"),
            ("n2", 300, 3900, "expired"),
            ("n1", 3660, None, None),
            ("n2", 3960, None, None),
        ),
        {"up": EVER - 60, "down": 60, "failures": 1, "repairs": 1},
        covers=(("n1", 0, EVER, "started_warm"), ("n2", 300, EVER + 300, "started_warm")),
        ahead_s={"n2": 300},
    ),
    "a stay that ends before it begins, by a clock set back, is none": Story(
        (("n1", 0, 1000, "expired"), ("n1", 2000, 1500, "expired"), ("n1", 3000, None, None)),
        {"up": 1000 + EVER - 3000, "down": 2000, "failures": 1, "repairs": 1},
    ),
    # The last one: what the nodes of all stories know ends with it.
    "nothing is said of the time after the last record": Story(
        (("n1", 0, 600, "expired"),), {"up": 600, "down": EVER - 600, "failures": 1}, hours=200
    ),
}


def rows_of(stories: Mapping[str, Story]) -> SilverRows:
    """The stories one after the other, each with a broker of its name."""
    rows = SilverRows([], [], [], [])
    for number, (name, story) in enumerate(stories.items()):
        base = number * SLOT_MS
        broker = {"cluster": "c1", "broker": name, "broker_id": 0, "addr": "a:1"}
        for node, since, until, cause in story.stays:
            rows.sessions.append(
                {
                    **broker,
                    **whose(node),
                    "from_seq": base + since * 1000,
                    "to_seq": None if until is None else base + 1000 * max(until, since + 1),
                    "began_at": at(base + since * 1000),
                    "ended_at": None if until is None else at(base + until * 1000),
                    "began": "registered",
                    "cause": cause,
                }
            )
        for node, since, until in story.doubts:
            rows.suspects.append(
                {**broker, **whose(node), "kind": "unconfirmed", **lasts(base, since, until)}
            )
        for node, since, until, begins in story.covers:
            rows.coverage.append({**whose(node), "begins": begins, **lasts(base, since, until)})
        day = (T0 + timedelta(milliseconds=base)).date()
        for node in ("n1", "n2"):
            ahead_ms = (story.ahead_s or {}).get(node, 0) * 1000
            rows.skew.append({"day": day, "node": node, "against": "n1", "offset_ms": ahead_ms})
    return rows


def whose(node: str) -> dict[str, str]:
    """Of ``other/n1``: a node of another fleet; of ``n1#2``: its second disk."""
    fleet, _, name = node.rpartition("/")
    name, _, incarnation = name.partition("#")
    return {"fleet": fleet or "default", "node": name, "incarnation": incarnation}


def lasts(base: int, since: int, until: int) -> dict[str, Any]:
    times = {"from_at": at(base + since * 1000), "to_at": at(base + until * 1000)}
    return {"from_seq": base + since * 1000, "to_seq": base + until * 1000, **times}


def table(
    spark: SparkSession, rows: SilverRows, *, from_day: date | None = None, slo: float = 0.999
) -> DataFrame:
    return broker_availability(
        frame(spark, schemas.BROKER_SESSIONS, rows.sessions),
        frame(spark, schemas.SUSPECT_TIMES, rows.suspects),
        frame(spark, schemas.NODE_COVERAGE, rows.coverage),
        frame(spark, schemas.CLOCK_SKEW, rows.skew),
        from_day=from_day,
        slo=slo,
    )


Key = tuple[Any, ...]


def keyed(rows: list[Row]) -> dict[Key, dict[str, Any]]:
    """By (fleet, cluster, broker, id, grain, ms)."""
    found = {}
    for row in rows:
        values = row.asDict()
        from_ms = round(values.pop("from_at").timestamp() * 1000)
        assert values["day"] == at(from_ms - T0_MS).date()
        names = ("fleet", "cluster", "broker", "broker_id", "grain")
        key = (*(values.pop(name) for name in names), from_ms)
        assert key not in found
        found[key] = values
    return found


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[Key, dict[str, Any]]:
    rows = table(spark, rows_of(STORIES))
    assert rows.schema.fieldNames() == schemas.BROKER_AVAILABILITY.fieldNames()
    return keyed(rows.collect())


@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_one_broker(told: dict[Key, dict[str, Any]], name: str) -> None:
    story = STORIES[name]
    begin = T0_MS + list(STORIES).index(name) * SLOT_MS
    until = begin + story.hours * 3_600_000
    hours = [
        row
        for (fleet, _, broker, _, grain, ms), row in told.items()
        if (fleet, broker, grain) == ("default", name, "hour") and ms < until
    ]
    spent = {state: sum(row[f"{state}_s"] for row in hours) for state in STATES}
    spent |= {event: sum(row[event] for row in hours) for event in ("failures", "repairs")}
    assert {what: number for what, number in spent.items() if number} == story.expected


def test_the_numbers_of_a_day_follow_from_its_hours(told: dict[Key, dict[str, Any]]) -> None:
    name = "one that expires and returns failed once and was repaired once"
    begin = T0_MS + list(STORIES).index(name) * SLOT_MS
    day = told["default", "c1", name, 0, "day", begin]
    assert day["mtbf_s"] == EVER - 60
    assert day["mttr_s"] == 60
    assert day["availability"] == pytest.approx((EVER - 60) / EVER)
    assert day["budget_s"] == pytest.approx(7.2)
    assert day["budget_left_s"] == pytest.approx(7.2 - 60)
    first = told["default", "c1", name, 0, "hour", begin]
    assert (first["mtbf_s"], first["mttr_s"], first["availability"]) == (None, None, 1)


def test_what_lasts_over_a_clock_set_back_is_there_before_and_after_it(
    spark: SparkSession,
) -> None:
    rows = SilverRows([], [], [], [])
    for seqs, times in (((0, 100), (0, 2000)), ((100, 200), (500, 3000))):
        begun, over = (at(time * 1000) for time in times)
        span = {"from_seq": seqs[0], "to_seq": seqs[1], "from_at": begun, "to_at": over}
        rows.coverage.append({"node": "n1", "begins": "started_warm", **span})
    for first, last, times, cause in (
        (50, 120, (1500, 800), "expired"),
        (130, None, (900, 0), None),
    ):
        ended = at(times[1] * 1000) if cause else None
        span = {"from_seq": first, "to_seq": last, "began_at": at(times[0] * 1000)}
        broker = {"cluster": "c1", "broker": "b", "broker_id": 0, "addr": "a:1", "node": "n1"}
        rows.sessions.append({**broker, **span, "ended_at": ended, "cause": cause})
    (hour,) = (row for row in keyed(table(spark, rows).collect()).items() if row[0][4] == "hour")
    found = {name: hour[1][name] for name in ("up_s", "down_s", "unknown_s", "failures", "repairs")}
    assert found == {"up_s": 2400, "down_s": 100, "unknown_s": 0, "failures": 1, "repairs": 1}


def test_an_hour_of_which_nothing_is_known_has_no_availability(spark: SparkSession) -> None:
    covers = (("n1", 0, 600, "started_warm"), ("n1", 7200, 7260, "started_cold"))
    stories = {"b": Story((("n1", 0, 600, "node_restarted"),), {}, covers=covers)}
    told = keyed(table(spark, rows_of(stories)).collect())
    hour = told["default", "c1", "b", 0, "hour", T0_MS + 2 * 3_600_000]
    assert hour["unknown_s"] == 60
    assert (hour["availability"], hour["budget_s"], hour["budget_left_s"]) == (None, 0, 0)
    assert len(told) == 3  # two hours, and their day


HISTORY = silver_history(3, nodes=2, days=12)
OTHERS: dict[str, Callable[[], SilverRows]] = {
    "of one node": lambda: silver_history(2, nodes=1, days=12).rows(),
    "of records": lambda: recorded_rows(5),
}
SLO = 0.9


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> dict[Key, dict[str, Any]]:
    return keyed(table(spark, HISTORY.rows(), slo=SLO).collect())


def check(found: Mapping[Key, dict[str, Any]], rows: SilverRows) -> None:
    expected = {key: totals.columns(SLO) for key, totals in availability(*rows).items()}
    assert found.keys() == expected.keys()
    for key, columns in expected.items():
        row = {name: value for name, value in found[key].items() if name != "day"}
        assert row == pytest.approx(columns, abs=1e-9), key


def test_a_history_of_two_nodes_is_told_as_by_the_slow_reference(
    whole: dict[Key, dict[str, Any]],
) -> None:
    check(whole, HISTORY.rows())


@pytest.mark.parametrize("name", OTHERS)
def test_other_histories_are_told_as_by_the_slow_reference(spark: SparkSession, name: str) -> None:
    rows = OTHERS[name]()
    check(keyed(table(spark, rows, slo=SLO).collect()), rows)


def test_day_by_day_gives_what_all_at_once_does_though_a_node_is_late(
    spark: SparkSession, whole: dict[Key, dict[str, Any]]
) -> None:
    known: dict[Key, dict[str, Any]] = {}
    from_day: date | None = None
    for days, late_ms in ((10, 7 * 3_600_000), (11, 20_000), (None, 0)):
        limits = None
        if days is not None:
            limits = {"ns-1": days * DAY - 30_000, "ns-2": days * DAY - late_ms}
        rows = table(spark, HISTORY.rows(limits), from_day=from_day, slo=SLO)
        new = keyed(rows.collect())
        assert from_day is None or min(row["day"] for row in new.values()) == from_day
        known = {k: row for k, row in known.items() if from_day and row["day"] < from_day} | new
        if limits is not None:
            from_day = at(min(limits.values()) - 1000).date()
    assert known == whole
