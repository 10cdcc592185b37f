"""Flaps: who comes and goes, by a penalty such as RFC 2439 gives to unstable routes.

Each time a broker comes or goes on a node adds ``STEP``, up to ``CEILING``; every ``HALF_LIFE_MS``
halves what there is. Above ``SUPPRESS`` a broker counts as flapping until it is below ``REUSE``.

The penalty of a day is counted from zero a day before it begins. What happened earlier would weigh
1000 / 2^96 at most; without it each day follows from two days and no more, exactly.
"""

from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.gold.availability import BLIND_BEGINNINGS, GRACE_MS
from routebook_spark.gold.clocks import DAY_MS, HOUR_MS, floor_ms, on_common_clock, start_ms
from routebook_spark.gold.pairs import first_read
from routebook_spark.gold.witnesses import NODE, by_witness, known_parts, name_of

STEP = 1000.0
CEILING = 16_000.0
SUPPRESS = 2000.0
REUSE = 750.0
HALF_LIFE_MS = 15 * 60_000
RETURN_WITHIN_MS = DAY_MS
UNSEEN_ENDS = ("node_restarted", "lost_track")  # of the node, not of the broker
CALM_ENDS = ("unregister", "admin", *UNSEEN_ENDS)
STARTS = (*BLIND_BEGINNINGS, "started_warm")
FEWEST_BROKERS = 3  # on a node, to blame it

BROKER = ("fleet", "cluster", "broker", "broker_id")

# The day before, and the time to return within.
_LOOK_BACK = timedelta(days=2)


def flaps(
    sessions: DataFrame, coverage: DataFrame, skew: DataFrame, *, from_day: date | None = None
) -> DataFrame:
    """Rows of the hours since ``from_day`` in which a broker came, went or was flapping."""
    if from_day is not None:
        recent = F.col("until_day") >= F.lit(first_read(skew, from_day - _LOOK_BACK))
        sessions, coverage = sessions.where(recent), coverage.where(recent)
    sessions, coverage, skew = map(by_witness, (sessions, coverage, skew))
    covers = on_common_clock(coverage, skew, "from_at", "to_at")
    horizons = covers.groupBy(*NODE).agg(F.max("to_ms").alias("horizon_ms"))
    timed = on_common_clock(sessions, skew, "began_at", "ended_at")
    # Everything but the count of brokers on a node is per broker: rows are moved once.
    moving = _with_moves(timed.join(F.broadcast(horizons), list(NODE)).repartition(*BROKER))
    listed = known_parts(
        sessions, coverage, since="began_at", until="ended_at", seqs=("from_seq", "to_seq")
    )
    listings = on_common_clock(listed, skew, "began_at", "ended_at")
    hours = _hours(_penalties(_days(moving, from_day)))
    troubled = _troubled(moving, listings, from_day)
    blamed = _blamed(hours, troubled, _knowing(covers, from_day))
    named = blamed.withColumn("node", name_of("node"))
    return named.select(*schemas.FLAPS.fieldNames())


# -- coming and going


def _with_moves(sessions: DataFrame) -> DataFrame:
    """``sessions`` with the times the broker came or went by them: ``moves``, at most two.

    It came if it had gone before, at most a day ago, and not because the node lost sight of it.
    """
    in_order = Window.partitionBy(*BROKER, "node").orderBy("from_seq")
    gone_by, gone_ms = F.lag("cause").over(in_order), F.lag("ended_ms").over(in_order)
    comes = ~gone_by.isin(*UNSEEN_ENDS) & (F.col("began_ms") - gone_ms <= RETURN_WITHIN_MS)
    goes = ~F.col("cause").isin(*CALM_ENDS)
    moves = F.array(
        F.when(F.col("comes"), _move("began_ms", "from_seq", "began")),
        F.when(goes, _move("ended_ms", "to_seq", "cause")),
    )
    return sessions.withColumn("comes", comes).withColumn("moves", F.array_compact(moves))


def _move(at_ms: str, seq: str, cause: str) -> Column:
    return F.struct(
        F.col(at_ms).alias("at_ms"), F.col(seq).alias("seq"), F.col(cause).alias("cause")
    )


