"""Coverage: when the journal of a node can be believed.

It can while the node runs and all that it wrote is there. It cannot

* while the node is down: nobody was told anything by it
* from the first record that was lost, or is missing, until the whole state has been restated, or
  the node began without one

What is not covered is unknown, whatever sessions and routes say of it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.silver.intervals import until_day
from routebook_spark.silver.marks import FIRST, MISSING


def node_coverage(turns: DataFrame, last: DataFrame) -> DataFrame:
    """All of the nodes that have ``turns``; ``last`` is the last record of each: node, seq, at."""
    by_node = Window.partitionBy("node").orderBy("seq", "rank")
    covered = F.col("running") & F.col("sure")
    before = F.coalesce(F.lag("covered").over(by_node), F.lit(False))
    starts = F.col("type") == "NodeStarted"
    told = F.struct("seq", "at", _end_at().alias("end_at"), _ends().alias("ends"))
    points = (
        turns.withColumn("covered", covered)
        .withColumn("before", before)
        .where((F.col("covered") != F.col("before")) | (F.col("before") & starts))
        .withColumn("end", F.lead(told).over(by_node))
        .where("covered AND (end IS NULL OR seq < end.seq)")
    )
    goes_on = F.col("end").isNull()
    to_at = F.when(goes_on, F.col("last_at")).otherwise(F.greatest("at", "end.end_at"))
    return (
        points.join(F.broadcast(last.select("node", F.col("at").alias("last_at"))), "node", "left")
        .select(
            "node",
            F.col("seq").alias("from_seq"),
            F.col("end.seq").alias("to_seq"),
            F.col("at").alias("from_at"),
            to_at.alias("to_at"),
            _begins().alias("begins"),
            F.col("end.ends").alias("ends"),
            until_day(F.col("end.end_at"), F.col("end.at")).alias("until_day"),
        )
        .select(*schemas.NODE_COVERAGE.names)
    )


def _begins() -> Column:
    cold = F.when(F.col("brokers") == 0, "started_cold").otherwise("started_warm")
    return (
        F.when(F.col("type") == FIRST, "first_record")
        .when(F.col("type") == "NodeStarted", cold)
        .otherwise("restated")
    )


def _ends() -> Column:
    return (
        F.when(F.col("type") == "NodeStopped", "stopped")
        .when(F.col("type") == "RecordsLost", "records_lost")
        .when(F.col("type") == MISSING, "records_missing")
        .otherwise("killed")
    )


def _end_at() -> Column:
    """When it was last to be believed, by what the mark that ends it says."""
    return F.when(F.col("type") == "NodeStopped", F.col("at")).otherwise(
        F.coalesce("before_at", "loss_at")
    )
