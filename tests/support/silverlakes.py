"""Lakes as ingest leaves them, made from records, and the tables of silver as plain rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from routebook.journal.record import Record
from routebook_spark import schemas, tables
from routebook_spark.tables import Lake
from support.sparkhistories import events_frame
from support.sparkrows import frame

Part = Sequence[Record]
Row = dict[str, Any]


class Intake:
    """Takes segments in batches, in whatever order they come."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._taken: dict[str, dict[int, Record]] = {}
        self.batch = 0

    def take(self, parts: Iterable[Part]) -> None:
        spark = self._lake.spark
        self.batch += 1
        rows: list[Row] = []
        records: list[Record] = []
        for part in parts:
            rows.append(_segment(part, self.batch))
            records += part
            self._taken.setdefault(part[0].node, {}).update({one.seq: one for one in part})
        self._lake.append(tables.EVENTS, events_frame(spark, records))
        self._lake.append(tables.SEGMENTS, frame(spark, schemas.SEGMENTS, rows))

    @property
    def taken(self) -> Mapping[str, list[Record]]:
        return {node: [by[seq] for seq in sorted(by)] for node, by in self._taken.items()}


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
