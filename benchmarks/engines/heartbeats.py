"""heartbeat_health by DuckDB and by Polars."""

from datetime import timedelta

import polars as pl
from benchmarks.engines.columns import DAY_MS, HOUR_MS, Scan, kept, of_one_fleet

from routebook.heartbeats import DEFAULT_TIMEOUT_MS, NEAR_MISS
from routebook_spark.gold.heartbeats import (
    PROCESS as FLEET_PROCESS,
)
from routebook_spark.gold.heartbeats import STEP_MS

PROCESS = of_one_fleet(FLEET_PROCESS)
_P = ", ".join(PROCESS)
_NEAR, _WHOLE = NEAR_MISS
_HOLDS_FOR_MS = DAY_MS  # a timeout, after the session it was said in


def _percentile(share: float) -> str:
    """As Spark works it out, term by term."""
    place = f"((any_value(total) - 1) * {share}::double)"
    low = f"min(gap_ms) FILTER (so_far > floor((total - 1) * {share}::double))"
    high = f"min(gap_ms) FILTER (so_far > ceil((total - 1) * {share}::double))"
    return (
        f"floor(0.5 + CASE WHEN floor({place}) = ceil({place}) THEN {low} ELSE"
        f" (ceil({place}) - {place}) * {low} + ({place} - floor({place})) * {high} END)"
    )


def _within(first_ms: int, until_ms: int = 1 << 40) -> str:
    inside = f"step >= {first_ms // STEP_MS} AND step < {until_ms // STEP_MS}"
    return f"coalesce(sum(in_time) FILTER ({inside}), 0)"


SQL = f"""
    WITH said AS (
        SELECT *, (lag(heartbeat_timeout_ms) OVER in_order = heartbeat_timeout_ms
                   AND epoch_ms(began_at)
                       <= lag(epoch_ms(ended_at)) OVER in_order + {_HOLDS_FOR_MS}) AS same
        FROM broker_sessions WHERE heartbeat_timeout_ms > 0
        WINDOW in_order AS (PARTITION BY {_P} ORDER BY from_seq)),
    runs AS (
        SELECT *, sum((NOT coalesce(same, false))::int) OVER (PARTITION BY {_P} ORDER BY from_seq)
                      AS run
        FROM said),
    timeouts AS (
        SELECT *, lead(from_seq) OVER (PARTITION BY {_P} ORDER BY from_seq) AS before_seq FROM (
            SELECT {_P}, min(from_seq) AS from_seq, max(heartbeat_timeout_ms) AS timeout_ms,
                   CASE WHEN bool_and(ended_at IS NOT NULL)
                        THEN max(epoch_ms(ended_at)) + {_HOLDS_FOR_MS} END AS holds_until_ms
            FROM runs GROUP BY {_P}, run)),
    pauses AS (
        SELECT * FROM (
            SELECT node, to_seq AS deaf_seq, epoch_ms(coalesce(
                       lead(from_at) OVER (PARTITION BY node ORDER BY from_seq), to_at))
                       AS deaf_to_ms
            FROM node_coverage)
        WHERE deaf_seq IS NOT NULL),
    gaps AS (
        SELECT {", ".join(f"events.{name}" for name in PROCESS)}, seq,
               wall_ms // {HOUR_MS} AS hour,
               coalesce(timeout_ms, {DEFAULT_TIMEOUT_MS}) AS timeout_ms,
               unnest(data.gaps_ms) AS gap_ms
        FROM events LEFT JOIN timeouts ON
            {" AND ".join(f"events.{name} = timeouts.{name}" for name in PROCESS)}
            AND seq >= from_seq AND (before_seq IS NULL OR seq < before_seq)
            AND (holds_until_ms IS NULL OR wall_ms <= holds_until_ms)
        WHERE type = 'HeartbeatGaps' AND NOT EXISTS (
            SELECT 1 FROM pauses WHERE pauses.node = events.node AND seq >= deaf_seq
                AND deaf_to_ms > wall_ms - coalesce(data.window_ms, 0)
                                 - coalesce(data.gaps_ms[1], 0))),
    steps AS (
        SELECT {_P}, hour, gap_ms // {STEP_MS} AS step, count(*) AS gaps, max(gap_ms) AS gap_ms,
               count(*) FILTER (gap_ms > timeout_ms) AS over_timeout,
               count(*) FILTER (gap_ms * {_WHOLE} >= timeout_ms * {_NEAR}
                                AND gap_ms <= timeout_ms) AS near,
               max(seq) AS seq, arg_max(timeout_ms, seq) AS timeout_ms
        FROM gaps GROUP BY {_P}, hour, gap_ms // {STEP_MS}),
    counted AS (
        SELECT *, gaps - over_timeout AS in_time,
               sum(gaps) OVER (PARTITION BY {_P}, hour ORDER BY step) AS so_far,
               sum(gaps) OVER (PARTITION BY {_P}, hour) AS total
        FROM steps)
    SELECT {_P}, hour * {HOUR_MS} AS hour_at, hour // 24 * {DAY_MS} AS day,
           sum(gaps) AS heartbeats, {_within(0, 10_000)} AS under_10s,
           {_within(10_000, 35_000)} AS under_35s, {_within(35_000, 65_000)} AS under_65s,
           {_within(65_000)} AS under_timeout, sum(over_timeout) AS over_timeout,
           {_percentile(0.5)} AS gap_p50_ms, {_percentile(0.99)} AS gap_p99_ms,
           max(gap_ms) AS gap_max_ms, arg_max(timeout_ms, seq) AS heartbeat_timeout_ms,
           sum(near) AS near_misses
    FROM counted GROUP BY {_P}, hour"""


