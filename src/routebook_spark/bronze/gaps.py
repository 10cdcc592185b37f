"""Gaps: numbers for which there is no record, and what the journal itself says it lost.

    missing   records are not there: a segment was not delivered, or they are in quarantine
    killed    a node was not stopped in order; numbers leap, and nobody knows what was not written
    lost      a node had no room for records, and counted them (RecordsLost)

Holes between segments are found by what manifests say, on the driver: there are few. Events are
asked for the rest: what they say of losses, and which numbers are left out inside of segments that
are odd, because they have fewer records than numbers or some of them are in quarantine.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS
from routebook_spark.witnesses import Witness

MISSING, KILLED, LOST = "missing", "killed", "lost"


class Span(NamedTuple):
    """The numbers of a segment, and the times of its first and last record."""

    witness: Witness
    first_seq: int
    last_seq: int
    first_ms: int
    last_ms: int


class Hole(NamedTuple):
    """There are records ``after_seq`` and ``before_seq``, or there could be, and none between."""

    fleet: str
    node: str
    incarnation: str
    after_seq: int
    before_seq: int
    from_ms: int | None
    to_ms: int | None


class Gap(NamedTuple):
    """A row of the table; ``missing`` None when nobody knows how many."""

    fleet: str
    node: str
    incarnation: str
    after_seq: int
    before_seq: int
    missing: int | None
    kind: str
    from_ms: int | None
    to_ms: int | None


def holes_between(spans: Iterable[Span]) -> Iterator[Hole]:
    """Spans may overlap. What is before the first of a witness is nobody's loss."""
    last: Span | None = None
    for span in sorted(spans):
        if last is None or span.witness != last.witness:
            last = span
            continue
        if span.first_seq > last.last_seq + 1:
            yield Hole(*span.witness, last.last_seq, span.first_seq, last.last_ms, span.first_ms)
        if span.last_seq > last.last_seq:
            last = span


def gaps_of(holes: Iterable[Hole], losses: Iterable[Gap]) -> list[Gap]:
    """``holes``, as far as ``losses``, which events tell of, do not explain them; and those.

    A hole before a record that tells of a kill is its leap if the last record found then is the one
    before the hole. If it is a later one, those up to it are missing.
    """
    told = {(*loss[:3], loss.before_seq, loss.kind): loss for loss in losses}
    gaps = []
    for hole in set(holes):
        key = (*hole[:3], hole.before_seq, KILLED)
        leap = told.get(key)
        found_seq = hole.before_seq - 1 if leap is None else leap.after_seq
        if leap is not None:
            told[key] = leap._replace(from_ms=hole.from_ms)
        if leap is None or found_seq != hole.after_seq:
            missing = max(found_seq - hole.after_seq, 0)
            gaps.append(Gap(*hole[:5], missing, MISSING, hole.from_ms, hole.to_ms))
    return sorted([*gaps, *told.values()], key=lambda gap: (*gap[:3], gap.before_seq, gap.kind))


def told_losses(events: DataFrame) -> DataFrame:
    """What events say was lost, as Gaps; since when a node was dead they do not know."""
    killed = F.col("type") == "JournalRecovered"
    return events.where(F.col("type").isin("JournalRecovered", "RecordsLost")).select(
        *WITNESS,
        F.when(killed, F.col("data.last_seq")).otherwise(F.col("seq") - 1).alias("after_seq"),
        F.col("seq").alias("before_seq"),
        F.when(~killed, F.col("data.count")).alias("missing"),
        F.when(killed, KILLED).otherwise(LOST).alias("kind"),
        F.when(~killed, F.col("data.since_ms")).alias("from_ms"),
        F.col("wall_ms").alias("to_ms"),
    )


def holes_inside(spans: DataFrame, events: DataFrame) -> DataFrame:
    """Holes of few ``spans``, as Holes; ``events`` are at least theirs."""
    spans = F.broadcast(spans.select(*WITNESS, "first_seq", "last_seq"))
    records = (
        events.select(*WITNESS, "seq", "wall_ms")
        .join(spans, list(WITNESS))
        .where(F.col("seq").between(F.col("first_seq"), F.col("last_seq")))
        .select(*WITNESS, "first_seq", "seq", "wall_ms")
    )
    # The neighbours of a segment, so that a hole at its very beginning or end shows.
    edges = spans.select(
        *WITNESS,
        "first_seq",
        F.explode(F.array(F.col("first_seq") - 1, F.col("last_seq") + 1)).alias("seq"),
        F.lit(None).cast("long").alias("wall_ms"),
    )
    in_order = Window.partitionBy(*WITNESS, "first_seq").orderBy("seq")
    return (
        records.unionByName(edges)
        .withColumns(
            {"after_seq": F.lag("seq").over(in_order), "from_ms": F.lag("wall_ms").over(in_order)}
        )
        .where("seq > after_seq + 1")
        .select(
            *WITNESS,
            "after_seq",
            F.col("seq").alias("before_seq"),
            F.coalesce("from_ms", "wall_ms").alias("from_ms"),
            F.coalesce("wall_ms", "from_ms").alias("to_ms"),
        )
    )
