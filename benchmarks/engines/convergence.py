"""convergence by DuckDB and by Polars."""

import polars as pl
from benchmarks.engines.change_sightings import (
    SIGHTINGS,
    TIMED_SESSIONS,
    moves_frame,
    sightings_frame,
)
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import DAY_MS, Scan, kept, of_one_fleet
from benchmarks.engines.uncertainty import with_uncertainty, with_uncertainty_frame

from routebook_spark.gold.change_sightings import JOINED, LEFT, TOPICS, WINDOW_MS
from routebook_spark.gold.change_sightings import SUBJECT as FLEET_SUBJECT
from routebook_spark.gold.convergence import CHANGE as FLEET_CHANGE
from routebook_spark.gold.convergence import LATE_MS

CHANGE = of_one_fleet(FLEET_CHANGE)
SUBJECT = of_one_fleet(FLEET_SUBJECT)
_S, _C = ", ".join(SUBJECT), ", ".join(CHANGE)
_ABOUT = ("topic", "what", "taken_back", "first_ms", "first_node")

SQL = f"""
    WITH timed_sessions AS ({TIMED_SESSIONS}), {SIGHTINGS},
    covers AS ({on_common_clock("node_coverage", "from_at", "to_at")}),
    nodes AS (SELECT DISTINCT node FROM node_coverage),
    of_known AS (SELECT * FROM sightings SEMI JOIN nodes USING (node)),
    numbered AS (
        SELECT *, sum(begins::int) OVER (PARTITION BY {_S} ORDER BY at_ms, node, seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
        FROM (
            SELECT *, NOT coalesce(lag(state) OVER in_order = state
                          AND at_ms - lag(at_ms) OVER in_order <= {WINDOW_MS}, false) AS begins
            FROM of_known WINDOW in_order AS (PARTITION BY {_S} ORDER BY at_ms, node, seq))),
    all_changes AS (
        SELECT {_C}, bool_and(taken_back) AS taken_back,
               min({{'at_ms': at_ms, 'node': node, 'seq': seq, 'place': place, 'state': state}})
                   AS first,
               arg_min({{'topic': topic, 'what': what}},
                       {{'at_ms': at_ms, 'node': node, 'seq': seq}}) FILTER (changes) AS told
        FROM numbered GROUP BY {_C}),
    begun AS (
        SELECT {_C}, taken_back, told.topic AS topic, told.what AS what,
               first.at_ms AS first_ms, first.node AS first_node, first.place AS place,
               first.state AS state
        FROM all_changes WHERE told IS NOT NULL),
    late AS (
        SELECT {_C} FROM (
            SELECT {", ".join(f"begun.{name}" for name in CHANGE)}, first_node, node,
                   count(*) AS times
            FROM begun JOIN of_known ON
                {" AND ".join(f"begun.{name} = of_known.{name}" for name in SUBJECT)}
                AND begun.state = of_known.state
            WHERE begun.kind = '{TOPICS}' AND changes
                AND at_ms BETWEEN first_ms - {LATE_MS} AND first_ms - 1
            GROUP BY ALL)
        GROUP BY {_C}, first_node
        HAVING max(times) > coalesce(max(times) FILTER (node = first_node), 0)),
    changes AS (SELECT * FROM begun ANTI JOIN late USING ({_C})),
    shown AS (SELECT {_C}, node, min(at_ms) AS at_ms FROM numbered GROUP BY {_C}, node),
    each_node AS (
        SELECT changes.*, nodes.node,
               CASE WHEN at_ms <= first_ms + {WINDOW_MS} THEN at_ms END AS shown_ms,
               nodes.node = first_node AS is_first
        FROM changes CROSS JOIN nodes LEFT JOIN shown ON shown.node = nodes.node
            AND {" AND ".join(f"shown.{name} = changes.{name}" for name in CHANGE)}),
    listing AS (
        SELECT each_node.*, coalesce(moves.kind = '{JOINED}', false) AS listed
        FROM each_node ASOF LEFT JOIN moves ON
            {" AND ".join(f"each_node.{name} = moves.{name}" for name in SUBJECT)}
            AND each_node.node = moves.node AND each_node.place > moves.place),
    knowing AS (
        SELECT listing.*, covers.node IS NOT NULL AS knew,
               is_first OR coalesce(to_ms >= coalesce(shown_ms, first_ms + {WINDOW_MS}), false)
                   AS counts
        FROM listing LEFT JOIN covers ON covers.node = listing.node
            AND from_ms <= first_ms AND to_ms >= first_ms),
    seen AS (
        SELECT {_C}, {", ".join(f"any_value({name}) AS {name}" for name in _ABOUT)},
               count(DISTINCT node) FILTER (counts AND shown_ms IS NOT NULL) AS nodes,
               count(DISTINCT node) FILTER (counts AND (shown_ms IS NOT NULL
                                            OR kind != '{LEFT}' OR listed)) AS nodes_knowing,
               max({{'shown_ms': shown_ms, 'node': node}})
                   FILTER (counts AND shown_ms IS NOT NULL) AS last
        FROM knowing GROUP BY {_C}
        HAVING NOT bool_or(knew AND listed AND NOT is_first AND kind = '{JOINED}')),
    complete AS (
        SELECT *, nodes_knowing > 1 AS several, several AND nodes = nodes_knowing AS complete,
               CASE WHEN complete THEN last.node END AS last_node,
               CASE WHEN complete THEN last.shown_ms END AS last_at,
               last_at - first_ms AS lag_ms
        FROM seen WHERE kind != '{LEFT}' OR nodes = nodes_knowing OR NOT taken_back)
    SELECT *, first_ms // {DAY_MS} * {DAY_MS} AS day, first_ms AS first_at,
           CASE WHEN several THEN coalesce(lag_ms <= 1000, false) END AS within_1s,
           CASE WHEN several THEN coalesce(lag_ms <= 30000, false) END AS within_30s
    FROM ({with_uncertainty("complete", "first_node", "last_node", at_ms="first_ms")})"""


