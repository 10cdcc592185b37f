"""Lakes as ingest leaves them, made from records, and the tables of silver as plain rows."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook.journal.record import Record
from routebook_spark import schemas, tables
from routebook_spark.tables import Lake
from support.spark_histories import events_frame
from support.spark_rows import frame

Part = Sequence[Record]
Row = dict[str, Any]


class Intake:
    """Takes segments in batches, in whatever order they come, for one fleet or several.

    They are numbered after those that an ingest has taken before.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._unnoted: list[Row] = []
        self.batch = int(lake.read(tables.SEGMENTS).agg(F.max("batch")).collect()[0][0] or 0)

    def take(self, parts: Iterable[Part], *, fleet: str = "default") -> None:
        self.write(parts, fleet=fleet)
        self.note()

    def write(self, parts: Iterable[Part], *, fleet: str = "default") -> None:
        """Only their events, as an ingest leaves it that is killed before it has noted them."""
        self.batch += 1
        records: list[Record] = []
        for part in parts:
            self._unnoted.append(_segment(part, self.batch) | {"fleet": fleet})
            records += part
        if records:
            events = events_frame(self._lake.spark, records)
            self._lake.append(tables.EVENTS, events.withColumn("fleet", F.lit(fleet)))

    def note(self) -> None:
        """What was written, as the next ingest does first."""
        rows, self._unnoted = self._unnoted, []
        if rows:
            self._lake.append(tables.SEGMENTS, frame(self._lake.spark, schemas.SEGMENTS, rows))


def _segment(part: Part, batch: int) -> Row:
    times_ms = [record.wall_ms for record in part]
    return {
        "node": part[0].node,
        "first_seq": part[0].seq,
        "last_seq": part[-1].seq,
        "records": len(part),
        "first_wall_ms": times_ms[0],
        "last_wall_ms": times_ms[-1],
        "min_wall_ms": min(times_ms),
        "max_wall_ms": max(times_ms),
        "status": "taken",
        "batch": batch,
    }


def plain(rows: DataFrame) -> list[Row]:
    """Rows as dicts, times with their zone."""
    return [
        {name: _zoned(value) for name, value in row.asDict(recursive=True).items()}
        for row in rows.collect()
    ]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The same rows in the same order, however they came."""
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def _zoned(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