def frame(table: Scan) -> pl.LazyFrame:
    """A day after the other: Polars would hold the steps of all of them in memory."""
    events, timeouts = _listened(table), kept(_timeouts(table))
    days = events.select("day").unique().collect(engine="streaming")["day"].sort()
    return pl.concat(kept(_hours(events.filter(pl.col("day") == day), timeouts)) for day in days)


def _listened(table: Scan) -> pl.LazyFrame:
    """Events without the windows of gaps that reach into a time the node knows nothing of."""
    again_at = pl.col("from_at").shift(-1).over("node")
    deaf_to = pl.coalesce(again_at, "to_at").dt.epoch("ms")
    pauses = kept(
        table("node_coverage")
        .sort("node", "from_seq")
        .select("node", deaf_to.alias("deaf_to_ms"), pl.col("to_seq").alias("deaf_seq"))
        .filter(pl.col("deaf_seq").is_not_null())
    )
    data = pl.col("data").struct
    first_ms = data.field("gaps_ms").list.first().fill_null(0)
    begun_ms = pl.col("wall_ms") - data.field("window_ms").fill_null(0) - first_ms
    events = table("events")
    windows = events.filter(pl.col("type") == "HeartbeatGaps").select(
        "node", "seq", begun_ms.alias("begun_ms")
    )
    cut_off = (
        windows.join(pauses, on="node")
        .filter((pl.col("seq") >= pl.col("deaf_seq")) & (pl.col("deaf_to_ms") > pl.col("begun_ms")))
        .select("node", "seq")
        .unique()
    )
    return events.join(kept(cut_off), on=["node", "seq"], how="anti")


