"""Convergence: one change in the world, and how long it took until all nodes showed it.

A change is a broker process that came or left, or topics whose queues changed on a broker. It is
the same change if a node shows the same within ``WINDOW_MS`` of another. Of the other nodes those
count that knew all the while: from the first sighting to their own, or to the end of the window.
Nodes are those of one fleet whose clocks can be compared.

``nodes_knowing`` should have shown a change and ``nodes`` did: where these are fewer, it never came
to all, and has no ``lag_ms``.
"""

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.gold.change_sightings import (
    JOINED,
    LEFT,
    SUBJECT,
    TOPICS,
    WINDOW_MS,
    process_sightings,
    topic_sightings,
)
from routebook_spark.gold.clocks import DAY_MS, on_common_clock
from routebook_spark.gold.pairs import first_read, nodes_of_fleets, with_uncertainty
from routebook_spark.gold.witnesses import by_witness, name_of
from routebook_spark.local_frame import local_frame

LATE_MS = DAY_MS
"""A node that shows what another one showed up to this long ago is late: that is no new change."""

CHANGE = (*SUBJECT, "kind", "number")


def convergence(
    sessions: DataFrame,
    events: DataFrame,
    coverage: DataFrame,
    skew: DataFrame,
    *,
    from_day: date | None = None,
) -> DataFrame:
    """Changes first shown on ``from_day`` or later."""
    sessions, events, coverage, skew = map(by_witness, (sessions, events, coverage, skew))
    nodes = list(nodes_of_fleets(coverage))
    if not nodes:
        return local_frame(coverage.sparkSession, schemas.CONVERGENCE, [])
    if from_day is not None:
        read = F.lit(first_read(skew, from_day))
        sessions = sessions.where(F.col("until_day") >= read)
        events = events.where(F.col("day") >= read)
    sightings = process_sightings(sessions, skew, nodes).unionByName(topic_sightings(events, skew))
    of_known = sightings.where(F.col("node").isin(nodes))
    found = _rows(_seen(_changes(of_known, nodes), coverage, skew), skew)
    rows = found.withColumns({name: name_of(name) for name in ("first_node", "last_node")})
    return rows if from_day is None else rows.where(F.col("day") >= F.lit(from_day))


