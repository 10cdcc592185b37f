"""What the tables answer about routes at times, put as ``as_of_reference`` puts it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from routebook.events import TopicsChanged
from routebook.journal.record import Record
from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import STRING, TIMESTAMP, struct
from support.as_of_reference import Asked, Known


def time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def asked_frame(spark: SparkSession, asked: Sequence[Asked]) -> DataFrame:
    rows = [{"topic": topic, "at": time(at_ms)} for topic, at_ms in asked]
    return local_frame(spark, struct(topic=STRING, at=TIMESTAMP), rows)


def answered(rows: Sequence[Row]) -> dict[tuple[str, str, int], Known]:
    """By node, topic and time."""

    def key(row: Row) -> tuple[Any, ...]:
        return row.node, row.topic, round(row.at.timestamp() * 1000)

    found = {}
    for place, same in groupby(sorted(rows, key=key), key=key):
        parts = list(same)
        route = sorted((_part(row) for row in parts if row.broker is not None), key=lambda p: p[:2])
        assert all(row.known == (row.told in ("route", "none")) for row in parts)
        found[place] = Known(parts[0].told, parts[0].seq, tuple(route))
    return found


def _part(row: Row) -> tuple[Any, ...]:
    queues = (row.read_queues, row.write_queues, row.perm, row.flags)
    registered = queues if row.registered is None else tuple(row.registered)
    addrs = dict(sorted(row.addrs.items()))
    return row.cluster, row.broker, queues, registered, addrs, list(row.unconfirmed)


def topics_of(by_node: Mapping[str, Sequence[Record]]) -> list[str]:
    names = {
        change.topic
        for records in by_node.values()
        for each in records
        if isinstance(each.event, TopicsChanged)
        for change in each.event.changes
        if not change.topic.startswith("t0")
    }
    return [*sorted(names), "no-such-topic"]
