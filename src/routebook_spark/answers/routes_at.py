"""Routes at moments: the versions and sessions that stood then, joined."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook_spark.schemas import WITNESS
from routebook_spark.silver.intervals import holds

ROUTE = (
    "cluster",
    "broker",
    "read_queues",
    "write_queues",
    "perm",
    "flags",
    "registered",
    "addrs",
    "unconfirmed",
    "since",
    "since_seq",
    "cause",
)
_POINT = ("topic", "at", *WITNESS)


def routes_at(
    points: DataFrame, *, versions: DataFrame, sessions: DataFrame, suspects: DataFrame
) -> DataFrame:
    """A row for each broker in the route of a ``topic`` with a witness after record ``seq``.

    ``points`` has these and ``at``. They are sent to all executors: some hundred thousand at most.
    """
    held = (
        versions.join(F.broadcast(points.select(*_POINT, "seq")), ["topic", *WITNESS])
        .where(holds(F.col("seq")))
        .withColumnsRenamed({"valid_from": "since", "from_seq": "since_seq"})
        .select(*_POINT, "seq", *(name for name in ROUTE if name not in ("addrs", "unconfirmed")))
    )
    return _with_members(held, sessions, suspects).select(*_POINT, *ROUTE)


def _with_members(held: DataFrame, sessions: DataFrame, suspects: DataFrame) -> DataFrame:
    """Without those that have none: such a broker is told to nobody."""
    group = [*WITNESS, "cluster", "broker"]
    asked = held.select(*group, "at", "seq").distinct()
    listed = (
        sessions.select(*group, "broker_id", "addr", "from_seq", "to_seq")
        .join(asked, group)
        .where(holds(F.col("seq")))
        .drop("from_seq", "to_seq")
    )
    doubted = (
        suspects.where("kind = 'unconfirmed'")
        .select(*group, "broker_id", "addr", "from_seq", "to_seq")
        .join(asked, group)
        .where(holds(F.col("seq")))
        .select(*group, "broker_id", "addr", "at", F.col("addr").alias("doubted"))
    )
    members = (
        listed.join(doubted, [*group, "broker_id", "addr", "at"], "left")
        .groupBy(*group, "at")
        .agg(
            F.map_from_entries(F.sort_array(F.collect_list(F.struct("broker_id", "addr")))).alias(
                "addrs"
            ),
            F.sort_array(F.collect_list("doubted")).alias("unconfirmed"),
        )
    )
    return held.join(members, [*group, "at"])
