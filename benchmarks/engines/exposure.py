"""stale_exposure by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import DAY_MS, Scan, of_one_fleet

from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook_spark.gold.exposure import (
    ENDED as FLEET_ENDED,
)
from routebook_spark.gold.exposure import (
    GROUP as FLEET_GROUP,
)
from routebook_spark.gold.exposure import (
    HELD_UNTIL_MS,
    LOOK_BACK_MS,
    NOTICED,
    PLANNED,
    POLL_S,
    RECORDED,
)
from routebook_spark.gold.exposure import (
    PROCESS as FLEET_PROCESS,
)

ENDED = of_one_fleet(FLEET_ENDED)
GROUP = of_one_fleet(FLEET_GROUP)
PROCESS = of_one_fleet(FLEET_PROCESS)
_CAUSES = (*NOTICED, "expired", *RECORDED)
_SIGNS = ("BrokerRegistered", "BrokerUpdated", "BrokerConfirmed", "RegistrationCompleted")
_G, _P, _E = (", ".join(names) for names in (GROUP, PROCESS, ENDED))

SQL = f"""
    WITH gone AS (
        SELECT *, epoch_ms(ended_at) AS removed_ms, epoch_ms(began_at) AS began_ms
        FROM ({on_common_clock("broker_sessions", "ended_at")})
        WHERE to_seq IS NOT NULL AND cause IN {_CAUSES!r}),
    held AS (
        SELECT {_E}, arg_max(silent_since_ms, held_seq) AS held_ms
        FROM gone JOIN (
            SELECT {_P}, from_seq AS held_seq, epoch_ms(to_at) AS held_to_ms,
                   epoch_ms(from_at) - coalesce(silent_ms, 0) AS silent_since_ms
            FROM suspect_times WHERE kind = 'held') USING ({_P})
        WHERE held_seq >= from_seq AND held_seq < to_seq
            AND (held_to_ms IS NULL OR held_to_ms >= removed_ms - {HELD_UNTIL_MS})
        GROUP BY {_E}),
    signs AS (
        SELECT {_P}, seq,
               CASE WHEN type = 'HeartbeatGaps'
                    THEN least(wall_ms, wall_ms - data.window_ms
                                        + coalesce(list_sum(data.gaps_ms[2:]), 0))
                    ELSE wall_ms END AS sign_ms
        FROM events WHERE type IN {(*_SIGNS, "HeartbeatGaps")!r}),
    recorded AS (
        SELECT {_E}, max(sign_ms) AS recorded_ms
        FROM signs JOIN (
            SELECT {_E}, from_seq, removed_ms FROM gone WHERE cause IN {RECORDED!r}) USING ({_P})
        WHERE seq >= from_seq AND seq < to_seq AND sign_ms >= removed_ms - {LOOK_BACK_MS}
        GROUP BY {_E}),
    alive AS (
        SELECT *, least(removed_ms, greatest(began_ms, removed_ms - {LOOK_BACK_MS}, coalesce(
                   CASE WHEN cause NOT IN {PLANNED!r} THEN held_ms END,
                   CASE WHEN cause IN {NOTICED!r} THEN removed_ms
                        WHEN cause = 'expired'
                        THEN removed_ms - coalesce(nullif(heartbeat_timeout_ms, 0),
                                                   {DEFAULT_TIMEOUT_MS})
                        ELSE recorded_ms END))) AS alive_ms
        FROM gone LEFT JOIN held USING ({_E}) LEFT JOIN recorded USING ({_E})),
    steps AS (
        SELECT {_G}, topic, unnest([from_seq, to_seq]) AS seq, unnest([1, -1]) AS step
        FROM route_versions
        WHERE perm & 4 != 0 AND read_queues > 0 OR perm & 2 != 0 AND write_queues > 0),
    counts AS (
        SELECT {_G}, seq, sum(step) OVER (PARTITION BY {_G} ORDER BY seq) AS count
        FROM (SELECT {_G}, seq, sum(step) AS step FROM steps WHERE seq IS NOT NULL
              GROUP BY {_G}, seq)),
    lost AS (
        SELECT {_G}, seq AS to_seq, count(*) AS topics_lost
        FROM (SELECT *, sum(step) OVER (PARTITION BY node, topic ORDER BY seq) AS rest
              FROM steps WHERE seq IS NOT NULL)
        WHERE step < 0 AND rest = 0 GROUP BY {_G}, seq)
    SELECT {", ".join(f"alive.{name}" for name in PROCESS)}, cause,
           ended_ms // {DAY_MS} * {DAY_MS} AS day, ended_ms AS removed_at,
           ended_ms + {round(POLL_S * 1000)} AS exposed_until,
           ended_ms - (removed_ms - alive_ms) AS last_alive_at,
           (removed_ms - alive_ms) / 1000 AS detection_s, detection_s + {POLL_S} AS exposure_s,
           detection_s + {POLL_S / 2} AS expected_stale_s, coalesce(count, 0) AS topics,
           coalesce(topics_lost, 0) AS topics_lost
    FROM alive LEFT JOIN lost USING ({_G}, to_seq)
        ASOF LEFT JOIN counts ON
            {" AND ".join(f"alive.{name} = counts.{name}" for name in GROUP)}
            AND alive.to_seq > counts.seq"""


def frame(table: Scan) -> pl.LazyFrame:
    ended = table("broker_sessions").filter(
        pl.col("to_seq").is_not_null() & pl.col("cause").is_in(_CAUSES)
    )
    gone = on_common_clock_frame(ended, table, "ended_at").with_columns(
        pl.col("ended_at").dt.epoch("ms").alias("removed_ms"),
        pl.col("began_at").dt.epoch("ms").alias("began_ms"),
    )
    alive = _alive(gone, table)
    steps = _steps(table)
    counts = (
        steps.group_by(*GROUP, "seq")
        .agg(pl.col("step").sum())
        .sort("seq")
        .with_columns(pl.col("step").cum_sum().over(GROUP).alias("topics"))
        .drop("step")
    )
    topic = ("node", "topic")
    lost = (
        steps.sort(*topic, "seq")
        .with_columns(pl.col("step").cum_sum().over(topic).alias("rest"))
        # What happens in one record happens at once.
        .with_columns(pl.col("rest").last().over(*topic, "seq"))
        .filter((pl.col("step") < 0) & (pl.col("rest") == 0))
        .group_by(*GROUP, pl.col("seq").alias("to_seq"))
        .agg(pl.len().alias("topics_lost"))
    )
    counted = (
        alive.join(lost, on=[*GROUP, "to_seq"], how="left")
        .drop("topics")
        .sort("to_seq")
        .join_asof(
            counts,
            left_on="to_seq",
            right_on="seq",
            by=list(GROUP),
            allow_exact_matches=False,
            check_sortedness=False,
        )
    )
    return _rows(counted)


def _alive(gone: pl.LazyFrame, table: Scan) -> pl.LazyFrame:
    """``gone`` with ``alive_ms``: when each gave its last sign of life."""
    cause, removed_ms = pl.col("cause"), pl.col("removed_ms")
    timeout_ms = (
        pl.when(pl.col("heartbeat_timeout_ms") != 0)
        .then("heartbeat_timeout_ms")
        .otherwise(DEFAULT_TIMEOUT_MS)
    )
    by_cause = (
        pl.when(cause.is_in(NOTICED))
        .then(removed_ms)
        .when(cause == "expired")
        .then(removed_ms - timeout_ms)
        .otherwise("recorded_ms")
    )
    told_ms = pl.coalesce(pl.when(~cause.is_in(PLANNED)).then("held_ms"), by_cause)
    latest_ms = pl.max_horizontal(told_ms, "began_ms", removed_ms - LOOK_BACK_MS)
    return (
        gone.join(_held(gone, table), on=ENDED, how="left")
        .join(_recorded(gone, table), on=ENDED, how="left")
        .with_columns(pl.min_horizontal(removed_ms, latest_ms).alias("alive_ms"))
    )


def _held(gone: pl.LazyFrame, table: Scan) -> pl.LazyFrame:
    silent_ms = pl.col("silent_ms").fill_null(0)
    holds = (
        table("suspect_times")
        .filter(pl.col("kind") == "held")
        .select(
            *PROCESS,
            pl.col("from_seq").alias("held_seq"),
            (pl.col("from_at").dt.epoch("ms") - silent_ms).alias("held_ms"),
            pl.col("to_at").dt.epoch("ms").alias("held_to_ms"),
        )
    )
    held_seq = pl.col("held_seq")
    here = (held_seq >= pl.col("from_seq")) & (held_seq < pl.col("to_seq"))
    to_the_end = pl.col("held_to_ms") >= pl.col("removed_ms") - HELD_UNTIL_MS
    return (
        gone.join(holds, on=PROCESS)
        .filter(here & to_the_end.fill_null(True))
        .group_by(*ENDED)
        .agg(pl.col("held_ms").max_by("held_seq"))
    )


def _recorded(gone: pl.LazyFrame, table: Scan) -> pl.LazyFrame:
    asked = gone.filter(pl.col("cause").is_in(RECORDED)).select(*ENDED, "from_seq", "removed_ms")
    wall_ms, data, seq = pl.col("wall_ms"), pl.col("data").struct, pl.col("seq")
    later_ms = data.field("gaps_ms").list.slice(1).list.sum()
    in_window = pl.min_horizontal(wall_ms, wall_ms - data.field("window_ms") + later_ms)
    of_gaps = pl.col("type") == "HeartbeatGaps"
    signs = (
        table("events")
        .filter(pl.col("type").is_in((*_SIGNS, "HeartbeatGaps")))
        .select(*PROCESS, "seq", pl.when(of_gaps).then(in_window).otherwise(wall_ms).alias("ms"))
    )
    here = (seq >= pl.col("from_seq")) & (seq < pl.col("to_seq"))
    recent = pl.col("ms") >= pl.col("removed_ms") - LOOK_BACK_MS
    return (
        signs.join(asked, on=PROCESS)
        .filter(here & recent)
        .group_by(*ENDED)
        .agg(pl.col("ms").max().alias("recorded_ms"))
    )


def _steps(table: Scan) -> pl.LazyFrame:
    """Topics that can be used from a record on, and no longer."""
    perm = pl.col("perm")
    readable = ((perm & 4) != 0) & (pl.col("read_queues") > 0)
    writable = ((perm & 2) != 0) & (pl.col("write_queues") > 0)
    routable = table("route_versions").filter(readable | writable)
    return pl.concat(
        routable.select(
            *GROUP, "topic", pl.col(seq).alias("seq"), pl.lit(step, pl.Int64).alias("step")
        )
        for seq, step in (("from_seq", 1), ("to_seq", -1))
    ).drop_nulls("seq")


def _rows(counted: pl.LazyFrame) -> pl.LazyFrame:
    ended_ms, detection_ms = pl.col("ended_ms"), pl.col("removed_ms") - pl.col("alive_ms")
    detection_s = detection_ms / 1000
    return counted.with_columns(
        (ended_ms // DAY_MS * DAY_MS).alias("day"),
        ended_ms.alias("removed_at"),
        (ended_ms + round(POLL_S * 1000)).alias("exposed_until"),
        (ended_ms - detection_ms).alias("last_alive_at"),
        detection_s.alias("detection_s"),
        (detection_s + POLL_S).alias("exposure_s"),
        (detection_s + POLL_S / 2).alias("expected_stale_s"),
        pl.col("topics", "topics_lost").fill_null(0),
    )
