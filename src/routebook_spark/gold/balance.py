"""topic_balance: how the queues of a topic are spread over brokers, hour by hour.

There are too many topics for a row for each of them and each hour, and little changes: a topic has
a row in the first known hour of a day, and in hours in which something is different afterwards, or
was for a while. Only hours are looked at in which something may be different: where the routes of a
topic begin and end tells which. The rows of midnights in between repeat the one before them.
"""

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark.gold.known import HOUR_MS, known_units, told_routes, unit_of
from routebook_spark.schemas import TOPIC_BALANCE

_READ, _WRITE = 4, 2  # bits of the permission
_DAY_HOURS = 24


def topic_balance(
    versions: DataFrame, coverage: DataFrame, *, from_day: date | None = None
) -> DataFrame:
    """Rows of ``TOPIC_BALANCE``, by the view of the node that knew most of each hour."""
    told = _told_hours(coverage, from_day)
    stretches = _stretches(told)
    hours = _with_stretches(told, stretches)
    topics = (
        _pieces(told_routes(versions, from_day=from_day), told, stretches)
        .groupBy("cluster", "topic")
        .agg(
            F.collect_list("piece").alias("pieces"),
            F.array_distinct(F.flatten(F.collect_list("hours"))).alias("hours"),
        )
    )
    looked_at = topics.select("cluster", "topic", "pieces", F.explode("hours").alias("hour")).join(
        F.broadcast(hours), "hour"
    )
    rows = _rows(_compared(_states(looked_at)), hours)
    hour_at = F.timestamp_millis(F.col("hour") * HOUR_MS)
    return rows.select(
        F.to_date(hour_at).alias("day"),
        hour_at.alias("hour_at"),
        "cluster",
        "topic",
        "state.*",
        (F.col("state.writable_brokers") == 1).alias("single_broker"),
        (F.col("single_ms") / 1000).alias("single_broker_s"),
    ).select(*TOPIC_BALANCE.names)


# -- who tells


def _told_hours(coverage: DataFrame, from_day: date | None) -> DataFrame:
    """One row an hour: the node that knew most of it, and what it knew (``spans``)."""
    spans = known_units(coverage, HOUR_MS, from_day=from_day).withColumnRenamed("unit", "hour")
    start_ms = F.col("hour") * HOUR_MS
    throughout = F.struct(
        F.lit("").alias("broker"),
        start_ms.alias("begin_ms"),
        (start_ms + HOUR_MS).alias("end_ms"),
    )
    nodes = (
        spans.groupBy("hour", "node")
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("until_ms").alias("until_ms"),
            F.collect_list(F.struct("from_ms", "until_ms")).alias("spans"),
        )
        .withColumn("known_ms", _alone_ms(F.array(throughout), F.col("spans")))
    )
    told = F.struct("node", "from_ms", "until_ms", "spans", "known_ms")
    most = F.struct(-F.col("known_ms"), F.col("node"))
    return nodes.groupBy("hour").agg(F.min_by(told, most).alias("told")).select("hour", "told.*")


def _stretches(told: DataFrame) -> DataFrame:
    """Hours on end with one teller: ``teller, first_hour, last_hour, next_hour``.

    ``next_hour`` is the first one after them of which anything is known, by another or later.
    """
    number = F.row_number().over(Window.partitionBy("node").orderBy("hour"))
    stretches = (
        told.select("node", "hour", (F.col("hour") - number).alias("island"))
        .groupBy("node", "island")
        .agg(F.min("hour").alias("first_hour"), F.max("hour").alias("last_hour"))
    )
    # Not partitioned: there is one of them for each time that nodes were restarted or replaced.
    following = F.lead("first_hour").over(Window.orderBy("first_hour"))
    return stretches.select(
        F.col("node").alias("teller"), "first_hour", "last_hour", following.alias("next_hour")
    )


def _with_stretches(told: DataFrame, stretches: DataFrame) -> DataFrame:
    """Hours with the ``last_hour`` of their stretch; ``first``: of the day."""
    by_day = Window.partitionBy(_day_of("hour")).orderBy("hour")
    within = (F.col("node") == F.col("teller")) & F.col("hour").between(
        F.col("first_hour"), F.col("last_hour")
    )
    return (
        told.withColumn("first", F.row_number().over(by_day) == 1)
        .join(F.broadcast(stretches), within)
        .select("hour", "first", "last_hour", "from_ms", "until_ms", "spans", "known_ms")
    )


