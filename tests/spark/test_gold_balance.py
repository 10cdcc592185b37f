from datetime import date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routebook_spark import schemas
from routebook_spark.gold.balance import topic_balance
from support.generated_routes import Made, Row, joined, make, recorded
from support.plain_days import balance, ordered, told
from support.spark_rows import T0, at, frame

HOUR, MINUTE = 3_600_000, 60_000


def build(spark: SparkSession, made: Made, from_day: date | None = None) -> list[Row]:
    versions = frame(spark, schemas.ROUTE_VERSIONS, made.versions)
    coverage = frame(spark, schemas.NODE_COVERAGE, made.coverage)
    rows = topic_balance(versions, coverage, from_day=from_day)
    assert rows.schema.names == schemas.TOPIC_BALANCE.names
    return told(rows)


def test_rows_are_those_of_looking_at_every_hour_however_they_are_built(
    spark: SparkSession,
) -> None:
    made = joined(make(1), recorded(7))
    rows: list[Row] = []
    first = None
    for days in (3, 4, 5):
        so_far = made.until(T0 + timedelta(days=days))
        rows = [row for row in rows if first is not None and row["day"] < first]
        rows += build(spark, so_far, first)
        first = so_far.horizon().date()
    assert ordered(rows) == ordered(balance(made))
    assert len(rows) > 200


# -- stories: each has a day of its own, and all are built at once

Story = tuple[list[Row], list[Row]]


def route(broker: str, begin: float, end: float | None = None, **others: Any) -> Row:
    given = {"node": "ns-1", "cluster": "c", "topic": "orders", "perm": 6, "from_seq": int(begin)}
    queues = {"read_queues": 8, "write_queues": 8}
    ends = {"valid_to": at(24 * HOUR - 1 if end is None else end), "to_seq": 1}
    return {**given, **queues, "broker": broker, "valid_from": at(begin), **ends, **others}


def known(begin: float, end: float, node: str = "ns-1") -> Row:
    return {"node": node, "from_at": at(begin), "to_at": at(end - 1), "from_seq": 1, "to_seq": 1}


STORIES: dict[str, Story] = {
    "moved": (
        [
            route("broker-a", 0, write_queues=12),
            route("broker-b", 0, 2 * HOUR + 10 * MINUTE, write_queues=4),
            route("broker-c", 2 * HOUR + 20 * MINUTE, write_queues=4),
            route("broker-d", 0, perm=4),
        ],
        [known(0, 5 * HOUR)],
    ),
    "vanished": ([route("broker-a", 0, 3 * HOUR)], [known(0, 24 * HOUR)]),
    "nobody knows": (
        [route("broker-a", 0)],
        [known(0, 90 * MINUTE), known(4 * HOUR + 30 * MINUTE, 7 * HOUR)],
    ),
    "cold start": (
        [route("broker-a", 0, 2 * HOUR, end_cause="node_restarted")],
        [known(0, 2 * HOUR + 1), known(5 * HOUR, 7 * HOUR)],
    ),
    "two nodes": (
        [route("broker-a", 0), route("broker-b", 0, node="ns-2")],
        [known(0, 130 * MINUTE), known(0, 4 * HOUR, node="ns-2")],
    ),
}


def on_day(number: int, row: Row) -> Row:
    later = timedelta(days=number)
    return {
        name: value + later if isinstance(value, datetime) else value for name, value in row.items()
    }


@pytest.fixture(scope="module")
def stories(spark: SparkSession) -> dict[str, list[Row]]:
    """The rows of each, as if it were the first day."""
    made = Made()
    for number, (routes, coverage) in enumerate(STORIES.values()):
        made.versions += [on_day(number, row) for row in routes]
        made.coverage += [on_day(number, row) for row in coverage]
    rows = sorted(build(spark, made), key=lambda row: row["hour_at"])
    return {
        name: [on_day(-number, row) for row in rows if row["day"] == T0.date() + timedelta(number)]
        for number, name in enumerate(STORIES)
    }


def test_queues_that_move_away_leave_a_broker_alone_for_a_while(
    stories: dict[str, list[Row]],
) -> None:
    first, second = stories["moved"]
    assert first == {
        **{
            "day": T0.date(),
            "hour_at": at(0),
            "fleet": "default",
            "cluster": "c",
            "topic": "orders",
        },
        **{"brokers": 3, "writable_brokers": 2, "write_queues": 16, "read_queues": 24},
        **{"min_queues": 4, "max_queues": 12, "skew": 1.5, "top_broker": "broker-a"},
        **{"single_broker": False, "single_broker_s": 0.0},
    }
    assert second == first | {"hour_at": at(2 * HOUR), "single_broker_s": 600.0}


@pytest.mark.parametrize(
    ("story", "column", "expected"),
    [
        pytest.param(
            "vanished", "brokers", [(0, 1), (3, 0)], id="a-vanished-topic-has-no-brokers-once"
        ),
        pytest.param(
            "nobody knows",
            "single_broker_s",
            [(0, 3600.0)],
            id="what-nobody-knows-is-no-change-and-not-alone",
        ),
        pytest.param(
            "cold start", "brokers", [(0, 1), (5, 0)], id="what-a-cold-start-forgot-is-gone"
        ),
        pytest.param(
            "two nodes",
            "top_broker",
            [(0, "broker-a"), (2, "broker-b")],
            id="the-node-that-knew-most-of-the-hour-is-believed",
        ),
    ],
)
def test_hours_with_a_row(
    stories: dict[str, list[Row]], story: str, column: str, expected: list[tuple[int, Any]]
) -> None:
    rows = [(row["hour_at"], row[column]) for row in stories[story]]
    assert rows == [(at(hour * HOUR), value) for hour, value in expected]