def _days(sessions: DataFrame, from_day: date | None) -> DataFrame:
    """Each move for its own day, and for the next, of which it is the history."""
    own = floor_ms("at_ms", DAY_MS)
    moves = sessions.select(*BROKER, "node", "horizon_ms", F.inline("moves"))
    days = moves.withColumn("day_ms", F.explode(F.array(own, own + DAY_MS)))
    return days.where(F.col("day_ms") >= start_ms(from_day))


# -- the penalty


def _penalties(moves: DataFrame) -> DataFrame:
    """The ``penalty`` after each move, whether it ``suppresses``, and until when it is the last.

    With w = 2^(t/half) of a move at t, penalty p after it and P = p * w:

        p(i) = min(CEILING, p(i-1) * w(i-1)/w(i) + STEP)
        P(i) = min(CEILING * w(i), P(i-1) + STEP * w(i))

    Less the sum T(i) of STEP * w so far, P is the least of 0 and all CEILING * w(j) - T(j) up to
    i: a running sum and a running minimum, and no loop.
    """
    of_day = Window.partitionBy(*BROKER, "node", "day_ms").orderBy("at_ms", "seq")
    so_far = of_day.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    weighed = (
        moves.withColumn("weight", _halvings(F.col("day_ms") - F.col("at_ms")))
        .withColumn("total", F.sum(STEP * F.col("weight")).over(so_far))
        .withColumn("excess", F.min(CEILING * F.col("weight") - F.col("total")).over(so_far))
    )
    scaled = F.col("total") + F.least(F.lit(0.0), F.col("excess"))
    counted = weighed.withColumn("penalty", scaled / F.col("weight"))
    idle_ms = F.col("at_ms") - F.lag("at_ms").over(of_day)
    before = F.lag("penalty").over(of_day) * _halvings(idle_ms)
    turns = F.when(F.col("penalty") > SUPPRESS, True).when(before < REUSE, False)
    latched = F.last("turns", ignorenulls=True).over(so_far)
    return counted.withColumn("turns", turns).withColumns(
        {
            "suppresses": F.coalesce(latched, F.lit(False)),
            "place": F.row_number().over(of_day),
            "until_ms": F.least(
                F.lead("at_ms").over(of_day), F.col("day_ms") + DAY_MS, F.col("horizon_ms")
            ),
        }
    )


def _halvings(ms: Column) -> Column:
    """What is left of 1 after ``ms``."""
    return F.pow(F.lit(2.0), -ms / HALF_LIFE_MS)


# -- hours


def _hours(penalties: DataFrame) -> DataFrame:
    """One row for each (broker, node) and hour with a move or a moment of suppression."""
    at, until = F.col("at_ms"), F.col("until_ms")
    first = F.greatest(at, F.col("day_ms"))
    last = F.greatest(first, until - 1)
    in_day = penalties.where((first < until) | (at >= F.col("day_ms")))
    hour = F.col("hour_ms")
    since = F.greatest(at, hour)
    till = F.greatest(since, F.least(until, hour + HOUR_MS))
    # It falls to the limit after as many half-lives as it is times the limit, in powers of two.
    calm = at + F.log2(F.col("penalty") / REUSE) * HALF_LIFE_MS
    suppressed = F.when(F.col("suppresses"), F.greatest(F.lit(0.0), F.least(till, calm) - since))
    here = at >= hour
    pieces = in_day.withColumn("hour_ms", F.explode(_hours_of(first, last))).withColumns(
        {
            "peak": F.col("penalty") * _halvings(since - at),
            "end": F.col("penalty") * _halvings(till - at),
            "suppressed_ms": F.coalesce(suppressed, F.lit(0.0)),
            "seen_ms": F.when(here, at),
            "seen_cause": F.when(here, F.col("cause")),
        }
    )
    rows = pieces.groupBy(*BROKER, "node", "day_ms", "hour_ms").agg(
        F.count("seen_ms").alias("transitions"),
        F.round(F.max("peak"), 3).alias("peak_penalty"),
        F.round(F.max_by("end", "place"), 3).alias("end_penalty"),
        F.round(F.sum("suppressed_ms") / 1000, 3).alias("suppressed_s"),
        F.min("seen_ms").alias("first_ms"),
        F.max("seen_ms").alias("last_ms"),
        F.array_sort(F.collect_list("seen_cause")).alias("seen"),
    )
    return rows.where("transitions > 0 OR suppressed_s > 0")


# -- who is to blame


