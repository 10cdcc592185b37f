"""Journals of many brokers over many days, made up on Spark.

    python -m benchmarks.generate FOLDER [--brokers 100] [--topics 100] [--nodes 3] [--days 1]

FOLDER gets the journal of each node, ``ns-1`` and so on: sealed segments of an hour with their
manifests, as ``routebook journal verify`` wants them. Brokers restart about once a week, in order
or not; some flap; topics are created and deleted, brokers drained, heartbeats come late. Nodes
restart once a week. Once a week a zone cannot reach one of the nodes for an hour, and one of them
loses records; once a month a node starts with nothing. Their clocks differ by some hundred ms.

The same options make the same bytes, on whatever and however many machines. Spark plans what
happens (generate_plan.py); each node then lives through its part of it (generate_node.py) in one
task, because the hashes of its lines are a chain. Executors write to FOLDER themselves, so it has
to be the same for all of them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from benchmarks.generate_node import GeneratedNode, Happening
from benchmarks.generate_plan import Kind, Scale, plan
from benchmarks.records import note
from benchmarks.servers import ROOT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from routebook_spark.session import build_session

SCALE = "scale.json"
USUAL = Scale(brokers=100, topics=100)
ROWS_A_BATCH = 200  # a minute of a thousand brokers is 8 kB
SETTINGS = {
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
}
_WRITTEN = "node string, segments long, records long, bytes long, packed_bytes long, seconds double"


@dataclass(frozen=True, slots=True)
class Written:
    """``seconds`` are those of the tasks together, planning left out."""

    records: int
    segments: int
    bytes: int
    packed_bytes: int
    seconds: float


class NotEmpty(Exception):
    """There is something in the folder already."""


def take_folder(folder: Path) -> None:
    """Make ``folder``; raises NotEmpty."""
    if folder.exists() and any(folder.iterdir()):
        raise NotEmpty(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)


def generate(
    spark: SparkSession, scale: Scale, folder: Path, *, partitions: int | None = None
) -> Written:
    """Write the journals of ``scale`` to ``folder``; raises NotEmpty."""
    take_folder(folder)
    happenings = plan(
        spark, scale, partitions=partitions or 2 * spark.sparkContext.defaultParallelism
    )
    written = lived_through(happenings, scale, folder)
    total = written.agg(
        *(F.sum(name).alias(name) for name in ("records", "segments", "bytes", "packed_bytes")),
        F.sum("seconds").alias("seconds"),
    ).collect()[0]
    # Last, so that a folder which has it is complete.
    (folder / SCALE).write_text(described(scale))
    return Written(**total.asDict())


def lived_through(happenings: DataFrame, scale: Scale, folder: Path) -> DataFrame:
    """Have each node write its journal; a row for each."""
    ordered = happenings.repartitionById(scale.nodes, F.col("node")).sortWithinPartitions(
        "node", "happened_ms", "kind", "broker", "value"
    )
    return ordered.mapInArrow(_writer(scale, folder), _WRITTEN)


def described(scale: Scale) -> str:
    return json.dumps(asdict(scale), default=str, indent=1) + "\n"


def is_made(scale: Scale, folder: Path) -> bool:
    """Whether ``folder`` holds the journals of ``scale``, all of them."""
    made = folder / SCALE
    return made.exists() and made.read_text() == described(scale)


def _writer(
    scale: Scale, folder: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started = time.perf_counter()
        node, number = None, -1
        for batch in batches:
            for its_number, happening in _happenings(batch):
                if node is None or its_number != number:
                    if node is not None:
                        yield _written(node, started)
                    started, number = time.perf_counter(), its_number
                    node = GeneratedNode(scale, number, folder)
                node.take(happening)
        if node is not None:
            yield _written(node, started)

    return write


def _happenings(batch: pa.RecordBatch) -> Iterator[tuple[int, Happening]]:
    names = ("node", "kind", "happened_ms", "at_ms", "broker", "value")
    values = batch.column("values")
    flat = values.values.to_numpy(zero_copy_only=False)
    offsets = values.offsets.to_pylist()
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    for place, (node, kind, happened_ms, at_ms, broker, value) in enumerate(rows):
        own = flat[offsets[place] : offsets[place + 1]]
        yield node, Happening(Kind(kind), happened_ms, at_ms, broker, value, own)


def _written(node: GeneratedNode, started: float) -> pa.RecordBatch:
    node.close()
    journal = node.journal
    return pa.RecordBatch.from_pylist(
        [
            {
                "node": journal.node,
                "segments": journal.sealed,
                "records": journal.records,
                "bytes": journal.bytes,
                "packed_bytes": journal.packed_bytes,
                "seconds": time.perf_counter() - started,
            }
        ]
    )


def add_scale(parser: argparse.ArgumentParser, usual: Scale) -> None:
    parser.add_argument("--brokers", type=int, default=usual.brokers)
    parser.add_argument("--topics", type=int, default=usual.topics, help="of each broker")
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--churn", type=float, default=usual.churn, help="times the usual changes")
    parser.add_argument("--queried", type=int, default=usual.queried, help="topics, in a minute")
    parser.add_argument("--first-day", type=date.fromisoformat, default=usual.first_day)


def scale_of(options: argparse.Namespace, **others: Any) -> Scale:
    names = ("brokers", "topics", "nodes", "seed", "churn", "queried", "first_day")
    return Scale(**{name: getattr(options, name) for name in names}, **others)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make up journals.")
    parser.add_argument("folder", type=Path)
    add_scale(parser, USUAL)
    parser.add_argument("--days", type=int, default=USUAL.days)
    parser.add_argument(
        "--partition-on", type=int, default=USUAL.partition_on, help="day of a week"
    )
    parser.add_argument("--loss-on", type=int, default=USUAL.loss_on, help="day of a week")
    parser.add_argument("--cold-on", type=int, default=USUAL.cold_on, help="day of a month")
    parser.add_argument("--partitions", type=int, help="of the plan; makes no difference")
    parser.add_argument("--master", help="where Spark runs; default: all cores here")
    parser.add_argument("--memory", default="2g", help="of Spark in this process")
    options = parser.parse_args(arguments)
    faults = ("days", "partition_on", "loss_on", "cold_on")
    scale = scale_of(options, **{name: getattr(options, name) for name in faults})
    try:
        take_folder(options.folder)
    except NotEmpty as error:
        note(str(error))
        return 2
    spark = build_session(
        "generate", master=options.master, memory=options.memory, settings=SETTINGS
    )
    try:
        started = time.perf_counter()
        written = generate(spark, scale, options.folder.absolute(), partitions=options.partitions)
    finally:
        spark.stop()
    took_s = time.perf_counter() - started
    print(
        f"{written.records:,} records in {written.segments} segments,"
        f" {written.bytes / 1e6:,.1f} MB, packed {written.packed_bytes / 1e6:,.1f} MB, in"
        f" {took_s:.1f} s: {written.records / took_s:,.0f} a second,"
        f" {written.records / written.seconds:,.0f} a second and task"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
