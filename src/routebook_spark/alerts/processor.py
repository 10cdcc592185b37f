"""Processor: one bucket in Spark's state store.

A bucket has some lists of rows, each a value of its own in the store, written when it has changed:
a trigger costs a few reads and writes a bucket, however many brokers there are. An event-time timer
a bucket and hour drops what has been gone for a day.
"""

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from routebook_spark.alerts.alert_rules import forget, look_at
from routebook_spark.alerts.bucket_state import BucketState, Claim, Dispute, Member, Node
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import ALERT, Alert, Hold
from routebook_spark.alerts.limits import Limits
from routebook_spark.schemas import BOOLEAN, DOUBLE, LONG, STRING, STRINGS, struct

_SWEEP_MS = 3_600_000
_COLUMNS: dict[Any, DataType] = {
    str: STRING,
    str | None: STRING,
    int: LONG,
    int | None: LONG,
    float: DOUBLE,
    bool: BOOLEAN,
    list[int]: ArrayType(LONG),
    list[str]: STRINGS,
}


class _Shelf:
    """Rows of one kind, in one value of the store."""

    def __init__(self, kind: type[Any], value: ValueState) -> None:
        self._kind = kind
        self._value = value
        self._columns = attrgetter(*(column.name for column in fields(kind)))
        self._stored: list[tuple[Any, ...]] = []

    def load(self) -> list[Any]:
        found = self._value.get()
        self._stored = [] if found is None else [tuple(row) for row in found[0]]
        return [self._kind(*_own(row)) for row in self._stored]

    def save(self, items: Iterator[Any]) -> None:
        rows = [tuple(_own(self._columns(item))) for item in items]
        if rows != self._stored:
            self._value.update((rows,))


def _own(row: tuple[Any, ...]) -> list[Any]:
    """The values of a row, with lists that nobody else has."""
    return [list(value) if isinstance(value, list) else value for value in row]


def _schema(kind: type[Any]) -> StructType:
    row = StructType([StructField(column.name, _COLUMNS[column.type]) for column in fields(kind)])
    return struct(rows=ArrayType(row))


class Watcher(StatefulProcessor):
    """Rows of ``FACTS`` by fleet and bucket in, rows of ``ALERT`` out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        kinds = {
            "nodes": Node,
            "claims": Claim,
            "members": Member,
            "disputes": Dispute,
            "holds": Hold,
        }
        self._shelves = {
            name: _Shelf(kind, handle.getValueState(name, _schema(kind)))
            for name, kind in kinds.items()
        }

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        bucket = self._load(key)
        told = look_at(bucket, (Fact(**row.asDict()) for row in rows))
        self._save(bucket)
        # The same hour is the same timer, however often it is set.
        self._handle.registerTimer((bucket.now_ms // _SWEEP_MS + 1) * _SWEEP_MS)
        return map(_row, told)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        bucket = self._load(key)
        told = forget(bucket, now_ms=timerValues.getCurrentWatermarkInMs())
        self._save(bucket)
        return map(_row, told)

    def close(self) -> None:
        pass

    def _load(self, key: Any) -> BucketState:
        fleet, _ = key
        found = {name: shelf.load() for name, shelf in self._shelves.items()}
        return BucketState(self._limits, fleet=fleet, **found)

    def _save(self, bucket: BucketState) -> None:
        self._shelves["nodes"].save(iter(bucket.nodes.values()))
        self._shelves["claims"].save(bucket.each_claim())
        self._shelves["members"].save(bucket.each_member())
        self._shelves["disputes"].save(bucket.each_dispute())
        self._shelves["holds"].save(bucket.ledger.holds())


def _row(alert: Alert) -> Row:
    return Row(**{name: getattr(alert, name) for name in ALERT.names})
