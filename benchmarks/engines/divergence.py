"""divergence by DuckDB and by Polars.

What nodes say of one thing is in a column for each node, so their names are part of the question.
"""

from collections.abc import Sequence
from itertools import combinations

import polars as pl
from benchmarks.engines.claims import CLAIMS, GONE, group_claims_frame, topic_claims_frame
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import DAY_MS, Scan, kept, of_one_fleet
from benchmarks.engines.uncertainty import with_uncertainty, with_uncertainty_frame

from routebook_spark.gold.divergence import ARRIVAL_MS
from routebook_spark.gold.divergence import BROKER as FLEET_BROKER
from routebook_spark.gold.divergence import TOPIC as FLEET_TOPIC
from routebook_spark.gold.pairs import ABSENT, LAST_MS, PAIR

BROKER = of_one_fleet(FLEET_BROKER)
TOPIC = of_one_fleet(FLEET_TOPIC)
_SPAN = ("span_to_ms", "span_ending", "settled_ms")
_B, _T, _P, _S = (", ".join(names) for names in (BROKER, TOPIC, PAIR, _SPAN))

# -- by DuckDB


def _in_pairs(claims: str, about: str, nodes: Sequence[str], *, disputed: bool) -> str:
    """What two nodes say of one thing, from one claim about it to the next."""
    so_far = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    said = ", ".join(
        f"coalesce(last_value(CASE WHEN node = '{node}' THEN claim END IGNORE NULLS) OVER"
        f" (in_order {so_far}), '{ABSENT}') AS said_{number}"
        for number, node in enumerate(nodes)
    )
    then = ", ".join(
        f"lead(said_{number}) OVER in_time AS then_{number}" for number in range(len(nodes))
    )
    # Of most instants all that know say the same: they are left out before they are paired.
    there = ", ".join(f"nullif(said_{number}, '{GONE}')" for number in range(len(nodes)))
    kept_rows = f"WHERE least({there}) != greatest({there})" if disputed else ""
    pairs = ", ".join(
        f"{{'node_a': '{nodes[a]}', 'node_b': '{nodes[b]}', 'a': said_{a}, 'b': said_{b},"
        f" 'then_a': then_{a}, 'then_b': then_{b}}}"
        for a, b in combinations(range(len(nodes)), 2)
    )
    return f"""
        SELECT {about}, at_ms AS from_ms, until_ms AS to_ms, unnest([{pairs}], recursive := true)
        FROM (
            SELECT *, {then}
            FROM (
                SELECT {about}, at_ms, lead(at_ms, 1, {LAST_MS}) OVER in_order AS until_ms, {said}
                FROM {claims}
                WINDOW in_order AS (PARTITION BY {about} ORDER BY at_ms, node, seq))
            WHERE until_ms > at_ms
            WINDOW in_time AS (PARTITION BY {about} ORDER BY at_ms))
        {kept_rows}"""


def _within(pieces: str, spans: str, *, on: str) -> str:
    """The parts of ``pieces`` that lie in ``spans``."""
    return f"""
        SELECT * REPLACE (greatest(from_ms, span_from_ms) AS from_ms,
                          least(to_ms, span_to_ms) AS to_ms)
        FROM {pieces} JOIN {spans} USING ({on})
        WHERE from_ms < span_to_ms AND span_from_ms < to_ms"""


def _islands(fragments: str, about: str, *, alike: bool = False) -> str:
    """Fragments that follow on each other put together; if ``alike``, that say the same."""
    follows = "from_ms = lag(to_ms) OVER in_order"
    if alike:
        follows += " AND a = lag(a) OVER in_order AND b = lag(b) OVER in_order"
    key = f"{about}, {_P}, span_from_ms"
    return f"""
        SELECT {key}, min(from_ms) AS from_ms, max(to_ms) AS to_ms, arg_min(a, from_ms) AS a,
               arg_min(b, from_ms) AS b, arg_max_null(then_a, from_ms) AS then_a,
               arg_max_null(then_b, from_ms) AS then_b,
               {", ".join(f"any_value({name}) AS {name}" for name in _SPAN)}
        FROM (
            SELECT *, sum(apart::int) OVER (PARTITION BY {key} ORDER BY from_ms
                          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS island
            FROM (SELECT *, NOT coalesce({follows}, false) AS apart FROM {fragments}
                  WINDOW in_order AS (PARTITION BY {key} ORDER BY from_ms)))
        GROUP BY {key}, island"""


