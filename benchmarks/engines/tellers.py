"""Who tells of an hour: the node that knew most of it, as gold/balance.py has it."""

from dataclasses import dataclass
from typing import Self

import polars as pl
from benchmarks.engines.columns import HOUR_MS, Scan, kept
from benchmarks.engines.known import known_units, known_units_frame

# By DuckDB, as common table expressions. ``spans``: stretches of coverage by hour, ``new_ms`` from
# where on they add to those before; ``told``: who tells of each hour; ``stretches``: hours on end
# with one teller; ``hours``: with the last of their stretch, and whether a day begins with them.
TELLERS = f"""
    spans AS (
        SELECT node, unit AS hour, until_ms,
               greatest(from_ms, coalesce(max(until_ms) OVER (
                   PARTITION BY node, unit ORDER BY from_ms, until_ms
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS new_ms,
               from_ms
        FROM ({known_units(HOUR_MS)})),
    nodes AS (
        SELECT hour, node, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
               sum(greatest(until_ms - new_ms, 0)) AS known_ms
        FROM spans GROUP BY hour, node),
    told AS (
        SELECT * FROM nodes
        QUALIFY row_number() OVER (PARTITION BY hour ORDER BY known_ms DESC, node) = 1),
    stretches AS (
        SELECT *, lead(first_hour) OVER (ORDER BY first_hour) AS next_hour FROM (
            SELECT node AS teller, min(hour) AS first_hour, max(hour) AS last_hour FROM (
                SELECT node, hour,
                       hour - row_number() OVER (PARTITION BY node ORDER BY hour) AS island
                FROM told)
            GROUP BY node, island)),
    hours AS (
        SELECT hour, node, from_ms, until_ms, known_ms, last_hour,
               row_number() OVER (PARTITION BY hour // 24 ORDER BY hour) = 1 AS is_first
        FROM told JOIN stretches ON node = teller AND hour BETWEEN first_hour AND last_hour)"""


@dataclass(frozen=True, slots=True)
class Tellers:
    """The same by Polars."""

    spans: pl.LazyFrame
    told: pl.LazyFrame
    stretches: pl.LazyFrame
    hours: pl.LazyFrame

    @classmethod
    def of(cls, table: Scan) -> Self:
        spans = kept(_spans(table))
        told = kept(_told(spans))
        stretches = kept(_stretches(told))
        day = pl.col("hour") // 24
        hours = (
            told.join(stretches, left_on="node", right_on="teller")
            .filter(pl.col("hour").is_between(pl.col("first_hour"), pl.col("last_hour")))
            .with_columns((pl.col("hour") == pl.col("hour").min().over(day)).alias("is_first"))
            .drop("first_hour", "next_hour")
        )
        return cls(spans, told, stretches, kept(hours))


def _spans(table: Scan) -> pl.LazyFrame:
    """Stretches of coverage by hour; ``new_ms``: from where on they add to those before."""
    before = pl.col("until_ms").cum_max().shift().over("node", "hour")
    return (
        known_units_frame(table, HOUR_MS)
        .rename({"unit": "hour"})
        .sort("node", "hour", "from_ms", "until_ms")
        .with_columns(pl.max_horizontal("from_ms", before).alias("new_ms"))
    )


def _told(spans: pl.LazyFrame) -> pl.LazyFrame:
    nodes = spans.group_by("hour", "node").agg(
        pl.col("from_ms").min(),
        pl.col("until_ms").max(),
        (pl.col("until_ms") - pl.col("new_ms")).clip(lower_bound=0).sum().alias("known_ms"),
    )
    by_most = nodes.sort("hour", -pl.col("known_ms"), "node")
    return by_most.group_by("hour", maintain_order=True).first()


def _stretches(told: pl.LazyFrame) -> pl.LazyFrame:
    number = pl.int_range(pl.len()).over("node")
    return (
        told.with_columns((pl.col("hour") - number).alias("island"))
        .group_by(pl.col("node").alias("teller"), "island")
        .agg(
            pl.col("hour").min().alias("first_hour"),
            pl.col("hour").max().alias("last_hour"),
        )
        .sort("first_hour")
        .with_columns(pl.col("first_hour").shift(-1).alias("next_hour"))
        .drop("island")
    )
