"""The tables: Delta Lake folders beside each other, each with its schema and partitions.

    lake = Lake(spark, "/data/tables")
    lake.read(EVENTS).where("day = '2026-11-15'")
    lake.replace(FLAPS, rows, where="day >= '2026-11-15'")

A table that was never written reads as one without rows.
"""

from dataclasses import dataclass
from datetime import date

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from routebook_spark import schemas
from routebook_spark.evolution import as_now, lacks
from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import FILLED

__all__ = ["Lake"]

OPEN = date(9999, 12, 31)
"""``until_day`` of what has not ended."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    schema: StructType
    partitioned_by: tuple[str, ...] = ()


EVENTS = Table("events", schemas.EVENTS, ("day",))
SEGMENTS = Table("segments", schemas.SEGMENTS)
QUARANTINE = Table("quarantine", schemas.QUARANTINE)
GAPS = Table("gaps", schemas.GAPS)
PROGRESS = Table("progress", schemas.PROGRESS)

NODE_COVERAGE = Table("node_coverage", schemas.NODE_COVERAGE, ("until_day",))
BROKER_SESSIONS = Table("broker_sessions", schemas.BROKER_SESSIONS, ("until_day",))
SUSPECT_TIMES = Table("suspect_times", schemas.SUSPECT_TIMES, ("until_day",))
ROUTE_VERSIONS = Table("route_versions", schemas.ROUTE_VERSIONS, ("until_day",))
CLOCK_SKEW = Table("clock_skew", schemas.CLOCK_SKEW, ("day",))

BROKER_AVAILABILITY = Table("broker_availability", schemas.BROKER_AVAILABILITY, ("day",))
FLAPS = Table("flaps", schemas.FLAPS, ("day",))
DIVERGENCE = Table("divergence", schemas.DIVERGENCE, ("until_day",))
CONVERGENCE = Table("convergence", schemas.CONVERGENCE, ("day",))
STALE_EXPOSURE = Table("stale_exposure", schemas.STALE_EXPOSURE, ("day",))
TOPIC_BALANCE = Table("topic_balance", schemas.TOPIC_BALANCE, ("day",))
TOPIC_DEMAND = Table("topic_demand", schemas.TOPIC_DEMAND, ("day",))
CAPACITY_FORECAST = Table("capacity_forecast", schemas.CAPACITY_FORECAST, ("day",))
HEARTBEAT_HEALTH = Table("heartbeat_health", schemas.HEARTBEAT_HEALTH, ("day",))

BRONZE = (EVENTS, SEGMENTS, QUARANTINE, GAPS)
SILVER = (NODE_COVERAGE, BROKER_SESSIONS, SUSPECT_TIMES, ROUTE_VERSIONS, CLOCK_SKEW)
GOLD = (
    BROKER_AVAILABILITY,
    FLAPS,
    DIVERGENCE,
    CONVERGENCE,
    STALE_EXPOSURE,
    TOPIC_BALANCE,
    TOPIC_DEMAND,
    CAPACITY_FORECAST,
    HEARTBEAT_HEALTH,
)
ALL = (*BRONZE, PROGRESS, *SILVER, *GOLD)


@dataclass(frozen=True, slots=True)
class Lake:
    """Tables beside each other in ``root``, which is any path Hadoop can reach."""

    spark: SparkSession
    root: str

    def path(self, table: Table) -> str:
        """Where a table is, or would be."""
        return f"{self.root.rstrip('/')}/{table.name}"

    def exists(self, table: Table) -> bool:
        """Whether it was ever written."""
        return DeltaTable.isDeltaTable(self.spark, self.path(table))

    def read(self, table: Table) -> DataFrame:
        """Its rows; none when it was never written."""
        if not self.exists(table):
            return local_frame(self.spark, table.schema, [])
        return as_now(self.spark.read.format("delta").load(self.path(table)), table.schema)

    def delta(self, table: Table) -> DeltaTable:
        """The table itself, made if it is not there, with all the columns it has now."""
        if not self.exists(table):
            builder = DeltaTable.createIfNotExists(self.spark).location(self.path(table))
            builder.addColumns(table.schema).partitionedBy(*table.partitioned_by).execute()
        self._bring_up(table)
        return DeltaTable.forPath(self.spark, self.path(table))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows, in one commit."""
        self._bring_up(table)
        _writer(table, rows).mode("append").save(self.path(table))

    def replace(self, table: Table, rows: DataFrame, *, where: str | None = None) -> None:
        """Put ``rows`` in the place of all there are, or of those of which ``where`` is true."""
        writer = _writer(table, rows).mode("overwrite")
        if where is not None and self.exists(table):
            self._bring_up(table)
            writer = writer.option("replaceWhere", where)
        writer.save(self.path(table))

    def _bring_up(self, table: Table) -> None:
        """Give a table that an earlier version made the columns it has now, in one commit.

        A column that is never null is written into all rows that are there; others are null.
        """
        if not self.exists(table):
            return
        stored = self.spark.read.format("delta").load(self.path(table)).schema
        if not lacks(stored, table.schema):
            return
        if any(name in FILLED for name in set(table.schema.names) - set(stored.names)):
            _writer(table, self.read(table)).mode("overwrite").save(self.path(table))
        else:
            nothing = local_frame(self.spark, table.schema, [])
            _writer(table, nothing).mode("append").save(self.path(table))


def _writer(table: Table, rows: DataFrame) -> DataFrameWriter:
    """Rows with the columns of the table in its order; what is missing or mistyped is an error."""
    columns = [F.col(field.name).cast(field.dataType) for field in table.schema]
    writer = rows.select(*columns).write.format("delta").option("mergeSchema", "true")
    return writer.partitionBy(*table.partitioned_by)
