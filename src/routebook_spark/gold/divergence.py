"""Divergence: when two nodes told clients different things, about what, and how it ended.

A broker that one node lists and another does not is one divergence, however many topics it holds.
Where both list it, its addresses are compared, and the queues of each topic. Of a node that is
down or asleep, or whose records are missing, nothing is known: it disagrees with nobody. Nor does
one whose clock cannot be compared, or one of another fleet.

Times are compared on the common clock. What was over within the uncertainty of two clocks may never
have been, and is left out; so is what differed only while the topics of a broker were arriving.
"""

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.gold.clocks import on_common_clock, start_ms
from routebook_spark.gold.groups import group_claims
from routebook_spark.gold.pairs import (
    ABSENT,
    PAIR,
    UNSEEN_ENDS,
    Fleets,
    first_read,
    in_pairs,
    known_together,
    nodes_of_fleets,
    side_by_side,
    with_uncertainty,
)
from routebook_spark.gold.witnesses import (
    by_witness,
    name_of,
    not_before_known,
    with_known_ends,
)
from routebook_spark.local_frame import local_frame
from routebook_spark.tables import OPEN

ARRIVAL_MS = 5000
"""A registration is taken over in parts: a topic may come this long after its broker."""

BROKER = ("fleet", "cluster", "broker")
FLEET_PAIR = ("fleet", *PAIR)
TOPIC = (*BROKER, "topic")

_GONE = "gone"  # a claim about a topic: it went with its broker
_MARGIN_MS = 60_000  # before the first day, so that midnight is nothing special

# A span is a time in which two nodes can be compared: of a broker when both know, of its topics
# when both list it. ``span_ending`` is what its end makes of a divergence that lasted until then.
_SPAN = ("span_from_ms", "span_to_ms", "span_ending", "settled_ms")


