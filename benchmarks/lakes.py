"""The tables of gold worked out by DuckDB and by Polars, over the same lake.

A question has the name of its table, and is read from bronze and silver as Delta Lake has them. How
each engine answers it is in benchmarks/engines, a module for each table. An answer is a Parquet
file with all rows and columns of the table. It is compared with the table as Spark has built it,
row by row, floats up to six digits.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import polars as pl
from benchmarks.engines import (
    availability,
    balance,
    convergence,
    demand,
    divergence,
    exposure,
    flaps,
    forecast,
    heartbeats,
)
from benchmarks.engines.columns import Scan, comparable, frame_columns, sql_columns
from deltalake import DeltaTable

from routebook_spark import tables
from routebook_spark.tables import GOLD

QUESTIONS = tuple(table.name for table in GOLD)
_SCHEMAS = {table.name: table.schema for table in GOLD}
_READ = (tables.EVENTS, *tables.SILVER)

# -- DuckDB

_SQL = {
    "broker_availability": availability.SQL,
    "flaps": flaps.SQL,
    "convergence": convergence.SQL,
    "stale_exposure": exposure.SQL,
    "topic_balance": balance.SQL,
    "topic_demand": demand.SQL,
    "capacity_forecast": forecast.SQL,
    "heartbeat_health": heartbeats.SQL,
}


def ask_duckdb(question: str, lake: Path, out: Path, *, memory_gb: int, threads: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {threads}")
        connection.execute(f"SET memory_limit = '{memory_gb}GB'")
        connection.execute(f"SET temp_directory = '{out.parent}'")
        connection.execute("SET preserve_insertion_order = false")
        for table in _READ:
            _view(connection, lake / table.name)
        if question == tables.DIVERGENCE.name:
            nodes = "SELECT DISTINCT node FROM node_coverage ORDER BY node"
            rows = divergence.sql([row[0] for row in connection.execute(nodes).fetchall()])
        else:
            rows = _SQL[question]
        columns = ", ".join(sql_columns(_SCHEMAS[question]))
        connection.execute(f"COPY (SELECT {columns} FROM ({rows})) TO '{out}' (FORMAT parquet)")


def _view(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    table = DeltaTable(path)
    files = table.file_uris()
    if files:
        rows = f"read_parquet({files!r}, hive_partitioning = true, union_by_name = false)"
        connection.execute(f"CREATE VIEW {path.name} AS SELECT * FROM {rows}")
    else:
        connection.register(path.name, table.to_pyarrow_table())


# -- Polars

_FRAMES: Mapping[str, Callable[[Scan], pl.LazyFrame]] = {
    "broker_availability": availability.frame,
    "flaps": flaps.frame,
    "divergence": divergence.frame,
    "convergence": convergence.frame,
    "stale_exposure": exposure.frame,
    "topic_balance": balance.frame,
    "topic_demand": demand.frame,
    "capacity_forecast": forecast.frame,
    "heartbeat_health": heartbeats.frame,
}


def ask_polars(question: str, lake: Path, out: Path) -> None:
    """It takes as many threads as POLARS_MAX_THREADS says."""

    def table(name: str) -> pl.LazyFrame:
        return pl.scan_delta(str(lake / name))

    rows = _FRAMES[question](table)
    rows.select(*frame_columns(_SCHEMAS[question])).sink_parquet(out)


# -- both of them


def differing_rows(question: str, answers: Mapping[str, Path], lake: Path) -> dict[str, int]:
    """How many rows of each answer are not in gold as it was built, or the other way round."""
    with duckdb.connect() as connection:
        for name, path in answers.items():
            connection.execute(f"CREATE VIEW answer_{name} AS SELECT * FROM read_parquet('{path}')")
        _view(connection, lake / question)
        columns = ", ".join(comparable(_SCHEMAS[question]))
        gold = f"SELECT {columns} FROM {question}"
        found: dict[str, int] = {}
        for name in answers:
            told = f"SELECT {columns} FROM answer_{name}"
            missing = f"({gold} EXCEPT ALL {told}) UNION ALL ({told} EXCEPT ALL {gold})"
            row = connection.execute(f"SELECT count(*) FROM ({missing})").fetchone()
            found[name] = row[0] if row else 0
        return found
