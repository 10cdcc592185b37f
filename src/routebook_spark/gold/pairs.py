"""What several nodes say of one thing, side by side on one clock.

A claim is a text: what a node says of something from ``at_ms`` on. All claims about one thing are
walked through once, in the order of time, with what each node says carried along: the rows are as
many as the claims, and two nodes are put against each other only where they differ.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import combinations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.clocks import DAY_MS
from routebook_spark.gold.witnesses import name_of

ABSENT = "null"
"""The claim that there is no such thing, and what stands before the first claim."""

UNSEEN_ENDS = ("node_restarted", "lost_track")
"""Causes of ends that nobody saw: what ended so was still there at its last millisecond."""

LAST_MS = 253_402_300_800_000
"""The end of the year 9999: that of what has not ended."""

UNCERTAINTY_MS = 1000
"""Of a clock that was never compared with others."""

PAIR = ("node_a", "node_b")


Fleets = Mapping[str, Sequence[str]]
"""The fleets in which there are nodes of a name, by that name in order."""


def nodes_of_fleets(coverage: DataFrame) -> Fleets:
    # Put together here: of rows that the driver holds no job is made.
    found: dict[str, set[str]] = {}
    for row in coverage.select("node", "fleet").collect():
        found.setdefault(row.node, set()).add(row.fleet)
    return {name: sorted(found[name]) for name in sorted(found)}


# -- which days


def first_touched(skew: DataFrame, day: date) -> date:
    """The first day, on the common clock, that records of ``day`` and later ones can change.

    A clock that is ahead makes things look later than they were, and what belongs together may
    have begun before midnight.
    """
    return day - timedelta(days=1 + _days_off(skew, ahead=True))


def first_read(skew: DataFrame, day: date) -> date:
    """The first day, on the clocks of the nodes, of rows that matter to ``day`` on the common one.

    There is a whole day in it for what is looked back to.
    """
    return day - timedelta(days=2 + _days_off(skew, ahead=False))


def _days_off(skew: DataFrame, *, ahead: bool) -> int:
    known = [row.offset_ms for row in skew.select("offset_ms").collect() if row.offset_ms]
    most = max((offset if ahead else -offset for offset in known), default=0)
    return int(max(most, 0)) // DAY_MS


# -- claims


def side_by_side(claims: DataFrame, nodes: Fleets, *, about: Sequence[str]) -> DataFrame:
    """One row for each instant at which a node began to say something of one thing.

    ``says`` are the claims from ``at_ms`` to ``until_ms``, in the order of ``nodes``, and
    ``then_says`` those after it, null when nothing follows. Nodes of other fleets say null. What
    was said and taken back within one millisecond is left out.
    """
    in_order = Window.partitionBy(*about).orderBy("at_ms", "node", "seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    said = [
        F.when(F.col("fleet").isin(*fleets), F.coalesce(_last_of(node).over(so_far), F.lit(ABSENT)))
        for node, fleets in nodes.items()
    ]
    instants = claims.select(
        *about,
        "at_ms",
        F.lead("at_ms", 1, LAST_MS).over(in_order).alias("until_ms"),
        F.array(*said).alias("says"),
    ).where("until_ms > at_ms")
    in_time = Window.partitionBy(*about).orderBy("at_ms")
    return instants.withColumn("then_says", F.lead("says").over(in_time))


def _last_of(node: str) -> Column:
    return F.last(F.when(F.col("node") == node, F.col("claim")), ignorenulls=True)


def in_pairs(instants: DataFrame, nodes: Fleets, *, about: Sequence[str]) -> DataFrame:
    """Each of ``instants`` for each two nodes: what ``a`` and ``b`` say, ``then_a``, ``then_b``."""
    names = list(nodes)
    pairs = F.array(
        *(
            F.struct(
                F.lit(names[one]).alias("node_a"),
                F.lit(names[other]).alias("node_b"),
                F.col("says")[one].alias("a"),
                F.col("says")[other].alias("b"),
                F.col("then_says")[one].alias("then_a"),
                F.col("then_says")[other].alias("then_b"),
            )
            for one, other in combinations(range(len(names)), 2)
            if set(nodes[names[one]]) & set(nodes[names[other]])
        )
    )
    return instants.select(
        *about, F.col("at_ms").alias("from_ms"), F.col("until_ms").alias("to_ms"), F.inline(pairs)
    )


# -- what is known, and how well


def known_together(spans: DataFrame) -> DataFrame:
    """When both of two nodes of a fleet knew: ``known_from_ms`` to ``known_to_ms``.

    ``goes_on``: nothing ended it, there just are no later records yet. ``spans`` is coverage on the
    common clock, without what cannot be compared: as far as anybody can tell, nodes did not know at
    the same time then.
    """
    end = F.struct((F.col("to_ms") + 1).alias("to_ms"), F.col("to_seq").isNull().alias("goes_on"))
    a, b = (
        spans.select(
            "fleet",
            F.col("node").alias(f"node_{x}"),
            F.col("from_ms").alias(f"from_{x}"),
            end.alias(f"end_{x}"),
        )
        for x in "ab"
    )
    both = (F.col("from_a") < F.col("end_b.to_ms")) & (F.col("from_b") < F.col("end_a.to_ms"))
    pairs = (F.col("node_a") < F.col("node_b")) & (name_of("node_a") != name_of("node_b"))
    return (
        a.join(F.broadcast(b), "fleet")
        .where(pairs & both)
        .select(
            "fleet",
            *PAIR,
            F.greatest("from_a", "from_b").alias("known_from_ms"),
            F.least("end_a", "end_b")["to_ms"].alias("known_to_ms"),
            F.least("end_a", "end_b")["goes_on"].alias("goes_on"),
        )
    )


def with_uncertainty(rows: DataFrame, skew: DataFrame, *nodes: str, at_ms: str) -> DataFrame:
    """``rows`` with ``uncertainty_ms``: the sum of those of the clocks of ``nodes`` at ``at_ms``.

    It is that of the day, or of the last day before it that has one; nothing where there is no
    node.
    """
    known = skew.where(F.col("uncertainty_ms").isNotNull())
    days = known.select("fleet", "node", F.struct("day", "uncertainty_ms").alias("day"))
    by_node = days.groupBy("fleet", "node").agg(F.array_sort(F.collect_list("day")).alias("days"))
    day = F.to_date(F.timestamp_millis(at_ms))
    total = F.lit(0)
    for name in nodes:
        measured = by_node.select(
            "fleet", F.col("node").alias(name), F.col("days").alias(f"{name}_days")
        )
        rows = rows.join(F.broadcast(measured), ["fleet", name], "left")
        until_then = F.filter(f"{name}_days", lambda each: each["day"] <= day)
        ms = F.try_element_at(until_then, F.lit(-1))["uncertainty_ms"]
        total += F.when(F.col(name).isNotNull(), F.coalesce(ms, F.lit(UNCERTAINTY_MS))).otherwise(0)
    return rows.withColumn("uncertainty_ms", total.cast("long")).drop(
        *(f"{name}_days" for name in nodes)
    )
