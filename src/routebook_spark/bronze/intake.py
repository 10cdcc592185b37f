"""Intake: what is done with manifests that were found, and with what an earlier run left.

Each is looked at beside what the table ``segments`` knows. It is taken if it is whole, and written
down with a reason if it is not.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from routebook_spark.bronze.folders import Files
from routebook_spark.bronze.incarnations import told_apart
from routebook_spark.bronze.segment_table import SegmentRows
from routebook_spark.bronze.segments import (
    COPY,
    REFUSED,
    TAKEN,
    WAITING,
    Plan,
    Refused,
    Segment,
    known_segment,
    near,
    plan,
    segment_row,
)
from routebook_spark.bronze.taking import Batch, LineCounts, Taker, days_of
from routebook_spark.bronze.wholeness import faults
from routebook_spark.schemas import FILLED
from routebook_spark.tables import Lake

_OPEN = (WAITING, REFUSED)


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    segments: int = 0
    copies: int = 0
    outcomes: list[LineCounts] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Intake:
    """``run`` is the name of this run: no other one has it. ``fleet``: whoever runs it says so.

    ``waiting`` are the paths that could not be taken, and why.
    """

    def __init__(self, lake: Lake, run: str, fleet: str | None = None) -> None:
        self._lake = lake
        self._fleet = fleet
        self._run = run
        self._taker = Taker(lake)
        self._rows = SegmentRows(lake)
        self._last_batch = self._rows.last_batch()
        self.tally = Tally()
        self.waiting = self._rows.waiting()

    def finish(self) -> None:
        """Do what is left of a batch during which a run was killed."""
        last = self._taker.last_taken()
        if last is None or last[0].number <= self._last_batch:
            return
        batch, written = last
        gone = faults(self._lake.spark, batch.segments)
        outcome = self._taker.rest(batch, written, gone=gone)
        self._last_batch = batch.number
        self._settle(batch, outcome, [], known=[each.path for each in batch.segments])

    def reopen(self, because: str | None) -> None:
        """Have segments taken once more of which there is something in quarantine.

        ``because``: only where a reason has this in it. Files that went away stay as they are.
        """
        files = Files(self._lake.spark)
        there = []
        for path in self._rows.quarantined(because):
            if files.length(path) is None:
                self.tally.remarks.append(f"{path} is not there any more: it stays as it was")
            else:
                there.append(path)
        self._rows.reopen(there)
        self.waiting |= dict.fromkeys(there, "to be taken once more")

    def look(self, found: Iterable[Segment | Refused]) -> None:
        """Take what can be had of ``found``; write down what cannot, and why."""
        at = datetime.now(UTC)
        by_path = {each.path: each for each in found}
        if not by_path:
            return
        segments = [each for each in by_path.values() if isinstance(each, Segment)]
        rows = self._rows.where(near(segments) | F.col("path").isin(*by_path))
        earlier = {row.path: row for row in rows if row.path in by_path}
        # Those that are to be taken once more stand beside themselves otherwise.
        known = [
            known_segment(row)
            for row in rows
            if row.batch is not None and (row.status == TAKEN or row.path not in by_path)
        ]
        wanted = [each for path, each in by_path.items() if _is_open(earlier.get(path))]
        sound = told_apart(
            (
                self._as_before(each, earlier.get(each.path))
                for each in wanted
                if isinstance(each, Segment)
            ),
            known,
        )
        # What is the same as one that was taken need not be read, nor be whole.
        unread = [each for each in sound if not any(each.same_as(one) for one in known)]
        gone = faults(self._lake.spark, unread)
        planned = plan(
            [each for each in sound if each.path not in gone],
            known,
            now_ms=int(at.timestamp() * 1000),
            again=[path for path, row in earlier.items() if row.batch is not None],
        )
        refused = [each for each in wanted if isinstance(each, Refused)]
        others = [
            row
            for row in (
                *(_copy(copy, original, at) for copy, original in planned.copies),
                *(
                    _waiting(each, gone[each.path], at, earlier.get(each.path))
                    for each in sound
                    if each.path in gone
                ),
                *(_refused(each, at) for each in refused),
            )
            if _is_new(row, earlier.get(row["path"]))
        ]
        read_anew = {path: row for path, row in earlier.items() if path not in gone}
        self._keep(refused, others, read_anew, at)
        self.tally.copies += len(planned.copies)
        self._take(planned, others, at, known=earlier)

    def _as_before(self, segment: Segment, earlier: Any) -> Segment:
        """What was taken before is taken again as whose it was; what waited, unless told anew."""
        if earlier is None or earlier.status == REFUSED:
            return segment
        if earlier.batch is not None:
            return replace(segment, fleet=earlier.fleet, incarnation=earlier.incarnation)
        return segment if self._fleet else replace(segment, fleet=earlier.fleet)

    def _keep(
        self,
        refused: Sequence[Refused],
        others: Sequence[Mapping[str, Any]],
        earlier: Mapping[str, Any],
        at: datetime,
    ) -> None:
        """Manifests are in quarantine while they are refused, segments until they are read anew."""
        news = {row["path"] for row in others}
        same = {each.path for each in refused if each.path not in news}
        self._rows.forget_quarantine(
            [
                path
                for path, row in earlier.items()
                if _is_open(row)
                and path not in same
                and (row.status == REFUSED or row.batch is not None)
            ]
        )
        self._rows.quarantine([each for each in refused if each.path in news], at)

    def _take(
        self,
        planned: Plan,
        others: Sequence[Mapping[str, Any]],
        at: datetime,
        *,
        known: Collection[str],
    ) -> None:
        for segments in (planned.fresh, planned.overlapping):
            if not segments:
                continue
            compared = segments is planned.overlapping
            days = days_of((*segments, *planned.overlapped)) if compared else None
            paths = {segment.path for segment in segments}
            remarks = {path: said for path, said in planned.remarks.items() if path in paths}
            batch = Batch(self._last_batch + 1, self._run, at, segments, days, remarks)
            outcome = self._taker.take(batch)
            self._last_batch = batch.number
            self._settle(batch, outcome, others, known=known)
            others = []
        self._put(others, known=known)

    def _settle(
        self,
        batch: Batch,
        outcome: LineCounts,
        others: Sequence[Mapping[str, Any]],
        *,
        known: Collection[str],
    ) -> None:
        taken = [
            segment_row(
                each,
                TAKEN,
                batch.at,
                reason=batch.remarks.get(each.path),
                batch=batch.number,
                quarantined=outcome.quarantined.get(each.path, 0),
            )
            for each in batch.segments
        ]
        self._put([*taken, *others], known=known)
        self.tally.segments += len(batch.segments)
        self.tally.outcomes.append(outcome)
        self.tally.remarks += [f"{path} {remark}" for path, remark in batch.remarks.items()]

    def _put(self, rows: Sequence[Mapping[str, Any]], *, known: Collection[str]) -> None:
        self._rows.put(rows, known=any(row["path"] in known for row in rows))
        for row in rows:
            self.waiting.pop(row["path"], None)
            if row["status"] in _OPEN:
                self.waiting[row["path"]] = row["reason"]


def _is_open(row: Any) -> bool:
    return row is None or row.status in _OPEN


def _is_new(row: Mapping[str, Any], earlier: Any) -> bool:
    if earlier is None:
        return True
    return (row["status"], row["reason"]) != (earlier.status, earlier.reason)


def _copy(copy: Segment, original: Segment, at: datetime) -> Mapping[str, Any]:
    return segment_row(copy, COPY, at, reason=f"the same as {original.path}")


def _waiting(segment: Segment, reason: str, at: datetime, earlier: Any) -> Mapping[str, Any]:
    """What is to be taken once more, and cannot be, is as it was meanwhile."""
    batch, quarantined = (earlier.batch, earlier.quarantined) if earlier else (None, None)
    return segment_row(segment, WAITING, at, reason=reason, batch=batch, quarantined=quarantined)


def _refused(manifest: Refused, at: datetime) -> Mapping[str, Any]:
    said = {"path": manifest.path, "status": REFUSED, "reason": manifest.reason, "at": at}
    return FILLED | said