def frame(table: Scan) -> pl.LazyFrame:
    covers = kept(on_common_clock_frame(table("node_coverage"), table, "from_at", "to_at"))
    nodes = covers.select("node").unique()
    moves = kept(moves_frame(table))
    sightings = sightings_frame(table, moves).join(nodes, on="node", how="semi")
    numbered = kept(_numbered(sightings))
    changes = _changes(numbered)
    shown = numbered.group_by(*CHANGE, "node").agg(pl.col("at_ms").min().alias("shown_ms"))
    first_ms, shown_ms = pl.col("first_ms"), pl.col("shown_ms")
    each = kept(
        changes.join(nodes, how="cross")
        .join(shown, on=[*CHANGE, "node"], how="left")
        .with_columns(pl.when(shown_ms <= first_ms + WINDOW_MS).then(shown_ms).alias("shown_ms"))
    )
    return _rows(_seen(_listed(each, moves), covers), table)


def _numbered(sightings: pl.LazyFrame) -> pl.LazyFrame:
    """Sightings with the ``number`` of their change."""
    at_ms, state = pl.col("at_ms"), pl.col("state")
    again = state == state.shift().over(SUBJECT)
    at_once = at_ms - at_ms.shift().over(SUBJECT) <= WINDOW_MS
    return (
        sightings.sort(*SUBJECT, "at_ms", "node", "seq")
        .with_columns((~(again & at_once).fill_null(False)).alias("begins"))
        .with_columns(pl.col("begins").cum_sum().over(SUBJECT).alias("number"))
    )


def _changes(numbered: pl.LazyFrame) -> pl.LazyFrame:
    """One row for each change that is not late: how it began."""
    changing = pl.col("changes")
    begun = kept(
        numbered.group_by(*CHANGE, maintain_order=True)
        .agg(
            pl.col("at_ms").first().alias("first_ms"),
            pl.col("node").first().alias("first_node"),
            pl.col("place", "state").first(),
            pl.col("topic", "what").filter(changing).first(),
            pl.col("taken_back").all(),
            changing.any(),
        )
        .filter("changes")
        .drop("changes")
    )
    since_ms = pl.col("first_ms") - pl.col("at_ms")
    own = pl.col("times").filter(pl.col("node") == pl.col("first_node")).sum()
    late = (
        begun.filter(pl.col("kind") == TOPICS)
        .join(
            numbered.filter(changing).select(*SUBJECT, "state", "node", "at_ms"),
            on=[*SUBJECT, "state"],
        )
        .filter(since_ms.is_between(1, LATE_MS))
        .group_by(*CHANGE, "first_node", "node")
        .agg(pl.len().alias("times"))
        .group_by(*CHANGE)
        .agg((pl.col("times").max() > own).alias("late"))
        .filter("late")
    )
    return begun.join(late, on=CHANGE, how="anti")


