"""Frames of silver worked out in plain Python, and rows of gold as dicts to compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from routebook.journal.record import Record
from routebook_spark import schemas
from support.common_clock import wall_ms
from support.plain_silver import PlainSilver, instant, plain_silver
from support.spark_histories import events_frame, histories
from support.spark_rows import frame

Records = Mapping[str, Sequence[Record]]

HOUR_MS = 3_600_000
_NEVER_MS = 1 << 60


@cache
def history() -> Records:
    """Three days of three nodes, with some of everything; of the last one only 15 hours came."""
    records = histories(10, brokers=3, hours=70)
    begin_ms = min(each[0].wall_ms for each in records.values())
    return split(records, {"ns-3": begin_ms + 15 * HOUR_MS})


def delivered_first(records: Records) -> Records:
    """All but the last 16 hours, and of ns-2 all but the last 25."""
    end_ms = max(each[-1].wall_ms for each in records.values())
    return split(records, {"ns-1": end_ms - 16 * HOUR_MS, "ns-2": end_ms - 25 * HOUR_MS})


@dataclass(frozen=True, slots=True)
class Frames:
    sessions: DataFrame
    suspects: DataFrame
    versions: DataFrame
    coverage: DataFrame
    skew: DataFrame
    events: DataFrame


def frames_of(spark: SparkSession, records: Records) -> Frames:
    return gold_frames(spark, plain_silver(records), records)


def gold_frames(spark: SparkSession, silver: PlainSilver, records: Records) -> Frames:
    return Frames(
        sessions=frame(spark, schemas.BROKER_SESSIONS, silver.sessions),
        suspects=frame(spark, schemas.SUSPECT_TIMES, silver.suspects),
        versions=frame(spark, schemas.ROUTE_VERSIONS, silver.versions),
        coverage=frame(spark, schemas.NODE_COVERAGE, silver.coverage),
        skew=frame(spark, schemas.CLOCK_SKEW, silver.skew),
        events=events_frame(spark, records),
    )


def in_ms(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows with milliseconds (``from_ms``) for instants (``from_at``), in some fixed order."""
    told = [
        {
            f"{name.removesuffix('_at')}_ms"
            if isinstance(value, datetime) or name.endswith("_at")
            else name: (
                wall_ms(value.replace(tzinfo=value.tzinfo or UTC))
                if isinstance(value, datetime)
                else value
            )
            for name, value in row.asDict().items()
        }
        for row in rows
    ]
    return in_order(told)


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted((dict(sorted(row.items())) for row in rows), key=repr)


def split(records: Records, limits_ms: Mapping[str, int]) -> Records:
    """The first records of each node: those before the first one at its limit or later."""

    def kept(node: str, each: Sequence[Record]) -> Sequence[Record]:
        late = (i for i, one in enumerate(each) if one.wall_ms >= limits_ms.get(node, _NEVER_MS))
        return each[: next(late, len(each))]

    return {node: kept(node, each) for node, each in records.items()}


def first_new_day(records: Records, known: Records) -> date:
    """The day of the first record that is not among the ``known``."""
    return min(
        instant(one.wall_ms).date()
        for node, each in records.items()
        for one in each[len(known[node]) :]
    )
