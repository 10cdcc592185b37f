"""The same commands on a real cluster, a standalone master and two workers, and on this machine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from routebook_spark.commands.main import spark as spark_commands
from routebook_spark.tables import ALL, Table
from support.smallspark import environment
from support.standalone import cluster

ROOT = Path(__file__).parents[2]
SCALE = "--brokers 6 --topics 10 --nodes 2 --days 1 --churn 3 --queried 20"
FAULTS = "--partition-on 0 --loss-on 0 --cold-on 0"
NOT_COMPARED = {"at"}  # in tables about the work itself: when it was done
ABOUT_THE_WORK = {"segments", "quarantine", "progress"}


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _commands(journals: Path, tables: Path) -> list[list[str]]:
    where = ["--tables", str(tables), "--memory", "1g"]
    return [["ingest", str(journals), *where], ["build", *where]]


def _rows(tables: Path, table: Table) -> list[tuple[Any, ...]]:
    """What it holds, in an order of its own; empty for one that was never written."""
    path = tables / table.name
    if not DeltaTable.is_deltatable(str(path)):
        return []
    left_out = NOT_COMPARED if table.name in ABOUT_THE_WORK else set()
    names = [field.name for field in table.schema if field.name not in left_out]
    found = DeltaTable(path).to_pyarrow_table(columns=names).to_pylist()
    return sorted((tuple(_plain(row[name]) for name in names) for row in found), key=repr)


def _plain(value: Any) -> Any:
    """Sums of fractions depend on the order in which they are added, by a little."""
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.timeout(1500)
def test_a_cluster_makes_the_same_tables_as_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    journals, work = tmp_path / "journals", tmp_path / "work"
    work.mkdir()
    generated = ("benchmarks.generate", str(journals), *SCALE.split(), *FAULTS.split())
    _run(work, *generated, "--memory", "512m")

    for arguments in _commands(journals, tmp_path / "here"):
        spark_commands.main(arguments, standalone_mode=False)  # in the session there is
    with cluster(tmp_path / "cluster", workers=2) as url:
        for arguments in _commands(journals, tmp_path / "there"):
            _run(work, "routebook", "spark", *arguments, "--master", url)
        logs = [path.read_text() for path in sorted((tmp_path / "cluster").glob("worker-*/log"))]

    assert all("Asked to launch executor" in log for log in logs)
    for table in ALL:
        here, there = (_rows(tmp_path / place, table) for place in ("here", "there"))
        assert here == there, table.name
    assert _rows(tmp_path / "there", ALL[0])