def _listed(each: pl.LazyFrame, moves: pl.LazyFrame) -> pl.LazyFrame:
    """``each`` change and node; ``listed``: the node had the process before."""
    last = moves.select(*SUBJECT, "node", "place", pl.col("kind").alias("last_kind")).sort("place")
    placed = pl.col("place").is_not_null()
    found = (
        each.filter(placed)
        .sort("place")
        .join_asof(
            last,
            on="place",
            by=[*SUBJECT, "node"],
            allow_exact_matches=False,
            check_sortedness=False,
        )
    )
    both = pl.concat([found, each.filter(~placed)], how="diagonal")
    return both.with_columns((pl.col("last_kind") == JOINED).fill_null(False).alias("listed"))


def _seen(each: pl.LazyFrame, covers: pl.LazyFrame) -> pl.LazyFrame:
    first_ms, shown_ms = pl.col("first_ms"), pl.col("shown_ms")
    at_first = (pl.col("from_ms") <= first_ms) & (pl.col("to_ms") >= first_ms)
    key = [*CHANGE, "node"]
    # A node may know by several stretches at once; the longest of them tells the most.
    known = (
        each.select(*key, "first_ms")
        .join(covers.select("node", "from_ms", "to_ms"), on="node")
        .filter(at_first)
        .group_by(*key)
        .agg(pl.col("to_ms").max())
    )
    is_first = pl.col("node") == pl.col("first_node")
    knows = (pl.col("to_ms") >= shown_ms.fill_null(first_ms + WINDOW_MS)).fill_null(False)
    kind, listed, counts = pl.col("kind"), pl.col("listed"), pl.col("counts")
    shows = counts & shown_ms.is_not_null()
    could = shows | (counts & ((kind != LEFT) | listed))
    had_it = pl.col("to_ms").is_not_null() & listed & ~is_first & (kind == JOINED)
    last_ms = shown_ms.filter(shows).max()
    return (
        each.join(known, on=key, how="left")
        .with_columns((is_first | knows).alias("counts"))
        .group_by(*CHANGE)
        .agg(
            *(pl.col(name).first() for name in _ABOUT),
            shows.sum().cast(pl.Int64).alias("nodes"),
            could.sum().cast(pl.Int64).alias("nodes_knowing"),
            last_ms.alias("last_at"),
            pl.col("node").filter(shows & (shown_ms == last_ms)).max().alias("last_node"),
            had_it.any().alias("known_already"),
        )
        .filter(~pl.col("known_already"))
        .filter(
            (kind != LEFT) | (pl.col("nodes") == pl.col("nodes_knowing")) | ~pl.col("taken_back")
        )
    )


def _rows(seen: pl.LazyFrame, table: Scan) -> pl.LazyFrame:
    several = pl.col("nodes_knowing") > 1
    complete = several & (pl.col("nodes") == pl.col("nodes_knowing"))
    first_ms, lag_ms = pl.col("first_ms"), pl.col("lag_ms")

    def within(limit_ms: int) -> pl.Expr:
        return pl.when(several).then((lag_ms <= limit_ms).fill_null(False))

    known = seen.with_columns(
        pl.when(complete).then(pl.col("last_node", "last_at")),
        pl.when(complete).then(pl.col("last_at") - first_ms).alias("lag_ms"),
    ).with_columns(
        within(1000).alias("within_1s"),
        within(30_000).alias("within_30s"),
        first_ms.alias("first_at"),
        (first_ms // DAY_MS * DAY_MS).alias("day"),
    )
    return with_uncertainty_frame(known, table, "first_node", "last_node", at_ms="first_ms")
