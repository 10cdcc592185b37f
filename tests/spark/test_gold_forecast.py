from datetime import date, timedelta

import pytest
from pyspark.sql import SparkSession

from routebook.wire.broker_requests import Topic, plain_body, plain_slice
from routebook.wire.registration import DataVersion
from routebook_spark import schemas
from routebook_spark.gold.forecast import (
    FIXED_BYTES,
    LIMIT_BYTES,
    TOPIC_BYTES,
    capacity_forecast,
)
from support.generated_routes import Made, Row, joined, make, recorded
from support.plain_days import ordered, sizes, told
from support.spark_rows import T0, at, frame

DAY = 86_400_000


def build(
    spark: SparkSession, made: Made, earlier: list[Row] | None = None, from_day: date | None = None
) -> list[Row]:
    rows = capacity_forecast(
        frame(spark, schemas.ROUTE_VERSIONS, made.versions),
        frame(spark, schemas.NODE_COVERAGE, made.coverage),
        frame(spark, schemas.CAPACITY_FORECAST, earlier or []),
        from_day=from_day,
    )
    assert rows.schema.names == schemas.CAPACITY_FORECAST.names
    return told(rows)


def sized(rows: list[Row]) -> list[Row]:
    names = ("day", "cluster", "broker", "topics", "registration_bytes")
    return ordered({name: row[name] for name in names} for row in rows)


def slope(points: list[tuple[int, int]]) -> float:
    """Of the line that fits best."""
    n = len(points)
    x_mean, y_mean = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    rise = sum((x - x_mean) * (y - y_mean) for x, y in points)
    return rise / sum((x - x_mean) * (x - x_mean) for x, _ in points)


def expect(rows: list[Row], column: str, row: Row) -> float | None:
    """What the slope of ``column`` should be on a row."""
    points = [
        ((one["day"] - row["day"]).days, one[column])
        for one in rows
        if (one["cluster"], one["broker"]) == (row["cluster"], row["broker"])
        and timedelta(0) <= row["day"] - one["day"] < timedelta(days=28)
    ]
    return slope(points) if len(points) >= 3 else None


def test_sizes_and_slopes_are_those_of_plain_python_however_it_is_built(
    spark: SparkSession,
) -> None:
    made = joined(make(1, days=33), recorded(9))
    rows: list[Row] = []
    first = None
    for days in (2, 31, 34):
        so_far = made.until(T0 + timedelta(days=days))
        rows = [row for row in rows if first is not None and row["day"] < first]
        rows += build(spark, so_far, rows, first)
        first = so_far.horizon().date()
    assert sized(rows) == ordered(sizes(made, topic_bytes=TOPIC_BYTES, fixed_bytes=FIXED_BYTES))
    for row in rows:
        for column, per_day in (
            ("topics", "topics_per_day"),
            ("registration_bytes", "bytes_per_day"),
        ):
            assert row[per_day] == pytest.approx(expect(rows, column, row), abs=1e-6)


@pytest.fixture(scope="module")
def stories(spark: SparkSession) -> list[Row]:
    """Four days, with topics of a hundredth of the limit each."""

    def topics(broker: str, number: int, *, from_day: int, to_day: int | None = None) -> list[Row]:
        name = "t" * (LIMIT_BYTES // 200)
        ends = {} if to_day is None else {"valid_to": at(to_day * DAY), "to_seq": 1}
        common = {"node": "ns-1", "cluster": "c", "broker": broker, "from_seq": 1, **ends}
        begin = at(from_day * DAY + 1000)
        names = [f"{name}{from_day}{n}" for n in range(number)]
        return [{**common, "topic": name, "valid_from": begin} for name in names]

    versions = [
        *(row for day in range(4) for row in topics("growing", 10, from_day=day)),
        *topics("shrinking", 5, from_day=0),
        *topics("shrinking", 5, from_day=1, to_day=2),
        *topics("new", 5, from_day=2),
        *topics("too-large", 110, from_day=0),
    ]
    coverage = [{"node": "ns-1", "from_at": at(0), "to_at": at(4 * DAY - 1)}]
    return build(spark, Made(versions, coverage))


def last_of(rows: list[Row], broker: str) -> Row:
    return max((row for row in rows if row["broker"] == broker), key=lambda row: row["day"])


def test_a_growing_group_meets_the_limit_on_a_day(stories: list[Row]) -> None:
    row = last_of(stories, "growing")
    assert (row["topics"], row["topics_per_day"], row["history_days"]) == (40, 10.0, 4)
    assert (row["registration_bytes"], row["bytes_per_day"]) == (6_717_094, 1_679_200.0)
    # Ten of a hundredth of the limit a day: six more days, a little less for what is around names.
    assert row["days_to_limit"] == pytest.approx(6, abs=0.02)
    assert row["limit_on"] == date(2026, 11, 24)
    assert row["limit_bytes"] == LIMIT_BYTES


@pytest.mark.parametrize("broker", ["shrinking", "new"])
def test_without_growth_or_history_there_is_no_such_day(stories: list[Row], broker: str) -> None:
    row = last_of(stories, broker)
    assert (row["days_to_limit"], row["limit_on"]) == (None, None)


def test_what_came_and_went_again_did_not_grow(spark: SparkSession) -> None:
    # Of these days and sizes, 466 bytes and 1,326, the slope in floating point is not quite 0.
    common = {"node": "ns-1", "cluster": "c", "broker": "b", "from_seq": 1}
    versions: list[Row] = [{**common, "topic": "t" * 14, "valid_from": at(1000)}]
    passing = {"valid_from": at(DAY + 1000), "valid_to": at(3 * DAY), "to_seq": 2}
    versions += [{**common, **passing, "topic": "p" * 13 + str(n)} for n in range(5)]
    coverage = [{"node": "ns-1", "from_at": at(0), "to_at": at(4 * DAY - 1)}]
    rows = sorted(build(spark, Made(versions, coverage)), key=lambda row: row["day"])
    assert [row["registration_bytes"] for row in rows] == [466, 1326, 1326, 466]
    assert (rows[-1]["bytes_per_day"], rows[-1]["days_to_limit"]) == (0.0, None)


def test_a_group_beyond_the_limit_is_there_already(stories: list[Row]) -> None:
    row = last_of(stories, "too-large")
    assert (row["days_to_limit"], row["limit_on"]) == (0.0, row["day"])


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_the_estimate_is_the_size_of_a_real_registration(count: int) -> None:
    topics = [Topic(f"topic-of-a-usual-length-ü-{n}") for n in range(count)]
    version = DataVersion(1_000, 1, 1_794_700_800_000)
    body = plain_body(version, [plain_slice(topics)], mapping_version=version)
    estimate = FIXED_BYTES + sum(TOPIC_BYTES + 2 * len(t.name.encode()) for t in topics)
    assert estimate == pytest.approx(len(body), rel=0.005, abs=10)
