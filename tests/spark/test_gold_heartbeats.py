"""Heartbeats: each definition by a broker, all of them at once against a slow reference."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from routebook.events import BrokerRegistered, HeartbeatGaps
from routebook.journal.record import Record
from routebook_spark import schemas
from routebook_spark.gold.heartbeats import heartbeat_health
from routebook_spark.silver.build import silver_of
from support.plain_hours import heartbeat_rows
from support.spark_histories import events_frame, gaps_frame, histories
from support.spark_rows import T0_MS, at, frame
from support.stories import Story

HOUR, DAY = 3_600_000, 86_400_000
Key = tuple[Any, ...]

WINDOWS: dict[str, list[tuple[int, list[int]]]] = {
    "steady": [(60_000, [30_000, 29_999]), (120_000, [30_001])],
    "spread": [(60_000, [9_999, 10_000, 34_999, 35_000, 64_999, 65_000, 120_000, 120_001])],
    "near misses": [(60_000, [89_999, 90_000, 120_000, 120_001])],
    "its own timeout": [(60_000, [7_499, 7_500, 9_000, 10_000, 10_001, 40_000])],
    "many": [(number * 60_000, [30_000 + number]) for number in range(1, 60)],
    "two hours": [(HOUR - 1, [30_000]), (HOUR, [40_000])],
    "changed its timeout": [(60_000, [25_000]), (120_000, [25_000]), (180_000, [25_000])],
    "an old timeout": [(60_000, [25_000]), (DAY + 120_000, [25_000])],
    "silent": [(60_000, [])],
}
"""Broker: when a window ended, ms after midnight, and the gaps in it."""

STAYS: dict[str, list[tuple[int, int | None, int]]] = {
    "its own timeout": [(0, None, 10_000)],
    "changed its timeout": [
        (0, 90_000, 20_000),
        (90_000, 150_000, 40_000),
        (150_000, None, 20_000),
    ],
    "an old timeout": [(0, 100_000, 20_000)],
    "steady": [(0, None, 0)],  # what it said is no timeout
}
"""Broker: from and to, ms after midnight, and what it said its timeout is."""


def event_rows() -> list[dict[str, Any]]:
    return [
        {
            **_process(broker),
            "day": at(ms).date(),
            "seq": ms,
            "at": at(ms),
            "type": "HeartbeatGaps",
            "data": {"gaps_ms": gaps, "window_ms": 60_000},
        }
        for broker, windows in WINDOWS.items()
        for ms, gaps in windows
    ]


def session_rows() -> list[dict[str, Any]]:
    return [
        {
            **_process(broker),
            "from_seq": since,
            "to_seq": until,
            "began_at": at(since),
            "ended_at": None if until is None else at(until),
            "heartbeat_timeout_ms": timeout_ms,
        }
        for broker, stays in STAYS.items()
        for since, until, timeout_ms in stays
    ]


def _process(broker: str) -> dict[str, Any]:
    return {"node": "n1", "cluster": "c1", "broker": broker, "broker_id": 0, "addr": "a:1"}


def table(
    spark: SparkSession,
    events: Iterable[Mapping[str, Any]],
    sessions: Iterable[Mapping[str, Any]],
    coverage: Iterable[Mapping[str, Any]] = (),
    *,
    from_day: date | None = None,
) -> DataFrame:
    return heartbeat_health(
        frame(spark, schemas.EVENTS, events),
        frame(spark, schemas.BROKER_SESSIONS, sessions),
        frame(spark, schemas.NODE_COVERAGE, coverage),
        from_day=from_day,
    )


def keyed(rows: list[Row]) -> dict[Key, dict[str, Any]]:
    """By (node, fleet, cluster, broker, id, address, hour in ms)."""
    found = {}
    for row in rows:
        values = row.asDict()
        hour = round(values.pop("hour_at").timestamp() * 1000)
        assert values.pop("day") == at(hour - T0_MS).date()
        names = ("node", "fleet", "cluster", "broker", "broker_id", "addr")
        key = (*(values.pop(name) for name in names), hour)
        assert key not in found
        found[key] = values
    return found


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """Rows of each broker, by hour."""
    rows = table(spark, event_rows(), session_rows())
    assert rows.schema.fieldNames() == schemas.HEARTBEAT_HEALTH.fieldNames()
    brokers: dict[str, list[dict[str, Any]]] = {}
    for key, row in sorted(keyed(rows.collect()).items()):
        brokers.setdefault(key[3], []).append(row)
    return brokers


Told = dict[str, list[dict[str, Any]]]


def test_gaps_fall_into_bins_that_add_up(told: Told) -> None:
    (row,) = told["spread"]
    bins = ("under_10s", "under_35s", "under_65s", "under_timeout", "over_timeout")
    assert [row[name] for name in bins] == [1, 2, 2, 2, 1]
    assert row["heartbeats"] == 8


def test_a_near_miss_is_from_three_quarters_of_the_timeout_up_to_it(told: Told) -> None:
    (row,) = told["near misses"]
    assert (row["near_misses"], row["over_timeout"], row["gap_max_ms"]) == (2, 1, 120_001)


def test_what_is_late_for_its_own_timeout_is_over_it_however_short(told: Told) -> None:
    (row,) = told["its own timeout"]
    assert row["heartbeat_timeout_ms"] == 10_000
    assert (row["near_misses"], row["over_timeout"]) == (3, 2)
    assert (row["under_10s"], row["under_35s"], row["under_65s"]) == (3, 1, 0)


def test_a_broker_that_says_no_timeout_has_two_minutes(told: Told) -> None:
    assert told["steady"][0]["heartbeat_timeout_ms"] == 120_000
    assert told["spread"][0]["heartbeat_timeout_ms"] == 120_000


def test_the_timeout_is_that_of_the_session_a_record_is_of(told: Told) -> None:
    (row,) = told["changed its timeout"]
    assert (row["over_timeout"], row["under_35s"]) == (2, 1)
    assert row["heartbeat_timeout_ms"] == 20_000


def test_the_timeout_of_a_session_holds_for_a_day_after_it(told: Told) -> None:
    during, long_after = told["an old timeout"]
    assert (during["heartbeat_timeout_ms"], during["over_timeout"]) == (20_000, 1)
    assert (long_after["heartbeat_timeout_ms"], long_after["over_timeout"]) == (120_000, 0)


def test_a_percentile_stands_for_its_tenth_of_a_second_and_is_at_most_the_longest(
    told: Told,
) -> None:
    (row,) = told["many"]
    assert (row["heartbeats"], row["gap_max_ms"]) == (59, 30_059)
    assert (row["gap_p50_ms"], row["gap_p99_ms"]) == (30_059, 30_059)
    (steady,) = told["steady"]
    assert (steady["gap_p50_ms"], steady["gap_p99_ms"]) == (30_001, 30_001)


def test_gaps_count_in_the_hour_in_which_they_were_written_down(told: Told) -> None:
    assert [row["gap_max_ms"] for row in told["two hours"]] == [30_000, 40_000]


def test_a_window_without_gaps_says_nothing(told: Told) -> None:
    assert "silent" not in told


def generated() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Heartbeats of a fleet, and sessions of some of its brokers with timeouts that are close."""
    events = [row for records in histories(7, hours=40).values() for row in _gap_rows(records)]
    processes = sorted({tuple(row[name] for name in PROCESS) for row in events})
    sessions = []
    for number, process in enumerate(processes[::2]):
        last = max(row["seq"] for row in events if tuple(row[n] for n in PROCESS) == process)
        for begin, timeout_ms in ((0, 30_010 + number), (last // 2, 40_000), (last, 30_010)):
            ended = begin == 0
            sessions.append(
                {
                    **dict(zip(PROCESS, process, strict=True)),
                    "from_seq": begin,
                    "to_seq": last // 2 if ended else None,
                    "began_at": at(0),
                    "ended_at": at(DAY // 2) if ended else None,
                    "heartbeat_timeout_ms": timeout_ms,
                }
            )
    return events, sessions


PROCESS = ("node", "cluster", "broker", "broker_id", "addr")


def _gap_rows(records: Sequence[Record]) -> Iterable[dict[str, Any]]:
    for record in records:
        event = record.event
        if isinstance(event, HeartbeatGaps):
            moment = at(record.wall_ms - T0_MS)
            yield {
                "day": moment.date(),
                "node": record.node,
                "seq": record.seq,
                "at": moment,
                "type": "HeartbeatGaps",
                "cluster": event.cluster,
                "broker": event.broker,
                "broker_id": event.broker_id,
                "addr": event.addr,
                "data": {"gaps_ms": list(event.gaps_ms), "window_ms": event.window_ms},
            }


def test_generated_heartbeats_are_told_as_by_the_slow_reference_also_day_by_day(
    spark: SparkSession,
) -> None:
    events, sessions = generated()
    pauses = coverage_of(events)
    whole = keyed(table(spark, events, sessions, pauses).collect())
    assert whole == heartbeat_rows(events, sessions, pauses)
    assert whole != heartbeat_rows(events, sessions, [])
    last_day = max(row["day"] for row in events)
    new = keyed(table(spark, events, sessions, pauses, from_day=last_day).collect())
    since = T0_MS + (last_day - at(0).date()).days * DAY
    assert new == {key: row for key, row in whole.items() if key[-1] >= since}
    assert new


def coverage_of(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each node sleeps for two minutes before every tenth record."""
    rows = []
    for node in sorted({row["node"] for row in events}):
        own = sorted((row for row in events if row["node"] == node), key=lambda row: row["seq"])
        since = own[0]
        for row in own[10::10]:
            rows.append(
                {
                    "node": node,
                    "from_seq": since["seq"],
                    "to_seq": row["seq"],
                    "from_at": since["at"],
                    "to_at": max(since["at"], row["at"] - timedelta(minutes=2)),
                    "ends": "stalled",
                }
            )
            since = row
        rows.append(
            {
                "node": node,
                "from_seq": since["seq"],
                "to_seq": None,
                "from_at": since["at"],
                "to_at": own[-1]["at"],
            }
        )
    return rows


def told_twice() -> list[Record]:
    """A broker asks for another timeout on its second day, and stays."""
    story = Story(node="ns-1", awake=True)
    story.at("2026-11-15T22:00:00+00:00").start().register(cluster="c1")
    story.at("2026-11-15T22:10:00+00:00").heartbeats(cluster="c1", gaps_s=(50, 100))
    story.at("2026-11-16T03:00:00+00:00").register(cluster="c1")  # on a new connection
    registered = story.records[-2]
    assert isinstance(registered.event, BrokerRegistered)
    story.records[-2] = replace(
        registered, event=replace(registered.event, heartbeat_timeout_ms=30_000)
    )
    story.at("2026-11-16T03:10:00+00:00").heartbeats(cluster="c1", gaps_s=(50, 100))
    return story.records


def test_a_timeout_that_changes_within_a_session_leaves_the_days_before_as_they_were(
    spark: SparkSession,
) -> None:
    records = told_twice()
    second_day = date(2026, 11, 16)
    known = [one for one in records if one.wall_ms < T0_MS + DAY]
    first, whole = (
        (events, silver.sessions, silver.coverage)
        for events in (events_frame(spark, known), events_frame(spark, records))
        for silver in [silver_of(events, gaps_frame(spark, {}))]
    )
    earlier = heartbeat_health(*first).collect()
    new = heartbeat_health(*whole, from_day=second_day).collect()
    full = heartbeat_health(*whole).collect()
    assert [(row.day, row.over_timeout) for row in earlier] == [(date(2026, 11, 15), 0)]
    assert keyed(earlier + new) == keyed(full)
    assert {row.heartbeat_timeout_ms for row in full} == {120_000}