def sql(nodes: Sequence[str]) -> str:
    """For two nodes or more."""
    return f"""
    WITH {CLAIMS},
    covers AS (
        SELECT node, from_ms, {{'to_ms': to_ms + 1, 'goes_on': to_seq IS NULL}} AS until
        FROM ({on_common_clock("node_coverage", "from_at", "to_at")})),
    known AS (
        SELECT {_P}, span_from_ms, sooner.to_ms AS span_to_ms,
               CASE WHEN sooner.goes_on THEN 'open' ELSE 'unknown' END AS span_ending,
               0 AS settled_ms
        FROM (
            SELECT a.node AS node_a, b.node AS node_b, least(a.until, b.until) AS sooner,
                   greatest(a.from_ms, b.from_ms) AS span_from_ms
            FROM covers a JOIN covers b ON a.node < b.node
                AND a.from_ms < b.until.to_ms AND b.from_ms < a.until.to_ms)),
    broker_pieces AS (
        SELECT * FROM ({_in_pairs("group_claims", _B, nodes, disputed=False)})
        WHERE a != '{ABSENT}' OR b != '{ABSENT}'),
    on_brokers AS ({_within("broker_pieces", "known", on=_P)}),
    both_listed AS (SELECT * FROM on_brokers WHERE a != '{ABSENT}' AND b != '{ABSENT}'),
    both_list AS (
        SELECT {_B}, {_P}, from_ms AS span_from_ms, to_ms AS span_to_ms,
               CASE WHEN to_ms = span_to_ms THEN span_ending ELSE 'widened' END AS span_ending,
               CASE WHEN from_ms > span_from_ms THEN from_ms + {ARRIVAL_MS} ELSE 0 END
                   AS settled_ms
        FROM ({_islands("both_listed", _B)})),
    topic_pieces AS (
        SELECT * FROM ({_in_pairs("topic_claims", _T, nodes, disputed=True)})
        WHERE a != b AND a != '{GONE}' AND b != '{GONE}'),
    on_topics AS ({_within("topic_pieces", "both_list", on=f"{_B}, {_P}")}),
    settled AS (
        SELECT * FROM ({_islands("on_topics", _T, alike=True)})
        WHERE (a != '{ABSENT}' AND b != '{ABSENT}') OR to_ms > settled_ms),
    differing AS (SELECT * FROM on_brokers WHERE a != b),
    found AS (
        SELECT * FROM ({_islands("differing", _B)})
        UNION ALL BY NAME SELECT * FROM ({_islands("settled", _T)})),
    ended AS (
        SELECT *, to_ms - from_ms AS lasted_ms,
               CASE WHEN to_ms = span_to_ms THEN span_ending
                    WHEN then_a = '{GONE}' OR then_b = '{GONE}' THEN 'widened'
                    WHEN then_a IN (a, b) THEN 'converged' ELSE 'both_changed' END AS ending
        FROM found)
    SELECT *, from_ms // {DAY_MS} * {DAY_MS} AS day, from_ms AS from_at,
           CASE WHEN ending != 'open' THEN to_ms END AS to_at, lasted_ms / 1000 AS lasted_s,
           a AS view_a, b AS view_b, coalesce(to_at, {LAST_MS - 1}) AS until_day
    FROM ({with_uncertainty("ended", *PAIR, at_ms="from_ms")})
    WHERE lasted_ms > 0 AND lasted_ms >= uncertainty_ms"""


# -- by Polars