def _knowing(covers: DataFrame, from_day: date | None) -> DataFrame:
    """The stretches in which nodes could see, by hours of their fleet: ``covers``, a list.

    One that has just started has not heard of its brokers yet, and sees who comes and goes after
    ``GRACE_MS``. One whose clock cannot be compared sees nothing of what others see.
    """
    blind_ms = F.when(F.col("begins").isin(*STARTS), GRACE_MS).otherwise(0)
    sees_ms = F.col("from_ms") + blind_ms
    since = F.greatest(sees_ms, F.lit(start_ms(from_day)))
    each = covers.where(F.col("clock_known") & (since <= F.col("to_ms"))).select(
        "fleet",
        F.struct("node", sees_ms.alias("from_ms"), "to_ms").alias("span"),
        F.explode(_hours_of(since, F.col("to_ms"))).alias("hour_ms"),
    )
    return each.groupBy("fleet", "hour_ms").agg(F.collect_list("span").alias("covers"))


def _troubled(sessions: DataFrame, listings: DataFrame, from_day: date | None) -> DataFrame:
    """Hours of a node in which most of its brokers came or went."""
    since = F.greatest("began_ms", F.lit(start_ms(from_day)))
    until = F.greatest("began_ms", "ended_ms")
    hours = F.transform(_hours_of(since, until), lambda hour: _noted(hour, moved=0))
    listed = listings.where(since <= until).select(*BROKER, "node", F.inline(hours))
    moves = F.transform("moves", lambda m: _noted(floor_ms(m["at_ms"], HOUR_MS), moved=1))
    moved = sessions.select(*BROKER, "node", F.inline(moves)).where(
        F.col("hour_ms") >= start_ms(from_day)
    )
    each = listed.unionByName(moved)
    brokers = each.groupBy(*BROKER, "node", "hour_ms").agg(F.max("moved").alias("moved"))
    counts = brokers.groupBy(*NODE, "hour_ms").agg(
        F.count("*").alias("brokers"), F.sum("moved").alias("moved")
    )
    most = (F.col("brokers") >= FEWEST_BROKERS) & (2 * F.col("moved") > F.col("brokers"))
    return counts.where(most).select(*NODE, "hour_ms", F.lit(True).alias("troubled"))


def _noted(hour: Column, *, moved: int) -> Column:
    return F.struct(hour.alias("hour_ms"), F.lit(moved).alias("moved"))


def _hours_of(since: Column, until: Column) -> Column:
    return F.sequence(floor_ms(since, HOUR_MS), floor_ms(until, HOUR_MS), F.lit(HOUR_MS))


def _blamed(hours: DataFrame, troubled: DataFrame, knowing: DataFrame) -> DataFrame:
    in_hour = Window.partitionBy(*BROKER, "hour_ms")
    seers = F.collect_set(F.when(F.col("transitions") > 0, F.col("node"))).over(in_hour)
    told = (
        hours.withColumns(
            {
                "seers": seers,
                "first_ms": F.min("first_ms").over(in_hour),
                "last_ms": F.max("last_ms").over(in_hour),
            }
        )
        .join(F.broadcast(knowing), ["fleet", "hour_ms"], "left")
        .join(F.broadcast(troubled), [*NODE, "hour_ms"], "left")
    )
    # Who was not there all the while may have missed it: that is not to have seen otherwise.
    watching = F.filter(
        "covers",
        lambda span: (span["from_ms"] <= F.col("first_ms")) & (span["to_ms"] >= F.col("last_ms")),
    )
    others = F.coalesce(
        F.transform(watching, lambda span: span["node"]), F.array().cast("array<string>")
    )
    watchers = F.array_union("seers", others)
    seen_by, known_by = F.size("seers"), F.size(watchers)
    culprit = (
        F.when(F.col("transitions") == 0, None)
        .when(known_by == 1, "unknown")
        .when(F.col("troubled") & (seen_by == 1), "node")
        .when(seen_by == known_by, "broker")
        .otherwise("network")
    )
    causes = F.transform(
        F.array_distinct("seen"),
        lambda cause: F.struct(
            cause, F.size(F.filter("seen", lambda each: each == cause)).cast("long")
        ),
    )
    return told.withColumns(
        {
            "window_at": F.timestamp_millis("hour_ms"),
            "day": F.to_date(F.timestamp_millis("day_ms")),
            "culprit": culprit,
            "causes": F.map_from_entries(causes),
        }
    )
