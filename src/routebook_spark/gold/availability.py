"""Availability: how long each broker was there, doubtful, gone or out of sight, by hour and day.

What a broker is at one moment is told by all nodes together:

``up``       a node that knows lists it, and has heard of it
``suspect``  it is listed, but only unconfirmed after a restart or held by the guard
``unknown``  it is not listed, and no node can know whether it is there
``planned``  it is not listed, and had said goodbye
``down``     it is not listed, and had not

A node knows within its coverage; one that began without its tables knows of a broker when it has
heard of it, or when it has not for ``GRACE_MS``. A broker that has not been listed for
``RETIRED_AFTER_MS`` is retired, and is nothing until it is listed again.

Nodes speak for the brokers of their fleet only. Hours in which none of them was awake have no row,
however many a clock leapt over.
"""

from datetime import date, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook_spark import schemas
from routebook_spark.gold.clocks import DAY_MS, HOUR_MS, floor_ms, on_common_clock, start_ms
from routebook_spark.gold.pairs import first_read
from routebook_spark.gold.witnesses import by_witness, known_parts

GRACE_MS = DEFAULT_TIMEOUT_MS
FAREWELL_MS = 15 * 60_000
RETIRED_AFTER_MS = 7 * DAY_MS
GOODBYES = ("unregister", "admin", "moved")
BLIND_BEGINNINGS = ("started_cold", "first_record")

BROKER = ("fleet", "cluster", "broker", "broker_id")
STATES = ("up", "suspect", "down", "planned", "unknown")

# Nothing before it matters to a broker that is not retired.
_LOOK_BACK = timedelta(days=8)

# What can happen at one moment: numbers go up and down, the others are true or not.
_COUNTED = ("listed", "doubted", "covered", "blinded")
_NOTED = ("begins", "says_goodbye", "looks_up")
_BELIEFS = ("sure", "unsure", "aware", "awake")


def broker_availability(
    sessions: DataFrame,
    suspects: DataFrame,
    coverage: DataFrame,
    skew: DataFrame,
    *,
    from_day: date | None = None,
    slo: float = 0.999,
) -> DataFrame:
    """Rows of the hours and days since ``from_day`` in which a broker was not retired."""
    spells = broker_spells(sessions, suspects, coverage, skew, from_day=from_day)
    covers = _intervals(by_witness(coverage), by_witness(skew), "from_at", "to_at")
    return _rows(_pieces(spells, _awake_hours(covers, from_day), from_day), slo)


def broker_spells(
    sessions: DataFrame,
    suspects: DataFrame,
    coverage: DataFrame,
    skew: DataFrame,
    *,
    from_day: date | None = None,
) -> DataFrame:
    """From when to when brokers were in one ``state``: ``since_ms, until_ms, fails, recovers``.

    Those that end before ``from_day`` are not all there. ``awake``: a node of the fleet was.
    """
    if from_day is not None:
        recent = F.col("until_day") >= F.lit(first_read(skew, from_day - _LOOK_BACK))
        sessions, suspects = sessions.where(recent), suspects.where(recent)
        coverage = coverage.where(recent)
    sessions, suspects, coverage, skew = map(by_witness, (sessions, suspects, coverage, skew))
    seqs = ("from_seq", "to_seq")
    listed = known_parts(sessions, coverage, since="began_at", until="ended_at", seqs=seqs)
    doubted = known_parts(suspects, coverage, since="from_at", until="to_at", seqs=seqs)
    covers = _intervals(coverage, skew, "from_at", "to_at")
    edges = _edges(
        _intervals(sessions, skew, "began_at", "ended_at"),
        _intervals(listed, skew, "began_at", "ended_at"),
        _intervals(doubted, skew, "from_at", "to_at"),
        covers,
    )
    horizon = covers.groupBy("fleet").agg(F.max("until_ms").alias("horizon_ms"))
    return _spells(_changes(_beliefs(edges)), horizon)


def _intervals(rows: DataFrame, skew: DataFrame, since: str, until: str) -> DataFrame:
    """``since_ms`` to ``until_ms``, null while it lasts.

    It does not end before it begins, as it would where a clock was set back.
    """
    timed = on_common_clock(rows, skew, since, until)
    since_ms, until_ms = (f"{name.removesuffix('_at')}_ms" for name in (since, until))
    ended = F.when(F.col(until_ms).isNotNull(), F.greatest(since_ms, until_ms))
    return timed.withColumns({"since_ms": F.col(since_ms), "until_ms": ended})


# -- what happens, and when


