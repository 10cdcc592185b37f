"""Flaps: each definition by a story, all of them at once against a slow reference."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from routebook_spark import schemas
from routebook_spark.gold.flaps import flaps
from support.plain_hours import flap_rows
from support.silver_histories import DAY, SilverRows, recorded_rows, silver_history
from support.spark_rows import T0_MS, at, frame

SLOT_MS = 5 * DAY  # between stories: longer than anything is remembered
HOUR_S, DAY_S = 3600, 86_400

Key = tuple[Any, ...]
Stay = tuple[str, str, float, float | None, str | None]
"""Node, broker, from and to in seconds, and the cause of the end; None: as long as the story."""


@dataclass(frozen=True, slots=True)
class Story:
    """What happens within days; ``expected`` columns by broker, node and hour."""

    stays: tuple[Stay, ...]
    expected: Mapping[tuple[str, str, int], Mapping[str, Any]]
    nodes: tuple[str, ...] = ("n1",)
    starts_s: Mapping[str, int] = field(default_factory=dict)  # of nodes, if not at the beginning
    begins: str = "restated"


def leaves(
    count: int, *, from_s: float = 0, every_s: float, node: str = "n1", broker: str = "b"
) -> tuple[Stay, ...]:
    """The broker was always there, drops ``count`` times, and is back at once."""
    ends = [from_s + every_s * number for number in range(count)]
    begins = [-2 * DAY_S, *ends]
    causes = ["connection_closed"] * count + [None]
    return tuple(
        (node, broker, since, until, cause)
        for since, until, cause in zip(begins, [*ends, None], causes, strict=True)
    )


STORIES = {
    "to come for the first time is no transition": Story((("n1", "b", 0, None, None),), {}),
    "to go and to come back are one each": Story(
        (("n1", "b", 0, 3600, "expired"), ("n1", "b", 4500, None, None)),
        {
            ("b", "n1", 1): {
                "transitions": 2,
                "peak_penalty": 1500.0,
                "end_penalty": 1500 / 2**3,
                "suppressed_s": 0.0,
                "causes": {"expired": 1, "registered": 1},
            }
        },
    ),
    "above 2000 it is suppressed until it is below 750": Story(
        (("n1", "b", -DAY_S, 0, "expired"), ("n1", "b", 0, 0, "idle")),
        {
            ("b", "n1", 0): {
                "transitions": 3,
                "peak_penalty": 3000.0,
                "end_penalty": 187.5,
                "suppressed_s": 1800.0,
                "causes": {"expired": 1, "idle": 1, "registered": 1},
            }
        },
    ),
    "at 2000 it is not suppressed": Story(
        leaves(1, every_s=1),
        {("b", "n1", 0): {"transitions": 2, "peak_penalty": 2000.0, "suppressed_s": 0.0}},
    ),
    "once suppressed it is so below 2000, too": Story(
        # 4000 at first; 1000 of it after half an hour, and 2000 with what comes then.
        (*leaves(2, every_s=0)[:2], ("n1", "b", 0, 1800, "expired")),
        {("b", "n1", 0): {"transitions": 5, "suppressed_s": 1800 + 1273.534}},
    ),
    "once below 750 it is not suppressed by what would have kept it so": Story(
        # 4000 at first; 500 of it after three quarters of an hour, and 1500 with what comes then.
        (*leaves(2, every_s=0)[:2], ("n1", "b", 0, 2700, "expired")),
        {("b", "n1", 0): {"transitions": 5, "suppressed_s": 2173.534, "end_penalty": 750.0}},
    ),
    "the penalty has a ceiling": Story(
        leaves(20, every_s=0),
        {
            ("b", "n1", 0): {
                "transitions": 40,
                "peak_penalty": 16_000.0,
                "end_penalty": 1000.0,
                "suppressed_s": 3600.0,
            },
            ("b", "n1", 1): {
                "transitions": 0,
                "peak_penalty": 1000.0,
                "suppressed_s": 373.534,
                "culprit": None,
                "causes": {},
            },
        },
    ),
    "what happened before midnight counts after it": Story(
        leaves(20, from_s=DAY_S - 60, every_s=0),
        {
            ("b", "n1", 23): {"transitions": 40, "suppressed_s": 60.0},
            ("b", "n1", 24): {"transitions": 0, "suppressed_s": 3600.0},
            ("b", "n1", 25): {"transitions": 0, "suppressed_s": 313.534},
        },
    ),
    "to unregister is no transition, to return from it is": Story(
        (("n1", "b", 0, 3600, "unregister"), ("n1", "b", 3700, None, None)),
        {("b", "n1", 1): {"transitions": 1, "causes": {"registered": 1}}},
    ),
    "what a restarting node forgets did not go, and does not come back": Story(
        (
            ("n1", "b", 0, 3600, "node_restarted"),
            ("n1", "b", 3700, 3800, "lost_track"),
            ("n1", "b", 3900, None, None),
        ),
        {},
    ),
    "to return after more than a day is a new beginning": Story(
        (("n1", "b", 0, 3600, "expired"), ("n1", "b", DAY_S + 3601, None, None)),
        {("b", "n1", 1): {"transitions": 1}},
    ),
    "who flaps on the only node is unknown": Story(
        leaves(2, every_s=60), {("b", "n1", 0): {"culprit": "unknown"}}
    ),
    "the broker is to blame when all nodes see it": Story(
        leaves(2, every_s=60) + leaves(1, from_s=30, every_s=60, node="n2"),
        {("b", "n1", 0): {"culprit": "broker"}, ("b", "n2", 0): {"culprit": "broker"}},
        nodes=("n1", "n2"),
    ),
    "the network is to blame when some see it and others do not": Story(
        (*leaves(2, every_s=60), ("n2", "b", 0, None, None)),
        {("b", "n1", 0): {"culprit": "network"}},
        nodes=("n1", "n2"),
    ),
    "a node is to blame when it alone sees most of its brokers flap": Story(
        leaves(2, every_s=60, broker="b")
        + leaves(2, every_s=60, broker="c")
        + (("n1", "d", 0, None, None), ("n2", "b", 0, None, None)),
        {("b", "n1", 0): {"culprit": "node"}, ("c", "n1", 0): {"culprit": "node"}},
        nodes=("n1", "n2"),
    ),
    "a node is not to blame for half of its brokers": Story(
        leaves(2, every_s=60, broker="b")
        + leaves(2, every_s=60, broker="c")
        + (("n1", "d", 0, None, None), ("n1", "e", 0, None, None)),
        {("b", "n1", 0): {"culprit": "network"}, ("c", "n1", 0): {"culprit": "network"}},
        nodes=("n1", "n2"),
    ),
    "a node that has just restarted does not say otherwise": Story(
        (*leaves(2, every_s=60), ("n2", "b", 30, None, None)),
        {("b", "n1", 0): {"culprit": "unknown"}},
        nodes=("n1", "n2"),
        starts_s={"n2": 30},
    ),
    "a node that began with what it knew has not heard of its brokers yet": Story(
        (*leaves(2, from_s=100, every_s=60), ("n2", "b", 0, None, None)),
        {("b", "n1", 0): {"culprit": "unknown"}},
        nodes=("n1", "n2"),
        begins="started_warm",
    ),
    "a node that began with nothing does not say otherwise until it would know": Story(
        leaves(2, from_s=100, every_s=60),
        {("b", "n1", 0): {"culprit": "unknown"}},
        nodes=("n1", "n2"),
        begins="started_cold",
    ),
    "nodes of another fleet do not say otherwise": Story(
        leaves(2, every_s=60),
        {("b", "n1", 0): {"culprit": "unknown"}},
        nodes=("n1", "other/n2"),
    ),
    "where no node can be believed those that saw it are all that knew": Story(
        leaves(2, every_s=60) + leaves(1, from_s=30, every_s=60, node="n2", broker="c"),
        {("b", "n1", 0): {"culprit": "unknown"}, ("c", "n2", 0): {"culprit": "unknown"}},
        nodes=(),
    ),
    "a node is not to blame for what another sees of the same broker": Story(
        leaves(2, every_s=60, broker="b")
        + leaves(2, every_s=60, broker="c")
        + leaves(2, every_s=60, broker="d")
        + leaves(2, every_s=60, broker="b", node="n2"),
        {
            ("b", "n1", 0): {"culprit": "broker"},
            ("b", "n2", 0): {"culprit": "broker"},
            ("c", "n1", 0): {"culprit": "node"},
            ("d", "n1", 0): {"culprit": "node"},
        },
        nodes=("n1", "n2"),
    ),
}


def rows_of(stories: Mapping[str, Story]) -> SilverRows:
    """The stories one after the other, each in a cluster of its name."""
    rows = SilverRows([], [], [], [])
    for number, (name, story) in enumerate(stories.items()):
        base = number * SLOT_MS
        for seq, (node, broker, since, end, cause) in enumerate(story.stays):
            until = 3 * DAY_S if end is None else end
            rows.sessions.append(
                {
                    "cluster": name,
                    "broker": broker,
                    "broker_id": 0,
                    "addr": "a:1",
                    "node": node,
                    "from_seq": base + since * 1000 + seq,
                    "to_seq": base + until * 1000 + seq + 1,
                    "began_at": at(base + since * 1000),
                    "ended_at": at(base + until * 1000),
                    "began": "registered",
                    "cause": cause or "unregister",
                }
            )
        for node in story.nodes:
            fleet, _, name = node.rpartition("/")
            since = base + 1000 * story.starts_s.get(node, 0)
            times = {"from_at": at(since), "to_at": at(base + 3 * DAY)}
            span = {"from_seq": since, "to_seq": base + 3 * DAY + 1000, "begins": story.begins}
            rows.coverage.append({"fleet": fleet or "default", "node": name, **span, **times})
    return rows


def table(spark: SparkSession, rows: SilverRows, *, from_day: date | None = None) -> DataFrame:
    return flaps(
        frame(spark, schemas.BROKER_SESSIONS, rows.sessions),
        frame(spark, schemas.NODE_COVERAGE, rows.coverage),
        frame(spark, schemas.CLOCK_SKEW, rows.skew),
        from_day=from_day,
    )


def keyed(rows: list[Row]) -> dict[Key, dict[str, Any]]:
    """By (fleet, cluster, broker, id, node, hour in ms)."""
    found = {}
    for row in rows:
        values = row.asDict()
        hour = round(values.pop("window_at").timestamp() * 1000)
        assert values["day"] == at(hour - T0_MS).date()
        names = ("fleet", "cluster", "broker", "broker_id", "node")
        key = (*(values.pop(name) for name in names), hour)
        assert key not in found
        found[key] = values
    return found


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[Key, dict[str, Any]]:
    rows = table(spark, rows_of(STORIES))
    assert rows.schema.fieldNames() == schemas.FLAPS.fieldNames()
    return keyed(rows.collect())


@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_flaps(told: dict[Key, dict[str, Any]], name: str) -> None:
    begin = T0_MS + list(STORIES).index(name) * SLOT_MS
    found = {
        (broker, node, (ms - begin) // (HOUR_S * 1000)): row
        for (_, cluster, broker, _, node, ms), row in told.items()
        if cluster == name
    }
    expected = STORIES[name].expected
    assert found.keys() == expected.keys()
    for key, columns in expected.items():
        assert {column: found[key][column] for column in columns} == {
            column: pytest.approx(value, abs=1e-3) if isinstance(value, float) else value
            for column, value in columns.items()
        }


HISTORY = silver_history(23, brokers=6, days=5, restart_hours=14)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> dict[Key, dict[str, Any]]:
    return keyed(table(spark, HISTORY.rows()).collect())


def test_a_generated_history_is_told_as_by_the_slow_reference(
    whole: dict[Key, dict[str, Any]],
) -> None:
    rows = HISTORY.rows()
    expected = flap_rows(rows.sessions, rows.coverage, rows.skew)
    assert {flap.culprit for flap in expected.values()} == {
        None,
        "broker",
        "network",
        "node",
        "unknown",
    }
    check(whole, rows)


def test_a_history_of_records_is_told_as_by_the_slow_reference(spark: SparkSession) -> None:
    rows = recorded_rows(5)
    check(keyed(table(spark, rows).collect()), rows)


def check(found: Mapping[Key, dict[str, Any]], rows: SilverRows) -> None:
    expected = flap_rows(rows.sessions, rows.coverage, rows.skew)
    assert found.keys() == expected.keys()
    for key, flap in expected.items():
        row = found[key]
        assert (row["transitions"], row["causes"]) == (flap.transitions, flap.causes), key
        assert row["culprit"] == flap.culprit, key
        numbers = (row["peak_penalty"], row["end_penalty"], row["suppressed_s"])
        assert numbers == pytest.approx((flap.peak, flap.end, flap.suppressed_ms / 1000), abs=2e-3)


def test_day_by_day_gives_what_all_at_once_does_though_a_node_is_late(
    spark: SparkSession, whole: dict[Key, dict[str, Any]]
) -> None:
    known: dict[Key, dict[str, Any]] = {}
    from_day: date | None = None
    for days, late_ms in ((3, 7 * 3_600_000), (4, 20_000), (None, 0)):
        limits = None
        if days is not None:
            limits = dict.fromkeys(HISTORY.covers, days * DAY - 30_000)
            limits["ns-2"] = days * DAY - late_ms
        new = keyed(table(spark, HISTORY.rows(limits), from_day=from_day).collect())
        assert from_day is None or min(row["day"] for row in new.values()) >= from_day
        known = {k: row for k, row in known.items() if from_day and row["day"] < from_day} | new
        if limits is not None:
            from_day = at(min(limits.values()) - 1000).date()
    assert known == whole