def _day_of(hour: str) -> Column:
    return F.call_function("div", F.col(hour), F.lit(_DAY_HOURS))


# -- what they told


def _pieces(routes: DataFrame, told: DataFrame, stretches: DataFrame) -> DataFrame:
    """Routes as they were told: ``cluster, topic, piece`` and the ``hours`` to look at for it."""
    first_ms = F.col("first_hour") * HOUR_MS
    until_ms = (F.col("last_hour") + 1) * HOUR_MS
    pieces = (
        routes.join(
            F.broadcast(stretches),
            (F.col("node") == F.col("teller"))
            & (F.col("begin_ms") < until_ms)
            & (F.col("end_ms") > first_ms),
        )
        .withColumns(
            {
                "begin_ms": F.greatest("begin_ms", first_ms),
                "end_ms": F.least("end_ms", until_ms),
                "readable": _queues_if(_READ, "read_queues"),
                "writable": _queues_if(_WRITE, "write_queues"),
            }
        )
        .withColumn("begin_hour", unit_of("begin_ms", HOUR_MS))
        .withColumn("end_hour", F.least(unit_of("end_ms", HOUR_MS), "last_hour"))
    )
    for end in ("begin", "end"):
        known = told.select(
            F.col("hour").alias(f"{end}_hour"), F.col("until_ms").alias(f"{end}_known_ms")
        )
        pieces = pieces.join(F.broadcast(known), f"{end}_hour")
    piece = F.struct("broker", "from_seq", "begin_ms", "end_ms", "readable", "writable")
    hours = F.array_compact(F.array(_hour_to_look_at("begin"), _hour_to_look_at("end")))
    return pieces.select("cluster", "topic", piece.alias("piece"), hours.alias("hours"))


def _hour_to_look_at(end: str) -> Column:
    """The first one at the end of which the beginning, or end, of a piece shows.

    That is its own, unless nobody knew the rest of it.
    """
    hour = F.col(f"{end}_hour")
    after = F.when(hour < F.col("last_hour"), hour + 1).otherwise(F.col("next_hour"))
    return F.when(F.col(f"{end}_ms") < F.col(f"{end}_known_ms"), hour).otherwise(after)


def _queues_if(bit: int, queues: str) -> Column:
    return F.when(F.col("perm").bitwiseAND(bit) != 0, F.col(queues)).otherwise(0).cast("long")


# -- what that was like


def _states(looked_at: DataFrame) -> DataFrame:
    """``state`` at the end of each hour, and ``single_ms`` in it."""
    start_ms, end_ms = F.col("hour") * HOUR_MS, (F.col("hour") + 1) * HOUR_MS
    until_ms = F.col("until_ms")
    inside = looked_at.withColumn(
        "inside",
        F.filter("pieces", lambda p: (p["begin_ms"] < end_ms) & (p["end_ms"] > start_ms)),
    ).drop("pieces")
    listed = inside.withColumn(
        "listed",
        F.filter("inside", lambda p: (p["begin_ms"] < until_ms) & (p["end_ms"] >= until_ms)),
    ).withColumn("listed", _latest(F.col("listed")))
    writable = listed.withColumn("writable", F.filter("listed", lambda p: p["writable"] > 0))
    return (
        writable.withColumn("state", _state())
        .withColumn("single_ms", _single_ms())
        .withColumn("existed", F.size("inside") > 0)
        .drop("inside", "listed", "writable", "spans", "from_ms", "until_ms")
    )


def _latest(listed: Column) -> Column:
    """One for each broker: a clock that was set back may make two of them overlap."""
    brokers = F.array_distinct(F.transform(listed, lambda p: p["broker"]))

    def superseded(p: Column) -> Column:
        return F.exists(
            listed, lambda q: (q["broker"] == p["broker"]) & (q["from_seq"] > p["from_seq"])
        )

    return F.when(F.size(brokers) == F.size(listed), listed).otherwise(
        F.filter(listed, lambda p: ~superseded(p))
    )


def _state() -> Column:
    listed, writable = F.col("listed"), F.col("writable")
    queues = F.transform(writable, lambda p: p["writable"])
    brokers = F.size(writable).cast("long")
    total = _sum(queues)
    largest = F.array_min(F.transform(writable, lambda p: F.struct(-p["writable"], p["broker"])))
    return F.struct(
        F.size(listed).cast("long").alias("brokers"),
        brokers.alias("writable_brokers"),
        total.alias("write_queues"),
        _sum(F.transform(listed, lambda p: p["readable"])).alias("read_queues"),
        F.array_min(queues).alias("min_queues"),
        F.array_max(queues).alias("max_queues"),
        (F.array_max(queues) * brokers / total).alias("skew"),
        largest["broker"].alias("top_broker"),
    )