def frame(table: Scan) -> pl.LazyFrame:
    """For two nodes or more."""
    known = kept(_known_together(table))
    nodes = sorted(table("node_coverage").select("node").unique().collect()["node"])
    groups = kept(group_claims_frame(table))
    absent = pl.lit(ABSENT)
    a, b = pl.col("a"), pl.col("b")
    listed = _in_pairs_frame(_side_by_side(groups, BROKER, nodes), BROKER, nodes).filter(
        (a != absent) | (b != absent)
    )
    on_brokers = kept(_within_frame(listed, known, on=PAIR))
    topics = topic_claims_frame(table, groups)
    there = [_not_gone(f"said_{number}") for number in range(len(nodes))]
    disputed = _side_by_side(topics, TOPIC, nodes).filter(
        pl.min_horizontal(there) != pl.max_horizontal(there)
    )
    pieces = _in_pairs_frame(kept(disputed), TOPIC, nodes).filter(
        (a != b) & (a != GONE) & (b != GONE)
    )
    spans = _both_list(on_brokers.filter((a != absent) & (b != absent)))
    whole = _islands_frame(_within_frame(pieces, spans, on=(*BROKER, *PAIR)), TOPIC, alike=True)
    neither_absent = (a != absent) & (b != absent)
    settled = whole.filter(neither_absent | (pl.col("to_ms") > pl.col("settled_ms")))
    found = pl.concat(
        [_islands_frame(on_brokers.filter(a != b), BROKER), _islands_frame(settled, TOPIC)],
        how="diagonal",
    )
    return _rows(found, table)


def _not_gone(said: str) -> pl.Expr:
    return pl.when(pl.col(said) != GONE).then(said)


def _known_together(table: Scan) -> pl.LazyFrame:
    """The spans in which both of two nodes knew."""
    covers = kept(
        on_common_clock_frame(table("node_coverage"), table, "from_at", "to_at").select(
            "node",
            "from_ms",
            (pl.col("to_ms") + 1).alias("to_ms"),
            pl.col("to_seq").is_null().alias("goes_on"),
        )
    )
    one, other = (
        covers.rename({name: f"{name}_{x}" for name in ("node", "from_ms", "to_ms", "goes_on")})
        for x in "ab"
    )
    to_a, to_b = pl.col("to_ms_a"), pl.col("to_ms_b")
    goes_on = (
        pl.when(to_a == to_b)
        .then(pl.col("goes_on_a") & pl.col("goes_on_b"))
        .when(to_a < to_b)
        .then("goes_on_a")
        .otherwise("goes_on_b")
    )
    ending = pl.when(goes_on).then(pl.lit("open")).otherwise(pl.lit("unknown"))
    return (
        one.join(other, how="cross")
        .filter(
            (pl.col("node_a") < pl.col("node_b"))
            & (pl.col("from_ms_a") < to_b)
            & (pl.col("from_ms_b") < to_a)
        )
        .select(
            *PAIR,
            pl.max_horizontal("from_ms_a", "from_ms_b").alias("span_from_ms"),
            pl.min_horizontal(to_a, to_b).alias("span_to_ms"),
            ending.alias("span_ending"),
            pl.lit(0, pl.Int64).alias("settled_ms"),
        )
    )


def _both_list(listed: pl.LazyFrame) -> pl.LazyFrame:
    """The spans in which two nodes both list a broker."""
    from_ms, to_ms = pl.col("from_ms"), pl.col("to_ms")
    lasts, arrives = to_ms == pl.col("span_to_ms"), from_ms > pl.col("span_from_ms")
    ending = pl.when(lasts).then("span_ending").otherwise(pl.lit("widened"))
    return _islands_frame(listed, BROKER).select(
        *BROKER,
        *PAIR,
        from_ms.alias("span_from_ms"),
        to_ms.alias("span_to_ms"),
        ending.alias("span_ending"),
        pl.when(arrives).then(from_ms + ARRIVAL_MS).otherwise(0).alias("settled_ms"),
    )


