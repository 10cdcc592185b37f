"""topic_balance by DuckDB and by Polars.

Looked-at hours are joined, day by day, with the routes that were told in them. How long one broker
was alone is summed up instant by instant.
"""

import polars as pl
from benchmarks.engines.columns import DAY_MS, HOUR_MS, Scan, kept
from benchmarks.engines.known import TOLD_ROUTES, told_routes_frame
from benchmarks.engines.tellers import TELLERS, Tellers

from routebook_spark.gold.balance import STATE

_COLUMNS = ", ".join(STATE)
_KEY = ("cluster", "topic", "hour")

SQL = f"""
    WITH {TELLERS},
    cut AS (
        SELECT cluster, topic, broker, from_seq, last_hour, next_hour,
               greatest(begin_ms, first_hour * {HOUR_MS}) AS begin_ms,
               least(end_ms, (last_hour + 1) * {HOUR_MS}) AS end_ms,
               CASE WHEN perm & 4 != 0 THEN read_queues ELSE 0 END AS readable,
               CASE WHEN perm & 2 != 0 THEN write_queues ELSE 0 END AS writable
        FROM ({TOLD_ROUTES}) JOIN stretches ON node = teller
            AND begin_ms < (last_hour + 1) * {HOUR_MS} AND end_ms > first_hour * {HOUR_MS}),
    ends AS (
        SELECT cluster, topic, last_hour, next_hour, begin_ms AS at_ms FROM cut
        UNION ALL SELECT cluster, topic, last_hour, next_hour, end_ms FROM cut),
    looked_at AS (
        SELECT DISTINCT cluster, topic,
               CASE WHEN at_ms < until_ms THEN hour
                    WHEN hour < ends.last_hour THEN hour + 1 ELSE next_hour END AS hour
        FROM ends JOIN told ON hour = least(at_ms // {HOUR_MS}, ends.last_hour)),
    daily AS (
        SELECT * EXCLUDE (last_hour, next_hour),
               unnest(range(begin_ms // {DAY_MS}, end_ms // {DAY_MS} + 1)) AS day
        FROM cut),
    inside AS (
        SELECT cluster, topic, hour, broker, from_seq, begin_ms, end_ms, readable, writable,
               begin_ms < until_ms AND end_ms >= until_ms AS listed,
               begin_ms <= from_ms AND end_ms >= until_ms AS lasting
        FROM (SELECT *, hour // 24 AS day FROM looked_at) JOIN hours USING (hour)
            JOIN daily USING (cluster, topic, day)
        WHERE begin_ms < (hour + 1) * {HOUR_MS} AND end_ms > hour * {HOUR_MS}),
    by_broker AS (
        SELECT cluster, topic, hour, broker, bool_or(listed) AS listed,
               coalesce(arg_max(readable, from_seq) FILTER (listed), 0) AS readable,
               coalesce(arg_max(writable, from_seq) FILTER (listed), 0) AS writable,
               count(*) FILTER (writable > 0) AS pieces,
               coalesce(bool_and(lasting) FILTER (writable > 0), true) AS lasting
        FROM inside GROUP BY ALL),
    totals AS (
        SELECT cluster, topic, hour, count(*) FILTER (listed) AS brokers,
               count(*) FILTER (writable > 0) AS writable_brokers,
               sum(writable) AS write_queues, sum(readable) AS read_queues,
               min(writable) FILTER (writable > 0) AS min_queues,
               max(writable) FILTER (writable > 0) AS max_queues,
               min({{'queues': -writable, 'broker': broker}}) FILTER (writable > 0) AS top,
               bool_and(lasting) AND sum(pieces) = count(*) FILTER (writable > 0) AS lasting
        FROM by_broker GROUP BY ALL),
    apart AS (
        SELECT cluster, topic, hour, end_ms,
               greatest(begin_ms, coalesce(max(end_ms) OVER (
                   PARTITION BY cluster, topic, hour, broker ORDER BY begin_ms, end_ms
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS begin_ms
        FROM inside SEMI JOIN (FROM totals WHERE NOT lasting) USING (cluster, topic, hour)
        WHERE writable > 0),
    known_spans AS (
        SELECT cluster, topic, hour, spans.new_ms, spans.until_ms
        FROM totals JOIN hours USING (hour) JOIN spans USING (hour, node)
        WHERE NOT lasting AND spans.new_ms < spans.until_ms),
    steps AS (
        SELECT cluster, topic, hour, at_ms, sum(brokers) AS brokers, sum(known) AS known FROM (
            SELECT cluster, topic, hour, begin_ms AS at_ms, 1 AS brokers, 0 AS known
            FROM apart WHERE begin_ms < end_ms
            UNION ALL SELECT cluster, topic, hour, end_ms, -1, 0 FROM apart WHERE begin_ms < end_ms
            UNION ALL SELECT cluster, topic, hour, new_ms, 0, 1 FROM known_spans
            UNION ALL SELECT cluster, topic, hour, until_ms, 0, -1 FROM known_spans)
        GROUP BY ALL),
    alone AS (
        SELECT cluster, topic, hour, sum(lasted_ms) FILTER (brokers = 1 AND known > 0) AS alone_ms
        FROM (
            SELECT cluster, topic, hour, sum(brokers) OVER so_far AS brokers,
                   sum(known) OVER so_far AS known, lead(at_ms) OVER so_far - at_ms AS lasted_ms
            FROM steps WINDOW so_far AS (PARTITION BY cluster, topic, hour ORDER BY at_ms))
        GROUP BY ALL),
    states AS (
        SELECT cluster, topic, hour, is_first, last_hour, totals.hour IS NOT NULL AS existed,
               coalesce(brokers, 0) AS brokers, coalesce(writable_brokers, 0) AS writable_brokers,
               coalesce(write_queues, 0) AS write_queues, coalesce(read_queues, 0) AS read_queues,
               min_queues, max_queues, max_queues * writable_brokers / write_queues AS skew,
               top.broker AS top_broker,
               CASE WHEN writable_brokers = 1 THEN known_ms ELSE 0 END AS lasting_ms,
               CASE WHEN lasting OR lasting IS NULL THEN lasting_ms
                    ELSE coalesce(alone_ms, 0) END AS single_ms
        FROM looked_at JOIN hours USING (hour) LEFT JOIN totals USING (cluster, topic, hour)
            LEFT JOIN alone USING (cluster, topic, hour)),
    compared AS (
        SELECT *, lag(state) OVER by_hour AS previous, lead(hour) OVER by_hour AS next_hour
        FROM (SELECT *, struct_pack({", ".join(f"{n} := {n}" for n in STATE)}) AS state
              FROM states)
        WINDOW by_hour AS (PARTITION BY cluster, topic ORDER BY hour)),
    noted AS (
        SELECT *, hour AS row_hour FROM compared
        WHERE CASE WHEN is_first THEN existed WHEN previous IS NULL THEN brokers > 0
                   ELSE state IS DISTINCT FROM previous END
              OR single_ms != lasting_ms),
    midnights AS (
        SELECT *, unnest(range((hour // 24 + 1) * 24,
                               least(next_hour - 1, last_hour) + 1, 24)) AS row_hour
        FROM compared WHERE brokers > 0)
    SELECT row_hour * {HOUR_MS} // {DAY_MS} * {DAY_MS} AS day, row_hour * {HOUR_MS} AS hour_at,
           cluster, topic, {_COLUMNS}, writable_brokers = 1 AS single_broker,
           single_ms / 1000 AS single_broker_s
    FROM (
        SELECT row_hour, cluster, topic, {_COLUMNS}, single_ms FROM noted
        UNION ALL
        SELECT row_hour, cluster, topic, {_COLUMNS},
               CASE WHEN writable_brokers = 1 THEN known_ms ELSE 0 END
        FROM midnights JOIN (SELECT hour AS row_hour, known_ms FROM hours) USING (row_hour))"""


