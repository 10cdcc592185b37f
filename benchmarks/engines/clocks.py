"""Times of many nodes on one clock, as routebook_spark/gold/clocks.py has them."""

import polars as pl
from benchmarks.engines.columns import DAY_MS, Scan


def on_common_clock(rows: str, *instants: str) -> str:
    """``rows`` of nodes, with each of ``instants`` (``began_at``) in ms as well (``began_ms``)."""
    corrected, joins, unknown = [], [], []
    for number, name in enumerate(instants):
        skew, ms = f"skew_{number}", f"epoch_ms(each_row.{name})"
        corrected.append(f"{ms} - coalesce({skew}.offset_ms, 0) AS {name.removesuffix('_at')}_ms")
        unknown.append(f"coalesce({skew}.unknown, false)")
        joins.append(
            f"LEFT JOIN (SELECT node, offset_ms, offset_ms IS NULL AS unknown,"
            f" epoch_ms(day::timestamp) // {DAY_MS} AS day"
            f" FROM clock_skew) {skew}"
            f" ON {skew}.node = each_row.node AND {skew}.day = {ms} // {DAY_MS}"
        )
    corrected.append(f"NOT ({' OR '.join(unknown)}) AS clock_known")
    return f"SELECT each_row.*, {', '.join(corrected)} FROM {rows} each_row {' '.join(joins)}"


def on_common_clock_frame(rows: pl.LazyFrame, table: Scan, *instants: str) -> pl.LazyFrame:
    skew = table("clock_skew").select(
        "node",
        pl.col("day").alias("_day"),
        "offset_ms",
        pl.col("offset_ms").is_null().alias("_unknown"),
    )
    rows = rows.with_columns(pl.lit(True).alias("clock_known"))
    for name in instants:
        rows = (
            rows.with_columns(pl.col(name).dt.date().alias("_day"))
            .join(skew, on=["node", "_day"], how="left")
            .with_columns(
                (pl.col(name).dt.epoch("ms") - pl.col("offset_ms").fill_null(0)).alias(
                    f"{name.removesuffix('_at')}_ms"
                ),
                (pl.col("clock_known") & ~pl.col("_unknown").fill_null(False)).alias("clock_known"),
            )
            .drop("_day", "offset_ms", "_unknown")
        )
    return rows
