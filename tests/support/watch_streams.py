"""Streams of journals as Spark reads them, without Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from routebook_spark.source.journal import JournalStream
from routebook_spark.source.offsets import place_in

ALL = ReadAllAvailable()


def stream_of(folder: Path, **options: str) -> JournalStream:
    return JournalStream({"path": str(folder), **options})


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def taken(
    stream: JournalStream, start: dict[str, Any], limit: ReadLimit = ALL
) -> tuple[list[int], dict[str, Any]]:
    """The records of one trigger, and where it ended."""
    end = stream.latestOffset(start, limit)
    rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    return [row["seq"] for row in rows if row["seq"] is not None], end


def reached(offset: dict[str, Any]) -> dict[str, int]:
    """The last record taken of each folder."""
    return {name: place_in(offset, name).seq for name in offset}


def notes(stream: JournalStream, start: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """What is said between two records: type, node, reason."""
    end = stream.latestOffset(start, ALL)
    rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    return [(r["type"], r["node"], r["data"]["reason"]) for r in rows if r["seq"] is None]
