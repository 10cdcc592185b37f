"""What docs/pipeline shows of reading tables without Spark, and of their upkeep."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from routebook_spark import schemas, session, tables
from routebook_spark.tables import Lake
from support.spark_rows import frame

PAGES = Path(__file__).parents[2] / "docs" / "pipeline"
DOCUMENT = PAGES / "questions.md"
DAYS = [date(2026, 11, 14), date(2026, 11, 15)]


def code_of(document: Path) -> str:
    fence = r"^```python by \S+reading_without_spark.py\S*\n(.*?)^```$"
    (block,) = re.findall(fence, document.read_text(), re.M | re.S)
    return str(block)


def test_polars_and_duckdb_read_the_tables_as_documented(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    availability = [
        {
            "day": day,
            "grain": "day",
            "cluster": "c",
            "broker": broker,
            "broker_id": 0,
            "availability": share,
            "down_s": 86_400 * (1 - share),
        }
        for day in DAYS
        for broker, share in (("broker-a", 1.0), ("broker-b", 0.75))
    ]
    lake.replace(
        tables.BROKER_AVAILABILITY, frame(lake.spark, schemas.BROKER_AVAILABILITY, availability)
    )
    flaps = [{"day": day, "broker": "broker-b", "transitions": 3} for day in DAYS]
    lake.replace(tables.FLAPS, frame(lake.spark, schemas.FLAPS, flaps))
    # Written again, so that there are files which are no longer part of the table.
    lake.replace(
        tables.FLAPS,
        frame(lake.spark, schemas.FLAPS, [{**flaps[1], "transitions": 5}]),
        where="day >= '2026-11-15'",
    )
    names: dict[str, Any] = {}
    code = code_of(DOCUMENT).replace("/data/tables", lake.root)
    exec(compile(code, str(DOCUMENT), "exec"), names)
    assert names["worst"].rows() == [("c", "broker-b", 0.75, 43_200.0), ("c", "broker-a", 1.0, 0.0)]
    assert names["flapping"].fetchall() == [("broker-b", 8)]
    assert "broker-b" in capsys.readouterr().out


def test_tables_are_the_same_after_their_upkeep(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in ("broker-a", "broker-b"):  # a file each, in one partition
        row = {"day": DAYS[0], "broker": broker, "transitions": 3}
        lake.append(tables.FLAPS, frame(lake.spark, schemas.FLAPS, [row]))
    before = sorted(map(str, lake.read(tables.FLAPS).collect()))
    monkeypatch.setattr(session, "build_session", lambda name: lake.spark)
    code = code_of(PAGES / "upkeep.md").replace("/data/tables", lake.root)
    exec(compile(code, "upkeep.md", "exec"), {})
    assert sorted(map(str, lake.read(tables.FLAPS).collect())) == before
    operations = {row.operation for row in lake.delta(tables.FLAPS).history().collect()}
    assert {"OPTIMIZE", "VACUUM END"} <= operations
