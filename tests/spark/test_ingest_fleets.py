"""Whose records are whose: fleets, replaced disks, and tables from before anybody asked."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routebook_spark import schemas, tables
from routebook_spark.bronze.ingest import IngestResult, ingest
from routebook_spark.bronze.intake import Intake
from routebook_spark.bronze.segments import known_segment
from routebook_spark.bronze.taking import Taker
from routebook_spark.commands.build import build as build_command
from routebook_spark.commands.retake import retake as retake_command
from routebook_spark.jobs import build
from routebook_spark.silver.build import CLOCK_SIGHTINGS
from routebook_spark.tables import EVENTS, GAPS, QUARANTINE, SEGMENTS, Lake, Table
from support.journals import NOON_MS
from support.spark_journals import SPOILT, altered, chain, manifest_of, records, write_segment
from support.spark_rows import frame

NEW_MEMBERS = ("fleet", "incarnation", "alive_ms", "from_ms", "to_ms", "longest_ms", "clock_ms")


def seqs_of(lake: Lake) -> dict[tuple[str, str, str], list[int]]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in lake.read(EVENTS).select(*schemas.WITNESS, "seq").collect():
        found.setdefault((row.fleet, row.node, row.incarnation), []).append(row.seq)
    return {whose: sorted(seqs) for whose, seqs in found.items()}


# -- fleets and incarnations


@dataclass(frozen=True)
class Fleets:
    lake: Lake
    runs: list[IngestResult]


@pytest.fixture(scope="module")
def fleets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fleets:
    """One name in three fleets: told by the journal, by who ingests, and by nobody."""
    base = tmp_path_factory.mktemp("fleets")
    lake = Lake(spark, str(base / "tables"))
    for number, folder in enumerate(("said", "given", "unsaid")):
        lines = chain(records("ns-1", 1, 10 + number, wall_ms=NOON_MS + number))
        fleet = {"said": "shop", "given": "bank", "unsaid": ""}[folder]
        write_segment(base / folder, lines, fleet=fleet)
    new = chain(records("ns-1", 1, 5, wall_ms=NOON_MS + 100_000))
    write_segment(base / "replaced", new, fleet="shop", incarnation="9f86d081884c7d65")
    runs = [
        ingest(lake, [str(base / "said"), str(base / "unsaid"), str(base / "replaced")]),
        ingest(lake, [str(base / "given")], fleet="depot"),
    ]
    return Fleets(lake, runs)


def test_nodes_of_one_name_in_several_fleets_are_taken_apart(fleets: Fleets) -> None:
    assert seqs_of(fleets.lake) == {
        ("shop", "ns-1", ""): list(range(1, 11)),
        ("shop", "ns-1", "9f86d081884c7d65"): list(range(1, 6)),
        ("depot", "ns-1", ""): list(range(1, 12)),
        ("default", "ns-1", ""): list(range(1, 13)),
    }


def test_neither_another_fleet_nor_a_replaced_disk_is_a_quarantine(fleets: Fleets) -> None:
    assert [run.quarantined for run in fleets.runs] == [{}, {}]
    assert [run.remarks for run in fleets.runs] == [(), ()]
    assert fleets.lake.read(GAPS).count() == 0


# -- tables of an earlier version


def as_of_old(lake: Lake, table: Table) -> None:
    """Make ``table`` as it was before there were fleets."""
    rows = lake.read(table)
    kept = [name for name in rows.columns if name not in ("fleet", "incarnation", "version")]
    rows = rows.select(*kept)
    if "data" in kept:
        rows = rows.withColumn("data", F.col("data").dropFields(*NEW_MEMBERS))
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", True)
    writer.partitionBy(*table.partitioned_by).save(lake.path(table))


def test_tables_from_before_there_were_fleets_are_taken_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "tables"))
    lines = chain(records("ns-1", 1, 30))
    write_segment(tmp_path / "ns-1", lines[:10], bad=[SPOILT + b"\n"])
    ingest(lake, [str(tmp_path / "ns-1")])
    lake.append(tables.PROGRESS, frame(spark, schemas.PROGRESS, [{"stage": "build", "batch": 1}]))
    covered = [
        {"node": node, "from_seq": 1, "begins": "first_record"} for node in ("ns-1", "by-old-rules")
    ]
    lake.append(tables.NODE_COVERAGE, frame(spark, schemas.NODE_COVERAGE, covered))
    for table in tables.ALL:
        if lake.exists(table):
            as_of_old(lake, table)

    old = lake.read(EVENTS).select(*schemas.WITNESS, "data.alive_ms").distinct().collect()
    assert [tuple(row) for row in old] == [("default", "ns-1", "", None)]
    write_segment(tmp_path / "ns-1", lines[10:20], bad=[SPOILT + b"\n"])
    write_segment(tmp_path / "ns-2", chain(records("ns-2", 1, 5)), fleet="shop")
    ingest(lake, [str(tmp_path / "ns-1"), str(tmp_path / "ns-2")])
    with pytest.raises(CoverageIsMade):
        build(lake, told=_stop_after_coverage)

    assert seqs_of(lake) == {
        ("default", "ns-1", ""): list(range(1, 21)),
        ("shop", "ns-2", ""): list(range(1, 6)),
    }
    for table in (EVENTS, SEGMENTS, QUARANTINE, tables.NODE_COVERAGE):
        stored = spark.read.format("delta").load(lake.path(table))
        assert stored.where("fleet IS NULL OR incarnation IS NULL").count() == 0, table.name
    nodes = {(row.fleet, row.node) for row in lake.read(tables.NODE_COVERAGE).collect()}
    assert nodes == {("default", "ns-1"), ("shop", "ns-2")}, "what old rules made is made anew"


class CoverageIsMade(Exception):
    pass


def _stop_after_coverage(table: str) -> None:
    """What comes after it knows nothing of rules and fleets that is not known before."""
    if table == CLOCK_SIGHTINGS.name:
        raise CoverageIsMade


# -- taking once more


def test_lines_without_a_hash_are_neither_doubled_nor_called_another_node(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "tables"))
    lines = [altered(line, hash=None) for line in chain(records("ns-1", 1, 3))]
    newer = altered(chain(records("ns-1", 4, 4))[0], v=2)
    write_segment(tmp_path / "ns-1", [*lines, newer], last_hash="", first_hash="")
    ingest(lake, [str(tmp_path / "ns-1")])
    assert seqs_of(lake)["default", "ns-1", ""] == [1, 2, 3]
    for _ in range(2):
        result = CliRunner().invoke(retake_command, ["--tables", lake.root, "--json"])
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert (told["segments"], told["events"], told["duplicates"]) == (1, 0, 3)
    assert seqs_of(lake)["default", "ns-1", ""] == [1, 2, 3]
    reasons = [row.reason for row in lake.read(QUARANTINE).collect()]
    assert reasons == ["schema version 2; this reader knows 1"]


def test_only_what_is_in_quarantine_for_the_reason_is_taken_once_more_and_as_whose_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from routebook_spark.bronze import checks

    lake = Lake(spark, str(tmp_path / "tables"))
    lines = chain(records("ns-1", 1, 20))
    write_segment(tmp_path / "a", [*lines[:5], altered(lines[5], v=2), *lines[6:10]])
    spoilt = write_segment(tmp_path / "b", lines[10:], bad=[SPOILT + b"\n"])
    ingest(lake, [str(tmp_path)], fleet="shop")
    monkeypatch.setattr(checks, "VERSION", 2)
    told = retaken(lake, "--because", "schema version")
    assert (told["segments"], told["events"], told["duplicates"]) == (1, 1, 9)
    assert seqs_of(lake) == {("shop", "ns-1", ""): list(range(1, 21))}
    assert [row.reason for row in lake.read(QUARANTINE).collect()] == ["not a JSON object"]

    spoilt.unlink()
    told = retaken(lake)
    assert told["remarks"] == [f"file:{spoilt} is not there any more: it stays as it was"]
    assert {row.status for row in lake.read(SEGMENTS).collect()} == {"taken"}
    assert lake.read(QUARANTINE).count() == 1, "what cannot be read again stays"
    assert seqs_of(lake) == {("shop", "ns-1", ""): list(range(1, 21))}


def retaken(lake: Lake, *options: str) -> Any:
    result = CliRunner().invoke(retake_command, [*options, "--tables", lake.root, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_file_that_vanished_takes_no_other_quarantine_and_no_hole_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The run was killed when the events of both were written, and nothing else was."""
    lake = Lake(spark, str(tmp_path / "tables"))
    for node in ("ns-1", "ns-2"):
        lines = chain(records(node, 1, 10))
        write_segment(tmp_path / node, [*lines[:4], altered(lines[4], v=2), *lines[5:]])
    ingest(lake, [str(tmp_path)])
    rows = lake.read(SEGMENTS).collect()
    for table in (SEGMENTS, QUARANTINE, GAPS):
        shutil.rmtree(lake.path(table))
    shutil.rmtree(f"{lake.root}/_checkpoints")
    (gone,) = (row for row in rows if row.node == "ns-2")
    Path(gone.path.removeprefix("file:")).unlink()
    manifest_of(Path(gone.path.removeprefix("file:"))).unlink()

    last = Taker(lake).last_taken()
    assert last is not None
    assert {known_segment(row) for row in rows} == set(last[0].segments)
    Intake(lake, "another run").finish()
    result = ingest(lake, [str(tmp_path)])

    reasons = sorted((row.node, row.seq, row.reason) for row in lake.read(QUARANTINE).collect())
    assert reasons == [
        ("ns-1", 5, "schema version 2; this reader knows 1"),
        ("ns-2", None, "1 records cannot be read any more: the file went away"),
    ]
    assert result.gaps == {"missing": 2}


# -- where there is nothing


def test_building_where_no_table_is_says_so(spark: SparkSession, tmp_path: Path) -> None:
    for command in (build_command, retake_command):
        result = CliRunner().invoke(command, ["--tables", str(tmp_path / "typo")])
        assert result.exit_code == 1
        assert f"there are no tables in {tmp_path}/typo; name the folder" in result.output
