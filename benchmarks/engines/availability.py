"""broker_availability by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import DAY_MS, HOUR_MS, Scan, kept, of_one_fleet
from benchmarks.engines.known import known_parts, known_parts_frame

from routebook_spark.gold.availability import (
    BLIND_BEGINNINGS,
    FAREWELL_MS,
    GOODBYES,
    GRACE_MS,
    RETIRED_AFTER_MS,
    STATES,
)
from routebook_spark.gold.availability import (
    BROKER as FLEET_BROKER,
)

BROKER = of_one_fleet(FLEET_BROKER)
_BUDGET = 0.001  # of the time, for a target of 99.9 %
_B = ", ".join(BROKER)
_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def _intervals(rows: str, since: str, until: str) -> str:
    since_ms, until_ms = (f"{name.removesuffix('_at')}_ms" for name in (since, until))
    return f"""
        SELECT * EXCLUDE ({since_ms}, {until_ms}), {since_ms} AS since_ms,
               CASE WHEN {until_ms} IS NOT NULL THEN greatest({since_ms}, {until_ms}) END
                   AS until_ms
        FROM ({on_common_clock(rows, since, until)})"""


_LISTED = known_parts("broker_sessions", "began_at", "ended_at")
_DOUBTED = known_parts("suspect_times", "from_at", "to_at")
_SPENT = ", ".join(
    f"coalesce(sum(lasted_ms) FILTER (state = '{state}'), 0) / 1000 AS {state}_s"
    for state in STATES
)

SQL = f"""
    WITH stays AS ({_intervals("broker_sessions", "began_at", "ended_at")}),
    listings AS ({_intervals(_LISTED, "began_at", "ended_at")}),
    doubts AS ({_intervals(_DOUBTED, "from_at", "to_at")}),
    covers AS (
        SELECT *, (begins IN {BLIND_BEGINNINGS!r})::int AS blind
        FROM ({_intervals("node_coverage", "from_at", "to_at")})),
    brokers AS (SELECT DISTINCT {_B} FROM stays),
    marks AS (
        SELECT {_B}, node, since_ms AS at_ms, 0 AS listed, 0 AS doubted, 0 AS covered,
               0 AS blinded, true AS begins, false AS says_goodbye, false AS looks_up
        FROM stays
        UNION ALL
        SELECT {_B}, node, until_ms, 0, 0, 0, 0, false,
               coalesce(cause IN {GOODBYES!r}, false), false
        FROM stays
        UNION ALL SELECT {_B}, node, since_ms, 1, 0, 0, 0, false, false, false FROM listings
        UNION ALL SELECT {_B}, node, until_ms, -1, 0, 0, 0, false, false, false FROM listings
        UNION ALL SELECT {_B}, node, since_ms, 0, 1, 0, 0, false, false, false FROM doubts
        UNION ALL SELECT {_B}, node, until_ms, 0, -1, 0, 0, false, false, false FROM doubts
        UNION ALL
        SELECT {_B}, node, since_ms, 0, 0, 1, blind, false, false, true FROM brokers, covers
        UNION ALL
        SELECT {_B}, node, least(since_ms + {GRACE_MS}, until_ms), 0, 0, 0, -blind,
               false, false, false
        FROM brokers, covers
        UNION ALL
        SELECT {_B}, node, until_ms, 0, 0, -1, 0, false, false, false FROM brokers, covers),
    node_moments AS (
        SELECT {_B}, node, at_ms, sum(listed) AS listed, sum(doubted) AS doubted,
               sum(covered) AS covered, sum(blinded) AS blinded, bool_or(begins) AS begins,
               bool_or(says_goodbye) AS says_goodbye, bool_or(looks_up) AS looks_up
        FROM marks WHERE at_ms IS NOT NULL GROUP BY {_B}, node, at_ms),
    held AS (
        SELECT {_B}, node, at_ms, begins, says_goodbye,
               sum(listed) OVER so_far > 0 AS is_listed,
               sum(doubted) OVER so_far > 0 AS is_doubted,
               sum(covered) OVER so_far > 0 AS is_covered,
               sum(blinded) OVER so_far > 0 AS is_blinded,
               coalesce(max(CASE WHEN begins THEN at_ms END) OVER so_far
                        < max(CASE WHEN looks_up THEN at_ms END) OVER so_far, true) AS unheard
        FROM node_moments
        WINDOW so_far AS (PARTITION BY {_B}, node ORDER BY at_ms {_SO_FAR})),
    believed AS (
        SELECT {_B}, node, at_ms, begins, says_goodbye,
               (is_covered AND is_listed AND NOT is_doubted)::int AS sure,
               (is_covered AND is_listed AND is_doubted)::int AS unsure,
               (is_covered AND NOT (is_blinded AND unheard))::int AS aware
        FROM held),
    moments AS (
        SELECT {_B}, at_ms, sum(sure) AS sure, sum(unsure) AS unsure, sum(aware) AS aware,
               bool_or(begins) AS begins, bool_or(says_goodbye) AS says_goodbye
        FROM (
            SELECT {_B}, at_ms, begins, says_goodbye,
                   sure - lag(sure, 1, 0) OVER of_node AS sure,
                   unsure - lag(unsure, 1, 0) OVER of_node AS unsure,
                   aware - lag(aware, 1, 0) OVER of_node AS aware
            FROM believed WINDOW of_node AS (PARTITION BY {_B}, node ORDER BY at_ms))
        GROUP BY {_B}, at_ms),
    views AS (
        SELECT {_B}, at_ms, sum(sure) OVER so_far > 0 AS is_up,
               sum(sure + unsure) OVER so_far > 0 AS is_listed,
               sum(aware) OVER so_far > 0 AS is_aware,
               max(CASE WHEN begins THEN at_ms END) OVER so_far AS began_ms,
               max(CASE WHEN says_goodbye THEN at_ms END) OVER so_far AS goodbye_ms,
               lead(at_ms) OVER (PARTITION BY {_B} ORDER BY at_ms) AS next_ms
        FROM moments WINDOW so_far AS (PARTITION BY {_B} ORDER BY at_ms {_SO_FAR})),
    gone AS (
        SELECT *, max(CASE WHEN was_listed AND NOT is_listed THEN at_ms END)
                      OVER (PARTITION BY {_B} ORDER BY at_ms {_SO_FAR}) AS left_ms
        FROM (SELECT *, lag(is_listed, 1, false) OVER (PARTITION BY {_B} ORDER BY at_ms)
                            AS was_listed
              FROM views)),
    told AS (
        SELECT *, CASE WHEN is_up THEN 'up' WHEN is_listed THEN 'suspect'
                       WHEN NOT is_aware THEN 'unknown'
                       WHEN goodbye_ms >= began_ms AND goodbye_ms >= left_ms - {FAREWELL_MS}
                       THEN 'planned' ELSE 'down' END AS state
        FROM gone WHERE is_listed OR left_ms IS NOT NULL),
    changes AS (
        SELECT *, coalesce(last_value(nullif(state, 'unknown') IGNORE NULLS) OVER (
                      PARTITION BY {_B} ORDER BY at_ms
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = 'down', false)
                      AS was_down
        FROM told),
    spells AS (
        SELECT {_B}, state, greatest(at_ms, 0) AS since_ms,
               least(next_ms, (SELECT max(until_ms) FROM covers),
                     CASE WHEN NOT is_listed THEN left_ms + {RETIRED_AFTER_MS} END) AS until_ms,
               state = 'down' AND NOT was_down AS fails,
               coalesce(is_listed AND was_down AND at_ms < left_ms + {RETIRED_AFTER_MS}, false)
                   AS recovers
        FROM changes),
    pieces AS (
        SELECT {_B}, state, hour * {HOUR_MS} AS hour_ms,
               least(until_ms, (hour + 1) * {HOUR_MS}) - greatest(since_ms, hour * {HOUR_MS})
                   AS lasted_ms,
               (fails AND since_ms >= hour * {HOUR_MS})::int AS failures,
               (recovers AND since_ms >= hour * {HOUR_MS})::int AS repairs
        FROM (SELECT *, unnest(range(since_ms // {HOUR_MS}, (until_ms - 1) // {HOUR_MS} + 1))
                            AS hour
              FROM spells WHERE since_ms < until_ms)
        WHERE hour IN (
            SELECT unnest(range(since_ms // {HOUR_MS},
                                greatest(since_ms, until_ms - 1) // {HOUR_MS} + 1))
            FROM covers)),
    totals AS (
        SELECT {_B}, grain, from_at, {_SPENT}, sum(failures) AS failures, sum(repairs) AS repairs
        FROM (
            SELECT *, 'hour' AS grain, hour_ms AS from_at FROM pieces
            UNION ALL
            SELECT *, 'day', hour_ms // {DAY_MS} * {DAY_MS} FROM pieces)
        GROUP BY {_B}, grain, from_at)
    SELECT *, from_at // {DAY_MS} * {DAY_MS} AS day,
           (up_s + suspect_s) / nullif(failures, 0) AS mtbf_s,
           down_s / nullif(repairs, 0) AS mttr_s,
           (up_s + suspect_s) / nullif(up_s + suspect_s + down_s, 0) AS availability,
           (up_s + suspect_s + down_s) * {_BUDGET} AS budget_s, budget_s - down_s AS budget_left_s
    FROM totals"""


def frame(table: Scan) -> pl.LazyFrame:
    sessions, coverage = table("broker_sessions"), table("node_coverage")
    stays = _intervals_frame(sessions, table, "began_at", "ended_at")
    listed = known_parts_frame(table, "broker_sessions", "began_at", "ended_at")
    listings = _intervals_frame(listed, table, "began_at", "ended_at")
    doubted = known_parts_frame(table, "suspect_times", "from_at", "to_at")
    doubts = _intervals_frame(doubted, table, "from_at", "to_at")
    covers = _intervals_frame(coverage, table, "from_at", "to_at").with_columns(
        pl.col("begins").is_in(BLIND_BEGINNINGS).cast(pl.Int64).alias("blind")
    )
    marks = _marks(kept(stays), kept(listings), kept(doubts), kept(covers))
    spells = _spells(_changes(_moments(marks)), covers.select(pl.col("until_ms").max()))
    return _rows(spells, _awake_hours(covers))


def _intervals_frame(rows: pl.LazyFrame, table: Scan, since: str, until: str) -> pl.LazyFrame:
    since_ms, until_ms = (f"{each.removesuffix('_at')}_ms" for each in (since, until))
    ended = pl.when(pl.col(until_ms).is_not_null()).then(pl.max_horizontal(since_ms, until_ms))
    timed = on_common_clock_frame(rows, table, since, until)
    intervals = timed.with_columns(pl.col(since_ms).alias("since_ms"), ended.alias("until_ms"))
    return intervals.drop("gap_counts", strict=False)


def _marks(
    stays: pl.LazyFrame, listings: pl.LazyFrame, doubts: pl.LazyFrame, covers: pl.LazyFrame
) -> pl.LazyFrame:
    """One row for each thing that begins or ends for a (broker, node)."""
    since, until, blind = pl.col("since_ms"), pl.col("until_ms"), pl.col("blind")
    goodbye = pl.col("cause").is_in(GOODBYES).fill_null(False)
    of_all = stays.select(*BROKER).unique().join(covers, how="cross")

    def mark(rows: pl.LazyFrame, at_ms: pl.Expr, **what: pl.Expr) -> pl.LazyFrame:
        counted = [
            what.get(name, pl.lit(0)).cast(pl.Int64).alias(name)
            for name in ("listed", "doubted", "covered", "blinded")
        ]
        noted = [
            what.get(name, pl.lit(False)).alias(name)
            for name in ("begins", "says_goodbye", "looks_up")
        ]
        return rows.select(*BROKER, "node", at_ms.alias("at_ms"), *counted, *noted)

    yes = pl.lit(True)
    marks = [
        mark(stays, since, begins=yes),
        mark(stays, until, says_goodbye=goodbye),
        mark(listings, since, listed=pl.lit(1)),
        mark(listings, until, listed=pl.lit(-1)),
        mark(doubts, since, doubted=pl.lit(1)),
        mark(doubts, until, doubted=pl.lit(-1)),
        mark(of_all, since, covered=pl.lit(1), blinded=blind, looks_up=yes),
        mark(of_all, pl.min_horizontal(since + GRACE_MS, until), blinded=-blind),
        mark(of_all, until, covered=pl.lit(-1)),
    ]
    return pl.concat(marks).drop_nulls("at_ms")


def _moments(marks: pl.LazyFrame) -> pl.LazyFrame:
    """What nodes began, or ceased, to believe of a broker at one moment."""
    key = (*BROKER, "node")

    def so_far(name: str) -> pl.Expr:
        return pl.col(name).cum_sum().over(key) > 0

    def last_ms(name: str) -> pl.Expr:
        return pl.when(name).then("at_ms").forward_fill().over(key)

    held = (
        marks.group_by(*key, "at_ms")
        .agg(
            pl.col("listed", "doubted", "covered", "blinded").sum(),
            pl.col("begins", "says_goodbye", "looks_up").any(),
        )
        .sort(*key, "at_ms")
        .with_columns(
            *(so_far(name) for name in ("listed", "doubted", "covered", "blinded")),
            (last_ms("begins") < last_ms("looks_up")).fill_null(True).alias("unheard"),
        )
    )
    listed, doubted = pl.col("listed"), pl.col("doubted")
    covered, blinded = pl.col("covered"), pl.col("blinded")
    believed = held.with_columns(
        (covered & listed & ~doubted).cast(pl.Int64).alias("sure"),
        (covered & listed & doubted).cast(pl.Int64).alias("unsure"),
        (covered & ~(blinded & pl.col("unheard"))).cast(pl.Int64).alias("aware"),
    )
    beliefs = pl.col("sure", "unsure", "aware")
    return (
        believed.with_columns(beliefs - beliefs.shift(fill_value=0).over(key))
        .group_by(*BROKER, "at_ms")
        .agg(beliefs.sum(), pl.col("begins", "says_goodbye").any())
        .sort(*BROKER, "at_ms")
    )


def _changes(moments: pl.LazyFrame) -> pl.LazyFrame:
    """What a broker was from each moment on, and whether it was down before."""

    def last_ms(condition: pl.Expr) -> pl.Expr:
        return pl.when(condition).then("at_ms").forward_fill().over(BROKER)

    views = moments.with_columns(
        (pl.col("sure").cum_sum().over(BROKER) > 0).alias("up"),
        ((pl.col("sure") + pl.col("unsure")).cum_sum().over(BROKER) > 0).alias("listed"),
        (pl.col("aware").cum_sum().over(BROKER) > 0).alias("aware"),
        last_ms(pl.col("begins")).alias("began_ms"),
        last_ms(pl.col("says_goodbye")).alias("goodbye_ms"),
        pl.col("at_ms").shift(-1).over(BROKER).alias("next_ms"),
    )
    listed = pl.col("listed")
    was_listed = listed.shift(fill_value=False).over(BROKER)
    gone = views.with_columns((was_listed & ~listed).alias("leaves")).with_columns(
        last_ms(pl.col("leaves")).alias("left_ms")
    )
    said_so = (pl.col("goodbye_ms") >= pl.col("began_ms")) & (
        pl.col("goodbye_ms") >= pl.col("left_ms") - FAREWELL_MS
    )
    state = (
        pl.when("up")
        .then(pl.lit("up"))
        .when("listed")
        .then(pl.lit("suspect"))
        .when(~pl.col("aware"))
        .then(pl.lit("unknown"))
        .when(said_so)
        .then(pl.lit("planned"))
        .otherwise(pl.lit("down"))
    )
    told = gone.filter(listed | pl.col("left_ms").is_not_null()).with_columns(state.alias("state"))
    known = pl.when(pl.col("state") != "unknown").then("state")
    before = known.forward_fill().shift().over(BROKER)
    return told.with_columns((before == "down").fill_null(False).alias("was_down"))


def _spells(changes: pl.LazyFrame, horizon: pl.LazyFrame) -> pl.LazyFrame:
    """``since_ms`` to ``until_ms`` in one state, and whether it began with a failure or repair."""
    retired_ms = pl.col("left_ms") + RETIRED_AFTER_MS
    listed, was_down = pl.col("listed"), pl.col("was_down")
    retires = pl.when(~listed).then(retired_ms)
    recovers = listed & was_down & (pl.col("at_ms") < retired_ms)
    return changes.join(horizon.rename({"until_ms": "horizon_ms"}), how="cross").select(
        *BROKER,
        "state",
        pl.max_horizontal("at_ms", 0).alias("since_ms"),
        pl.min_horizontal("next_ms", "horizon_ms", retires).alias("until_ms"),
        ((pl.col("state") == "down") & ~was_down).alias("fails"),
        recovers.fill_null(False).alias("recovers"),
    )


def _awake_hours(covers: pl.LazyFrame) -> pl.LazyFrame:
    """Hours in which a node was awake."""
    since, last = pl.col("since_ms"), pl.max_horizontal("since_ms", pl.col("until_ms") - 1)
    hours = pl.int_ranges(since // HOUR_MS, last // HOUR_MS + 1)
    return covers.select(hours.alias("hour")).explode("hour").unique()


def _rows(spells: pl.LazyFrame, awake_hours: pl.LazyFrame) -> pl.LazyFrame:
    since, until, hour = pl.col("since_ms"), pl.col("until_ms"), pl.col("hour") * HOUR_MS
    pieces = (
        spells.filter(since < until)
        .with_columns(pl.int_ranges(since // HOUR_MS, (until - 1) // HOUR_MS + 1).alias("hour"))
        .explode("hour")
        .join(awake_hours, on="hour", how="semi")
        .select(
            *BROKER,
            "state",
            hour.alias("hour_ms"),
            (pl.min_horizontal(until, hour + HOUR_MS) - pl.max_horizontal(since, hour)).alias(
                "lasted_ms"
            ),
            (pl.col("fails") & (since >= hour)).cast(pl.Int64).alias("failures"),
            (pl.col("recovers") & (since >= hour)).cast(pl.Int64).alias("repairs"),
        )
    )
    from_ms = {"hour": pl.col("hour_ms"), "day": pl.col("hour_ms") // DAY_MS * DAY_MS}
    grains = pl.concat(
        pieces.with_columns(pl.lit(grain).alias("grain"), at.alias("from_at"))
        for grain, at in from_ms.items()
    )
    lasted = pl.col("lasted_ms")
    totals = grains.group_by(*BROKER, "grain", "from_at").agg(
        *(
            (lasted.filter(pl.col("state") == state).sum() / 1000).alias(f"{state}_s")
            for state in STATES
        ),
        pl.col("failures", "repairs").sum(),
    )
    there, down = pl.col("up_s") + pl.col("suspect_s"), pl.col("down_s")
    known = there + down

    def per(total: pl.Expr, count: pl.Expr) -> pl.Expr:
        return pl.when(count != 0).then(total / count)

    return totals.with_columns(
        (pl.col("from_at") // DAY_MS * DAY_MS).alias("day"),
        per(there, pl.col("failures")).alias("mtbf_s"),
        per(down, pl.col("repairs")).alias("mttr_s"),
        per(there, known).alias("availability"),
        (known * _BUDGET).alias("budget_s"),
        (known * _BUDGET - down).alias("budget_left_s"),
    )