def _side_by_side(claims: pl.LazyFrame, about: Sequence[str], nodes: Sequence[str]) -> pl.LazyFrame:
    """What all nodes say from one claim to the next: ``said_0``, and ``then_0`` after it."""
    at_ms = pl.col("at_ms")

    def said(node: str) -> pl.Expr:
        own = pl.when(pl.col("node") == node).then("claim")
        return own.forward_fill().over(about).fill_null(ABSENT)

    return (
        claims.sort(*about, "at_ms", "node", "seq")
        .with_columns(
            at_ms.shift(-1).over(about).fill_null(LAST_MS).alias("until_ms"),
            *(said(node).alias(f"said_{number}") for number, node in enumerate(nodes)),
        )
        .filter(pl.col("until_ms") > at_ms)
        .with_columns(
            pl.col(f"said_{number}").shift(-1).over(about).alias(f"then_{number}")
            for number in range(len(nodes))
        )
    )


def _in_pairs_frame(
    instants: pl.LazyFrame, about: Sequence[str], nodes: Sequence[str]
) -> pl.LazyFrame:
    return pl.concat(
        instants.select(
            *about,
            pl.col("at_ms").alias("from_ms"),
            pl.col("until_ms").alias("to_ms"),
            pl.lit(nodes[one]).alias("node_a"),
            pl.lit(nodes[other]).alias("node_b"),
            pl.col(f"said_{one}").alias("a"),
            pl.col(f"said_{other}").alias("b"),
            pl.col(f"then_{one}").alias("then_a"),
            pl.col(f"then_{other}").alias("then_b"),
        )
        for one, other in combinations(range(len(nodes)), 2)
    )


def _within_frame(pieces: pl.LazyFrame, spans: pl.LazyFrame, *, on: Sequence[str]) -> pl.LazyFrame:
    from_ms, to_ms = pl.col("from_ms"), pl.col("to_ms")
    return (
        pieces.join(spans, on=on)
        .filter((from_ms < pl.col("span_to_ms")) & (pl.col("span_from_ms") < to_ms))
        .with_columns(
            pl.max_horizontal(from_ms, "span_from_ms").alias("from_ms"),
            pl.min_horizontal(to_ms, "span_to_ms").alias("to_ms"),
        )
    )


def _islands_frame(
    fragments: pl.LazyFrame, about: Sequence[str], *, alike: bool = False
) -> pl.LazyFrame:
    key = (*about, *PAIR, "span_from_ms")
    follows = pl.col("from_ms") == pl.col("to_ms").shift().over(key)
    if alike:
        for says in (pl.col("a"), pl.col("b")):
            follows &= says == says.shift().over(key)
    return (
        fragments.sort(*key, "from_ms")
        .with_columns((~follows.fill_null(False)).alias("apart"))
        .with_columns(pl.col("apart").cum_sum().over(key).alias("island"))
        .group_by(*key, "island", maintain_order=True)
        .agg(
            pl.col("from_ms").min(),
            pl.col("to_ms").max(),
            pl.col("a", "b").first(),
            pl.col("then_a", "then_b").last(),
            pl.col(*_SPAN).first(),
        )
        .drop("island")
    )


def _rows(found: pl.LazyFrame, table: Scan) -> pl.LazyFrame:
    from_ms, to_ms = pl.col("from_ms"), pl.col("to_ms")
    then_a, then_b = pl.col("then_a"), pl.col("then_b")
    ending = (
        pl.when(to_ms == pl.col("span_to_ms"))
        .then("span_ending")
        .when((then_a == GONE) | (then_b == GONE))
        .then(pl.lit("widened"))
        .when((then_a == pl.col("a")) | (then_a == pl.col("b")))
        .then(pl.lit("converged"))
        .otherwise(pl.lit("both_changed"))
    )
    lasted_ms = to_ms - from_ms
    ended_ms = pl.when(pl.col("ending") != "open").then(to_ms)
    return (
        with_uncertainty_frame(found, table, *PAIR, at_ms="from_ms")
        .filter((lasted_ms > 0) & (lasted_ms >= pl.col("uncertainty_ms")))
        .with_columns(ending.alias("ending"))
        .with_columns(
            (from_ms // DAY_MS * DAY_MS).alias("day"),
            from_ms.alias("from_at"),
            ended_ms.alias("to_at"),
            (lasted_ms / 1000).alias("lasted_s"),
            pl.col("a").alias("view_a"),
            pl.col("b").alias("view_b"),
            ended_ms.fill_null(LAST_MS - 1).alias("until_day"),
        )
    )