def _sum(numbers: Column) -> Column:
    return F.aggregate(numbers, F.lit(0).cast("long"), lambda total, number: total + number)


def _single_ms() -> Column:
    """How long of the known time exactly one broker took messages."""
    inside = F.filter("inside", lambda p: p["writable"] > 0)
    lasting = F.forall(
        inside, lambda p: (p["begin_ms"] <= F.col("from_ms")) & (p["end_ms"] >= F.col("until_ms"))
    )
    return F.when(lasting & (F.size(inside) == F.size("writable")), _lasting_single_ms()).otherwise(
        _alone_ms(inside, F.col("spans"))
    )


def _lasting_single_ms() -> Column:
    """The same in an hour in which nothing changes."""
    single = F.col("state.writable_brokers") == 1
    return F.when(single, F.col("known_ms")).otherwise(F.lit(0).cast("long"))


def _alone_ms(pieces: Column, spans: Column) -> Column:
    """How long of ``spans`` there are pieces of exactly one broker."""
    instants = F.array_sort(
        F.array_distinct(
            F.flatten(
                F.concat(
                    F.transform(pieces, lambda p: F.array(p["begin_ms"], p["end_ms"])),
                    F.transform(spans, lambda s: F.array(s["from_ms"], s["until_ms"])),
                )
            )
        )
    )
    moments = F.arrays_zip(
        F.slice(instants, 1, F.size(instants) - 1).alias("from_ms"),
        F.slice(instants, 2, F.size(instants) - 1).alias("until_ms"),
    )

    def alone(moment: Column) -> Column:
        there = F.filter(
            pieces,
            lambda p: (p["begin_ms"] <= moment["from_ms"]) & (p["end_ms"] >= moment["until_ms"]),
        )
        known = F.exists(
            spans,
            lambda s: (s["from_ms"] <= moment["from_ms"]) & (s["until_ms"] >= moment["until_ms"]),
        )
        return known & (F.size(F.array_distinct(F.transform(there, lambda p: p["broker"]))) == 1)

    return _sum(F.transform(F.filter(moments, alone), lambda m: m["until_ms"] - m["from_ms"]))


# -- which rows that makes


def _compared(states: DataFrame) -> DataFrame:
    """With the state before each (``previous``), and the hour that is looked at next."""
    by_hour = Window.partitionBy("cluster", "topic").orderBy("hour")
    return states.withColumns(
        {
            "previous": F.lag("state").over(by_hour),
            "next_hour": F.lead("hour").over(by_hour),
        }
    )


def _rows(states: DataFrame, hours: DataFrame) -> DataFrame:
    """A row for each that is noteworthy, and for midnights until the next: ``hour, single_ms``."""
    told = F.when(_noteworthy(), F.array("hour")).otherwise(F.array().cast("array<bigint>"))
    return (
        states.select(
            "cluster",
            "topic",
            "state",
            F.col("hour").alias("looked_at"),
            F.col("single_ms").alias("looked_ms"),
            F.explode(F.concat(told, _midnights())).alias("hour"),
        )
        .join(F.broadcast(hours.select("hour", "known_ms")), "hour")
        .withColumn(
            "single_ms",
            F.when(F.col("hour") == F.col("looked_at"), F.col("looked_ms")).otherwise(
                _lasting_single_ms()
            ),
        )
    )


def _noteworthy() -> Column:
    """Not as the hour before it, and the first one of a day."""
    changed = F.when(F.col("previous").isNull(), F.col("state.brokers") > 0).otherwise(
        ~F.col("state").eqNullSafe(F.col("previous"))
    )
    passing = F.col("single_ms") != _lasting_single_ms()
    return F.when(F.col("first"), F.col("existed")).otherwise(changed) | passing


def _midnights() -> Column:
    """Hours in which days begin, while the state lasts and the same node tells."""
    midnight = (_day_of("hour") + 1) * _DAY_HOURS
    last = F.least(F.col("next_hour") - 1, F.col("last_hour"))
    lasts = (F.col("state.brokers") > 0) & (midnight <= last)
    return F.when(lasts, F.sequence(midnight, last, F.lit(_DAY_HOURS).cast("long"))).otherwise(
        F.array().cast("array<bigint>")
    )
