"""The same tables by one process, by a standalone master with two workers, and by other engines."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.generate import generate
from benchmarks.generate_plan import Scale
from benchmarks.lakes import ask_duckdb, ask_polars, differing_rows
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from routebook.journal.reader import read
from routebook_spark.alerts.limits import Limits
from routebook_spark.commands.main import spark as spark_commands
from routebook_spark.tables import ALL, EVENTS, GOLD, Table
from support.smallspark import environment
from support.standalone import cluster
from support.watchruns import expected_alerts

SCALE = Scale(
    brokers=6,
    topics=10,
    nodes=2,
    churn=3.0,
    queried=20,
    partition_on=0,
    loss_on=0,
    cold_on=0,
)
NOT_COMPARED = {"at"}  # in tables about the work itself: when it was done
ABOUT_THE_WORK = {"segments", "quarantine", "progress"}


SCRIPT = """
import json, sys
from routebook_spark.commands.main import spark
from routebook_spark.session import build_session

master, first, *others = json.loads(sys.argv[1])
spark.main([*first, "--master", master], standalone_mode=False)
build_session("the others", master=master, memory="1g")
for command in others:
    spark.main(command, standalone_mode=False)
"""


def _run(folder: Path, master: str, *commands: Sequence[str]) -> None:
    """In one process: the first takes the master by its option, the others the session there is."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([master, *commands])],
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


@dataclass(frozen=True, slots=True)
class Made:
    """Journals, and the tables that one process has made of them."""

    journals: Path
    tables: Path


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("made")
    made = Made(home / "journals", home / "tables")
    generate(spark, SCALE, made.journals)
    for arguments in _commands(made.journals, made.tables):
        spark_commands.main(arguments, standalone_mode=False)  # in the session there is
    return made


def test_a_cluster_makes_the_same_tables_and_alerts_as_one_machine(
    spark: SparkSession, made: Made, tmp_path: Path
) -> None:
    there, alerts = tmp_path / "tables", tmp_path / "alerts.jsonl"
    watch = ["watch", str(made.journals), "--once", "--checkpoint", str(tmp_path / "watch")]
    with cluster(tmp_path / "cluster", workers=2) as url:
        told_there = [*watch, "--alerts", str(alerts), "--memory", "1g"]
        _run(tmp_path, url, *_commands(made.journals, there), told_there)
        logs = [path.read_text() for path in sorted((tmp_path / "cluster").glob("worker-*/log"))]

    assert all("Asked to launch executor" in log for log in logs)
    for table in ALL:
        assert _rows(made.tables, table) == _rows(there, table), table.name
    assert _rows(there, EVENTS)
    told = [json.loads(line) for line in alerts.read_text().splitlines()]
    by_node = {folder.name: list(read(folder)) for folder in made.journals.glob("ns-*")}
    assert {alert["kind"] for alert in told} >= {"divergence", "records_lost"}
    assert Counter((alert["id"], alert["state"]) for alert in told) == expected_alerts(
        spark, by_node, Limits()
    )


@pytest.mark.parametrize("table", GOLD, ids=lambda table: table.name)
def test_other_engines_find_what_is_in_gold(made: Made, table: Table, tmp_path: Path) -> None:
    answers = {"duckdb": tmp_path / "duckdb.parquet", "polars": tmp_path / "polars.parquet"}
    ask_duckdb(table.name, made.tables, answers["duckdb"], memory_gb=1, threads=2)
    ask_polars(table.name, made.tables, answers["polars"])
    assert _rows(made.tables, table)
    assert differing_rows(table.name, answers, made.tables) == {"duckdb": 0, "polars": 0}
