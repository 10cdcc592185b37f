"""Taking: the events of segments into the tables, each exactly once.

The commit that adds events to the table says which segments they are from. So whoever finds that
the last commit is not in the table ``segments``, because a run was killed between the two, knows
all that is left to do.

Batches are numbered, and Delta Lake does a number only once: two runs that do not know of each
other cannot both take the next one. The quarantine is filled under the same number.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook_spark.bronze.checks import EARLIEST_MS, LATEST_MS
from routebook_spark.bronze.folders import Files, literal
from routebook_spark.bronze.records import compared, counted, events_of, lines_of, quarantine_of
from routebook_spark.bronze.segments import Segment
from routebook_spark.errors import TablesInUse
from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import LONG, STRING, WITNESS, struct
from routebook_spark.tables import EVENTS, QUARANTINE, Lake, Table
from routebook_spark.witnesses import is_of_any

_WRITER = "routebook ingest "
_SEGMENTS = struct(
    uri=STRING,
    path=STRING,
    segment=STRING,
    fleet=STRING,
    node=STRING,
    incarnation=STRING,
    first_seq=LONG,
    last_seq=LONG,
    sealed_at_ms=LONG,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Segments that are taken together, in one commit.

    ``known_days``: others have sequence numbers that these have as well, and their events are of
    these days, from and to. ``remarks`` by path.
    """

    number: int
    run: str
    at: datetime
    segments: tuple[Segment, ...]
    known_days: tuple[date, date] | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=lambda value: value.isoformat())

    @classmethod
    def from_json(cls, text: str) -> "Batch":
        said = json.loads(text)
        days = said["known_days"]
        return cls(
            number=said["number"],
            run=said["run"],
            at=datetime.fromisoformat(said["at"]),
            segments=tuple(Segment(**segment) for segment in said["segments"]),
            known_days=days and (date.fromisoformat(days[0]), date.fromisoformat(days[1])),
            remarks=said["remarks"],
        )


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What became of the lines of a batch: by reason, and how many of each path are bad."""

    events: int
    duplicates: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


class Taker:
    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._spark = lake.spark
        self._files = Files(lake.spark)

    def take(self, batch: Batch) -> LineCounts:
        """Raises TablesInUse when somebody else has taken one of this number."""
        # Delta Lake sorts by day anyway. Files with the records of a node together are skipped, in
        # whole or in part, by questions about other nodes and hours.
        events = events_of(self._lines(batch)).sortWithinPartitions("day", *WITNESS, "seq")
        self._append(EVENTS, events, batch)
        last = self.last_taken()
        if last is None or last[0].run != batch.run or last[0].number != batch.number:
            raise TablesInUse(self._lake.root)
        return self.rest(batch, last[1])

    def last_taken(self) -> tuple[Batch, int] | None:
        """The batch whose events were written last, and how many those are."""
        if not self._lake.exists(EVENTS):
            return None
        table = self._lake.delta(EVENTS)
        ours = F.col("userMetadata").startswith(_WRITER)
        # Mostly it is the last commit of all; else somebody has tidied the table up since.
        for commits in (table.history(1), table.history()):
            found = (
                commits.where(ours)
                .orderBy(F.desc("version"))
                .limit(1)
                .select("userMetadata", F.col("operationMetrics")["numOutputRows"].alias("rows"))
                .collect()
            )
            if found:
                text = found[0].userMetadata.removeprefix(_WRITER)
                return Batch.from_json(text), int(found[0].rows)
        return None

    def rest(self, batch: Batch, written: int, *, gone: Collection[str] = ()) -> LineCounts:
        """Fill the quarantine with what is not among the events that were ``written``, and count.

        As many events as there should be: so nothing is bad, and nothing is read again. Files that
        are ``gone`` cannot be: of these it is counted what is not there.
        """
        if written == batch.records and batch.known_days is None:
            return LineCounts(written)
        there = [segment for segment in batch.segments if segment.path not in gone]
        read: Counter[str] = Counter()
        quarantined: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        rows = local_frame(self._spark, QUARANTINE.schema, [])
        if there:
            lines = self._lines(replace(batch, segments=tuple(there)))
            by_uri = {self._files.uri_of(segment.path): segment for segment in there}
            for row in counted(lines).collect():
                path = by_uri[row.uri].path
                read[path] += row.lines
                if row.problem is not None:
                    quarantined[path] += row.lines
                    reasons[row.problem] += row.lines
            rows = quarantine_of(lines, batch.at)
        good = sum(read.values()) - sum(reasons.values())
        for segment in batch.segments:
            if segment.path in gone:
                present = self._present(segment)
                good += present
                bad = segment.records - present
                reason = f"{bad} records cannot be read any more: the file went away"
            else:
                bad = int(read[segment.path] != segment.records)
                reason = f"{read[segment.path]} records; its manifest says {segment.records}"
            if bad > 0:
                rows = rows.union(self._about(segment, reason, batch.at))
                quarantined[segment.path] += bad
                reasons[reason] += 1
        if reasons:
            self._append(QUARANTINE, rows, batch)
        return LineCounts(written, max(good - written, 0), reasons, quarantined)

    def _present(self, segment: Segment) -> int:
        """How many numbers of ``segment`` there are events of."""
        return (
            self._lake.read(EVENTS)
            .where(F.col("day").between(*days_of([segment])) & segment.witness.is_of())
            .where(F.col("seq").between(segment.first_seq, segment.last_seq))
            .select("seq")
            .distinct()
            .count()
        )

    def _lines(self, batch: Batch) -> DataFrame:
        named = [
            asdict(segment) | {"uri": self._files.uri_of(segment.path), "segment": segment.stem}
            for segment in batch.segments
        ]
        texts = self._spark.read.text([literal(segment.path) for segment in batch.segments])
        lines = lines_of(
            texts.select(F.col("_metadata.file_path").alias("uri"), "value"),
            local_frame(self._spark, _SEGMENTS, named),
            now_ms=int(batch.at.timestamp() * 1000),
        )
        if batch.known_days is None:
            return lines
        known = self._lake.read(EVENTS).where(
            F.col("day").between(*batch.known_days)
            & is_of_any({segment.witness for segment in batch.segments})
            & F.col("seq").between(
                min(segment.first_seq for segment in batch.segments),
                max(segment.last_seq for segment in batch.segments),
            )
        )
        return compared(lines, known)

    def _about(self, segment: Segment, reason: str, at: datetime) -> DataFrame:
        """A row of the quarantine about all of a segment."""
        row = {**segment.witness._asdict(), "reason": reason, "segment": segment.stem}
        return local_frame(self._spark, QUARANTINE.schema, [row | {"path": segment.path, "at": at}])

    def _append(self, table: Table, rows: DataFrame, batch: Batch) -> None:
        self._lake.delta(table)
        (
            rows.write.format("delta")
            .mode("append")
            .option("mergeSchema", "true")
            .option("txnAppId", _WRITER)
            .option("txnVersion", batch.number)
            .option("userMetadata", _WRITER + batch.to_json())
            .save(self._lake.path(table))
        )


def days_of(segments: Iterable[Segment]) -> tuple[date, date]:
    """The first and the last day an event of ``segments`` can have."""
    each = [(day_of(segment.min_wall_ms), day_of(segment.max_wall_ms)) for segment in segments]
    return min(first for first, _ in each), max(last for _, last in each)


def day_of(ms: int) -> date:
    """Of a time that may be absurd: no event has a day that is."""
    return datetime.fromtimestamp(min(max(ms, EARLIEST_MS), LATEST_MS) / 1000, UTC).date()
