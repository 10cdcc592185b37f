"""Watch: journals are followed, and what is wrong is told to the sinks.

    alerts(events, Limits())                         # any stream of events
    follow(spark, ["/data/journals"], watching, tell=print_all)

There is one stateful operator for all kinds of alerts, keyed by fleet and bucket
(alerts/facts.py), so that a trigger is one pass over the new records, one shuffle and a few reads
of the state store. A folder that cannot be read is an alert, and holds up no other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from routebook_spark.alerts.facts import AHEAD_MS, facts
from routebook_spark.alerts.ledger import ALERT
from routebook_spark.alerts.limits import Limits
from routebook_spark.alerts.processor import Watcher
from routebook_spark.alerts.protobuf import check_protobuf
from routebook_spark.source.datasource import register

_STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A trigger writes what it changed, not all of the state.
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Timers only forget: they need no trigger of their own after each with records.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}

Tell = Callable[[int, list[Row]], None]
"""Called with the number of a trigger and its alerts, oldest first; with the same ones again when
the process was killed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """``every_s`` None: take what there is, and end. ``fleet`` wins over what nodes say."""

    checkpoint: str
    fleet: str = ""
    every_s: float | None = None
    limits: Limits = field(default_factory=Limits)


def alerts(events: DataFrame, limits: Limits) -> DataFrame:
    """A row when an alert is raised, and one when it is resolved.

    The session needs ``SETTINGS``. No record is too late to be taken: the watermark, which moves
    with the latest records of all nodes, only drives the timers.
    """
    now = F.current_timestamp() + F.expr(f"INTERVAL {AHEAD_MS // 1000} SECONDS")
    # Notes about folders are of now, whatever time the records are of: they move nothing.
    recorded = F.when(F.col("seq").isNotNull(), F.least("at", now))
    tide = F.coalesce(recorded, F.timestamp_millis(F.lit(0)))
    timely = events.withColumn("tide", tide).withWatermark("tide", "0 seconds")
    told = facts(timely, unknown_per_minute=limits.unknown_per_minute)
    raised = told.groupBy("fleet", "bucket").transformWithState(
        Watcher(limits), ALERT, outputMode="Append", timeMode="EventTime"
    )
    names = {"began_ms": "began_at", "raised_ms": "raised_at", "resolved_ms": "resolved_at"}
    return raised.select(
        *(
            F.timestamp_millis(name).alias(names[name]) if name in names else F.col(name)
            for name in ALERT.names
        )
    )


def follow(
    spark: SparkSession, folders: Sequence[str], watching: Watching, *, tell: Tell
) -> StreamingQuery:
    """Begin to watch the journals in and below ``folders``, or go on from the checkpoint.

    Raises NoProtobuf.
    """
    check_protobuf()
    register(spark)
    reading = spark.readStream.format("routebook").option("on_fault", "tell")
    if watching.fleet:
        reading = reading.option("fleet", watching.fleet)
    streams = [reading.load(folder) for folder in sorted(folders)]
    raised = alerts(reduce(DataFrame.unionByName, streams), watching.limits)

    def told(rows: DataFrame, number: int) -> None:
        tell(number, sorted(rows.collect(), key=_order))

    writer = (
        raised.writeStream.queryName("routebook watch")
        .option("checkpointLocation", watching.checkpoint)
        .foreachBatch(told)
    )
    with _set(spark, SETTINGS):
        if watching.every_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{watching.every_s:g} seconds").start()


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A query keeps the settings it was started with; those of others stay as they were."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


def _order(alert: Row) -> tuple[object, ...]:
    return alert.resolved_at or alert.raised_at, alert.id, alert.state
