"""topic_demand by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.columns import DAY_MS, HOUR_MS, Scan, kept
from benchmarks.engines.known import (
    TOLD_ROUTES,
    known_units,
    known_units_frame,
    told_routes_frame,
)

from routebook.system_topics import SYSTEM_TOPICS
from routebook_spark.gold.demand import FORGOTTEN_DAYS, ZOMBIE_DAYS

_COUNTS = ("known", "unknown", "not_ready")

# Days are numbers here, and the hours of one in which a topic was there are bits of another.
SQL = f"""
    WITH windows AS (
        SELECT wall_ms // {DAY_MS} AS day, wall_ms // {HOUR_MS} % 24 AS hour, node, wall_ms,
               data.others AS others, data.queries AS queries
        FROM events WHERE type = 'RouteQueries'),
    unlisted AS (SELECT day, sum(others) AS unlisted FROM windows GROUP BY day),
    asked AS (
        SELECT query.topic AS topic, day, hour,
               {", ".join(f"sum(query.{name}) AS {name}" for name in _COUNTS)},
               count(DISTINCT node) AS nodes, max(wall_ms) AS last_asked_at
        FROM (SELECT day, hour, node, wall_ms, unnest(queries) AS query FROM windows)
        GROUP BY query.topic, day, hour),
    asked_days AS (
        SELECT topic, day, max(last_asked_at) AS asked_at FROM asked GROUP BY topic, day),
    known_days AS ({known_units(DAY_MS)}),
    horizons AS (SELECT node, max(until_ms) AS horizon_ms FROM known_days GROUP BY node),
    spans AS (
        SELECT DISTINCT topic, begin_ms // {HOUR_MS} AS first_hour,
               (least(end_ms, horizon_ms) - 1) // {HOUR_MS} AS last_hour,
               topic IN (broker, cluster, broker || '_REPLY_TOPIC', cluster || '_REPLY_TOPIC')
                   AS own
        FROM ({TOLD_ROUTES}) JOIN horizons USING (node)),
    presence AS (
        SELECT topic, day, bool_or(own) AS own,
               bit_or((1::bigint << (least(last_hour - day * 24, 23) + 1))
                      - (1::bigint << greatest(first_hour - day * 24, 0))) AS hours
        FROM (SELECT *, unnest(range(first_hour // 24, last_hour // 24 + 1)) AS day
              FROM spans WHERE first_hour <= last_hour)
            SEMI JOIN (SELECT unit AS day FROM known_days) USING (day)
        GROUP BY topic, day),
    days AS (
        SELECT topic, day, own, hours, asked_at, coalesce(unlisted, 0) AS unlisted,
               asked_at IS NULL AND coalesce(unlisted, 0) = 0 AS is_silent
        FROM presence FULL JOIN asked_days USING (topic, day) LEFT JOIN unlisted USING (day)),
    runs AS (
        SELECT *, sum(begins::int) OVER (PARTITION BY topic ORDER BY day) AS run FROM (
            SELECT *, asked_at IS NOT NULL
                      OR coalesce(day - lag(day) OVER by_day > {FORGOTTEN_DAYS}, false) AS begins
            FROM days WINDOW by_day AS (PARTITION BY topic ORDER BY day))),
    counted AS (
        SELECT *, sum(is_silent::int) OVER in_run AS unasked_days,
               max(asked_at) OVER in_run AS run_asked_at,
               topic IN {SYSTEM_TOPICS!r} OR starts_with(lower(topic), 'rmq_sys_')
               OR starts_with(topic, '%RETRY%') OR starts_with(topic, '%DLQ%')
               OR coalesce(own, false) AS system
        FROM runs WINDOW in_run AS (PARTITION BY topic, run ORDER BY day))
    SELECT day * {DAY_MS} AS day, day * {DAY_MS} + hour * {HOUR_MS} AS hour_at, topic,
           {", ".join(f"coalesce({name}, 0) AS {name}" for name in (*_COUNTS, "nodes"))},
           coalesce((coalesce(hours, 0) >> hour) & 1 = 1, true) AS "exists", system,
           coalesce(last_asked_at, run_asked_at) AS last_asked_at, unlisted, unasked_days,
           NOT system AND unasked_days > {ZOMBIE_DAYS} AS zombie
    FROM counted LEFT JOIN asked USING (topic, day)"""


def frame(table: Scan) -> pl.LazyFrame:
    wall_ms = pl.col("wall_ms")
    windows = kept(
        table("events")
        .filter(pl.col("type") == "RouteQueries")
        .select(
            "node",
            "wall_ms",
            (wall_ms // DAY_MS).alias("day"),
            (wall_ms // HOUR_MS % 24).alias("hour"),
            pl.col("data").struct.field("others").alias("others"),
            pl.col("data").struct.field("queries").alias("query"),
        )
    )
    unlisted = windows.group_by("day").agg(pl.col("others").sum().alias("unlisted"))
    asked = _asked(windows)
    asked_days = asked.group_by("topic", "day").agg(pl.col("last_asked_at").max().alias("asked_at"))
    days = (
        _presence(table)
        .join(asked_days, on=["topic", "day"], how="full", coalesce=True)
        .join(unlisted, on="day", how="left")
        .with_columns(pl.col("unlisted").fill_null(0))
    )
    return _rows(_counted(days), asked)


def _asked(windows: pl.LazyFrame) -> pl.LazyFrame:
    query = pl.col("query").struct
    return (
        windows.explode("query", empty_as_null=False, keep_nulls=False)
        .with_columns(*(query.field(name) for name in ("topic", *_COUNTS)))
        .group_by("topic", "day", "hour")
        .agg(
            *(pl.col(name).sum() for name in _COUNTS),
            pl.col("node").n_unique().cast(pl.Int64).alias("nodes"),
            pl.col("wall_ms").max().alias("last_asked_at"),
        )
    )


def _presence(table: Scan) -> pl.LazyFrame:
    """``topic, day`` and a bit for each of the ``hours`` in which it was on any node."""
    known_days = known_units_frame(table, DAY_MS)
    horizons = known_days.group_by("node").agg(pl.col("until_ms").max().alias("horizon_ms"))
    topic, broker, cluster = pl.col("topic"), pl.col("broker"), pl.col("cluster")
    own = pl.any_horizontal(
        topic == name
        for name in (broker, cluster, broker + "_REPLY_TOPIC", cluster + "_REPLY_TOPIC")
    )
    first_hour, last_hour, day = pl.col("first_hour"), pl.col("last_hour"), pl.col("day")
    spans = (
        told_routes_frame(table)
        .join(horizons, on="node")
        .select(
            "topic",
            (pl.col("begin_ms") // HOUR_MS).alias("first_hour"),
            ((pl.min_horizontal("end_ms", "horizon_ms") - 1) // HOUR_MS).alias("last_hour"),
            own.alias("own"),
        )
        .filter(first_hour <= last_hour)
        .unique()
    )
    first = pl.max_horizontal(first_hour - day * 24, 0)
    last = pl.min_horizontal(last_hour - day * 24, 23)
    two = pl.lit(2, pl.Int64)
    return (
        spans.with_columns(pl.int_ranges(first_hour // 24, last_hour // 24 + 1).alias("day"))
        .explode("day")
        .join(known_days.select(pl.col("unit").alias("day")), on="day", how="semi")
        .with_columns((two.pow(last + 1) - two.pow(first)).alias("bits"))
        .group_by("topic", "day")
        .agg(pl.col("bits").bitwise_or().alias("hours"), pl.col("own").any())
    )


def _counted(days: pl.LazyFrame) -> pl.LazyFrame:
    """``days`` with ``unasked_days`` and ``run_asked_at``."""
    asked = pl.col("asked_at").is_not_null()
    absence = pl.col("day") - pl.col("day").shift().over("topic")
    begins = asked | (absence > FORGOTTEN_DAYS).fill_null(False)
    silent = ~asked & (pl.col("unlisted") == 0)
    return (
        days.sort("topic", "day")
        .with_columns(begins.alias("begins"))
        .with_columns(pl.col("begins").cum_sum().over("topic").alias("run"))
        .with_columns(
            silent.cum_sum().over("topic", "run").alias("unasked_days"),
            pl.col("asked_at").cum_max().forward_fill().over("topic", "run").alias("run_asked_at"),
        )
    )


def _rows(days: pl.LazyFrame, asked: pl.LazyFrame) -> pl.LazyFrame:
    topic, hour = pl.col("topic"), pl.col("hour")
    named = (
        topic.is_in(SYSTEM_TOPICS)
        | topic.str.to_lowercase().str.starts_with("rmq_sys_")
        | topic.str.starts_with("%RETRY%")
        | topic.str.starts_with("%DLQ%")
    )
    there = pl.col("hours").fill_null(0) // pl.lit(2, pl.Int64).pow(hour) % 2 == 1
    system = named | pl.col("own").fill_null(False)
    return days.join(asked, on=["topic", "day"], how="left").with_columns(
        *(pl.col(name).fill_null(0) for name in (*_COUNTS, "nodes")),
        (pl.col("day") * DAY_MS).alias("day"),
        (pl.col("day") * DAY_MS + hour * HOUR_MS).alias("hour_at"),
        there.fill_null(True).alias("exists"),
        system.alias("system"),
        pl.coalesce("last_asked_at", "run_asked_at").alias("last_asked_at"),
        (~system & (pl.col("unasked_days") > ZOMBIE_DAYS)).alias("zombie"),
    )
