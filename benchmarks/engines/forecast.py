"""capacity_forecast by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.columns import DAY_MS, Scan
from benchmarks.engines.known import (
    TOLD_ROUTES,
    known_units,
    known_units_frame,
    told_routes_frame,
)

from routebook_spark.gold.forecast import (
    FAR_DAYS,
    FIXED_BYTES,
    HISTORY_DAYS,
    LEAST_DAYS,
    LIMIT_BYTES,
    TOPIC_BYTES,
)
from routebook_spark.gold.known import LAST_MS

_GROUP = ("node", "cluster", "broker")

# Days are numbers here.


def _slope_of(name: str) -> str:
    """As ``_slope``; ``regr_slope`` finds that what does not grow does."""
    n, x, y, xy, xx = (
        f"{total} OVER history"
        for total in (
            "count(*)",
            "sum(day)",
            f"sum({name})",
            f"sum(day * {name})",
            "sum(day * day)",
        )
    )
    return f"({n} * {xy} - {x} * {y}) / ({n} * {xx} - {x} * {x})"


SQL = f"""
    WITH days AS (
        SELECT node, unit AS day, max(until_ms) AS until_ms FROM ({known_units(DAY_MS)})
        GROUP BY node, unit),
    ends AS (
        SELECT node, cluster, broker, begin_ms AS at_ms, 1 AS sign, strlen(topic) AS length
        FROM ({TOLD_ROUTES})
        UNION ALL
        SELECT node, cluster, broker, end_ms, -1, strlen(topic)
        FROM ({TOLD_ROUTES}) WHERE end_ms < {LAST_MS}),
    steps AS (
        SELECT ends.node, cluster, broker,
               at_ms // {DAY_MS} + CASE WHEN at_ms >= until_ms THEN 1 ELSE 0 END AS day,
               sum(sign) AS topics, sum(sign * (2 * length + {TOPIC_BYTES})) AS bytes
        FROM ends LEFT JOIN days ON days.node = ends.node AND day = at_ms // {DAY_MS}
        GROUP BY ALL),
    states AS (
        SELECT day, known, sum(topics) OVER so_far AS topics, sum(bytes) OVER so_far AS bytes,
               cluster, broker
        FROM (
            SELECT node, cluster, broker, day, sum(topics) AS topics, sum(bytes) AS bytes,
                   bool_or(known) AS known
            FROM (
                SELECT node, cluster, broker, day, topics, bytes, false AS known FROM steps
                UNION ALL
                SELECT node, cluster, broker, day, 0, 0, true
                FROM (SELECT DISTINCT node, cluster, broker FROM steps) JOIN days USING (node))
            GROUP BY ALL)
        WINDOW so_far AS (PARTITION BY node, cluster, broker ORDER BY day)),
    sizes AS (
        SELECT day, cluster, broker, size.topics AS topics, size.bytes AS registration_bytes
        FROM (
            SELECT day, cluster, broker,
                   max({{'bytes': bytes + {FIXED_BYTES}, 'topics': topics}}) AS size
            FROM states WHERE known AND topics > 0 GROUP BY day, cluster, broker)),
    trends AS (
        SELECT *, {LIMIT_BYTES} AS limit_bytes, count(*) OVER history AS history_days,
               CASE WHEN history_days >= {LEAST_DAYS}
                    THEN {_slope_of("topics")} END AS topics_per_day,
               CASE WHEN history_days >= {LEAST_DAYS}
                    THEN {_slope_of("registration_bytes")} END AS bytes_per_day
        FROM sizes
        WINDOW history AS (PARTITION BY cluster, broker ORDER BY day
                           RANGE BETWEEN {HISTORY_DAYS - 1} PRECEDING AND CURRENT ROW)),
    forecasts AS (
        SELECT *, CASE WHEN registration_bytes >= limit_bytes THEN 0
                       WHEN bytes_per_day > 0
                       THEN (limit_bytes - registration_bytes) / bytes_per_day END
                      AS days_to_limit
        FROM trends)
    SELECT * REPLACE (day * {DAY_MS} AS day),
           CASE WHEN ceil(days_to_limit) <= {FAR_DAYS}
                THEN (day + ceil(days_to_limit)) * {DAY_MS} END AS limit_on
    FROM forecasts"""


def frame(table: Scan) -> pl.LazyFrame:
    day, size = pl.col("day"), pl.col("registration_bytes")
    date = pl.from_epoch(day * DAY_MS, "ms").dt.date()
    sizes = _sizes(table).with_columns(date.alias("date")).sort("cluster", "broker", "date")
    trends = sizes.rolling("date", period=f"{HISTORY_DAYS}d", group_by=["cluster", "broker"]).agg(
        pl.col("day", "topics", "registration_bytes").last(),
        pl.len().cast(pl.Int64).alias("history_days"),
        _slope("topics").alias("topics_per_day"),
        _slope("registration_bytes").alias("bytes_per_day"),
    )
    left, per_day = LIMIT_BYTES - size, pl.col("bytes_per_day")
    days_to_limit = pl.when(left <= 0).then(0.0).when(per_day > 0).then(left / per_day)
    whole = pl.col("days_to_limit").ceil()
    limit_on = pl.when(whole <= FAR_DAYS).then((day + whole.cast(pl.Int64)) * DAY_MS)
    return (
        trends.with_columns(
            days_to_limit.alias("days_to_limit"), pl.lit(LIMIT_BYTES).alias("limit_bytes")
        )
        .with_columns(limit_on.alias("limit_on"))
        .with_columns(day * DAY_MS)
    )


def _slope(name: str) -> pl.Expr:
    """Of the line of least squares through the days of a window; null for too few of them."""
    x, y, n = pl.col("day") - pl.col("day").last(), pl.col(name), pl.len()
    slope = (n * (x * y).sum() - x.sum() * y.sum()) / (n * (x * x).sum() - x.sum() * x.sum())
    return pl.when(n >= LEAST_DAYS).then(slope)


def _sizes(table: Scan) -> pl.LazyFrame:
    """Each group at the end of each day, as the node saw it that saw most of it."""
    days = (
        known_units_frame(table, DAY_MS)
        .group_by("node", pl.col("unit").alias("day"))
        .agg(pl.col("until_ms").max())
    )
    counts = pl.col("topics", "bytes")
    steps = _steps(table, days).group_by(*_GROUP, "day").agg(counts.sum())
    quiet = (
        steps.select(*_GROUP)
        .unique()
        .join(days.select("node", "day"), on="node")
        .with_columns(
            pl.lit(0, pl.Int64).alias("topics"),
            pl.lit(0, pl.Int64).alias("bytes"),
            pl.lit(True).alias("known"),
        )
    )
    states = (
        pl.concat([steps.with_columns(pl.lit(False).alias("known")), quiet])
        .group_by(*_GROUP, "day")
        .agg(counts.sum(), pl.col("known").any())
        .sort(*_GROUP, "day")
        .with_columns(counts.cum_sum().over(_GROUP))
        .filter(pl.col("known") & (pl.col("topics") > 0))
    )
    bytes_, topics = pl.col("bytes"), pl.col("topics")
    return states.group_by("day", "cluster", "broker").agg(
        topics.filter(bytes_ == bytes_.max()).max(),
        (bytes_.max() + FIXED_BYTES).alias("registration_bytes"),
    )


def _steps(table: Scan, days: pl.LazyFrame) -> pl.LazyFrame:
    """One up, one down for each route: on the first day at the end of which it is (not) there."""
    routes = told_routes_frame(table).select(
        *_GROUP,
        "begin_ms",
        "end_ms",
        (2 * pl.col("topic").str.len_bytes().cast(pl.Int64) + TOPIC_BYTES).alias("bytes"),
    )
    at_ms = pl.col("at_ms")
    steps = pl.concat(
        routes.select(
            *_GROUP,
            pl.col(end).alias("at_ms"),
            pl.lit(sign, pl.Int64).alias("topics"),
            pl.col("bytes") * sign,
        )
        for end, sign in (("begin_ms", 1), ("end_ms", -1))
    )
    late = (at_ms >= pl.col("until_ms")).fill_null(False).cast(pl.Int64)
    return (
        steps.filter(at_ms < LAST_MS)
        .with_columns((at_ms // DAY_MS).alias("day"))
        .join(days, on=["node", "day"], how="left")
        .with_columns(pl.col("day") + late)
        .select(*_GROUP, "day", "topics", "bytes")
    )
