"""Ingest: sealed segments of many nodes become bronze tables, each segment exactly once.

    ingest(lake, ["/data/ns-1/journal", "hdfs://host/journals/*"])

Spark's file stream finds manifests and remembers which it has seen. That only saves looking twice:
whether a segment was taken is for the table ``segments`` to say. A checkpoint may be lost, and one
file may be found by two patterns.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from time import monotonic
from typing import Any

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
)
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from routebook_spark.bronze.folders import MANIFEST, PACKED, Files, Survey, literal, tables_locked
from routebook_spark.bronze.gap_table import bring_up_gaps
from routebook_spark.bronze.intake import Intake, Tally
from routebook_spark.bronze.segments import (
    Refused,
    Segment,
    manifest_of,
    manifest_stream,
    manifests_of,
    segment_of,
)
from routebook_spark.errors import SegmentVanished, TablesInUse
from routebook_spark.tables import Lake

AT_ONCE = 128
"""Segments in one batch: some 60 million records at most."""

_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
)
_VANISHED = ("PATH_NOT_FOUND", "FILE_NOT_EXIST")

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a run, or one look of it, has done.

    ``quarantined`` counts records by reason, ``waiting`` says by path why a segment was not taken,
    ``gaps`` counts all there are by kind. ``remarks`` are sentences.
    """

    segments: int = 0
    copies: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    gaps: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0


def ingest(
    lake: Lake,
    folders: Sequence[str],
    *,
    fleet: str | None = None,
    at_once: int = AT_ONCE,
    told: OnProgress | None = None,
) -> IngestResult:
    """Take all there is; ``told`` hears how far it is. Raises PipelineError.

    ``fleet`` is that of all nodes in ``folders``. Without it each says its own.
    """
    with _opened(lake, folders, at_once, told, fleet) as run:
        query = run.start({"availableNow": True})
        with run.failures():
            query.awaitTermination()
        run.look_again()
        return run.result()


def follow(
    lake: Lake,
    folders: Sequence[str],
    *,
    every_s: float,
    seen: Callable[[IngestResult], None],
    fleet: str | None = None,
    at_once: int = AT_ONCE,
) -> None:
    """Take what is there and what comes, every ``every_s``, until it is interrupted.

    ``seen`` hears of the first look, and of each that did something. Raises PipelineError.
    """
    with _opened(lake, folders, at_once, None, fleet) as run:
        query = run.start({"processingTime": f"{round(every_s * 1000)} milliseconds"})
        try:
            with run.failures():
                query.processAllAvailable()
            told = False
            while True:
                # A manifest wakes the stream. A segment that comes after its manifest does not.
                run.look_again()
                if run.has_changed or not told:
                    seen(run.result())
                    told = True
                with run.failures():
                    query.awaitTermination(round(every_s))
        finally:
            query.stop()


def retake(
    lake: Lake,
    *,
    because: str | None = None,
    at_once: int = AT_ONCE,
    told: OnProgress | None = None,
) -> IngestResult:
    """Take segments once more of which there is something in quarantine. Raises PipelineError.

    What is there already is recognised. ``because``: only where a reason has this text in it.
    """
    files = Files(lake.spark)
    with tables_locked(files.qualified(lake.root)), _sentences(lake):
        run = _Run(lake, files, (), at_once=at_once, told=told, fleet=None)
        run.finish()
        run.reopen(because)
        run.look_again()
        return run.result()


@contextmanager
def _opened(
    lake: Lake, folders: Sequence[str], at_once: int, told: OnProgress | None, fleet: str | None
) -> Iterator["_Run"]:
    files = Files(lake.spark)
    patterns = sorted({files.pattern_of(folder) for folder in folders})
    with tables_locked(files.qualified(lake.root)), _sentences(lake):
        run = _Run(lake, files, patterns, at_once=at_once, told=told, fleet=fleet)
        run.finish()
        yield run


@contextmanager
def _sentences(lake: Lake) -> Iterator[None]:
    """What others do to tables and files meanwhile, said as that."""
    try:
        yield
    except _CONFLICTS as error:
        raise TablesInUse(lake.root) from error
    except PySparkException as error:
        if any(name in str(error) for name in _VANISHED):
            raise SegmentVanished from error
        raise


