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
from routebook_spark.schemas import TOPIC_BALANCE, WITNESS

STATE = (
    "brokers",
    "writable_brokers",
    "write_queues",
    "read_queues",
    "min_queues",
    "max_queues",
    "skew",
    "top_broker",
)
"""The columns in which an hour may differ from the one before it."""

_READ, _WRITE = 4, 2  # bits of the permission
_DAY_HOURS = 24
_TELLER = ("node", "incarnation")  # of a fleet
_TOPIC = ("fleet", "cluster", "topic")
_LOOKED_AT = (*_TOPIC, "day", "hour")
_PIECE = ("broker", "from_seq", "begin_ms", "end_ms", "readable", "writable")


def topic_balance(
    versions: DataFrame, coverage: DataFrame, *, from_day: date | None = None
) -> DataFrame:
    """Rows of ``TOPIC_BALANCE``, by the view of the node that knew most of each hour."""
    told = _told_hours(coverage, from_day)
    stretches = _stretches(told)
    hours = _with_stretches(told, stretches)
    pieces = _pieces(told_routes(versions, from_day=from_day), stretches)
    inside = _inside(_looked_at(pieces, told), pieces, hours)
    states = _states(_by_broker(inside), hours)
    rows = _rows(_compared(states), hours)
    hour_at = F.timestamp_millis(F.col("hour") * HOUR_MS)
    return rows.select(
        F.to_date(hour_at).alias("day"),
        hour_at.alias("hour_at"),
        *_TOPIC,
        "state.*",
        (F.col("state.writable_brokers") == 1).alias("single_broker"),
        (F.col("single_ms") / 1000).alias("single_broker_s"),
    ).select(*TOPIC_BALANCE.names)


# -- who tells


def _told_hours(coverage: DataFrame, from_day: date | None) -> DataFrame:
    """One row an hour of a fleet: the witness that knew most of it, and what (``spans``)."""
    spans = known_units(coverage, HOUR_MS, from_day=from_day).withColumnRenamed("unit", "hour")
    start_ms = F.col("hour") * HOUR_MS
    throughout = F.struct(
        F.lit("").alias("broker"),
        start_ms.alias("begin_ms"),
        (start_ms + HOUR_MS).alias("end_ms"),
    )
    nodes = (
        spans.groupBy("hour", *WITNESS)
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("until_ms").alias("until_ms"),
            F.collect_list(F.struct("from_ms", "until_ms")).alias("spans"),
        )
        .withColumn("known_ms", _alone_ms(F.array(throughout), F.col("spans")))
    )
    told = F.struct(*_TELLER, "from_ms", "until_ms", "spans", "known_ms")
    most = F.struct(-F.col("known_ms"), *_TELLER)
    hours = nodes.groupBy("fleet", "hour").agg(F.min_by(told, most).alias("told"))
    return hours.select("fleet", "hour", "told.*")


def _stretches(told: DataFrame) -> DataFrame:
    """Hours on end with one teller of a fleet: ``first_hour, last_hour, next_hour``.

    ``next_hour`` is the first one after them of which anything is known, by another or later.
    """
    number = F.row_number().over(Window.partitionBy(*WITNESS).orderBy("hour"))
    stretches = (
        told.select(*WITNESS, "hour", (F.col("hour") - number).alias("island"))
        .groupBy(*WITNESS, "island")
        .agg(F.min("hour").alias("first_hour"), F.max("hour").alias("last_hour"))
    )
    following = F.lead("first_hour").over(Window.partitionBy("fleet").orderBy("first_hour"))
    return stretches.select(*WITNESS, "first_hour", "last_hour", following.alias("next_hour"))


def _with_stretches(told: DataFrame, stretches: DataFrame) -> DataFrame:
    """Hours with the ``last_hour`` of their stretch; ``first``: of the day."""
    by_day = Window.partitionBy("fleet", _day_of("hour")).orderBy("hour")
    within = F.col("hour").between(F.col("first_hour"), F.col("last_hour"))
    return (
        told.withColumn("first", F.row_number().over(by_day) == 1)
        .join(F.broadcast(stretches), list(WITNESS))
        .where(within)
        .select("fleet", "hour", "first", "last_hour", "from_ms", "until_ms", "spans", "known_ms")
    )