def _edges(
    sessions: DataFrame, listings: DataFrame, doubts: DataFrame, covers: DataFrame
) -> DataFrame:
    """One row for each thing that begins or ends for a (broker, node).

    ``listings`` and ``doubts`` are what nodes bear witness to of sessions, and of doubts in them.
    """
    since, until = F.col("since_ms"), F.col("until_ms")
    goodbye = F.coalesce(F.col("cause").isin(*GOODBYES), F.lit(False))
    told = _edges_of(sessions, _edge(since, begins=F.lit(True)), _edge(until, says_goodbye=goodbye))
    listed = _edges_of(listings, _edge(since, listed=F.lit(1)), _edge(until, listed=F.lit(-1)))
    doubted = _edges_of(doubts, _edge(since, doubted=F.lit(1)), _edge(until, doubted=F.lit(-1)))
    blind = F.col("begins").isin(*BLIND_BEGINNINGS).cast("int")
    covered = _edges_of(
        covers,
        _edge(since, covered=F.lit(1), blinded=blind, looks_up=F.lit(True)),
        _edge(F.least(since + GRACE_MS, until), blinded=-blind),
        _edge(until, covered=F.lit(-1)),
        of=("fleet", "node"),
    )
    brokers = sessions.select(*BROKER).distinct()
    everywhere = brokers.join(F.broadcast(covered), "fleet")
    return reduce(DataFrame.unionByName, (told, listed, doubted, everywhere))


def _edge(at_ms: Column, **what: Column) -> Column:
    counted = [what.get(name, F.lit(0)).alias(name) for name in _COUNTED]
    noted = [what.get(name, F.lit(False)).alias(name) for name in _NOTED]
    return F.struct(at_ms.alias("at_ms"), *counted, *noted)


def _edges_of(
    intervals: DataFrame, *edges: Column, of: tuple[str, ...] = (*BROKER, "node")
) -> DataFrame:
    each = intervals.select(*of, F.explode(F.array(*edges)).alias("edge"))
    return each.select(*of, "edge.*").where(F.col("at_ms").isNotNull())


# -- what each node believes, and all of them together

# Everything from here on is per broker. Rows are brought together by broker once; grouping and
# ordering them by more columns than that moves none of them again.


def _beliefs(edges: DataFrame) -> DataFrame:
    """What one node began to believe of one broker: 1, 0 or -1 in each of ``_BELIEFS``.

    They say that it lists the broker and has heard of it, lists it without, would know if the
    broker were there, and is awake at all: what changed at ``at_ms``.
    """
    moments = (
        edges.repartition(*BROKER)
        .groupBy(*BROKER, "node", "at_ms")
        .agg(
            *(F.sum(name).alias(name) for name in _COUNTED),
            *(F.max(name).alias(name) for name in _NOTED),
        )
    )
    of_node = Window.partitionBy(*BROKER, "node").orderBy("at_ms")
    so_far = of_node.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    listed, doubted, covered, blinded = (F.sum(name).over(so_far) > 0 for name in _COUNTED)
    heard_ms = F.max(F.when(F.col("begins"), F.col("at_ms"))).over(so_far)
    looked_up_ms = F.max(F.when(F.col("looks_up"), F.col("at_ms"))).over(so_far)
    unheard = F.coalesce(heard_ms < looked_up_ms, F.lit(True))
    held = moments.withColumns(
        {
            "sure": (covered & listed & ~doubted).cast("int"),
            "unsure": (covered & listed & doubted).cast("int"),
            "aware": (covered & ~(blinded & unheard)).cast("int"),
            "awake": covered.cast("int"),
        }
    )
    return held.withColumns(
        {name: F.col(name) - F.lag(name, 1, 0).over(of_node) for name in _BELIEFS}
    )


def _changes(beliefs: DataFrame) -> DataFrame:
    """One row for each moment at which something changed for a broker, and what it was from then.

    ``left_ms`` is when it was last listed, ``known`` its state without the unknown.
    """
    moments = beliefs.groupBy(*BROKER, "at_ms").agg(
        *(F.sum(name).alias(name) for name in _BELIEFS),
        *(F.max(name).alias(name) for name in ("begins", "says_goodbye")),
    )
    of_broker = Window.partitionBy(*BROKER).orderBy("at_ms")
    so_far = of_broker.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    at_ms = F.col("at_ms")
    views = moments.withColumns(
        {
            "up": F.sum("sure").over(so_far) > 0,
            "listed": F.sum(F.col("sure") + F.col("unsure")).over(so_far) > 0,
            "aware": F.sum("aware").over(so_far) > 0,
            "awake": F.sum("awake").over(so_far) > 0,
            "began_ms": F.max(F.when(F.col("begins"), at_ms)).over(so_far),
            "goodbye_ms": F.max(F.when(F.col("says_goodbye"), at_ms)).over(so_far),
            "next_ms": F.lead("at_ms").over(of_broker),
        }
    )
    leaves = F.lag("listed", 1, False).over(of_broker) & ~F.col("listed")
    gone = views.withColumn("leaves", leaves).withColumn(
        "left_ms", F.max(F.when(F.col("leaves"), at_ms)).over(so_far)
    )
    said_so = (F.col("goodbye_ms") >= F.col("began_ms")) & (
        F.col("goodbye_ms") >= F.col("left_ms") - FAREWELL_MS
    )
    state = (
        F.when(F.col("up"), "up")
        .when(F.col("listed"), "suspect")
        .when(~F.col("aware"), "unknown")
        .when(said_so, "planned")
        .otherwise("down")
    )
    told = gone.where(F.col("listed") | F.col("left_ms").isNotNull()).withColumn("state", state)
    known = F.when(F.col("state") != "unknown", F.col("state"))
    before = of_broker.rowsBetween(Window.unboundedPreceding, -1)
    return told.withColumn("before", F.last(known, ignorenulls=True).over(before))


