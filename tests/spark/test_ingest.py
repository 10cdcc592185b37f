"""Segments come into the tables once, however they arrive and whatever happens to the run."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from routebook_spark import jobs
from routebook_spark.bronze.folders import Files, literal, tables_locked
from routebook_spark.bronze.gaps import MISSING
from routebook_spark.bronze.ingest import IngestResult, follow, ingest
from routebook_spark.errors import TablesInUse
from routebook_spark.session import jars_folder
from routebook_spark.tables import EVENTS, GAPS, QUARANTINE, SEGMENTS, Lake, Table
from support.killable import Killable, commits
from support.spark_journals import (
    SPOILT,
    chain,
    manifest_of,
    records,
    write_segment,
    write_segments,
)

SCRIPT = """
import sys
from routebook_spark.bronze.ingest import ingest
from routebook_spark.session import build_session
from routebook_spark.tables import Lake

folder, tables = sys.argv[1:]
settings = {"spark.sql.shuffle.partitions": "2"}
spark = build_session("ingest", master="local[2]", memory="1g", settings=settings)
ingest(Lake(spark, tables), [folder], at_once=2)
"""


def places(lake: Lake) -> list[tuple[str, int, str]]:
    """Every event there is, as often as it is there."""
    rows = lake.read(EVENTS).select("node", "seq", "hash").collect()
    return sorted((row.node, row.seq, row.hash) for row in rows)


def rows_of(lake: Lake, table: Table, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.read(table).select(*names).collect()), key=repr)


# -- deliveries


@dataclass(frozen=True)
class Story:
    """Five segments of two nodes in three deliveries, one of them copied to a second place."""

    lake: Lake
    runs: list[IngestResult]
    gaps: list[list[tuple[Any, ...]]]
    paths: dict[str, Path]
    events: list[list[tuple[str, int, str]]]


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    base = tmp_path_factory.mktemp("journals") / "of [all] nodes, 100%"
    lake = Lake(spark, str(base / "tables"))
    one = write_segments(base / "data" / "ns-1", chain(records("ns-1", 1, 30)), size=10)
    two = write_segments(base / "data" / "ns-2" / "journal", chain(records("ns-2", 1, 20)), size=10)
    copy = base / "backup" / "ns-1"
    copy.mkdir(parents=True)
    for path in (one[0], manifest_of(one[0])):
        shutil.copy(path, copy)
    whole, late = one[1].read_bytes(), two[1].read_bytes()
    runs: list[IngestResult] = []
    gaps: list[list[tuple[Any, ...]]] = []
    events: list[list[tuple[str, int, str]]] = []

    def run() -> None:
        runs.append(ingest(lake, [str(base / "data"), f"{literal(str(base))}/back*"]))
        gaps.append(rows_of(lake, GAPS, "node", "after_seq", "before_seq", "missing", "kind"))
        events.append(places(lake))

    one[1].write_bytes(whole[:-20])
    two[1].unlink()
    run()
    one[1].write_bytes(whole)
    two[1].write_bytes(late)
    run()
    shutil.rmtree(base / "tables" / "_checkpoints")
    run()
    paths = {"half": one[1], "late": two[1], "copied": copy / one[0].name}
    return Story(lake, runs, gaps, paths, events)


def test_segments_of_many_folders_are_taken_as_far_as_they_are_whole(story: Story) -> None:
    first = story.runs[0]
    assert (first.segments, first.events, first.duplicates) == (3, 30, 0)
    assert first.copies == 1
    assert first.waiting == {
        f"file:{story.paths['half']}": "half-copied: {} of {} bytes are there".format(
            story.paths["half"].stat().st_size - 20, story.paths["half"].stat().st_size
        ),
        f"file:{story.paths['late']}": "missing: only its manifest is there",
    }


def test_what_comes_late_or_is_completed_is_taken_by_the_next_run(story: Story) -> None:
    second = story.runs[1]
    assert (second.segments, second.events, second.waiting) == (2, 20, {})
    expected = [("ns-1", seq) for seq in range(1, 31)] + [("ns-2", seq) for seq in range(1, 21)]
    assert [(node, seq) for node, seq, _ in story.events[1]] == expected


def test_a_gap_is_reported_until_it_is_filled(story: Story) -> None:
    assert story.gaps == [[("ns-1", 10, 21, 10, MISSING)], [], []]
    assert story.runs[0].gaps == {MISSING: 1}
    assert story.runs[1].gaps == {}


def test_nothing_is_taken_twice_even_without_checkpoints(story: Story) -> None:
    third = story.runs[2]
    assert (third.segments, third.copies, third.events, third.duplicates) == (0, 0, 0, 0)
    assert story.events[2] == story.events[1]


def test_each_file_is_in_the_table_of_segments_with_what_became_of_it(story: Story) -> None:
    rows = rows_of(story.lake, SEGMENTS, "node", "first_seq", "status", "batch")
    assert rows == [
        ("ns-1", 1, "copy", None),
        ("ns-1", 1, "taken", 1),
        ("ns-1", 11, "taken", 2),
        ("ns-1", 21, "taken", 1),
        ("ns-2", 1, "taken", 1),
        ("ns-2", 11, "taken", 2),
    ]


# -- runs that are killed


def in_small_steps(folder: Path, tables: Path) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(folder), str(tables)]


def by_spark_submit(folder: Path, tables: Path) -> list[str]:
    """As docs/pipeline.md has it, with the jars that are here; they need not be fetched."""
    jars = ",".join(map(str, sorted(jars_folder().glob("*.jar"))))
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    options = ["--master", "local[2]", "--driver-memory", "1g", "--jars", jars]
    return [submit, *options, str(jobs.__file__), "ingest", str(folder), "--tables", str(tables)]


def test_a_run_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    journals, tables = tmp_path / "journals", tmp_path / "tables"
    lines = chain(records("ns-1", 1, 60))
    write_segments(journals / "ns-1", lines[:10], size=10)
    write_segment(journals / "ns-1", lines[10:20], bad=[SPOILT + b"\n"])
    write_segments(journals / "ns-1", lines[20:], size=10)
    uncommitted, committed = tmp_path / "uncommitted", tmp_path / "committed"

    def data_is_written() -> bool:
        return any((tables / EVENTS.name).glob("day=*/*.parquet"))

    with Killable(tables, in_small_steps(journals, tables)) as run:
        run.copy_when(data_is_written, uncommitted)
        run.copy_when(lambda: commits(tables, EVENTS) > 1, committed)
        run.wait(lambda: commits(tables, QUARANTINE) > 1)
    assert commits(uncommitted, EVENTS) == 1, "the table was made, and nothing is in it"
    before = commits(tables, EVENTS)
    with Killable(tables, by_spark_submit(journals, tables)) as run:
        run.wait(lambda: commits(tables, EVENTS) > before)
    clean = Lake(spark, str(tmp_path / "clean"))
    ingest(clean, [str(journals)])
    assert len(places(clean)) == 60
    quarantined = ("node", "seq", "reason", "raw", "segment", "path")
    settled = ("path", "status", "quarantined")
    for left in (uncommitted, committed, tables):
        lake = Lake(spark, str(left))
        ingest(lake, [str(journals)])
        assert places(lake) == places(clean), left.name
        assert rows_of(lake, QUARANTINE, *quarantined) == rows_of(clean, QUARANTINE, *quarantined)
        assert rows_of(lake, SEGMENTS, *settled) == rows_of(clean, SEGMENTS, *settled)
        assert rows_of(lake, GAPS, "node", "after_seq") == rows_of(clean, GAPS, "node", "after_seq")


# -- two at a time


def test_a_second_ingest_into_the_same_tables_is_turned_away(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "journals").mkdir()
    with tables_locked(Files(spark).qualified(lake.root)), pytest.raises(TablesInUse) as caught:
        ingest(lake, [str(tmp_path / "journals")])
    assert str(caught.value).startswith(f"another ingest writes into {lake.root};")


# -- again and again


class Enough(Exception):
    pass


def test_following_takes_what_comes_and_what_was_missing(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "ns-1"
    lines = chain(records("ns-1", 1, 30))
    paths = write_segments(folder, lines[:20], size=10)
    late = paths[1].read_bytes()
    paths[1].unlink()
    heard: list[tuple[int, int]] = []

    def seen(result: IngestResult) -> None:
        heard.append((result.segments, len(result.waiting)))
        if len(heard) == 1:
            paths[1].write_bytes(late)  # no manifest comes with it
        elif len(heard) == 2:
            write_segment(folder, lines[20:])
        else:
            raise Enough

    with pytest.raises(Enough):
        follow(lake, [str(folder)], every_s=1, seen=seen)

    assert heard == [(1, 1), (1, 0), (1, 0)]
    assert [seq for _, seq, _ in places(lake)] == list(range(1, 31))
