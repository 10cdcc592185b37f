from datetime import date, timedelta

import pytest
from pyspark.sql import SparkSession

from routebook_spark import schemas
from routebook_spark.gold.demand import topic_demand
from support.generated_routes import Made, Row, joined, make, recorded, window
from support.plain_days import demand, ordered, told
from support.spark_rows import T0, T0_MS, at, frame

HOUR, DAY = 3_600_000, 86_400_000


def build(
    spark: SparkSession, made: Made, earlier: list[Row] | None = None, from_day: date | None = None
) -> list[Row]:
    rows = topic_demand(
        frame(spark, schemas.EVENTS, made.windows),
        frame(spark, schemas.ROUTE_VERSIONS, made.versions),
        frame(spark, schemas.NODE_COVERAGE, made.coverage),
        frame(spark, schemas.TOPIC_DEMAND, earlier or []),
        from_day=from_day,
    )
    assert rows.schema.names == schemas.TOPIC_DEMAND.names
    return told(rows)


def thinned(made: Made) -> Made:
    """After two days there are few questions, and none for orders."""
    early = T0 + timedelta(days=2)
    busy = [row for row in made.windows if row["at"] < early]
    quiet = [row for row in made.windows if row["at"] >= early][::40]
    for row in quiet:
        queries = row["data"]["queries"]
        row["data"]["queries"] = [query for query in queries if query["topic"] != "orders"]
    return Made(made.versions, made.coverage, [*busy, *quiet])


def test_rows_are_those_of_counting_one_by_one_however_they_are_built(spark: SparkSession) -> None:
    made = joined(thinned(make(2, days=14)), recorded(8))
    rows: list[Row] = []
    first = None
    for days in (5, 11, 15):
        so_far = made.until(T0 + timedelta(days=days))
        rows = [row for row in rows if first is not None and row["day"] < first]
        rows += build(spark, so_far, rows, first)
        first = so_far.horizon().date()
    assert ordered(rows) == ordered(demand(made))
    assert {row["exists"] for row in rows} == {True, False}
    assert any(row["zombie"] for row in rows)


@pytest.fixture(scope="module")
def fortnight(spark: SparkSession) -> list[Row]:
    """Twelve days; nobody counted on the fourth, and too much to list on the fifth."""
    topics = ("silent", "asked", "young", "TBW102")
    given = {"node": "ns-1", "cluster": "c", "broker": "broker-a", "from_seq": 1}
    made = Made(
        versions=[
            {**given, "topic": topic, "valid_from": at(9 * DAY if topic == "young" else 0)}
            for topic in topics
        ],
        coverage=[
            {"node": "ns-1", "from_at": at(0), "to_at": at(3 * DAY - 1)},
            {"node": "ns-1", "from_at": at(4 * DAY), "to_at": at(12 * DAY - 1)},
        ],
        windows=[
            window(
                "ns-1", T0_MS + HOUR, [("silent", 5, 0, 1), ("asked", 1, 0, 0), ("typo", 0, 3, 0)]
            ),
            window("ns-2", T0_MS + HOUR + 60_000, [("asked", 2, 0, 0)]),
            window("ns-1", T0_MS + 4 * DAY, [], others=70),
            window("ns-1", T0_MS + 9 * DAY, [("asked", 1, 0, 0)]),
        ],
    )
    rows = build(spark, made)
    return sorted(rows, key=lambda row: (row["topic"], row["day"]))


def of(rows: list[Row], topic: str) -> list[Row]:
    return [row for row in rows if row["topic"] == topic]


def test_what_nodes_count_is_added_up(fortnight: list[Row]) -> None:
    first = of(fortnight, "asked")[0]
    assert first == {
        **{"day": T0.date(), "hour_at": at(HOUR), "fleet": "default", "topic": "asked"},
        **{"known": 3, "unknown": 0, "not_ready": 0, "nodes": 2, "exists": True, "system": False},
        **{"last_asked_at": at(HOUR + 60_000), "unlisted": 0, "unasked_days": 0, "zombie": False},
    }


def test_a_topic_is_a_zombie_after_seven_known_days_of_silence_and_one_more(
    fortnight: list[Row],
) -> None:
    counted = [(row["day"].day - T0.day, row["unasked_days"]) for row in of(fortnight, "silent")]
    # Not on day 3, of which nobody knows, and not counted on day 4, which had more than was listed.
    assert counted == [
        (0, 0),
        (1, 1),
        (2, 2),
        (4, 2),
        (5, 3),
        (6, 4),
        (7, 5),
        (8, 6),
        (9, 7),
        (10, 8),
        (11, 9),
    ]
    assert [r["day"].day - T0.day for r in of(fortnight, "silent") if r["zombie"]] == [10, 11]
    assert {row["last_asked_at"] for row in of(fortnight, "silent")} == {at(HOUR)}


@pytest.mark.parametrize("topic", ["asked", "young", "TBW102", "typo"])
def test_others_are_no_zombies(fortnight: list[Row], topic: str) -> None:
    assert of(fortnight, topic)
    assert not any(row["zombie"] for row in of(fortnight, topic))


def test_a_topic_nobody_has_is_a_row_where_it_was_asked_for(fortnight: list[Row]) -> None:
    rows = [(r["hour_at"], r["unknown"], r["exists"]) for r in of(fortnight, "typo")]
    assert rows == [(at(HOUR), 3, False)]
