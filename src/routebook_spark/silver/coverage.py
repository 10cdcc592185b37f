"""Coverage: when the journal of a node can be believed.

It can while the node runs and all that it wrote is there. It cannot

* while the node is down: nobody was told anything by it
* from the first record that was lost, or is missing, until the whole state has been restated, or
  the node began without one; and before the first state that is known
* while it was stalled or silent, or over a time its clock left out

What is not covered is unknown, whatever sessions and routes say of it. Where a clock was set back
two rows have the same hours: these are not the same hours.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.schemas import WITNESS
from routebook_spark.silver.breaks import BREAKS, CLOCK, STALLED, clock_epochs, epoch_of
from routebook_spark.silver.intervals import until_day
from routebook_spark.silver.node_events import BREAK_RANK, FIRST, MISSING, RECORD_RANK


def node_coverage(turns: DataFrame, breaks: DataFrame, last: DataFrame) -> DataFrame:
    """All of the nodes that have ``turns``; ``last`` is the last record of each."""
    by_node = Window.partitionBy(*WITNESS).orderBy("seq", "rank")
    before = F.coalesce(F.lag("covered").over(by_node), F.lit(False))
    starts = F.col("type") == "NodeStarted"
    told = F.struct("seq", "at", _end_at().alias("end_at"), _ends().alias("ends"))
    rank = F.when(F.col("type") == STALLED, RECORD_RANK).otherwise(BREAK_RANK)
    broken = (
        breaks.where(F.col("type").isin(*BREAKS))
        .withColumn("rank", rank)
        .withColumn("breaks", F.lit(True))
    )
    points = (
        turns.withColumn("covered", F.col("running") & F.col("sure"))
        .unionByName(broken, allowMissingColumns=True)
        .withColumn("covered", F.last("covered", ignorenulls=True).over(by_node))
        .withColumn("before", before)
        .where(
            (F.col("covered") != F.col("before"))
            | (F.col("before") & (starts | F.coalesce("breaks", F.lit(False))))
        )
        .withColumn("end", F.lead(told).over(by_node))
        .where("covered AND (end IS NULL OR seq < end.seq)")
    )
    from_at = F.coalesce("again_at", "at")
    last_at = last.select(*WITNESS, F.col("at").alias("last_at"))
    goes_on = F.col("end").isNull()
    to_at = F.when(goes_on, F.col("last_at")).otherwise(F.col("end.end_at"))
    return (
        points.join(F.broadcast(last_at), list(WITNESS), "left")
        .join(F.broadcast(clock_epochs(breaks)), list(WITNESS), "left")
        .select(
            *WITNESS,
            F.col("seq").alias("from_seq"),
            F.col("end.seq").alias("to_seq"),
            from_at.alias("from_at"),
            F.greatest(from_at, to_at).alias("to_at"),
            _begins().alias("begins"),
            F.col("end.ends").alias("ends"),
            epoch_of(F.col("seq")).alias("clock_epoch"),
            until_day(F.col("end.end_at"), F.col("end.at")).alias("until_day"),
        )
        .select(*schemas.NODE_COVERAGE.names)
    )


def _begins() -> Column:
    cold = F.when(F.col("brokers") == 0, "started_cold").otherwise("started_warm")
    return (
        F.when(F.col("type") == FIRST, "first_record")
        .when(F.col("type") == "NodeStarted", cold)
        .when(F.col("type") == STALLED, "woke")
        .when(F.col("type") == CLOCK, "clock_set")
        .when(F.col("breaks"), "heard_again")
        .otherwise("restated")
    )


def _ends() -> Column:
    return (
        F.when(F.col("type") == "NodeStopped", "stopped")
        .when(F.col("type") == "RecordsLost", "records_lost")
        .when(F.col("type") == MISSING, "records_missing")
        .when(F.col("breaks"), F.col("type"))
        .otherwise("killed")
    )


def _end_at() -> Column:
    """When it was last to be believed, by what the event that ends it says."""
    return F.when(F.col("type") == "NodeStopped", F.col("at")).otherwise(
        F.coalesce("before_at", "loss_at")
    )