class _Run:
    """What is taken comes from a thread of the stream, and from whoever looks again."""

    def __init__(
        self,
        lake: Lake,
        files: Files,
        patterns: Sequence[str],
        *,
        at_once: int,
        told: OnProgress | None,
        fleet: str | None,
    ) -> None:
        self._lake = lake
        self._fleet = fleet
        self._files = files
        self._patterns = patterns
        self._at_once = at_once
        self._told = told
        self._began_s = monotonic()
        self._survey = files.survey(patterns) if patterns else None
        self._looked = 0
        self._intake = Intake(lake, uuid.uuid4().hex, fleet)
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    @property
    def has_changed(self) -> bool:
        return self._intake.tally != Tally()

    def finish(self) -> None:
        self._intake.finish()

    def reopen(self, because: str | None) -> None:
        self._intake.reopen(because)

    def start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        at_once = max(1, self._at_once // len(self._patterns))
        streams = [
            manifest_stream(self._lake.spark, pattern, at_once=at_once)
            for pattern in self._patterns
        ]
        # A checkpoint belongs to its sources, in their order.
        name = sha256("\n".join(self._patterns).encode()).hexdigest()[:16]
        return (
            reduce(DataFrame.union, streams)
            .writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", f"{self._lake.root}/_checkpoints/ingest/{name}")
            .trigger(**trigger)
            .start()
        )

    @contextmanager
    def failures(self) -> Iterator[None]:
        """What made the stream fail, as it was before it went through Java."""
        try:
            yield
        except StreamingQueryException as error:
            raise self._failure or error from error

    def look_again(self) -> None:
        """At what could not be taken before."""
        # What is not there is not looked for in Spark: this is done at every trigger.
        found = [path for path in self._intake.waiting if self._files.length(path) is not None]
        manifests = [manifest_of(path) for path in found]
        there = [path for path in manifests if self._files.length(path) is not None]
        for start in range(0, len(there), self._at_once):
            some = [literal(path) for path in there[start : start + self._at_once]]
            texts = self._lake.spark.read.text(some, wholetext=True)
            self._look(texts.select(F.col("_metadata.file_path").alias("uri"), "value"))

    def result(self) -> IngestResult:
        """What was done since the last one."""
        with self._lock:
            tally, self._intake.tally = self._intake.tally, Tally()
            gaps = bring_up_gaps(self._lake)
        seconds = monotonic() - self._began_s
        self._began_s = monotonic()
        reasons = Counter[str]()
        for outcome in tally.outcomes:
            reasons.update(outcome.reasons)
        return IngestResult(
            segments=tally.segments,
            copies=tally.copies,
            events=sum(outcome.events for outcome in tally.outcomes),
            duplicates=sum(outcome.duplicates for outcome in tally.outcomes),
            quarantined=dict(reasons),
            waiting=dict(self._intake.waiting),
            gaps=dict(Counter(gap.kind for gap in gaps)),
            remarks=(*(_about(self._survey) if self._survey else ()), *tally.remarks),
            seconds=seconds,
        )

    def _on_batch(self, texts: DataFrame, number: int) -> None:
        try:
            self._look(texts)
        except BaseException as error:
            self._failure = error
            raise

    def _look(self, texts: DataFrame) -> None:
        found = [self._found(row) for row in manifests_of(texts).collect()]
        with self._lock:
            self._intake.look(found)
        self._looked += len(found)
        if self._told is not None:
            there = len(self._survey.manifests) if self._survey else 0
            self._told("segments", self._looked, max(self._looked, there))

    def _found(self, row: Any) -> Segment | Refused:
        path = self._files.path_of(row.uri).removesuffix(MANIFEST) + PACKED
        return segment_of(row, path, fleet=self._fleet)


def _about(survey: Survey) -> Iterator[str]:
    if survey.lonely:
        yield (
            f"{len(survey.lonely)} packed segments have no manifest, such as {survey.lonely[0]}:"
            " they are not taken before it is there"
        )
    if not survey.manifests:
        yield (
            "no segment is sealed yet: a node seals one when it is full, after an hour, and when it"
            " stops"
            if survey.unsealed
            else "there is no journal in these folders"
        )
