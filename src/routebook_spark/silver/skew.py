"""Skew: how far apart the clocks of nodes are, judged by what both saw.

A broker registers with all nodes at about the same time, and its data version tells one of its
registrations from the next. Where two nodes took the same one on the same day, the difference of
their times is that of their clocks, give or take the time it took to reach them. Of several times
those count that are each other's nearest.

A day with too few of these is judged by all there were up to it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.schemas import WITNESS

FEW = 3
SPREAD = 3 * 1.4826  # of the median deviation: three standard deviations, if it were normal
LEAST_UNCERTAINTY_MS = 10
UNCERTAINTY_OF_FEW_MS = 1000
_PAIR = ("day", *WITNESS, "against")


def clock_samples(events: DataFrame) -> DataFrame:
    """Registrations that two nodes took on one day, and how much later ``node`` did."""
    taken = events.where("type = 'RegistrationCompleted' AND data.data_version IS NOT NULL")
    at_nodes = F.collect_list(F.struct("node", "incarnation", "seq", "wall_ms")).alias("there")
    registrations = taken.groupBy(
        "day",
        "fleet",
        "cluster",
        "broker",
        "addr",
        F.col("data.data_version").alias("data_version"),
    ).agg(at_nodes)
    pairs = (
        registrations.where(F.size("there") > 1)
        .select("day", "fleet", "there", F.explode("there").alias("here"))
        .select("day", "fleet", "here", F.explode("there").alias("there"))
        .where("here.node < there.node")
    )
    apart_ms = F.abs(F.col("there.wall_ms") - F.col("here.wall_ms"))
    nearest_there = Window.partitionBy(
        "fleet", "here.node", "here.incarnation", "here.seq", "there.node"
    ).orderBy(apart_ms, "there.wall_ms", "there.seq")
    nearest_here = Window.partitionBy(
        "fleet", "there.node", "there.incarnation", "there.seq", "here.node"
    ).orderBy(apart_ms, "here.wall_ms", "here.seq")
    return (
        pairs.withColumn("nearest_there", F.row_number().over(nearest_there))
        .withColumn("nearest_here", F.row_number().over(nearest_here))
        .where("nearest_there = 1 AND nearest_here = 1")
        .select(
            "day",
            "fleet",
            "there.node",
            "there.incarnation",
            F.col("here.node").alias("against"),
            (F.col("there.wall_ms") - F.col("here.wall_ms")).alias("offset_ms"),
        )
    )


def clock_skew(days: DataFrame, samples: DataFrame) -> DataFrame:
    """A row for each of ``days`` on which a node wrote something: day, node.

    It is compared with the first node, by name, that did so too. ``samples`` go back to the
    beginning.
    """
    against = F.min("node").over(Window.partitionBy("day", "fleet"))
    pairs = days.withColumn("against", against)
    counted = pairs.join(
        samples.groupBy(*_PAIR).agg(F.count("*").alias("today")), list(_PAIR), "left"
    )
    asked = counted.withColumn("few", F.coalesce(F.col("today") < FEW, F.lit(True)))
    earlier = samples.withColumnRenamed("day", "of_day")
    used = (
        asked.join(earlier, [*WITNESS, "against"], "left")
        .where(
            (F.col("of_day") == F.col("day")) | (F.col("few") & (F.col("of_day") < F.col("day")))
        )
        .select(*_PAIR, "offset_ms")
    )
    judged = _judged(used)
    itself = F.col("node") == F.col("against")
    unknown_ms = F.when(itself, 0).otherwise(UNCERTAINTY_OF_FEW_MS)
    return (
        pairs.join(judged, list(_PAIR), "left")
        .withColumns(
            {
                "offset_ms": F.coalesce("offset_ms", F.lit(0)).cast("long"),
                "uncertainty_ms": F.coalesce("uncertainty_ms", unknown_ms).cast("long"),
                "samples": F.coalesce("samples", F.lit(0)).cast("long"),
            }
        )
        .select(*schemas.CLOCK_SKEW.names)
    )


def _judged(samples: DataFrame) -> DataFrame:
    middle_ms = F.bround(F.median("offset_ms").over(Window.partitionBy(*_PAIR))).cast("long")
    deviation_ms = F.abs(F.col("offset_ms") - F.col("middle_ms"))
    few = F.count("*") < FEW
    spread_ms = F.bround(F.median(deviation_ms) * SPREAD)
    uncertainty_ms: Column = F.when(
        few, F.greatest(F.max(deviation_ms), F.lit(UNCERTAINTY_OF_FEW_MS))
    ).otherwise(F.greatest(spread_ms, F.lit(LEAST_UNCERTAINTY_MS)))
    return (
        samples.withColumn("middle_ms", middle_ms)
        .groupBy(*_PAIR)
        .agg(
            F.first("middle_ms").alias("offset_ms"),
            uncertainty_ms.cast("long").alias("uncertainty_ms"),
            F.count("*").alias("samples"),
        )
    )