def frame(table: Scan) -> pl.LazyFrame:
    tellers = Tellers.of(table)
    pieces = kept(_pieces(table, tellers.stretches))
    looked_at = kept(_looked_at(pieces, tellers.told).join(tellers.hours, on="hour"))
    states = _states(looked_at, pieces, tellers.spans)
    return _rows(states, tellers.hours)


def _pieces(table: Scan, stretches: pl.LazyFrame) -> pl.LazyFrame:
    first_ms = pl.col("first_hour") * HOUR_MS
    until_ms = (pl.col("last_hour") + 1) * HOUR_MS

    def queues_if(bit: int, queues: str) -> pl.Expr:
        permitted = (pl.col("perm") & bit) != 0
        return pl.when(permitted).then(pl.col(queues)).otherwise(0).cast(pl.Int64)

    return (
        told_routes_frame(table)
        .join(stretches, left_on="node", right_on="teller")
        .filter((pl.col("begin_ms") < until_ms) & (pl.col("end_ms") > first_ms))
        .select(
            "cluster",
            "topic",
            "broker",
            "from_seq",
            "last_hour",
            "next_hour",
            pl.max_horizontal("begin_ms", first_ms).alias("begin_ms"),
            pl.min_horizontal("end_ms", until_ms).alias("end_ms"),
            queues_if(4, "read_queues").alias("readable"),
            queues_if(2, "write_queues").alias("writable"),
        )
    )