# -- how long


def _spells(changes: DataFrame, horizon: DataFrame) -> DataFrame:
    """``since_ms`` to ``until_ms`` in one state, and whether it began with a failure or repair."""
    retired_ms = F.col("left_ms") + RETIRED_AFTER_MS
    was_down = F.coalesce(F.col("before") == "down", F.lit(False))
    return changes.join(F.broadcast(horizon), "fleet").select(
        *BROKER,
        "state",
        "awake",
        F.col("at_ms").alias("since_ms"),
        F.least("next_ms", "horizon_ms", F.when(~F.col("listed"), retired_ms)).alias("until_ms"),
        ((F.col("state") == "down") & ~was_down).alias("fails"),
        (F.col("listed") & was_down & (F.col("at_ms") < retired_ms)).alias("recovers"),
    )


def _awake_hours(covers: DataFrame, from_day: date | None) -> DataFrame:
    """Hours in which a node of the fleet was awake: ``fleet, hour_ms``."""
    since = F.greatest("since_ms", F.lit(start_ms(from_day)))
    last = F.greatest(since, F.col("until_ms") - 1)
    hours = F.sequence(floor_ms(since, HOUR_MS), floor_ms(last, HOUR_MS), F.lit(HOUR_MS))
    known = covers.where(since <= F.col("until_ms"))
    return known.select("fleet", F.explode(hours).alias("hour_ms")).distinct()


def _pieces(spells: DataFrame, awake_hours: DataFrame, from_day: date | None) -> DataFrame:
    """Spells cut at full hours; a piece for its hour, and one for its day.

    One in which nobody was awake can share an hour with another only where it begins and ends.
    """
    since = F.greatest("since_ms", F.lit(start_ms(from_day)))
    until = F.col("until_ms")
    first, last = floor_ms(since, HOUR_MS), floor_ms(until - 1, HOUR_MS)
    hours = F.when(F.col("awake"), F.sequence(first, last, F.lit(HOUR_MS))).otherwise(
        F.array_distinct(F.array(first, last))
    )
    cut = (
        spells.where(since < until)
        .withColumn("hour_ms", F.explode(hours))
        .join(F.broadcast(awake_hours), ["fleet", "hour_ms"], "left_semi")
    )
    hour = F.col("hour_ms")
    begins_here = F.col("since_ms") >= hour
    grains = F.array(
        F.struct(F.lit("hour").alias("grain"), hour.alias("from_ms")),
        F.struct(F.lit("day").alias("grain"), floor_ms(hour, DAY_MS).alias("from_ms")),
    )
    return cut.select(
        *BROKER,
        F.inline(grains),
        "state",
        (F.least(until, hour + HOUR_MS) - F.greatest(since, hour)).alias("lasted_ms"),
        (F.col("fails") & begins_here).cast("int").alias("failures"),
        (F.col("recovers") & begins_here).cast("int").alias("repairs"),
    )


def _rows(pieces: DataFrame, slo: float) -> DataFrame:
    spent = [
        (F.sum(F.when(F.col("state") == state, F.col("lasted_ms")).otherwise(0)) / 1000).alias(
            f"{state}_s"
        )
        for state in STATES
    ]
    totals = pieces.groupBy(*BROKER, "grain", "from_ms").agg(
        *spent, F.sum("failures").alias("failures"), F.sum("repairs").alias("repairs")
    )
    there, down = F.col("up_s") + F.col("suspect_s"), F.col("down_s")
    budget = (there + down) * round(1 - slo, 12)  # as written: 1 - 0.999 is a little more
    return totals.withColumns(
        {
            "from_at": F.timestamp_millis("from_ms"),
            "day": F.to_date(F.timestamp_millis("from_ms")),
            "mtbf_s": F.try_divide(there, F.col("failures")),
            "mttr_s": F.try_divide(down, F.col("repairs")),
            "availability": F.try_divide(there, there + down),
            "budget_s": budget,
            "budget_left_s": budget - down,
        }
    ).select(*schemas.BROKER_AVAILABILITY.fieldNames())