def divergence(
    versions: DataFrame,
    sessions: DataFrame,
    coverage: DataFrame,
    skew: DataFrame,
    *,
    from_day: date | None = None,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """Divergences that ended on ``from_day`` or later, and those that have not.

    ``earlier`` is the table as it was: divergences that began before ``from_day`` are looked up in
    it. No node that was known up to an earlier day may have new records: see ``first_touched``.
    """
    versions, sessions, coverage, skew = map(by_witness, (versions, sessions, coverage, skew))
    nodes = nodes_of_fleets(coverage)
    fleets = [fleet for each in nodes.values() for fleet in each]
    if len(fleets) == len(set(fleets)):  # nobody to compare anybody with
        return local_frame(coverage.sparkSession, schemas.DIVERGENCE, [])
    since_ms = 0
    if from_day is not None:
        since_ms = start_ms(from_day) - _MARGIN_MS
        recent = F.col("until_day") >= F.lit(first_read(skew, from_day))
        versions, sessions = versions.where(recent), sessions.where(recent)
    covers = on_common_clock(coverage, skew, "from_at", "to_at").where("clock_known")
    known = known_together(covers)
    groups = group_claims(sessions, covers, skew)
    on_brokers = _broker_fragments(groups, nodes, known, since_ms)
    topics = _topic_claims(versions, groups, covers, skew)
    on_topics = _topic_fragments(topics, nodes, _both_list(on_brokers), since_ms)
    found = _islands(on_brokers.where("a != b"), BROKER).unionByName(
        _islands(on_topics, TOPIC), allowMissingColumns=True
    )
    if from_day is None or earlier is None:
        return _named(_rows(found, skew))
    before = earlier.where(F.col("until_day") >= F.lit(from_day)).withColumns(
        {"from_ms": F.unix_millis("from_at"), "to_ms": F.unix_millis("to_at")}
    )
    rows = _named(_rows(_begun_before(found, before, since_ms), skew))
    return rows.where(F.col("until_day") >= F.lit(from_day)).unionByName(
        _open_before(before, known, since_ms)
    )


def _named(rows: DataFrame) -> DataFrame:
    """``rows`` of witnesses with the names of their nodes."""
    return rows.withColumns({name: name_of(name) for name in PAIR})


# -- brokers


def _broker_fragments(
    groups: DataFrame, nodes: Fleets, known: DataFrame, since_ms: int
) -> DataFrame:
    """What two nodes say of a broker that one of them lists, while both know."""
    said = side_by_side(_not_before(groups, since_ms), nodes, about=BROKER)
    pieces = in_pairs(said, nodes, about=BROKER).where(
        (F.col("a") != ABSENT) | (F.col("b") != ABSENT)
    )
    ending = F.when(F.col("goes_on"), "open").otherwise("unknown")
    spans = known.where(F.col("known_to_ms") > since_ms).select(
        *FLEET_PAIR,
        F.greatest("known_from_ms", F.lit(since_ms)).alias("span_from_ms"),
        F.col("known_to_ms").alias("span_to_ms"),
        ending.alias("span_ending"),
        F.lit(0).alias("settled_ms"),
    )
    return _within(pieces, F.broadcast(spans), on=FLEET_PAIR)


def _both_list(on_brokers: DataFrame) -> DataFrame:
    """The spans in which two nodes both list a broker."""
    listed = _islands(on_brokers.where((F.col("a") != ABSENT) & (F.col("b") != ABSENT)), BROKER)
    lasts = F.col("to_ms") == F.col("span_to_ms")
    arrives = F.col("from_ms") > F.col("span_from_ms")
    return listed.select(
        *BROKER,
        *PAIR,
        F.col("from_ms").alias("span_from_ms"),
        F.col("to_ms").alias("span_to_ms"),
        F.when(lasts, F.col("span_ending")).otherwise("widened").alias("span_ending"),
        F.when(arrives, F.col("from_ms") + ARRIVAL_MS).otherwise(0).alias("settled_ms"),
    )


# -- topics


def _topic_claims(
    versions: DataFrame, groups: DataFrame, covers: DataFrame, skew: DataFrame
) -> DataFrame:
    """What each node says of the queues of a topic on a broker from ``at_ms`` on.

    A topic that goes with its broker is gone until either is back. That keeps millions of topics
    out of what is compared: where nodes only differ about the broker, its topics do not.
    """
    lost = groups.where(F.col("claim") == ABSENT).select(
        "node",
        *BROKER,
        F.col("seq").alias("to_seq"),
        F.col("at_ms").alias("lost_ms"),
        "back_ms",
        "back_seq",
    )
    unseen = F.col("end_cause").isin(*UNSEEN_ENDS).cast("int")
    shape = F.concat_ws(",", "read_queues", "write_queues", "perm", "flags")
    placed = with_known_ends(
        on_common_clock(versions, skew, "valid_from", "valid_to").withColumn(
            "valid_to_ms", F.col("valid_to_ms") + unseen
        ),
        covers,
    ).withColumns(
        {
            "valid_from_ms": F.coalesce(
                not_before_known("from_seq", "valid_from_ms", "valid_from_known"), F.lit(0)
            ),
            "valid_to_ms": not_before_known("to_seq", "valid_to_ms", "valid_to_known"),
        }
    )
    timed = (
        placed.join(F.broadcast(lost), ["node", *BROKER, "to_seq"], "left")
        .select(
            "node",
            *TOPIC,
            "from_seq",
            "to_seq",
            "valid_from_ms",
            F.greatest("valid_to_ms", "lost_ms").alias("valid_to_ms"),
            F.concat(F.lit("["), shape, F.lit("]")).alias("shape"),
            F.col("lost_ms").isNotNull().alias("lost"),
            "back_ms",
            "back_seq",
        )
        # Brought together once: windows over more columns than these move nothing.
        .repartition(*TOPIC)
    )
    in_order = Window.partitionBy(*TOPIC, "node").orderBy("from_seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, -1)
    # Clocks that are set back must not turn the order of records around.
    ordered = timed.withColumn(
        "from_ms",
        F.greatest("valid_from_ms", F.max(F.greatest("valid_from_ms", "valid_to_ms")).over(so_far)),
    )
    told = ordered.withColumns(
        {
            "to_ms": F.greatest("from_ms", "valid_to_ms"),
            "next_seq": F.lead("from_seq").over(in_order),
            "next_ms": F.lead("from_ms").over(in_order),
        }
    )
    ends = F.col("to_seq").isNotNull() & ~F.col("next_seq").eqNullSafe(F.col("to_seq"))
    end = F.when(F.col("lost"), _GONE).otherwise(ABSENT)
    back_ms = F.greatest("to_ms", "back_ms")
    missed = F.col("back_ms").isNotNull() & (
        F.col("next_ms").isNull() | (F.col("next_ms") > back_ms + ARRIVAL_MS)
    )
    claims = F.array(
        _claim("from_seq", F.col("from_ms"), F.col("shape")),
        F.when(ends, _claim("to_seq", F.col("to_ms"), end)),
        F.when(ends & missed, _claim("back_seq", back_ms, F.lit(ABSENT))),
    )
    return told.select("node", *TOPIC, F.inline(F.array_compact(claims)))


def _claim(seq: str, at_ms: Column, claim: Column) -> Column:
    return F.struct(F.col(seq).alias("seq"), at_ms.alias("at_ms"), claim.alias("claim"))


def _topic_fragments(
    topics: DataFrame, nodes: Fleets, spans: DataFrame, since_ms: int
) -> DataFrame:
    """Where two nodes that list a broker differ about the queues of a topic on it."""
    said = side_by_side(_not_before(topics, since_ms), nodes, about=TOPIC)
    there = F.array_remove("says", _GONE)
    disputed = said.where(F.array_min(there) != F.array_max(there))
    differ = (F.col("a") != F.col("b")) & (F.col("a") != _GONE) & (F.col("b") != _GONE)
    pieces = in_pairs(disputed, nodes, about=TOPIC).where(differ)
    whole = _islands(_within(pieces, spans, on=(*BROKER, *PAIR)), TOPIC, alike=True)
    one_absent = (F.col("a") == ABSENT) | (F.col("b") == ABSENT)
    return whole.where(~one_absent | (F.col("to_ms") > F.col("settled_ms")))


# -- pieces of time


def _not_before(claims: DataFrame, since_ms: int) -> DataFrame:
    """What was said before ``since_ms`` stands then; of each node the last of it counts."""
    return claims.withColumn("at_ms", F.greatest("at_ms", F.lit(since_ms)))


def _within(pieces: DataFrame, spans: DataFrame, *, on: tuple[str, ...]) -> DataFrame:
    """The parts of ``pieces`` that lie in ``spans``."""
    from_ms, to_ms = (
        F.greatest("from_ms", "span_from_ms"),
        F.least("to_ms", "span_to_ms"),
    )
    return (
        pieces.join(spans, list(on))
        .where((F.col("from_ms") < F.col("span_to_ms")) & (F.col("span_from_ms") < F.col("to_ms")))
        .withColumns({"from_ms": from_ms, "to_ms": to_ms})
    )


def _islands(fragments: DataFrame, about: tuple[str, ...], *, alike: bool = False) -> DataFrame:
    """Fragments that follow on each other put together: what they began with, what came after.

    If ``alike``, only those in which the same is said.
    """
    key = (*about, *PAIR, "span_from_ms")
    in_order = Window.partitionBy(*key).orderBy("from_ms")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    follows = F.col("from_ms") == F.lag("to_ms").over(in_order)
    if alike:
        for says in ("a", "b"):
            follows &= F.col(says) == F.lag(says).over(in_order)
    apart = ~F.coalesce(follows, F.lit(False))
    numbered = fragments.withColumn("apart", apart.cast("int")).withColumn(
        "island", F.sum("apart").over(so_far)
    )
    first = F.min_by(F.struct("a", "b"), "from_ms")
    last = F.max_by(F.struct("then_a", "then_b"), "from_ms")
    spans = [F.first(name).alias(name) for name in _SPAN if name != "span_from_ms"]
    return (
        numbered.groupBy(*key, "island")
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
            first.alias("first"),
            last.alias("last"),
            *spans,
        )
        .select(*about, *PAIR, "from_ms", "to_ms", "first.*", "last.*", *_SPAN)
    )


# -- rows


def _rows(found: DataFrame, skew: DataFrame) -> DataFrame:
    ending = (
        F.when(F.col("to_ms") == F.col("span_to_ms"), F.col("span_ending"))
        .when((F.col("then_a") == _GONE) | (F.col("then_b") == _GONE), "widened")
        .when(F.col("then_a").isin(F.col("a"), F.col("b")), "converged")
        .otherwise("both_changed")
    )
    lasted_ms = F.col("to_ms") - F.col("from_ms")
    measured = with_uncertainty(found, skew, *PAIR, at_ms="from_ms").where(
        (lasted_ms > 0) & (lasted_ms >= F.col("uncertainty_ms"))
    )
    lasts = F.col("ending") == "open"
    to_at = F.timestamp_millis("to_ms")
    return (
        measured.withColumn("ending", ending)
        .withColumns(
            {
                "day": F.to_date(F.timestamp_millis("from_ms")),
                "from_at": F.timestamp_millis("from_ms"),
                "to_at": F.when(~lasts, to_at),
                "lasted_s": lasted_ms / 1000,
                "view_a": F.col("a"),
                "view_b": F.col("b"),
                "until_day": F.when(lasts, F.lit(OPEN)).otherwise(F.to_date(to_at)),
            }
        )
        .select(*schemas.DIVERGENCE.fieldNames())
    )


# -- what was before


def _begun_before(found: DataFrame, before: DataFrame, since_ms: int) -> DataFrame:
    """``found`` with the true beginning of what had begun by ``since_ms``.

    That may be a little later, when a broker had just come.
    """
    settled_ms = since_ms + ARRIVAL_MS
    goes_on = F.col("to_ms").isNull() | (F.col("to_ms") > settled_ms)
    begun = before.where((F.col("from_ms") <= settled_ms) & goes_on).select(
        F.struct(*TOPIC, *PAIR).alias("key"), F.struct("from_ms", "view_a", "view_b").alias("begun")
    )
    pair = [name_of(name).alias(name) for name in PAIR]
    here = F.when(F.col("from_ms") == since_ms, F.struct(*TOPIC, *pair))
    return (
        found.withColumn("key", here)
        .join(begun, "key", "left")
        .withColumns(
            {
                "from_ms": F.coalesce("begun.from_ms", "from_ms"),
                "a": F.coalesce("begun.view_a", "a"),
                "b": F.coalesce("begun.view_b", "b"),
            }
        )
        .drop("key", "begun")
    )


def _open_before(before: DataFrame, known: DataFrame, since_ms: int) -> DataFrame:
    """Those of ``before`` that are open because a node has not been heard of since."""
    inside = (F.col("from_ms") >= F.col("known_from_ms")) & (
        F.col("from_ms") < F.col("known_to_ms")
    )
    return (
        before.where("ending = 'open'")
        .join(F.broadcast(_named(known)), list(FLEET_PAIR))
        .where(inside & (F.col("known_to_ms") <= since_ms))
        .select(*schemas.DIVERGENCE.fieldNames())
    )