def _looked_at(pieces: pl.LazyFrame, told: pl.LazyFrame) -> pl.LazyFrame:
    """The hours at the end of which the beginning, or end, of a piece shows."""
    ends = pl.concat(
        pieces.select("cluster", "topic", "last_hour", "next_hour", pl.col(end).alias("at_ms"))
        for end in ("begin_ms", "end_ms")
    )
    hour, last_hour = pl.col("hour"), pl.col("last_hour")
    shows = (
        pl.when(pl.col("at_ms") < pl.col("until_ms"))
        .then(hour)
        .when(hour < last_hour)
        .then(hour + 1)
        .otherwise(pl.col("next_hour"))
    )
    return (
        ends.with_columns(pl.min_horizontal(pl.col("at_ms") // HOUR_MS, last_hour).alias("hour"))
        .join(told.select("hour", "until_ms"), on="hour")
        .select("cluster", "topic", shows.alias("hour"))
        .drop_nulls("hour")
        .unique()
    )


def _states(looked_at: pl.LazyFrame, pieces: pl.LazyFrame, spans: pl.LazyFrame) -> pl.LazyFrame:
    begin_ms, end_ms = pl.col("begin_ms"), pl.col("end_ms")
    from_ms, until_ms = pl.col("from_ms"), pl.col("until_ms")
    writable = pl.col("writable")
    days = pl.int_ranges(begin_ms // DAY_MS, end_ms // DAY_MS + 1)
    daily = pieces.drop("last_hour", "next_hour").with_columns(days.alias("day")).explode("day")
    inside = (
        looked_at.select(*_KEY, (pl.col("hour") // 24).alias("day"), "from_ms", "until_ms")
        .join(daily, on=["cluster", "topic", "day"])
        .filter((begin_ms < (pl.col("hour") + 1) * HOUR_MS) & (end_ms > pl.col("hour") * HOUR_MS))
        .with_columns(
            ((begin_ms < until_ms) & (end_ms >= until_ms)).alias("listed"),
            ((begin_ms <= from_ms) & (end_ms >= until_ms)).alias("lasting"),
        )
    )

    def latest(queues: str) -> pl.Expr:
        is_latest = pl.col("from_seq") == pl.col("from_seq").filter(pl.col("listed")).max()
        return pl.col(queues).filter(pl.col("listed") & is_latest).sum()

    by_broker = inside.group_by(*_KEY, "broker").agg(
        pl.col("listed").any(),
        latest("readable").alias("readable"),
        latest("writable").alias("writable"),
        (writable > 0).sum().cast(pl.Int64).alias("pieces"),
        pl.col("lasting").filter(writable > 0).all(),
    )
    totals = kept(_totals(by_broker))
    changing = totals.filter(~pl.col("lasting")).select(*_KEY)
    hours = looked_at.select("hour", "node").unique()
    known = changing.join(hours, on="hour").join(spans, on=["hour", "node"])
    alone = _alone(inside.filter(writable > 0).join(changing, on=_KEY, how="semi"), known)
    single = pl.col("writable_brokers") == 1
    counts = [pl.col(name).fill_null(0) for name in STATE[:4]]
    return (
        looked_at.join(totals, on=_KEY, how="left")
        .join(alone, on=_KEY, how="left")
        .with_columns(
            *counts,
            pl.col("lasting").is_not_null().alias("existed"),
            (pl.col("max_queues") * pl.col("writable_brokers") / pl.col("write_queues")).alias(
                "skew"
            ),
            pl.when(single).then(pl.col("known_ms")).otherwise(0).alias("lasting_ms"),
        )
        .with_columns(
            pl.when(pl.col("lasting").fill_null(True))
            .then(pl.col("lasting_ms"))
            .otherwise(pl.col("alone_ms").fill_null(0))
            .alias("single_ms")
        )
    )


def _totals(by_broker: pl.LazyFrame) -> pl.LazyFrame:
    writable = pl.col("writable")
    of_writable = writable.filter(writable > 0)
    return by_broker.group_by(*_KEY).agg(
        pl.col("listed").sum().cast(pl.Int64).alias("brokers"),
        (writable > 0).sum().cast(pl.Int64).alias("writable_brokers"),
        writable.sum().alias("write_queues"),
        pl.col("readable").sum().alias("read_queues"),
        of_writable.min().alias("min_queues"),
        of_writable.max().alias("max_queues"),
        pl.col("broker")
        .filter((writable > 0) & (writable == writable.max()))
        .min()
        .alias("top_broker"),
        (pl.col("lasting").all() & (pl.col("pieces").sum() == (writable > 0).sum())).alias(
            "lasting"
        ),
    )


def _alone(pieces: pl.LazyFrame, known: pl.LazyFrame) -> pl.LazyFrame:
    """How long of what is known there is a piece of exactly one broker: ``alone_ms``."""
    before = pl.col("end_ms").cum_max().shift().over(*_KEY, "broker")
    apart = (
        pieces.sort(*_KEY, "broker", "begin_ms", "end_ms")
        .with_columns(pl.max_horizontal("begin_ms", before).alias("begin_ms"))
        .filter(pl.col("begin_ms") < pl.col("end_ms"))
    )
    new = known.filter(pl.col("new_ms") < pl.col("until_ms"))

    def step(rows: pl.LazyFrame, at: str, *, brokers: int = 0, known: int = 0) -> pl.LazyFrame:
        return rows.select(
            *_KEY,
            pl.col(at).alias("at_ms"),
            pl.lit(brokers).alias("brokers"),
            pl.lit(known).alias("known"),
        )

    steps = pl.concat(
        [
            step(apart, "begin_ms", brokers=1),
            step(apart, "end_ms", brokers=-1),
            step(new, "new_ms", known=1),
            step(new, "until_ms", known=-1),
        ]
    )
    counted = (
        steps.group_by(*_KEY, "at_ms")
        .agg(pl.col("brokers").sum(), pl.col("known").sum())
        .sort(*_KEY, "at_ms")
        .with_columns(
            pl.col("brokers").cum_sum().over(_KEY),
            pl.col("known").cum_sum().over(_KEY),
            (pl.col("at_ms").shift(-1).over(_KEY) - pl.col("at_ms")).alias("alone_ms"),
        )
    )
    return (
        counted.filter((pl.col("brokers") == 1) & (pl.col("known") > 0))
        .group_by(*_KEY)
        .agg(pl.col("alone_ms").sum())
    )


def _rows(states: pl.LazyFrame, hours: pl.LazyFrame) -> pl.LazyFrame:
    topic = ("cluster", "topic")
    columns = (*topic, *STATE)
    differs = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(name).shift().over(topic)) for name in STATE
    )
    compared = states.sort(*_KEY).with_columns(
        pl.col("hour").shift(-1).over(topic).alias("next_hour"),
        pl.when(pl.col("hour").shift().over(topic).is_null())
        .then(pl.col("brokers") > 0)
        .otherwise(differs)
        .alias("changed"),
    )
    worth = pl.when("is_first").then("existed").otherwise("changed")
    noted = compared.filter(worth | (pl.col("single_ms") != pl.col("lasting_ms")))
    last = pl.min_horizontal(pl.col("next_hour") - 1, pl.col("last_hour"))
    midnights = (
        compared.filter(pl.col("brokers") > 0)
        .with_columns(pl.int_ranges((pl.col("hour") // 24 + 1) * 24, last + 1, 24).alias("hour"))
        .explode("hour", empty_as_null=False)
        .drop("known_ms")
        .join(hours.select("hour", "known_ms"), on="hour")
    )
    single = pl.col("writable_brokers") == 1
    known_ms = pl.when(single).then(pl.col("known_ms")).otherwise(0)
    rows = pl.concat(
        [
            noted.select("hour", *columns, "single_ms"),
            midnights.select("hour", *columns, known_ms.alias("single_ms")),
        ]
    )
    return rows.with_columns(
        (pl.col("hour") // 24 * DAY_MS).alias("day"),
        (pl.col("hour") * HOUR_MS).alias("hour_at"),
        single.alias("single_broker"),
        (pl.col("single_ms") / 1000).alias("single_broker_s"),
    )
