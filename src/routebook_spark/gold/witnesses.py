"""Witnesses: nodes that tell of the same brokers, each in the time it knew of.

One name may stand for several witnesses, one after the other: a node whose disk was replaced has
records with numbers of their own, and knows nothing of what it knew before. Inside the tables of
gold that compare nodes, ``node`` is the name of a witness, which no other of its fleet has.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS

NODE = ("fleet", "node")

_BETWEEN = "\x00"  # the name of a node and its incarnation; no name has it


def by_witness(rows: DataFrame) -> DataFrame:
    """``rows`` with the name of their witness for ``node``, and without ``incarnation``."""
    name = F.concat("node", F.lit(_BETWEEN), F.coalesce("incarnation", F.lit("")))
    return rows.withColumn("node", name).drop("incarnation")


def name_of(witness: Column | str) -> Column:
    """The name of the node."""
    return F.substring_index(witness, _BETWEEN, 1)


def pauses(coverage: DataFrame) -> DataFrame:
    """From when to when witnesses were none between two stretches of coverage, and why.

    ``deaf_seq`` is the record that showed it, ``deaf_to`` when they were witnesses again; when it
    began, where that is not known.
    """
    in_order = Window.partitionBy(*WITNESS).orderBy("from_seq")
    again_at = F.lead("from_at").over(in_order)
    return coverage.select(
        *WITNESS,
        F.col("to_seq").alias("deaf_seq"),
        F.unix_millis("to_at").alias("deaf_from_ms"),
        F.unix_millis(F.coalesce(again_at, F.col("to_at"))).alias("deaf_to_ms"),
        F.col("ends").alias("deaf_why"),
    ).where("deaf_seq IS NOT NULL")


def with_known_ends(rows: DataFrame, known: DataFrame) -> DataFrame:
    """``rows`` of witnesses with ``known_ends``: where what ``known`` says of them ended.

    ``known`` is coverage on the common clock, without what cannot be compared.
    """
    end = F.struct(F.col("to_seq").alias("seq"), (F.col("to_ms") + 1).alias("ms"))
    ends = (
        known.where("to_seq IS NOT NULL")
        .groupBy(*NODE)
        .agg(F.collect_list(end).alias("known_ends"))
    )
    return rows.join(F.broadcast(ends), list(NODE), "left")


def not_before_known(seq: str, at_ms: str, at_known: str) -> Column:
    """When what record ``seq`` said at ``at_ms`` took effect, among what can be compared.

    Not before the end of what had been known until then: a clock that was set since must not let a
    node say before what it said after. Null where the clock of the record cannot be compared, and
    nothing had been known before. Uses ``known_ends``.
    """
    before = F.filter("known_ends", lambda end: end["seq"] <= F.col(seq))
    floor_ms = F.array_max(F.transform(before, lambda end: end["ms"]))
    return F.greatest(F.when(F.col(at_known), F.col(at_ms)), floor_ms)


def known_parts(
    rows: DataFrame, coverage: DataFrame, *, since: str, until: str, seqs: tuple[str, str]
) -> DataFrame:
    """The parts of intervals that their node bears witness to, each in one stretch of coverage.

    What lies where is told by the numbers of records (``seqs``), not by clocks: an interval that
    lasts over a stall, a silence or a jump of the clock is cut there, and its parts are never
    joined. ``begins_here`` and ``ends_here``: whether the interval itself does so in this part.
    """
    first, last = (F.col(f"row.{name}") for name in seqs)
    from_seq, to_seq = F.col("cover.from_seq"), F.col("cover.to_seq")
    same = [F.col(f"row.{name}") == F.col(f"cover.{name}") for name in NODE]
    meets = (to_seq.isNull() | (first < to_seq)) & (last.isNull() | (last > from_seq))
    begins_here = first >= from_seq
    ends_here = last.isNotNull() & (to_seq.isNull() | (last < to_seq))
    others = [F.col(f"row.{name}") for name in rows.columns if name not in (since, until)]
    known = coverage.select(*NODE, "from_seq", "to_seq", "from_at", "to_at")
    return (
        rows.alias("row")
        .join(F.broadcast(known).alias("cover"), same)
        .where(meets)
        .select(
            *others,
            F.when(begins_here, F.col(f"row.{since}"))
            .otherwise(F.col("cover.from_at"))
            .alias(since),
            F.when(ends_here, F.col(f"row.{until}")).otherwise(F.col("cover.to_at")).alias(until),
            begins_here.alias("begins_here"),
            ends_here.alias("ends_here"),
        )
    )