def _day_of(hour: str) -> Column:
    return F.call_function("div", F.col(hour), F.lit(_DAY_HOURS))


# -- what they told


def _pieces(routes: DataFrame, stretches: DataFrame) -> DataFrame:
    """Routes as they were told, cut where another node begins to tell."""
    first_ms = F.col("first_hour") * HOUR_MS
    until_ms = (F.col("last_hour") + 1) * HOUR_MS
    met = (F.col("begin_ms") < until_ms) & (F.col("end_ms") > first_ms)
    return (
        routes.join(F.broadcast(stretches), list(WITNESS))
        .where(met)
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
        .select(*_TOPIC, *_PIECE, "begin_hour", "end_hour", "last_hour", "next_hour")
    )


def _looked_at(pieces: DataFrame, told: DataFrame) -> DataFrame:
    """The hours of topics in which something may be different."""
    for end in ("begin", "end"):
        known = told.select(
            "fleet", F.col("hour").alias(f"{end}_hour"), F.col("until_ms").alias(f"{end}_known_ms")
        )
        pieces = pieces.join(F.broadcast(known), ["fleet", f"{end}_hour"])
    hours = F.array_compact(F.array(_hour_to_look_at("begin"), _hour_to_look_at("end")))
    looked_at = pieces.select(*_TOPIC, F.explode(hours).alias("hour")).distinct()
    return looked_at.withColumn("day", _day_of("hour"))


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


def _inside(looked_at: DataFrame, pieces: DataFrame, hours: DataFrame) -> DataFrame:
    """Hours that are looked at with each piece in them; one without any has a row too.

    They are found day by day. A topic has more pieces, and more hours to look at, the longer it is
    known: every piece compared with every hour would take the square of that time.
    """
    days = F.sequence(_day_of("begin_hour"), _day_of("end_hour"))
    by_day = pieces.select(*_TOPIC, *_PIECE, F.explode(days).alias("day"))
    known = hours.select("fleet", "hour", "from_ms", "until_ms")
    start_ms, end_ms = F.col("hour") * HOUR_MS, (F.col("hour") + 1) * HOUR_MS
    at = [F.col(f"at.{name}") == F.col(f"piece.{name}") for name in (*_TOPIC, "day")]
    met = (F.col("begin_ms") < end_ms) & (F.col("end_ms") > start_ms)
    return (
        looked_at.alias("at")
        .join(by_day.alias("piece"), [*at, met], "left")
        .select("at.*", *_PIECE)
        .join(F.broadcast(known), ["fleet", "hour"])
    )


def _by_broker(inside: DataFrame) -> DataFrame:
    """What each broker had in an hour: ``listed`` at the end of it, and what came or went.

    One is listed once: a clock that was set back may make two of its pieces overlap, and the later
    one counts. ``steady`` is whether it took messages as long as anything is known of the hour;
    ``passing`` are pieces in which it took some for a while only.
    """
    until_ms = F.col("until_ms")
    there = (F.col("begin_ms") < until_ms) & (F.col("end_ms") >= until_ms)
    throughout = (F.col("begin_ms") <= F.col("from_ms")) & (F.col("end_ms") >= until_ms)
    taking = F.col("writable") > 0
    return inside.groupBy(*_LOOKED_AT, "broker").agg(
        F.max(F.when(there, F.struct("from_seq", "readable", "writable"))).alias("listed"),
        F.max(taking & throughout).alias("steady"),
        F.collect_list(
            F.when(taking & ~throughout, F.struct("broker", "begin_ms", "end_ms"))
        ).alias("passing"),
    )


