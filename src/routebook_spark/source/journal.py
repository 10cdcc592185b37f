# ruff: noqa: N802  methods have the names that Spark calls them by
"""``spark.readStream.format("routebook").option("path", folder)``: journals as they are written.

An offset is the last record taken of each folder: ``{"ns-1": 5213, "ns-2/journal": 4711}``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from routebook_spark.source.files import Mark, Piece, lines_in, newest, pieces, root_of
from routebook_spark.source.rows import batch_of

MAX_BYTES = 64 << 20
"""Of lines, in one trigger, for each folder the same share."""

_BATCH = 1000

Offset = dict[str, int]


@dataclass(frozen=True)
class JournalPartition(InputPartition):
    piece: Piece


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows all journals in a folder and below it; folders that come later are followed too."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._root = root_of(options["path"])
        self._max_bytes = _max_bytes(options.get("max_bytes"))
        self._marks: dict[str, dict[int, Mark]] = {}  # by folder and record
        self._target: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {
            name: newest(folder, 0, most_bytes=None)[0]
            for name, folder in self._root.journals().items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        journals = self._root.journals()
        share = None
        if isinstance(limit, ReadMaxBytes):
            share = max(1, limit.max_bytes // max(1, len(journals)))
        latest: Offset = dict(start)
        for name, folder in journals.items():
            seq = self._newest(name, folder, start.get(name, 0), share)
            if seq > start.get(name, 0):
                latest[name] = seq
        return latest

    def _newest(self, name: str, folder: Path, after_seq: int, share: int | None) -> int:
        marks = self._marks.get(name, {})
        seq, mark = newest(folder, after_seq, most_bytes=share, mark=marks.get(after_seq))
        marks = {after_seq: marks[after_seq]} if after_seq in marks else {}
        self._marks[name] = marks if mark is None else {**marks, seq: mark}
        return seq if self._target is None else min(seq, self._target.get(name, 0))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [
            JournalPartition(piece)
            for name, to_seq in end.items()
            if to_seq > start.get(name, 0)
            for piece in self._pieces(name, start.get(name, 0), to_seq)
        ]

    def _pieces(self, name: str, after_seq: int, to_seq: int) -> Iterator[Piece]:
        mark = self._marks.get(name, {}).get(after_seq)
        return pieces(self._root.base / name, after_seq, to_seq, mark)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, JournalPartition)
        lines = lines_in(partition.piece)
        while some := list(islice(lines, _BATCH)):
            yield batch_of(some)


def _max_bytes(given: str | None) -> int:
    if given is None:
        return MAX_BYTES
    if not given.isdecimal() or not int(given):
        raise ValueError(f"max_bytes is {given!r}, and must be a number of bytes")
    return int(given)
