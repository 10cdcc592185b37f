"""The same tables and alerts by a standalone master with two workers, and by other engines."""

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest
from benchmarks.lakes import ask_duckdb, ask_polars, differing_rows
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from routebook.journal.reader import read
from routebook_spark.alerts.limits import Limits
from routebook_spark.tables import BRONZE, EVENTS, GOLD, QUARANTINE, SEGMENTS, SILVER, Table
from support.made_tables import AtOnce, InSteps, stored
from support.real_and_generated import GENERATED, REAL
from support.watch_runs import expected_alerts

AS_USERS_HAVE_IT = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}


def test_a_cluster_has_the_settings_of_users_and_all_workers_do_something(at_once: AtOnce) -> None:
    assert at_once.settings == AS_USERS_HAVE_IT
    assert len(at_once.logs) == 2
    assert all("Asked to launch executor" in log for log in at_once.logs)


@pytest.mark.parametrize("table", BRONZE, ids=lambda table: table.name)
def test_a_cluster_takes_the_same_from_journals_as_one_machine(
    in_steps: InSteps, at_once: AtOnce, table: Table
) -> None:
    """``test_build.py`` compares what is made of it."""
    here, there = (
        # When it was taken, and after which others, is of the run and not of the journal.
        stored(tables, table, fleets=[GENERATED, REAL], but=_OF_THE_RUN.get(table, ()))
        for tables in (in_steps.tables, at_once.tables)
    )
    assert bool(here) is (table is not QUARANTINE)
    assert here == there


_OF_THE_RUN = {SEGMENTS: ("at", "batch")}


def test_a_cluster_tells_the_alerts_that_plain_python_finds(
    spark: SparkSession, in_steps: InSteps, at_once: AtOnce
) -> None:
    folders = in_steps.journals.generated.glob("ns-*")
    by_node = {folder.name: list(read(folder)) for folder in folders}
    assert {alert["kind"] for alert in at_once.alerts} >= {"divergence", "records_lost"}
    told = Counter((alert["id"], alert["state"]) for alert in at_once.alerts)
    assert told == expected_alerts(spark, by_node, Limits())


@pytest.fixture(scope="module")
def one_fleet(in_steps: InSteps, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the generated fleet: the questions to other engines know of no fleets."""
    home = tmp_path_factory.mktemp("one-fleet")
    for table in (EVENTS, *SILVER, *GOLD):
        found = DeltaTable(in_steps.tables / table.name).to_pyarrow_table()
        rows = found.filter(pc.field("fleet") == GENERATED)
        write_deltalake(home / table.name, rows, partition_by=list(table.partitioned_by))
    return home


@pytest.mark.parametrize("table", GOLD, ids=lambda table: table.name)
def test_other_engines_find_what_is_in_gold(one_fleet: Path, table: Table, tmp_path: Path) -> None:
    answers = {"duckdb": tmp_path / "duckdb.parquet", "polars": tmp_path / "polars.parquet"}
    ask_duckdb(table.name, one_fleet, answers["duckdb"], memory_gb=1, threads=2)
    ask_polars(table.name, one_fleet, answers["polars"])
    assert stored(one_fleet, table)
    assert differing_rows(table.name, answers, one_fleet) == {"duckdb": 0, "polars": 0}
