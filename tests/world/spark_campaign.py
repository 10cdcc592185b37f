"""Worlds by the dozen in one lake, built in steps and at once."""

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from routebook_spark import tables
from routebook_spark.session import build_session
from routebook_spark.tables import Lake, Table
from support.small_spark import SETTINGS
from world.finding import Finding
from world.plan import Plan, draw, story
from world.report_checks import can_be_checked, check_report
from world.simulate import happened
from world.spark_checks import check_tables
from world.spark_frames import check_frames
from world.spark_lake import Carried, Row, built_at_once, built_in_steps, carry, rows_of

AT_ONCE = 40
IN_FRAMES = 100
STEPS = 2
TABLES: tuple[Table, ...] = (
    tables.NODE_COVERAGE,
    tables.BROKER_SESSIONS,
    tables.ROUTE_VERSIONS,
    tables.CLOCK_SKEW,
    tables.BROKER_AVAILABILITY,
    tables.DIVERGENCE,
    tables.CONVERGENCE,
    tables.STALE_EXPOSURE,
)


def check_plans(
    spark: SparkSession,
    plans: Sequence[Plan],
    folder: Path,
    *,
    steps: int = STEPS,
    reports: int = 2,
) -> Iterator[Finding]:
    """Built in ``steps``; with more than one also compared with a build of all at once.

    ``reports`` is of how many fleets at most a report is made.
    """
    truths = [happened(plan) for plan in plans]
    carried = carry(truths, folder / "stepwise", steps=steps)
    lake = Lake(spark, str(folder / "lake"))
    built_in_steps(lake, carried, steps=steps)
    found = {table.name: rows_of(lake.read(table)) for table in TABLES}
    yield from check_tables(carried, found)
    for lives in _fleets_to_report(carried)[:reports]:
        yield from check_report(lake, lives)
    if steps > 1:
        whole = carry(truths, folder / "whole", steps=steps)
        full = Lake(spark, str(folder / "full"))
        built_at_once(full, whole)
        for table in TABLES:
            yield from _same(table.name, found[table.name], rows_of(full.read(table)), carried)


def _fleets_to_report(carried: Sequence[Carried]) -> list[list[Carried]]:
    """Those in which most happened first."""
    fleets: dict[str, list[Carried]] = {}
    for each in carried:
        fleets.setdefault(each.life.fleet, []).append(each)
    able = [lives for lives in fleets.values() if can_be_checked(lives)]
    return sorted(able, key=lambda lives: -sum(len(each.life.phases) for each in lives))


_BOOKKEEPING = ("until_day", "seen_seq", "segment")


def _same(
    name: str, stepwise: Sequence[Row], whole: Sequence[Row], carried: Sequence[Carried]
) -> Iterator[Finding]:
    missing = Counter(map(_text, whole)) - Counter(map(_text, stepwise))
    extra = Counter(map(_text, stepwise)) - Counter(map(_text, whole))
    for text in list(missing)[:3]:
        yield Finding("lake", f"{name}: missing after builds in steps", text, "no such row")
    for text in list(extra)[:3]:
        yield Finding("lake", f"{name}: only after builds in steps", "no such row", text)


def _text(row: Row) -> str:
    return str({k: v for k, v in sorted(row.items()) if k not in _BOOKKEEPING})


def session(folder: Path) -> SparkSession:
    return build_session(
        "worlds",
        master="local[2]",
        memory="1g",
        settings={
            **SETTINGS,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
        },
    )


def run_tables(first: int, count: int, *, seconds: float) -> int:
    """Without a lake: a hundred worlds take little longer than one."""
    until = time.monotonic() + seconds
    mistakes: Counter[str] = Counter()
    seen = 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as name:
        spark = session(Path(name))
        for start in range(first, first + count, IN_FRAMES):
            if time.monotonic() > until:
                break
            plans = [draw(seed) for seed in range(start, min(start + IN_FRAMES, first + count))]
            _tell(plans, check_frames(spark, plans), mistakes)
            seen += len(plans)
        spark.stop()
    return _summed("tables", seen, mistakes)


def _tell(plans: Sequence[Plan], findings: Iterable[Finding], mistakes: Counter[str]) -> None:
    for finding in findings:
        kind = f"[{finding.room}] {finding.what}"
        mistakes[kind] += 1
        if mistakes[kind] <= 2:
            print(f"{finding}\n{_stories(plans, finding)}", flush=True)


def _summed(name: str, seen: int, mistakes: Counter[str]) -> int:
    print(f"{name}: {seen} worlds, {sum(mistakes.values())} mistakes", flush=True)
    for what, times in mistakes.most_common():
        print(f"  {times:6d} {what}")
    return sum(mistakes.values())


def run_spark(first: int, count: int, *, seconds: float, steps: int, reports: int) -> int:
    until = time.monotonic() + seconds
    mistakes: Counter[str] = Counter()
    seen = 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as name:
        spark = session(Path(name))
        for start in range(first, first + count, AT_ONCE):
            if time.monotonic() > until:
                break
            plans = [draw(seed) for seed in range(start, min(start + AT_ONCE, first + count))]
            folder = Path(name) / str(start)
            findings = check_plans(spark, plans, folder, steps=steps, reports=reports)
            _tell(plans, findings, mistakes)
            seen += len(plans)
        spark.stop()
    return _summed("spark", seen, mistakes)


def _stories(plans: Sequence[Plan], finding: Finding) -> str:
    text = f"{finding.expected} {finding.got}"
    told = [story(p) for p in plans if any(f"{fleet.name}" in text for fleet in p.fleets)]
    return "\n".join(told[:2])