def _hours(events: pl.LazyFrame, timeouts: pl.LazyFrame) -> pl.LazyFrame:
    gap, timeout, step = pl.col("gap_ms"), pl.col("timeout_ms"), pl.col("step")
    key = (*PROCESS, "hour")
    near = (gap * _WHOLE >= timeout * _NEAR) & (gap <= timeout)
    steps = (
        _timed(events, timeouts)
        .explode("gap_ms", empty_as_null=False, keep_nulls=False)
        .group_by(*key, (gap // STEP_MS).alias("step"))
        .agg(
            pl.len().cast(pl.Int64).alias("gaps"),
            gap.max(),
            (gap > timeout).sum().cast(pl.Int64).alias("over"),
            near.sum().cast(pl.Int64).alias("near"),
            pl.col("seq").max(),
            timeout.max_by("seq"),
        )
    )
    counted = steps.sort(*key, "step").with_columns(
        (pl.col("gaps") - pl.col("over")).alias("in_time"),
        pl.col("gaps").cum_sum().over(key).alias("so_far"),
        pl.col("gaps").sum().over(key).alias("total"),
    )

    def within(first_ms: int, until_ms: int = 1 << 40) -> pl.Expr:
        inside = (step >= first_ms // STEP_MS) & (step < until_ms // STEP_MS)
        return pl.col("in_time").filter(inside).sum()

    return (
        counted.group_by(*key)
        .agg(
            pl.col("gaps").sum().alias("heartbeats"),
            within(0, 10_000).alias("under_10s"),
            within(10_000, 35_000).alias("under_35s"),
            within(35_000, 65_000).alias("under_65s"),
            within(65_000).alias("under_timeout"),
            pl.col("over").sum().alias("over_timeout"),
            _percentile_expr(0.5).alias("gap_p50_ms"),
            _percentile_expr(0.99).alias("gap_p99_ms"),
            gap.max().alias("gap_max_ms"),
            timeout.max_by("seq").alias("heartbeat_timeout_ms"),
            pl.col("near").sum().alias("near_misses"),
        )
        .with_columns(
            (pl.col("hour") * HOUR_MS).alias("hour_at"),
            (pl.col("hour") // 24 * DAY_MS).alias("day"),
        )
    )


def _timed(events: pl.LazyFrame, timeouts: pl.LazyFrame) -> pl.LazyFrame:
    """Windows of heartbeats with the timeout of their process."""
    windows = events.filter(pl.col("type") == "HeartbeatGaps").select(
        *PROCESS,
        "seq",
        "wall_ms",
        (pl.col("wall_ms") // HOUR_MS).alias("hour"),
        pl.col("data").struct.field("gaps_ms").alias("gap_ms"),
    )
    seq, from_seq = pl.col("seq"), pl.col("from_seq")
    # What was said first also stands for the windows before it, so that each window has one row.
    stands = (seq >= from_seq) | pl.col("is_first")
    holds = (seq >= from_seq) & (pl.col("wall_ms") <= pl.col("holds_until_ms")).fill_null(True)
    timeout = pl.when(holds).then("timeout_ms").otherwise(DEFAULT_TIMEOUT_MS)
    return (
        windows.join(timeouts, on=list(PROCESS), how="left")
        .filter(from_seq.is_null() | stands & (seq < pl.col("before_seq")).fill_null(True))
        .with_columns(timeout.alias("timeout_ms"))
    )


def _timeouts(table: Scan) -> pl.LazyFrame:
    """What each process said its timeout is: from one sequence number up to another."""
    timeout, ended_at = pl.col("heartbeat_timeout_ms"), pl.col("ended_at")
    holds_until = ended_at.shift() + timedelta(milliseconds=_HOLDS_FOR_MS)
    same = (timeout == timeout.shift()) & (pl.col("began_at") <= holds_until)
    over = pl.when(ended_at.is_not_null().all()).then(ended_at.max())
    return (
        table("broker_sessions")
        .filter(timeout > 0)
        .sort(*PROCESS, "from_seq")
        .with_columns((~same.fill_null(False)).cum_sum().over(PROCESS).alias("run"))
        .group_by(*PROCESS, "run")
        .agg(
            pl.col("from_seq").min(),
            timeout.max().alias("timeout_ms"),
            (over.dt.epoch("ms") + _HOLDS_FOR_MS).alias("holds_until_ms"),
        )
        .sort(*PROCESS, "from_seq")
        .with_columns(
            pl.col("from_seq").shift(-1).over(PROCESS).alias("before_seq"),
            (pl.col("from_seq") == pl.col("from_seq").min().over(PROCESS)).alias("is_first"),
        )
        .drop("run")
    )


def _percentile_expr(share: float) -> pl.Expr:
    place = (pl.col("total").first() - 1) * share
    low, high = place.floor(), place.ceil()
    steps = pl.col("gap_ms")
    low_ms = steps.filter(pl.col("so_far") > low).min()
    high_ms = steps.filter(pl.col("so_far") > high).min()
    between = (high - place) * low_ms + (place - low) * high_ms
    return (pl.when(low == high).then(low_ms).otherwise(between) + 0.5).floor().cast(pl.Int64)