def _changes(sightings: DataFrame, nodes: list[str]) -> DataFrame:
    """One row for each change: how it began, and ``seen``, when each node showed it."""
    in_order = Window.partitionBy(*SUBJECT).orderBy("at_ms", "node", "seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    again = F.lag("state").over(in_order) == F.col("state")
    at_once = F.col("at_ms") - F.lag("at_ms").over(in_order) <= WINDOW_MS
    begins = ~F.coalesce(again & at_once, F.lit(False))
    numbered = (
        sightings.repartition(*SUBJECT)
        .withColumn("late", _late(nodes))
        .withColumn("begins", begins.cast("int"))
        .withColumn("number", F.sum("begins").over(so_far))
    )
    order = F.struct("at_ms", "node", "seq")
    first = F.struct("at_ms", "node", "late", "listing")
    told = F.when(F.col("changes"), F.struct("topic", "what"))
    return (
        numbered.groupBy(*CHANGE)
        .agg(
            F.min_by(first, order).alias("first"),
            F.min_by(told, F.when(F.col("changes"), order)).alias("told"),
            F.min("taken_back").alias("taken_back"),
            F.array(*(_first_of(node) for node in nodes)).alias("seen"),
        )
        .where("told IS NOT NULL AND NOT first.late")
        .select(
            *CHANGE,
            "told.*",
            "taken_back",
            "seen",
            F.col("first.at_ms").alias("first_ms"),
            F.col("first.node").alias("first_node"),
            F.col("first.listing").alias("listing"),
        )
    )


def _late(nodes: list[str]) -> Column:
    """Whether another node has shown the same more often within the last day."""
    last_day = Window.partitionBy(*SUBJECT, "state").orderBy("at_ms").rangeBetween(-LATE_MS, -1)
    shown = [
        F.count(F.when((F.col("node") == node) & F.col("changes"), 1)).over(last_day)
        for node in nodes
    ]
    own = F.coalesce(
        *(F.when(F.col("node") == node, count) for node, count in zip(nodes, shown, strict=True))
    )
    return (F.col("kind") == TOPICS) & (F.array_max(F.array(*shown)) > own)


def _first_of(node: str) -> Column:
    shown_ms = F.min(F.when(F.col("node") == node, F.col("at_ms")))
    return F.struct(F.lit(node).alias("node"), shown_ms.alias("shown_ms"))


def _seen(changes: DataFrame, coverage: DataFrame, skew: DataFrame) -> DataFrame:
    """``changes`` with how many nodes showed them, of how many that knew, and who was the last."""
    timed = on_common_clock(coverage, skew, "from_at", "to_at").where("clock_known")
    covers = timed.select(
        F.col("fleet").alias("known_fleet"), F.col("node").alias("known_node"), "from_ms", "to_ms"
    )
    first_ms = F.col("first_ms")
    shown_ms = F.col("seen.shown_ms")
    each = changes.withColumn("seen", F.explode("seen")).select(
        *(name for name in changes.columns if name != "seen"),
        "seen.node",
        F.when(shown_ms <= first_ms + WINDOW_MS, shown_ms).alias("shown_ms"),
    )
    at_first = (F.col("from_ms") <= first_ms) & (F.col("to_ms") >= first_ms)
    same = (F.col("fleet") == F.col("known_fleet")) & (F.col("node") == F.col("known_node"))
    known = each.join(F.broadcast(covers), same & at_first, "left")
    knew = F.col("known_node").isNotNull()
    until_ms = F.coalesce("shown_ms", first_ms + WINDOW_MS)
    is_first = F.col("node") == F.col("first_node")
    listed = F.array_contains("listing", F.col("node"))
    counts = is_first | (knew & (F.col("to_ms") >= until_ms))
    shows = counts & F.col("shown_ms").isNotNull()
    could = shows | (counts & ((F.col("kind") != LEFT) | listed))
    had_it = knew & listed & ~is_first & (F.col("kind") == JOINED)
    about = [name for name in changes.columns if name not in (*CHANGE, "seen")]
    return (
        known.groupBy(*CHANGE)
        .agg(
            *(F.first(name).alias(name) for name in about),
            F.size(F.collect_set(F.when(shows, F.col("node")))).alias("nodes"),
            F.size(F.collect_set(F.when(could, F.col("node")))).alias("nodes_knowing"),
            F.max(F.when(shows, F.struct("shown_ms", "node"))).alias("last"),
            F.max(F.coalesce(had_it, F.lit(False))).alias("known_already"),
        )
        .where("NOT known_already")
        # One that some nodes saw leave, and come back at once, has not left.
        .where((F.col("kind") != LEFT) | (F.expr("nodes = nodes_knowing")) | ~F.col("taken_back"))
    )


def _rows(seen: DataFrame, skew: DataFrame) -> DataFrame:
    several = F.col("nodes_knowing") > 1
    complete = several & (F.col("nodes") == F.col("nodes_knowing"))
    lag_ms = F.col("last.shown_ms") - F.col("first_ms")
    known = seen.withColumns(
        {
            "last_node": F.when(complete, F.col("last.node")),
            "last_at": F.when(complete, F.timestamp_millis("last.shown_ms")),
            "lag_ms": F.when(complete, lag_ms),
            "within_1s": F.when(several, complete & (lag_ms <= 1000)),
            "within_30s": F.when(several, complete & (lag_ms <= 30_000)),
            "first_at": F.timestamp_millis("first_ms"),
            "day": F.to_date(F.timestamp_millis("first_ms")),
            "nodes": F.col("nodes").cast("long"),
            "nodes_knowing": F.col("nodes_knowing").cast("long"),
        }
    )
    measured = with_uncertainty(known, skew, "first_node", "last_node", at_ms="first_ms")
    return measured.select(*schemas.CONVERGENCE.fieldNames())
