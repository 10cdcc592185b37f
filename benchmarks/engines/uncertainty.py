"""How far clocks may be off, as routebook_spark/gold/pairs.py has it."""

import polars as pl
from benchmarks.engines.columns import DAY_MS, Scan

from routebook_spark.gold.pairs import UNCERTAINTY_MS


def with_uncertainty(rows: str, *nodes: str, at_ms: str) -> str:
    """``rows`` with ``uncertainty_ms``: the sum of those of the clocks of ``nodes``."""
    terms, joins = [], []
    for name in nodes:
        skew = f"skew_of_{name}"
        terms.append(
            f"CASE WHEN {name} IS NULL THEN 0"
            f" ELSE coalesce({skew}.uncertainty_ms, {UNCERTAINTY_MS}) END"
        )
        joins.append(
            f"ASOF LEFT JOIN (SELECT node, uncertainty_ms, epoch_ms(day::timestamp) AS day_ms"
            f" FROM clock_skew) {skew}"
            f" ON each_row.{name} = {skew}.node AND each_row.{at_ms} >= {skew}.day_ms"
        )
    total = " + ".join(terms)
    return f"SELECT each_row.*, {total} AS uncertainty_ms FROM {rows} each_row {' '.join(joins)}"


def with_uncertainty_frame(
    rows: pl.LazyFrame, table: Scan, *nodes: str, at_ms: str
) -> pl.LazyFrame:
    day_ms = pl.col("day").cast(pl.Int32).cast(pl.Int64) * DAY_MS
    skew = table("clock_skew").select("node", "uncertainty_ms", day_ms.alias("day_ms"))
    total: pl.Expr = pl.lit(0, pl.Int64)
    for name in nodes:
        own = skew.rename({"node": name, "uncertainty_ms": f"{name}_ms"}).sort("day_ms")
        rows = (
            rows.sort(at_ms)
            .join_asof(own, left_on=at_ms, right_on="day_ms", by=name, check_sortedness=False)
            .drop("day_ms", strict=False)
        )
        known = pl.col(f"{name}_ms").fill_null(UNCERTAINTY_MS)
        total = total + pl.when(pl.col(name).is_not_null()).then(known).otherwise(0)
    return rows.with_columns(total.alias("uncertainty_ms")).drop(f"{name}_ms" for name in nodes)
