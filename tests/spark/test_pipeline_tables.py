import duckdb
import pytest
from benchmarks.engines.columns import comparable
from benchmarks.pipeline_tables import engines, exponent, markdown
from pyspark.sql.types import DoubleType, StructField, StructType

RECORDS = {"day": 1_000_000, "week": 10_000_000}


def measured(seconds: float) -> dict[str, float]:
    return {
        "seconds": seconds,
        "rss_mb": 300.0,
        "java_mb": 200.0,
        "python_mb": 100.0,
        "heap_mb": 150.0,
    }


def test_the_exponent_is_that_of_the_power_the_cost_grows_with() -> None:
    assert exponent([(10, 3.0), (100, 300.0), (1000, 30_000.0)]) == pytest.approx(2.0)
    assert exponent([(10, 3.0), (10, 4.0)]) is None


def test_what_grows_too_fast_or_takes_too_long_stands_out() -> None:
    results = {
        "day": {"scan": [measured(1)], "table:slow": [measured(2), measured(4), measured(3)]},
        "week": {"scan": [measured(10)], "table:slow": [measured(60)]},
    }
    lines = list(markdown(results, RECORDS, stages=["scan", "table:slow"], bare="scan"))
    assert "| scan | 1.0 | 10.0 | 1,000k, 1,000k | 1.00, 1.00 | 1.00 |" in lines
    assert "| slow | 3.0 (2.0..4.0) | 60.0 | 333k, 167k | 3.00, **6.00** | **1.30** |" in lines
    assert "| slow | 300 (200, 100; 150) | 300 (200, 100; 150) |" in lines


def test_an_engine_that_failed_has_no_rows_that_differ() -> None:
    nothing: dict[str, float] = {}
    results = {size: {"a": [measured(2)], "b": [nothing], "c": [measured(1)]} for size in RECORDS}
    different = {"day": {"flaps": {"duckdb": 2}}, "week": {"flaps": {"duckdb": 3}}}
    asked = {"flaps": {"spark": "a", "polars": "b", "duckdb": "c"}}
    lines = list(engines(results, different, asked=asked))
    assert lines[3:] == [
        "| flaps | spark | 2.0 (300) | 2.0 (300) | - |",
        "| flaps | polars | failed | failed | - |",
        "| flaps | duckdb | 1.0 (300) | 1.0 (300) | 5 |",
    ]


def test_floats_are_equal_whichever_way_they_would_be_rounded() -> None:
    (expression,) = comparable(StructType([StructField("share", DoubleType())]))
    below, above, other = 0.9469924999999999, 0.9469925000000001, 0.946994
    rows = duckdb.execute(
        f"SELECT {expression} FROM (SELECT unnest(?::DOUBLE[]) AS share)", [[below, above, other]]
    ).fetchall()
    assert rows[0] == rows[1] != rows[2]
