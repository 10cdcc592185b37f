"""The table ``segments``, as the ingest keeps it: a row for each file, with what became of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook_spark.bronze.segments import REFUSED, TAKEN, WAITING, Refused
from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import FILLED
from routebook_spark.tables import QUARANTINE, SEGMENTS, Lake


class SegmentRows:
    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._table = lake.delta(SEGMENTS)

    def where(self, condition: Column) -> list[Any]:
        """Few rows, that is."""
        return self._table.toDF().where(condition).collect()

    def waiting(self) -> dict[str, str]:
        """Why files could not be taken, by their paths."""
        return {row.path: row.reason for row in self.where(F.col("status").isin(WAITING, REFUSED))}

    def last_batch(self) -> int:
        """0 when there was none."""
        return int(self._table.toDF().agg(F.max("batch")).collect()[0][0] or 0)

    def put(self, rows: Sequence[Mapping[str, Any]], *, known: bool) -> None:
        """Write ``rows``, each by its path; ``known``: some are in the table already."""
        if not rows:
            return
        frame = local_frame(self._lake.spark, SEGMENTS.schema, rows)
        if not known:
            self._lake.append(SEGMENTS, frame)
            return
        (
            self._table.alias("known")
            .merge(frame.alias("new"), "known.path = new.path")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    def quarantine(self, refused: Sequence[Refused], at: datetime) -> None:
        """Keep what manifests say that cannot be understood, once."""
        if not refused:
            return
        rows = [
            FILLED | {"reason": r.reason, "raw": r.raw, "segment": r.stem, "path": r.path, "at": at}
            for r in refused
        ]
        frame = local_frame(self._lake.spark, QUARANTINE.schema, rows)
        (
            self._lake.delta(QUARANTINE)
            .alias("known")
            .merge(
                frame.alias("new"),
                "known.path = new.path AND known.reason = new.reason AND known.seq IS NULL",
            )
            .whenNotMatchedInsertAll()
            .execute()
        )

    def quarantined(self, because: str | None) -> list[str]:
        """Paths of taken segments with something in quarantine, by a part of the reason."""
        rows = self._lake.read(QUARANTINE)
        if because is not None:
            rows = rows.where(F.col("reason").contains(because))
        taken = self._table.toDF().where(F.col("status") == TAKEN).select("path")
        found = taken.join(rows.select("path").distinct(), "path", "left_semi")
        return sorted(row.path for row in found.collect())

    def reopen(self, paths: Sequence[str]) -> None:
        """Have them taken once more. They keep their batch: their events are there."""
        if paths:
            self._table.update(F.col("path").isin(*paths), {"status": F.lit(WAITING)})

    def forget_quarantine(self, paths: Sequence[str]) -> None:
        """Of files that are read anew."""
        if paths and self._lake.exists(QUARANTINE):
            self._lake.delta(QUARANTINE).delete(F.col("path").isin(*paths))
