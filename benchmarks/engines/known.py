"""What nodes knew and told, as routebook_spark/gold/known.py has it: in DuckDB's SQL and Polars."""

import polars as pl
from benchmarks.engines.columns import Scan

from routebook_spark.gold.known import LAST_MS
from routebook_spark.silver.members import OUT_OF_SIGHT


def known_units(unit_ms: int) -> str:
    """``node, unit, from_ms, until_ms``."""
    return f"""
        SELECT node, unit, greatest(from_ms, unit * {unit_ms}) AS from_ms,
               least(until_ms, (unit + 1) * {unit_ms}) AS until_ms
        FROM (
            SELECT *, unnest(range(from_ms // {unit_ms}, (until_ms - 1) // {unit_ms} + 1)) AS unit
            FROM (
                SELECT node, epoch_ms(from_at) AS from_ms, epoch_ms(to_at) + 1 AS until_ms
                FROM node_coverage)
            WHERE from_ms < until_ms)"""


TOLD_ROUTES = f"""
    SELECT * FROM (
        SELECT *, epoch_ms(valid_from) AS begin_ms,
               coalesce(epoch_ms(valid_to)
                        + CASE WHEN end_cause IN {OUT_OF_SIGHT!r} THEN 1 ELSE 0 END,
                        {LAST_MS}) AS end_ms
        FROM route_versions)
    WHERE begin_ms < end_ms"""


def known_units_frame(table: Scan, unit_ms: int) -> pl.LazyFrame:
    from_ms, until_ms, unit = pl.col("from_ms"), pl.col("until_ms"), pl.col("unit")
    return (
        table("node_coverage")
        .select(
            "node",
            pl.col("from_at").dt.epoch("ms").alias("from_ms"),
            (pl.col("to_at").dt.epoch("ms") + 1).alias("until_ms"),
        )
        .filter(from_ms < until_ms)
        .with_columns(
            pl.int_ranges(from_ms // unit_ms, (until_ms - 1) // unit_ms + 1).alias("unit")
        )
        .explode("unit")
        .select(
            "node",
            "unit",
            pl.max_horizontal(from_ms, unit * unit_ms),
            pl.min_horizontal(until_ms, (unit + 1) * unit_ms),
        )
    )


def told_routes_frame(table: Scan) -> pl.LazyFrame:
    unseen = pl.col("end_cause").is_in(OUT_OF_SIGHT).fill_null(False).cast(pl.Int64)
    return (
        table("route_versions")
        .with_columns(
            pl.col("valid_from").dt.epoch("ms").alias("begin_ms"),
            (pl.col("valid_to").dt.epoch("ms") + unseen).fill_null(LAST_MS).alias("end_ms"),
        )
        .filter(pl.col("begin_ms") < pl.col("end_ms"))
    )


# -- parts of intervals in one stretch of coverage each, by the numbers of records


def known_parts(table: str, since: str, until: str) -> str:
    """As gold/witnesses.py has them: a relation with the columns of ``table``."""
    inside = (
        "each_one.to_seq < cover.to_seq OR (each_one.to_seq IS NOT NULL AND cover.to_seq IS NULL)"
    )
    return f"""(
        SELECT each_one.* REPLACE (
                   CASE WHEN each_one.from_seq >= cover.from_seq THEN each_one.{since}
                        ELSE cover.from_at END AS {since},
                   CASE WHEN {inside} THEN each_one.{until} ELSE cover.to_at END AS {until})
        FROM {table} each_one JOIN node_coverage cover ON each_one.node = cover.node
        WHERE (cover.to_seq IS NULL OR each_one.from_seq < cover.to_seq)
            AND (each_one.to_seq IS NULL OR each_one.to_seq > cover.from_seq))"""


def known_parts_frame(table: Scan, name: str, since: str, until: str) -> pl.LazyFrame:
    known = table("node_coverage").select(
        "node",
        pl.col("from_seq").alias("first_seq"),
        pl.col("to_seq").alias("last_seq"),
        pl.col("from_at").alias("known_from"),
        pl.col("to_at").alias("known_to"),
    )
    first, last = pl.col("first_seq"), pl.col("last_seq")
    from_seq, to_seq = pl.col("from_seq"), pl.col("to_seq")
    meets = (from_seq < last).fill_null(True) & (to_seq > first).fill_null(True)
    inside = to_seq.is_not_null() & (to_seq < last).fill_null(True)
    return (
        table(name)
        .join(known, on="node")
        .filter(meets)
        .with_columns(
            pl.when(from_seq >= first).then(since).otherwise("known_from").alias(since),
            pl.when(inside).then(until).otherwise("known_to").alias(until),
        )
        .drop("first_seq", "last_seq", "known_from", "known_to")
    )