def _states(by_broker: DataFrame, hours: DataFrame) -> DataFrame:
    """``state`` at the end of each hour, and ``single_ms`` in it."""
    readable, writable = F.col("listed.readable"), F.col("listed.writable")
    taking = F.when(writable > 0, writable)
    steady = F.when(F.col("steady"), F.col("broker"))
    totals = by_broker.groupBy(*_LOOKED_AT).agg(
        (F.count("broker") > 0).alias("existed"),
        F.count("listed").alias("brokers"),
        F.count(taking).alias("writable_brokers"),
        F.coalesce(F.sum(writable), F.lit(0)).alias("write_queues"),
        F.coalesce(F.sum(readable), F.lit(0)).alias("read_queues"),
        F.min(taking).alias("min_queues"),
        F.max(taking).alias("max_queues"),
        F.min(F.when(writable > 0, F.struct(-writable, "broker")))["broker"].alias("top_broker"),
        F.count(steady).alias("steady"),
        F.min(steady).alias("steady_broker"),
        F.flatten(F.collect_list("passing")).alias("passing"),
    )
    skew = F.col("max_queues") * F.col("writable_brokers") / F.col("write_queues")
    return (
        totals.withColumn("skew", F.when(F.col("write_queues") > 0, skew))
        .join(F.broadcast(hours), ["fleet", "hour"])
        .select(
            *_TOPIC,
            "hour",
            F.struct(*STATE).alias("state"),
            _single_ms().alias("single_ms"),
            "existed",
            "known_ms",
            "first",
            "last_hour",
        )
    )


def _single_ms() -> Column:
    """How long of the known time exactly one broker took messages."""
    steady, passing = F.col("steady"), F.col("passing")
    nobody = F.lit(0).cast("long")
    always = F.array(
        F.struct(
            F.col("steady_broker").alias("broker"),
            F.col("from_ms").alias("begin_ms"),
            F.col("until_ms").alias("end_ms"),
        )
    )
    return (
        F.when(steady > 1, nobody)
        .when(F.size(passing) == 0, F.when(steady == 1, F.col("known_ms")).otherwise(nobody))
        .when(steady == 1, _alone_ms(F.concat(always, passing), F.col("spans")))
        .otherwise(_alone_ms(passing, F.col("spans")))
    )


def _lasting_single_ms() -> Column:
    """The same in an hour in which nothing changes."""
    single = F.col("state.writable_brokers") == 1
    return F.when(single, F.col("known_ms")).otherwise(F.lit(0).cast("long"))


def _alone_ms(pieces: Column, spans: Column) -> Column:
    """How long of ``spans`` there are pieces of exactly one broker."""
    instants = F.sort_array(
        F.array_distinct(
            F.flatten(
                F.concat(
                    F.transform(pieces, lambda p: F.array(p["begin_ms"], p["end_ms"])),
                    F.transform(spans, lambda s: F.array(s["from_ms"], s["until_ms"])),
                )
            )
        )
    )

    def alone(from_ms: Column, until_ms: Column) -> Column:
        there = F.filter(pieces, lambda p: (p["begin_ms"] <= from_ms) & (p["end_ms"] >= until_ms))
        known = F.exists(spans, lambda s: (s["from_ms"] <= from_ms) & (s["until_ms"] >= until_ms))
        return known & (F.size(F.array_distinct(F.transform(there, lambda p: p["broker"]))) == 1)

    def so_far(before: Column, at_ms: Column) -> Column:
        since_ms = F.when(alone(before["at_ms"], at_ms), at_ms - before["at_ms"]).otherwise(0)
        return F.struct(at_ms.alias("at_ms"), (before["total_ms"] + since_ms).alias("total_ms"))

    nothing = F.struct(
        F.lit(None).cast("long").alias("at_ms"), F.lit(0).cast("long").alias("total_ms")
    )
    return F.aggregate(instants, nothing, so_far, lambda total: total["total_ms"])


# -- which rows that makes


def _compared(states: DataFrame) -> DataFrame:
    """With the state before each (``previous``), and the hour that is looked at next."""
    by_hour = Window.partitionBy(*_TOPIC).orderBy("hour")
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
            *_TOPIC,
            "state",
            F.col("hour").alias("looked_at"),
            F.col("single_ms").alias("looked_ms"),
            F.explode(F.concat(told, _midnights())).alias("hour"),
        )
        .join(F.broadcast(hours.select("fleet", "hour", "known_ms")), ["fleet", "hour"])
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
