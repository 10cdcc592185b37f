"""flaps by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import DAY_MS, HOUR_MS, Scan, kept, of_one_fleet

from routebook_spark.gold.availability import GRACE_MS
from routebook_spark.gold.flaps import (
    BROKER as FLEET_BROKER,
)
from routebook_spark.gold.flaps import (
    CALM_ENDS,
    CEILING,
    FEWEST_BROKERS,
    HALF_LIFE_MS,
    RETURN_WITHIN_MS,
    REUSE,
    STARTS,
    STEP,
    SUPPRESS,
    UNSEEN_ENDS,
)

BROKER = of_one_fleet(FLEET_BROKER)
_B = ", ".join(BROKER)
_KEY = (*BROKER, "node")
_K = ", ".join(_KEY)


def _halvings(ms: str) -> str:
    """What is left of 1 after ``ms``."""
    return f"pow(2.0::double, -({ms}) / {HALF_LIFE_MS}::double)"


_OF_DAY = f"(PARTITION BY {_K}, day_ms ORDER BY at_ms, seq"
_SO_FAR = f"{_OF_DAY} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"

SQL = f"""
    WITH covers AS (
        SELECT *, from_ms + CASE WHEN begins IN {STARTS!r} THEN {GRACE_MS} ELSE 0 END
                      AS sees_ms
        FROM ({on_common_clock("node_coverage", "from_at", "to_at")})),
    horizons AS (SELECT node, max(to_ms) AS horizon_ms FROM covers GROUP BY node),
    stays AS (
        SELECT *, gone_by NOT IN {UNSEEN_ENDS!r} AND began_ms - gone_ms <= {RETURN_WITHIN_MS}
                      AS comes,
               cause NOT IN {CALM_ENDS!r} AS goes
        FROM (
            SELECT {_K}, from_seq, to_seq, began_ms, ended_ms, began, cause, horizon_ms,
                   lag(cause) OVER in_order AS gone_by, lag(ended_ms) OVER in_order AS gone_ms
            FROM ({on_common_clock("broker_sessions", "began_at", "ended_at")})
                JOIN horizons USING (node)
            WINDOW in_order AS (PARTITION BY {_K} ORDER BY from_seq))),
    moves AS (
        SELECT {_K}, horizon_ms, began_ms AS at_ms, from_seq AS seq, began AS cause
        FROM stays WHERE comes
        UNION ALL SELECT {_K}, horizon_ms, ended_ms, to_seq, cause FROM stays WHERE goes),
    days AS (
        SELECT *, at_ms // {DAY_MS} * {DAY_MS} AS day_ms FROM moves
        UNION ALL SELECT *, (at_ms // {DAY_MS} + 1) * {DAY_MS} FROM moves),
    weighed AS (
        SELECT *, sum({STEP} * weight) OVER {_SO_FAR} AS total
        FROM (SELECT *, {_halvings("day_ms - at_ms")} AS weight FROM days)),
    counted AS (
        SELECT *, (total + least(0.0::double, min({CEILING} * weight - total) OVER {_SO_FAR}))
                      / weight AS penalty
        FROM weighed),
    turned AS (
        SELECT *, CASE WHEN penalty > {SUPPRESS} THEN true
                       WHEN lag(penalty) OVER {_OF_DAY}) * {
    _halvings(f"at_ms - lag(at_ms) OVER {_OF_DAY})")
} < {REUSE} THEN false END
                      AS turns,
               row_number() OVER {_OF_DAY}) AS place,
               least(lead(at_ms) OVER {_OF_DAY}), day_ms + {DAY_MS}, horizon_ms) AS until_ms,
               greatest(at_ms, day_ms) AS first_ms
        FROM counted),
    penalties AS (
        SELECT *, coalesce(last_value(turns IGNORE NULLS) OVER {_SO_FAR}, false) AS suppresses,
               at_ms + log2(penalty / {REUSE}) * {HALF_LIFE_MS} AS calm_ms
        FROM turned),
    cut AS (
        SELECT *, hour * {HOUR_MS} AS hour_ms, greatest(at_ms, hour * {HOUR_MS}) AS since_ms,
               greatest(since_ms, least(until_ms, (hour + 1) * {HOUR_MS})) AS till_ms
        FROM (SELECT *, unnest(range(first_ms // {HOUR_MS},
                                     greatest(first_ms, until_ms - 1) // {HOUR_MS} + 1)) AS hour
              FROM penalties WHERE first_ms < until_ms OR at_ms >= day_ms)),
    pieces AS (
        SELECT *, penalty * {_halvings("since_ms - at_ms")} AS peak,
               penalty * {_halvings("till_ms - at_ms")} AS rest,
               CASE WHEN suppresses THEN greatest(0, least(till_ms, calm_ms) - since_ms)
                    ELSE 0 END AS suppressed_ms,
               CASE WHEN at_ms >= hour_ms THEN at_ms END AS seen_ms
        FROM cut),
    causes AS (
        SELECT {_K}, day_ms, hour_ms, map(list(cause), list(seen)) AS causes FROM (
            SELECT {_K}, day_ms, hour_ms, cause, count(*) AS seen
            FROM pieces WHERE seen_ms IS NOT NULL GROUP BY {_K}, day_ms, hour_ms, cause)
        GROUP BY {_K}, day_ms, hour_ms),
    hours AS (
        SELECT {_K}, day_ms, hour_ms, count(seen_ms) AS transitions,
               round(max(peak), 3) AS peak_penalty, round(arg_max(rest, place), 3) AS end_penalty,
               round(sum(suppressed_ms) / 1000, 3) AS suppressed_s,
               min(seen_ms) AS seen_first_ms, max(seen_ms) AS seen_last_ms
        FROM pieces GROUP BY {_K}, day_ms, hour_ms
        HAVING transitions > 0 OR suppressed_s > 0),
    seen AS (
        SELECT {_B}, hour_ms, min(seen_first_ms) AS first_ms, max(seen_last_ms) AS last_ms,
               count(DISTINCT node) FILTER (transitions > 0) AS seen_by
        FROM hours GROUP BY {_B}, hour_ms),
    watched AS (
        SELECT {_B}, hour_ms, count(DISTINCT node) AS known_by FROM (
            SELECT {_K}, hour_ms FROM hours WHERE transitions > 0
            UNION ALL
            SELECT {_K}, hour_ms
            FROM (SELECT node, sees_ms, to_ms, unnest(range(sees_ms // {HOUR_MS},
                             to_ms // {HOUR_MS} + 1)) * {HOUR_MS} AS hour_ms
                  FROM covers WHERE clock_known AND sees_ms <= to_ms) JOIN seen USING (hour_ms)
            WHERE sees_ms <= first_ms AND to_ms >= last_ms)
        GROUP BY {_B}, hour_ms),
    listed AS (
        SELECT {_K}, unnest(range(since_ms // {HOUR_MS}, greatest(since_ms, until_ms)
                   // {HOUR_MS} + 1)) * {HOUR_MS} AS hour_ms,
               0 AS moved
        FROM (
            SELECT {_K}, CASE WHEN stays.from_seq >= covers.from_seq THEN began_ms
                              ELSE from_ms END AS since_ms,
                   CASE WHEN stays.to_seq < covers.to_seq
                             OR stays.to_seq IS NOT NULL AND covers.to_seq IS NULL
                        THEN ended_ms ELSE to_ms END AS until_ms
            FROM stays JOIN covers USING (node)
            WHERE (covers.to_seq IS NULL OR stays.from_seq < covers.to_seq)
                AND (stays.to_seq IS NULL OR stays.to_seq > covers.from_seq))),
    troubled AS (
        SELECT node, hour_ms, true AS troubled FROM (
            SELECT {_K}, hour_ms, max(moved) AS moved FROM (
                SELECT * FROM listed
                UNION ALL SELECT {_K}, at_ms // {HOUR_MS} * {HOUR_MS}, 1 FROM moves)
            GROUP BY {_K}, hour_ms)
        GROUP BY node, hour_ms
        HAVING count(*) >= {FEWEST_BROKERS} AND 2 * sum(moved) > count(*))
    SELECT day_ms AS day, hour_ms AS window_at, {_K}, transitions, peak_penalty, end_penalty,
           suppressed_s, coalesce(causes, MAP {{}}) AS causes,
           CASE WHEN transitions = 0 THEN NULL WHEN known_by = 1 THEN 'unknown'
                WHEN troubled AND seen_by = 1 THEN 'node'
                WHEN seen_by = known_by THEN 'broker' ELSE 'network' END AS culprit
    FROM hours LEFT JOIN causes USING ({_K}, day_ms, hour_ms)
        LEFT JOIN seen USING ({_B}, hour_ms) LEFT JOIN watched USING ({_B}, hour_ms)
        LEFT JOIN troubled USING (node, hour_ms)"""


def frame(table: Scan) -> pl.LazyFrame:
    blind_ms = pl.col("begins").is_in(STARTS).cast(pl.Int64) * GRACE_MS
    covers = kept(
        on_common_clock_frame(table("node_coverage"), table, "from_at", "to_at").with_columns(
            (pl.col("from_ms") + blind_ms).alias("sees_ms")
        )
    )
    horizons = covers.group_by("node").agg(pl.col("to_ms").max().alias("horizon_ms"))
    sessions = table("broker_sessions").drop("gap_counts")
    stays = kept(
        on_common_clock_frame(sessions, table, "began_at", "ended_at")
        .join(horizons, on="node")
        .sort(*_KEY, "from_seq")
    )
    moves = kept(_moves(stays))
    hours = kept(_hours(_penalties(moves)))
    return _blamed(hours, _troubled(stays, moves, covers), covers)


def _moves(stays: pl.LazyFrame) -> pl.LazyFrame:
    """The times a broker came or went."""
    gone_by = pl.col("cause").shift().over(_KEY)
    waited_ms = pl.col("began_ms") - pl.col("ended_ms").shift().over(_KEY)
    comes = ~gone_by.is_in(UNSEEN_ENDS) & (waited_ms <= RETURN_WITHIN_MS)
    goes = ~pl.col("cause").is_in(CALM_ENDS)

    def move(at_ms: str, seq: str, cause: str) -> list[pl.Expr]:
        told = {"at_ms": at_ms, "seq": seq, "cause": cause}
        return [pl.col(column).alias(name) for name, column in told.items()]

    came = stays.filter(comes).select(*_KEY, "horizon_ms", *move("began_ms", "from_seq", "began"))
    went = stays.filter(goes).select(*_KEY, "horizon_ms", *move("ended_ms", "to_seq", "cause"))
    return pl.concat([came, went])


def _left(ms: pl.Expr) -> pl.Expr:
    """What is left of 1 after ``ms``."""
    return pl.lit(2.0).pow(-ms / HALF_LIFE_MS)


def _penalties(moves: pl.LazyFrame) -> pl.LazyFrame:
    key, at, day = (*_KEY, "day_ms"), pl.col("at_ms"), pl.col("day_ms")
    days = pl.concat(
        moves.with_columns(((at // DAY_MS + later) * DAY_MS).alias("day_ms")) for later in (0, 1)
    ).sort(*key, "at_ms", "seq")
    weight = pl.col("weight")
    weighed = days.with_columns(_left(day - at).alias("weight")).with_columns(
        (STEP * weight).cum_sum().over(key).alias("total")
    )
    excess = (CEILING * weight - pl.col("total")).cum_min().over(key)
    penalty = pl.col("penalty")
    before = penalty.shift().over(key) * _left(at - at.shift().over(key))
    turns = pl.when(penalty > SUPPRESS).then(True).when(before < REUSE).then(False)
    return (
        weighed.with_columns(
            ((pl.col("total") + pl.min_horizontal(0.0, excess)) / weight).alias("penalty")
        )
        .with_columns(turns.alias("turns"))
        .with_columns(
            pl.col("turns").forward_fill().over(key).fill_null(False).alias("suppresses"),
            pl.int_range(pl.len()).over(key).alias("place"),
            pl.min_horizontal(at.shift(-1).over(key), day + DAY_MS, "horizon_ms").alias("until_ms"),
        )
    )


def _hours(penalties: pl.LazyFrame) -> pl.LazyFrame:
    """One row for each (broker, node) and hour with a move or a moment of suppression."""
    at, until, hour = pl.col("at_ms"), pl.col("until_ms"), pl.col("hour_ms")
    first = pl.max_horizontal(at, "day_ms")
    last = pl.max_horizontal(first, until - 1)
    since, till = pl.col("since_ms"), pl.col("till_ms")
    cut = (
        penalties.filter((first < until) | (at >= pl.col("day_ms")))
        .with_columns(pl.int_ranges(first // HOUR_MS, last // HOUR_MS + 1).alias("hour_ms"))
        .explode("hour_ms")
        .with_columns(hour * HOUR_MS)
        .with_columns(pl.max_horizontal(at, hour).alias("since_ms"))
        .with_columns(
            pl.max_horizontal(since, pl.min_horizontal(until, hour + HOUR_MS)).alias("till_ms")
        )
    )
    penalty, here = pl.col("penalty"), at >= hour
    calm = at + (penalty / REUSE).log(2) * HALF_LIFE_MS
    calming = pl.max_horizontal(0.0, pl.min_horizontal(till.cast(pl.Float64), calm) - since)
    suppressed = pl.when("suppresses").then(calming).otherwise(0.0)
    causes = pl.col("cause").alias("key").filter(here).value_counts(name="value")
    return (
        cut.group_by(*_KEY, "day_ms", "hour_ms")
        .agg(
            here.sum().cast(pl.Int64).alias("transitions"),
            (penalty * _left(since - at)).max().round(3).alias("peak_penalty"),
            (penalty * _left(till - at)).max_by("place").round(3).alias("end_penalty"),
            (suppressed.sum() / 1000).round(3).alias("suppressed_s"),
            at.filter(here).min().alias("first_ms"),
            at.filter(here).max().alias("last_ms"),
            causes.alias("causes"),
        )
        .filter((pl.col("transitions") > 0) | (pl.col("suppressed_s") > 0))
    )


def _known_parts(stays: pl.LazyFrame, covers: pl.LazyFrame) -> pl.LazyFrame:
    """Parts of stays in one stretch of coverage each, by the numbers of records."""
    known = covers.select(
        "node",
        pl.col("from_seq").alias("first_seq"),
        pl.col("to_seq").alias("last_seq"),
        pl.col("from_ms").alias("known_from_ms"),
        pl.col("to_ms").alias("known_to_ms"),
    )
    first, last = pl.col("first_seq"), pl.col("last_seq")
    from_seq, to_seq = pl.col("from_seq"), pl.col("to_seq")
    meets = (from_seq < last).fill_null(True) & (to_seq > first).fill_null(True)
    ends_here = to_seq.is_not_null() & (to_seq < last).fill_null(True)
    return (
        stays.join(known, on="node")
        .filter(meets)
        .with_columns(
            pl.when(from_seq >= first)
            .then("began_ms")
            .otherwise("known_from_ms")
            .alias("began_ms"),
            pl.when(ends_here).then("ended_ms").otherwise("known_to_ms").alias("ended_ms"),
        )
    )


def _troubled(stays: pl.LazyFrame, moves: pl.LazyFrame, covers: pl.LazyFrame) -> pl.LazyFrame:
    """Hours of a node in which most of its brokers came or went."""
    since = pl.col("began_ms")
    until = pl.max_horizontal(since, "ended_ms")
    listed = (
        _known_parts(stays, covers)
        .select(*_KEY, pl.int_ranges(since // HOUR_MS, until // HOUR_MS + 1).alias("hour_ms"))
        .explode("hour_ms")
        .with_columns(pl.lit(0).alias("moved"))
    )
    moved = moves.select(
        *_KEY, (pl.col("at_ms") // HOUR_MS).alias("hour_ms"), pl.lit(1).alias("moved")
    )
    counts = (
        pl.concat([listed, moved])
        .group_by(*_KEY, "hour_ms")
        .agg(pl.col("moved").max())
        .group_by("node", pl.col("hour_ms") * HOUR_MS)
        .agg(pl.len().cast(pl.Int64).alias("brokers"), pl.col("moved").sum())
    )
    most = (pl.col("brokers") >= FEWEST_BROKERS) & (2 * pl.col("moved") > pl.col("brokers"))
    return counts.filter(most).select("node", "hour_ms", pl.lit(True).alias("troubled"))


def _blamed(hours: pl.LazyFrame, troubled: pl.LazyFrame, covers: pl.LazyFrame) -> pl.LazyFrame:
    key, some = (*BROKER, "hour_ms"), pl.col("transitions") > 0
    seen = hours.group_by(*key).agg(
        pl.col("first_ms").min(),
        pl.col("last_ms").max(),
        pl.col("node").filter(some).n_unique().cast(pl.Int64).alias("seen_by"),
    )
    since, until = pl.col("sees_ms"), pl.col("to_ms")
    watching = (
        covers.filter(pl.col("clock_known") & (since <= until))
        .select(
            "node",
            "sees_ms",
            "to_ms",
            pl.int_ranges(since // HOUR_MS, until // HOUR_MS + 1).alias("hour_ms"),
        )
        .explode("hour_ms")
        .with_columns(pl.col("hour_ms") * HOUR_MS)
        .join(seen, on="hour_ms")
        .filter((since <= pl.col("first_ms")) & (until >= pl.col("last_ms")))
        .select(*key, "node")
    )
    watched = (
        pl.concat([hours.filter(some).select(*key, "node"), watching])
        .group_by(*key)
        .agg(pl.col("node").n_unique().cast(pl.Int64).alias("known_by"))
    )
    seen_by, known_by = pl.col("seen_by"), pl.col("known_by")
    culprit = (
        pl.when(~some)
        .then(None)
        .when(known_by == 1)
        .then(pl.lit("unknown"))
        .when(pl.col("troubled") & (seen_by == 1))
        .then(pl.lit("node"))
        .when(seen_by == known_by)
        .then(pl.lit("broker"))
        .otherwise(pl.lit("network"))
    )
    return (
        hours.join(seen.select(*key, "seen_by"), on=key, how="left")
        .join(watched, on=key, how="left")
        .join(troubled, on=["node", "hour_ms"], how="left")
        .with_columns(
            pl.col("day_ms").alias("day"),
            pl.col("hour_ms").alias("window_at"),
            culprit.alias("culprit"),
        )
    )
