"""Tables of four fleets, made in steps on one machine and at once on a cluster.

A build of all tables takes a minute of processors, however few the rows are: files that read the
tables of all commands share these (``in_steps`` and ``at_once`` in ``tests/spark/conftest.py``).
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from routebook_spark.commands.main import spark as command
from routebook_spark.jobs import Built, build
from routebook_spark.silver.build import INTERNAL
from routebook_spark.tables import BROKER_SESSIONS, GOLD, PROGRESS, SILVER, Lake, Table
from support.killable import Killable, commits
from support.late_fleets import BANK, SHOP, bank, shop
from support.real_and_generated import Journals
from support.silver_lakes import Intake, Row, in_order
from support.small_spark import SETTINGS, environment
from support.standalone import cluster

MADE = (*SILVER, *INTERNAL, *GOLD)
PATIENCE_S = 2400


def stored(
    tables: Path, table: Table, *, fleets: Iterable[str] | None = None, but: Iterable[str] = ()
) -> list[Row]:
    """Rows in an order of their own, without columns ``but``; none of what was never written."""
    if not DeltaTable.is_deltatable(str(tables / table.name)):
        return []
    names = [field.name for field in table.schema if field.name not in but]
    found = DeltaTable(tables / table.name).to_pyarrow_table(columns=names).to_pylist()
    return in_order(
        {name: _plain(value) for name, value in row.items()}
        for row in found
        if fleets is None or row["fleet"] in fleets
    )


def _plain(value: Any) -> Any:
    """Sums of fractions depend on the order in which they are added, by a little."""
    return round(value, 6) if isinstance(value, float) else value


# -- in steps


@dataclass(frozen=True, slots=True)
class InSteps:
    """``tables`` were brought up twice, by ``first`` and ``second``; ``last`` had no news.

    ``early`` are what the first build made. A build between was killed; ``half`` are the tables of
    which it had written anything.
    """

    journals: Journals
    tables: Path
    early: Path
    first: Built
    half: frozenset[Table]
    second: Built
    last: Built


def made_in_steps(spark: SparkSession, journals: Journals, home: Path) -> InSteps:
    """Runs that take segments are killed before they note what they took: the next one does first.

    Of a build that is killed some tables are made, others are not; the next one does it again, with
    what has come since.
    """
    tables, early = home / "tables", home / "early"
    lake = Lake(spark, str(tables))
    command.main(journals.ingest(tables), standalone_mode=False)
    intake = Intake(lake)
    (shop_first, shop_second), (bank_first, bank_second) = shop(), bank()
    intake.take(shop_first, fleet=SHOP)
    intake.write(bank_first, fleet=BANK)  # killed
    first = build(lake)
    intake.note()
    intake.write(shop_second, fleet=SHOP)  # killed
    for table in (*MADE, PROGRESS):
        shutil.copytree(tables / table.name, early / table.name)
    half = killed_half_way(tables)
    intake.note()
    intake.take(bank_second, fleet=BANK)
    second = build(lake)
    return InSteps(journals, tables, early, first, half, second, last=build(lake))


def killed_half_way(tables: Path) -> frozenset[Table]:
    """A build by a program that is killed when it has written one of the tables in the middle.

    Sessions count what happened in them: what is counted twice would show.
    """
    before = {table: commits(tables, table) for table in (*MADE, PROGRESS)}
    words = ["routebook", "spark", "build", "--tables", str(tables), "--memory", "1g"]
    with Killable(tables, [sys.executable, "-m", *words, "--master", "local[2]"]) as run:
        run.wait(lambda: commits(tables, BROKER_SESSIONS) > before[BROKER_SESSIONS])
    return frozenset(table for table in before if commits(tables, table) > before[table])


# -- at once

_SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from routebook_spark.commands.main import spark

stop, SparkSession.stop = SparkSession.stop, lambda session: None
master, first, *others = json.loads(sys.argv[1])
spark.main([*first, "--master", master], standalone_mode=False)
for command in others:
    spark.main(command, standalone_mode=False)
session = SparkSession.getActiveSession()
print(json.dumps({name: session.conf.get(name) for name in sys.argv[2:]}))
stop(session)
"""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """``settings`` are what the session had for those that tests set otherwise.

    ``logs`` are those of the workers of the cluster; ``alerts`` what a watch told of the generated
    fleet.
    """

    tables: Path
    settings: Mapping[str, str]
    logs: tuple[str, ...]
    alerts: tuple[Mapping[str, Any], ...]


def made_at_once(spark: SparkSession, in_steps: InSteps, home: Path) -> AtOnce:
    """The same by a cluster, from all that came, in the place of what the first build made.

    All is as users have it: code is generated, and plans are made anew while they run.
    """
    tables, alerts = home / "tables", home / "alerts.jsonl"
    shutil.copytree(in_steps.early, tables)
    intake = Intake(Lake(spark, str(tables)))
    for fleet, batches in ((SHOP, shop()), (BANK, bank())):
        intake.take([part for batch in batches for part in batch], fleet=fleet)
    told_to = ["--checkpoint", str(home / "watch"), "--alerts", str(alerts)]
    commands = [
        in_steps.journals.ingest(tables),
        ["build", "--full", "--tables", str(tables)],
        ["watch", str(in_steps.journals.generated), "--once", *told_to],
    ]
    with cluster(home / "cluster", workers=2) as url:
        settings = _run(home, url, commands)
        logs = [path.read_text() for path in sorted((home / "cluster").glob("worker-*/log"))]
    told = [json.loads(line) for line in alerts.read_text().splitlines()]
    return AtOnce(tables, settings, tuple(logs), tuple(told))


def _run(home: Path, master: str, commands: list[list[str]]) -> Any:
    """In one process: the first takes the master by its option, the others the session there is."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps([master, *commands]), *SETTINGS],
        env=environment(home, settings={}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
