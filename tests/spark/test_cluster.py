"""The same tables by one process, by a standalone master with two workers, and by other engines.

The one process has the settings of tests. On the cluster all is as users have it: code is
generated, and plans are made anew while they run.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest
from benchmarks.lakes import ask_duckdb, ask_polars, differing_rows
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from routebook.journal.reader import read
from routebook_spark.alerts.limits import Limits
from routebook_spark.tables import ALL, EVENTS, GOLD, SILVER, Table
from support.small_spark import SETTINGS, environment
from support.standalone import cluster
from support.two_fleets import GENERATED, TwoFleets
from support.watch_runs import expected_alerts

NOT_COMPARED = {"at"}  # in tables about the work itself: when it was done
ABOUT_THE_WORK = {"segments", "quarantine", "progress"}
PATIENCE_S = 1200
AS_USERS_HAVE_IT = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}

SCRIPT = """
import json, sys
from routebook_spark.commands.main import spark
from routebook_spark.session import build_session

master, first, *others = json.loads(sys.argv[1])
spark.main([*first, "--master", master], standalone_mode=False)
session = build_session("the others", master=master, memory="1g")
for command in others:
    spark.main(command, standalone_mode=False)
print(json.dumps({name: session.conf.get(name) for name in sys.argv[2:]}))
"""


def _run(folder: Path, master: str, *commands: Sequence[str]) -> Any:
    """In one process: the first takes the master by its option, the others the session there is.

    Returns what that session has for what tests set otherwise.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([master, *commands]), *SETTINGS],
        env=environment(folder, settings={}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


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


def test_a_cluster_makes_the_same_tables_and_alerts_as_one_machine(
    spark: SparkSession, two_fleets: TwoFleets, tmp_path: Path
) -> None:
    there, alerts = tmp_path / "tables", tmp_path / "alerts.jsonl"
    watch = ["watch", str(two_fleets.generated), "--once", "--checkpoint", str(tmp_path / "watch")]
    with cluster(tmp_path / "cluster", workers=2) as url:
        told_there = [*watch, "--alerts", str(alerts), "--memory", "1g"]
        settings = _run(tmp_path, url, *two_fleets.commands(there), told_there)
        logs = [path.read_text() for path in sorted((tmp_path / "cluster").glob("worker-*/log"))]

    assert settings == AS_USERS_HAVE_IT
    assert all("Asked to launch executor" in log for log in logs)
    for table in ALL:
        assert _rows(two_fleets.tables, table) == _rows(there, table), table.name
    assert _rows(there, EVENTS)
    told = [json.loads(line) for line in alerts.read_text().splitlines()]
    by_node = {folder.name: list(read(folder)) for folder in two_fleets.generated.glob("ns-*")}
    assert {alert["kind"] for alert in told} >= {"divergence", "records_lost"}
    assert Counter((alert["id"], alert["state"]) for alert in told) == expected_alerts(
        spark, by_node, Limits()
    )


@pytest.fixture(scope="module")
def one_fleet(two_fleets: TwoFleets, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the generated fleet: the questions to other engines know of no fleets."""
    home = tmp_path_factory.mktemp("one-fleet")
    for table in (EVENTS, *SILVER, *GOLD):
        stored = DeltaTable(two_fleets.tables / table.name).to_pyarrow_table()
        rows = stored.filter(pc.field("fleet") == GENERATED)
        write_deltalake(home / table.name, rows, partition_by=list(table.partitioned_by))
    return home


@pytest.mark.parametrize("table", GOLD, ids=lambda table: table.name)
def test_other_engines_find_what_is_in_gold(one_fleet: Path, table: Table, tmp_path: Path) -> None:
    answers = {"duckdb": tmp_path / "duckdb.parquet", "polars": tmp_path / "polars.parquet"}
    ask_duckdb(table.name, one_fleet, answers["duckdb"], memory_gb=1, threads=2)
    ask_polars(table.name, one_fleet, answers["polars"])
    assert _rows(one_fleet, table)
    assert differing_rows(table.name, answers, one_fleet) == {"duckdb": 0, "polars": 0}
