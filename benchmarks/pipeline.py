"""What the pipeline on Spark costs, and how that grows: a day, a week and a month of journals.

    python -m benchmarks.pipeline [--sizes day,week,month] [--brokers 1000] [--topics 1000]

For each size journals are generated, or found in the cache, and every stage runs in a process of
its own with the same memory on two cores. Measured are the seconds after Spark has started, and the
resident memory of Java and Python together. In the same run:

(a) a bare scan: Spark reads the same files as text and writes the lines to a Delta table. A stage
    is to take at most 4 times that;
(b) the tables of gold by DuckDB and by Polars (lakes.py), with the same rows.

The cost of a stage is fitted by c * events ** exponent; one of at most 1.05 is called linear.

A run takes hours. What it has measured is kept in the cache, and ``--resume`` goes on after it.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.generate import add_scale, is_made, scale_of
from benchmarks.generate_plan import Scale
from benchmarks.lakes import QUESTIONS, differing_rows
from benchmarks.pipeline_memory import Watch
from benchmarks.pipeline_stage import (
    ASK,
    DUCKDB,
    INGEST,
    POLARS,
    REPORT,
    SCAN,
    TABLE,
    THREADS,
    answer_of,
)
from benchmarks.pipeline_tables import engines, markdown
from benchmarks.records import Measured, note, save
from benchmarks.servers import ROOT

from routebook.journal.errors import JournalError
from routebook.journal.folder import list_folder
from routebook.journal.manifest import read_manifest
from routebook_spark.silver.build import (
    BROKER_GROUPS,
    CLOCK_DAYS,
    CLOCK_SIGHTINGS,
    NODE_BREAKS,
    NODE_EVENTS,
    NODE_GAPS,
)
from routebook_spark.tables import (
    BROKER_SESSIONS,
    CLOCK_SKEW,
    GOLD,
    NODE_COVERAGE,
    ROUTE_VERSIONS,
    SUSPECT_TIMES,
)

DAYS = {"day": 1, "week": 7, "month": 30}
ROUNDS = {"day": 3, "week": 1, "month": 1}
MADE = (
    NODE_GAPS,
    NODE_EVENTS,
    BROKER_GROUPS,
    ROUTE_VERSIONS,
    SUSPECT_TIMES,
    BROKER_SESSIONS,
    NODE_BREAKS,
    NODE_COVERAGE,
    CLOCK_SIGHTINGS,
    CLOCK_DAYS,
    CLOCK_SKEW,
    *GOLD,
)
STAGES = (SCAN, INGEST, *(f"{TABLE}{table.name}" for table in MADE), REPORT)
CACHE = "routebook-pipeline"
MOST_GB = 16.0  # more than this no stage may take of the machine

Found = dict[str, Measured]  # by stage
Different = dict[str, dict[str, int]]  # rows, by question and engine


class StageFailed(Exception):
    pass


class Kept:
    """What has been measured so far, in a file; with ``resume`` that of an earlier run too.

    Of each round, its stages and what the engines' answers differ in. The tables of a round are
    gone when the next one begins, so nothing of it can be found out later.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self._rounds: dict[str, tuple[Found, Different]] = (
            json.loads(path.read_text()) if resume and path.exists() else {}
        )

    def of(self, size: str, turn: int) -> tuple[Found, Different]:
        return self._rounds.setdefault(f"{size} {turn + 1}", ({}, {}))

    def save(self) -> None:
        self._path.write_text(json.dumps(self._rounds, indent=1))


