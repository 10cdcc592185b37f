"""One stage of the pipeline in a process of its own, for benchmarks/pipeline.py.

    python -m benchmarks.pipeline_stage STAGE --journals DIR --tables DIR --out DIR --memory 4

The last line it prints is what it measured, as JSON. ``start_s`` is how long it takes Spark to
start and to read and write a first table, ``seconds`` the work itself.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lakes import ask_duckdb, ask_polars
from benchmarks.records import Measured
from pyspark.sql import SparkSession

from routebook_spark.commands.main import spark as commands
from routebook_spark.jobs import gold_stages
from routebook_spark.session import build_session
from routebook_spark.silver.build import BROKER_GROUPS, silver_stages
from routebook_spark.silver.new_records import all_as_new
from routebook_spark.tables import GOLD, SEGMENTS, Lake

THREADS = 2
DUCKDB, POLARS = "duckdb", "polars"
SCAN, INGEST, REPORT, BUILD = "scan", "ingest", "report", "build"
TABLE, ASK = "table:", "ask:"  # with the name of a table; an engine and a table of gold


@dataclass(frozen=True, slots=True)
class Places:
    journals: Path
    tables: Path
    out: Path


def work_of(stage: str, places: Places, spark: SparkSession) -> Callable[[], None]:
    """What ``stage`` does, ready to be done."""
    if stage == SCAN:
        return lambda: _scan(spark, places)
    if stage in (INGEST, BUILD, REPORT):
        return lambda: _command(stage, places)
    return _making(stage.removeprefix(TABLE), Lake(spark, str(places.tables)))


def _scan(spark: SparkSession, places: Places) -> None:
    """All lines from the packed files to a table, as they are."""
    shutil.rmtree(places.out / SCAN, ignore_errors=True)
    lines = spark.read.text(f"{places.journals}/*/*.jsonl.gz")
    lines.write.format("delta").save(str(places.out / SCAN))


def _command(name: str, places: Places) -> None:
    """A command of ``routebook spark``, in the session that runs already."""
    own = {
        INGEST: [str(places.journals)],
        BUILD: [],
        REPORT: ["--out", str(places.out / "report.html")],
    }
    arguments = [name, "--tables", str(places.tables), *own[name]]
    with redirect_stdout(sys.stderr):
        commands.main(arguments, standalone_mode=False)


def _making(name: str, lake: Lake) -> Callable[[], None]:
    """What makes a table of silver or gold from nothing.

    What the tables of silver share, in which state each node is, is worked out on the way to the
    third of them: that is counted with it, and not again with the others.
    """
    if name == BROKER_GROUPS.name:
        return lambda: _find(name, lake)()
    return _find(name, lake)


def _find(name: str, lake: Lake) -> Callable[[], None]:
    new = all_as_new(lake.read(SEGMENTS))
    gold = {table.name for table in GOLD}
    stages = gold_stages(lake, new) if name in gold else silver_stages(lake, new)
    for table, make in stages:
        if table.name == name:
            return make
    raise ValueError(f"no table is called {name}")


def run_on_spark(stage: str, places: Places, *, memory_gb: int) -> Measured:
    started = time.perf_counter()
    spark = build_session(stage, master=f"local[{THREADS}]", memory=f"{memory_gb}g")
    try:
        _warm_up(spark, places)
        work = work_of(stage, places, spark)
        ready = time.perf_counter()
        work()
        return {
            "start_s": ready - started,
            "seconds": time.perf_counter() - ready,
            "heap_mb": _heap_mb(spark),
        }
    finally:
        spark.stop()


def _warm_up(spark: SparkSession, places: Places) -> None:
    """What every first use of Spark pays for, whatever it is used for."""
    path = str(places.out / "warm-up")
    spark.range(1000).write.format("delta").mode("overwrite").save(path)
    spark.read.format("delta").load(path).groupBy().sum("id").collect()


def _heap_mb(spark: SparkSession) -> float:
    """The most each pool of the heap held, added up: no less than it ever held together."""
    assert spark._jvm is not None  # of a session without Connect
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = [pool for pool in pools if pool.getType().toString() == "Heap memory"]
    return float(sum(pool.getPeakUsage().getUsed() for pool in heap)) / 1e6


def run_elsewhere(stage: str, places: Places, *, memory_gb: int) -> Measured:
    _, engine, question = stage.split(":")
    answer = answer_of(stage, places.out)
    started = time.perf_counter()
    if engine == DUCKDB:
        ask_duckdb(question, places.tables, answer, memory_gb=memory_gb, threads=THREADS)
    else:
        ask_polars(question, places.tables, answer)
    return {"start_s": 0.0, "seconds": time.perf_counter() - started, "heap_mb": 0.0}


def answer_of(stage: str, out: Path) -> Path:
    """The file that asking has made."""
    return out / f"{stage.replace(':', '-')}.parquet"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run one stage of the pipeline.")
    parser.add_argument("stage")
    for name in ("--journals", "--tables", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--memory", type=int, required=True, help="GB")
    options = parser.parse_args(arguments)
    places = Places(options.journals, options.tables, options.out)
    run = run_elsewhere if options.stage.startswith(ASK) else run_on_spark
    print(json.dumps(run(options.stage, places, memory_gb=options.memory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
