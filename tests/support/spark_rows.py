"""Rows for tests of the pipeline: only what matters is given, the rest is filled in."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import FILLED
from routebook_spark.tables import OPEN

T0 = datetime(2026, 11, 15, tzinfo=UTC)
T0_MS = 1794700800000


def at(ms: float) -> datetime:
    """The instant ``ms`` milliseconds after the first midnight of the tests."""
    return datetime.fromtimestamp((T0_MS + ms) / 1000, UTC)


def frame(spark: SparkSession, schema: StructType, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Rows by name; what is not given is null, or as it is when nobody says anything.

    ``until_day`` follows from the end.
    """
    names = [field.name for field in schema]
    filled = []
    for row in rows:
        unknown = set(row) - set(names)
        assert not unknown, f"no such columns: {unknown}"
        values = {name: FILLED[name] for name in FILLED if name in names} | dict(row)
        if "until_day" in names and "until_day" not in values:
            values["until_day"] = _until_day(values)
        filled.append(values)
    return local_frame(spark, schema, filled)


def _until_day(values: Mapping[str, Any]) -> date:
    if values.get("to_seq") is None:
        return OPEN
    for name in ("ended_at", "valid_to", "to_at"):
        end = values.get(name)
        if end is not None:
            return end.astimezone(UTC).date() if isinstance(end, datetime) else OPEN
    return OPEN