@dataclass(frozen=True, slots=True)
class Run:
    """Sizes and rounds of one kind of journals in ``cache``, with tables beside them."""

    cache: Path
    memory_gb: int
    stages: Sequence[str]
    questions: Sequence[str]
    kept: Kept

    def journals(self, size: str, scale: Scale) -> Path:
        """The folder of the journals, generated unless it is there."""
        folder = self.cache / f"{size}-{scale.brokers}x{scale.topics}-{scale.seed}"
        if not is_made(scale, folder):
            if folder.exists():
                shutil.rmtree(folder)  # half of it, or another scale
            note(f"{size}: generating journals")
            _generate(scale, folder)
        return folder

    def measure(self, journals: Path, size: str, turn: int) -> tuple[Found, Different]:
        """Every stage once, on tables that do not exist yet; and which rows engines differ in."""
        tables, out = self.cache / "tables", self.cache / "out"
        found, different = self.kept.of(size, turn)
        for folder in (tables, out):
            if not found:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)

        def run(stage: str) -> None:
            if stage not in found:
                if stage == INGEST:  # which would go on with what a run that was stopped has taken
                    shutil.rmtree(tables)
                found[stage] = self._run(stage, journals, tables, out)
                self.kept.save()

        for stage in self.stages:
            run(stage)
            if stage == SCAN:
                shutil.rmtree(out / SCAN, ignore_errors=True)  # it is as large as the journals
        for question in self.questions:
            if question in different:
                continue
            asked = asked_of(question)
            for stage in list(asked.values())[:: -1 if turn % 2 else 1]:
                run(stage)
            answers = {
                engine: answer_of(stage, out) for engine, stage in asked.items() if found[stage]
            }
            different[question] = differing_rows(question, answers, tables)
            self.kept.save()
        return found, different

    def _run(self, stage: str, journals: Path, tables: Path, out: Path) -> Measured:
        """What was measured; nothing for an engine that is not ours and could not do it."""
        command = [sys.executable, "-m", "benchmarks.pipeline_stage", stage]
        places = ["--journals", journals, "--tables", tables, "--out", out]
        process = subprocess.Popen(
            [*command, *map(str, places), "--memory", str(self.memory_gb)],
            cwd=ROOT,
            env={
                **os.environ,
                "POLARS_MAX_THREADS": str(THREADS),
                "SPARK_LOCAL_DIRS": str(out),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            with Watch(process, limit=int(MOST_GB * 1e9)) as watch:
                output, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        peak = watch.peak
        if process.returncode:
            why = f"{stage} failed, with {peak.total / 1e6:,.0f} MB"
            if not stage.startswith(ASK):
                raise StageFailed(why)
            note(f"  {why}")
            return {}
        measured: Measured = json.loads(output.splitlines()[-1])
        measured |= {
            "rss_mb": peak.total / 1e6,
            "java_mb": peak.java / 1e6,
            "python_mb": peak.others / 1e6,
        }
        note(f"  {stage}: {measured['seconds']:.1f} s, {measured['rss_mb']:,.0f} MB")
        return measured


def asked_of(question: str) -> dict[str, str]:
    """The stage of each engine that is not ours."""
    return {engine: f"{ASK}{engine}:{question}" for engine in (DUCKDB, POLARS)}


def _generate(scale: Scale, folder: Path) -> None:
    options = {
        "--brokers": scale.brokers,
        "--topics": scale.topics,
        "--nodes": scale.nodes,
        "--days": scale.days,
        "--seed": scale.seed,
        "--churn": scale.churn,
        "--queried": scale.queried,
        "--first-day": scale.first_day,
    }
    arguments = [str(part) for option in options.items() for part in option]
    command = [sys.executable, "-m", "benchmarks.generate", str(folder), *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise StageFailed("generating failed")
    note(f"  {done.stdout.splitlines()[-1]}")


@dataclass(frozen=True, slots=True)
class Content:
    """What the manifests of all nodes say."""

    records: int
    bytes: int
    packed_bytes: int


def content_of(journals: Path) -> Content:
    manifests = [
        read_manifest(folder, span)
        for folder in sorted(journals.glob("ns-*"))
        for span in list_folder(folder).sealed
    ]
    return Content(
        sum(manifest.records for manifest in manifests),
        sum(manifest.bytes for manifest in manifests),
        sum(manifest.packed_bytes for manifest in manifests),
    )


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the pipeline on Spark.")
    parser.add_argument("--sizes", default=",".join(DAYS), help="default: %(default)s")
    add_scale(parser, Scale(brokers=1000, topics=1000))
    parser.add_argument("--memory", type=int, default=4, help="GB of each engine")
    parser.add_argument("--rounds", type=int, help="default: 3 of a day, 1 of what is larger")
    parser.add_argument("--stages", default=",".join(STAGES), help="default: all")
    parser.add_argument("--questions", default=",".join(QUESTIONS), help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / CACHE)
    parsed = parser.parse_args(arguments)
    for name, known in (("sizes", DAYS), ("stages", STAGES), ("questions", QUESTIONS)):
        chosen = [part for part in getattr(parsed, name).split(",") if part]
        unknown = set(chosen) - set(known)
        if unknown:
            parser.error(f"unknown {name}: {', '.join(sorted(unknown))}")
        setattr(parsed, name, chosen)
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a stage is stopped on the way out
    options = parsed_arguments(arguments)
    cache = options.cache.absolute()
    cache.mkdir(parents=True, exist_ok=True)
    kept = Kept(cache / "measured.json", resume=options.resume)
    run = Run(cache, options.memory, options.stages, options.questions, kept)
    results: dict[str, dict[str, list[Measured]]] = {}
    contents: dict[str, Content] = {}
    different: dict[str, Different] = {}
    try:
        for size in options.sizes:
            journals = run.journals(size, scale_of(options, days=DAYS[size]))
            contents[size] = content_of(journals)
            for turn in range(options.rounds or ROUNDS[size]):
                note(f"{size}, round {turn + 1}: {contents[size].records:,} records")
                found, different[size] = run.measure(journals, size, turn)
                for stage, measured in found.items():
                    results.setdefault(size, {}).setdefault(stage, []).append(measured)
    except (StageFailed, JournalError) as error:
        note(str(error))
        return 2
    records = {size: content.records for size, content in contents.items()}
    print("\n".join(markdown(results, records, stages=options.stages, bare=SCAN)))
    asked = {
        question: {"spark": f"{TABLE}{question}", **asked_of(question)}
        for question in options.questions
    }
    if asked:
        print("\n".join(engines(results, different, asked=asked)))
    conditions = {
        **{
            name: getattr(options, name) for name in ("brokers", "topics", "nodes", "seed", "churn")
        },
        "memory_gb": options.memory,
        "threads": THREADS,
        "journals": {size: asdict(content) for size, content in contents.items()},
    }
    saved = save("pipeline", conditions, {"stages": results, "different_rows": different})
    note(f"every round: {saved}")
    return int(any(rows for of in different.values() for q in of.values() for rows in q.values()))


if __name__ == "__main__":
    sys.exit(main())
