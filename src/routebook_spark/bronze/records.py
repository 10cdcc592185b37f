"""Lines of sealed segments become typed events, or rows of the quarantine.

    lines = lines_of(texts, segments, now_ms=...)
    events_of(lines)           those without a problem
    quarantine_of(lines, at)   the others, as they are

A line has ``uri`` and ``path`` (its file, as Spark and as people write it), ``raw``, ``line`` (a
LINE), ``segment``, ``manifest``, ``problem`` (null, or why it is bad) and ``again`` (the record is
there already). Nothing here shuffles except ``compared``, for segments with sequence numbers that
others have as well.
"""

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from routebook_spark import schemas
from routebook_spark.bronze.checks import is_known, line_problem
from routebook_spark.schemas import WITNESS

_READING = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
_LISTS = ArrayType(ArrayType(StringType()))
_COMPARED = ("hash", "wall_ms", "mono_ms", "type")
_OF_A_MANIFEST = ("fleet", "node", "incarnation", "first_seq", "last_seq", "sealed_at_ms")


def lines_of(texts: DataFrame, segments: DataFrame, *, now_ms: int) -> DataFrame:
    """``texts`` has ``uri`` and ``value``; ``segments`` is small and has each ``uri`` once."""
    read = texts.select(
        "uri",
        F.col("value").alias("raw"),
        F.from_json("value", schemas.LINE, _READING).alias("line"),
    )
    manifests = segments.select(
        "uri", "path", "segment", F.struct(*_OF_A_MANIFEST).alias("manifest")
    )
    return read.join(F.broadcast(manifests), "uri").select(
        "*",
        line_problem(F.col("line"), F.col("manifest"), now_ms=now_ms).alias("problem"),
        F.lit(False).alias("again"),
    )


def compared(lines: DataFrame, known: DataFrame) -> DataFrame:
    """``lines`` beside ``known`` events, and beside each other.

    The same record (witness, number and hash) is there ``again``. Another one of the same number is
    a problem: two nodes have one id. What is known is believed, then what was sealed first. Where
    one of two has no hash they are compared by their times and types.
    """
    known = known.select(
        *WITNESS,
        "seq",
        F.struct(*_COMPARED).alias("known_as"),
        F.col("segment").alias("known_in"),
    )
    good = lines.where(F.col("problem").isNull()).withColumns(
        {
            **{name: F.col(f"manifest.{name}") for name in WITNESS},
            "seq": F.col("line.seq"),
            "itself": F.struct(*(F.col(f"line.{name}").alias(name) for name in _COMPARED)),
        }
    )
    in_order = Window.partitionBy(*WITNESS, "seq").orderBy("manifest.sealed_at_ms", "uri")
    is_known = F.col("known_as").isNotNull()
    judged = good.join(known, [*WITNESS, "seq"], "left").withColumns(
        {
            "fresh": ~is_known & (F.row_number().over(in_order) == 1),
            "believed": F.coalesce("known_as", F.first("itself").over(in_order)),
            "believed_in": F.when(is_known, F.col("known_in")).otherwise(
                F.first("segment").over(in_order)
            ),
        }
    )
    same = _is_same(F.col("itself"), F.col("believed"))
    twice = F.concat(
        F.lit("node id used twice: "), "believed_in", F.lit(" has another record of this number")
    )
    verdicts = {"again": ~F.col("fresh") & same, "problem": F.when(~F.col("fresh") & ~same, twice)}
    columns = lines.columns
    bad = lines.where(F.col("problem").isNotNull())
    return judged.withColumns(verdicts).select(*columns).union(bad.select(*columns))


def _is_same(one: Column, other: Column) -> Column:
    by_content = (
        one["wall_ms"].eqNullSafe(other["wall_ms"])
        & one["mono_ms"].eqNullSafe(other["mono_ms"])
        & one["type"].eqNullSafe(other["type"])
    )
    return F.coalesce(one["hash"] == other["hash"], by_content)


def events_of(lines: DataFrame) -> DataFrame:
    """The columns of ``events``, in the order of ``lines``."""
    line, data = F.col("line"), F.col("line.data")
    at = F.timestamp_millis(line["wall_ms"])
    made = {
        "day": F.to_date(at),
        "fleet": F.col("manifest.fleet"),
        "incarnation": F.col("manifest.incarnation"),
        "at": at,
        "data": _data(line["type"], data),
        "raw": F.when(~is_known(line["type"]), F.col("raw")),
        "segment": F.col("segment"),
    }
    as_they_are = set(schemas.LINE.names)
    columns = [
        made[name] if name in made else line[name] if name in as_they_are else data[name]
        for name in schemas.EVENTS.names
    ]
    named = [column.alias(name) for column, name in zip(columns, schemas.EVENTS.names, strict=True)]
    return lines.where(F.col("problem").isNull() & ~F.col("again")).select(*named)


def quarantine_of(lines: DataFrame, at: datetime) -> DataFrame:
    """The columns of ``quarantine``; ``at`` is when it was found."""
    return lines.where(F.col("problem").isNotNull()).select(
        "manifest.fleet",
        F.coalesce("line.node", "manifest.node").alias("node"),
        "manifest.incarnation",
        F.col("line.seq").alias("seq"),
        F.col("problem").alias("reason"),
        "raw",
        "segment",
        "path",
        F.lit(at).alias("at"),
    )


def counted(lines: DataFrame) -> DataFrame:
    """How many lines of each file are good, bad and why, or there again."""
    return lines.groupBy("uri", "problem", "again").agg(F.count("*").alias("lines"))


def _data(kind: Column, data: Column) -> Column:
    """Members that mean something else in different events find their own columns."""
    asked = kind == "RouteQueries"
    queries = F.transform(
        F.from_json(data["topics"], _LISTS),
        lambda query: F.struct(
            query[0].alias("topic"),
            *(
                query[place].cast("long").alias(name)
                for place, name in enumerate(("known", "unknown", "not_ready"), start=1)
            ),
        ),
    )
    made = {
        "topic_count": F.when(~asked, data["topics"].try_cast("long")),
        "queries": F.when(asked, queries),
    }
    names = [field.name for field in schemas.EVENTS["data"].dataType]  # type: ignore[attr-defined]
    return F.struct(*((made[n] if n in made else data[n]).alias(n) for n in names))
