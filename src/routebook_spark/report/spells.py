"""What brokers were from when to when, summed up: all that is said of their time is said by this.

    spells = spells_of(lake, period)
    broker_times(spells, period, slo=0.999), spent(spells, period), outages(spells, period)

Spells are those that the table of availability is made of. The page cannot tell of an outage that
the table does not count, nor of another length of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pyspark.sql import Window
from pyspark.sql import functions as F

from routebook_spark.gold.availability import broker_spells
from routebook_spark.report.facts import BrokerTime, Outage, Period, Spell, Spent, instant
from routebook_spark.report.rows import collected
from routebook_spark.tables import (
    BROKER_SESSIONS,
    CLOCK_SKEW,
    NODE_COVERAGE,
    SUSPECT_TIMES,
    Lake,
)

BROKER = ("cluster", "broker", "broker_id")
STATES = ("up", "suspect", "down", "planned", "unknown")

Key = tuple[str, str, int]


def spells_of(lake: Lake, period: Period) -> list[Spell]:
    """All that lasted into the period, by broker and time; what goes on in one state is one."""
    told = broker_spells(
        lake.read(BROKER_SESSIONS),
        lake.read(SUSPECT_TIMES),
        lake.read(NODE_COVERAGE),
        lake.read(CLOCK_SKEW),
        from_day=period.from_at.date(),
    ).where((F.col("since_ms") < F.col("until_ms")) & (F.col("since_ms") < period.to_ms))
    in_order = Window.partitionBy(*BROKER).orderBy("since_ms")
    goes_on = (F.col("state") == F.lag("state").over(in_order)) & (
        F.col("since_ms") == F.lag("until_ms").over(in_order)
    )
    begins = (~F.coalesce(goes_on, F.lit(False))).cast("int")
    merged = (
        told.withColumn("begins", begins)
        .withColumn("number", F.sum("begins").over(in_order))
        .groupBy(*BROKER, "state", "number")
        .agg(F.min("since_ms").alias("from_ms"), F.max("until_ms").alias("to_ms"))
        .orderBy(*BROKER, "from_ms")
        .select(*Spell._fields)
    )
    return [Spell(**row) for row in collected(merged)]


def broker_times(spells: Iterable[Spell], period: Period, *, slo: float) -> list[BrokerTime]:
    """Those of brokers that were anything in the period."""
    return [time for key, mine in _by_broker(spells) if (time := _time(key, mine, period, slo=slo))]


def total_time(times: Sequence[BrokerTime]) -> BrokerTime:
    columns = list(zip(*times, strict=True))[len(BROKER) :]
    sums = [sum(column) for column in columns] or [0] * (len(BrokerTime._fields) - len(BROKER))
    return BrokerTime("", "", 0, *sums)


def spent(spells: Iterable[Spell], period: Period) -> list[Spent]:
    """Time down, suspect and unknown in each step of the period in which there was any."""
    step_ms = period.step_s * 1000
    bins: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for spell in spells:
        since, until = _clipped(spell, period)
        if spell.state not in ("down", "suspect", "unknown"):
            continue
        while since < until:
            begin = since - since % step_ms
            upto = min(until, begin + step_ms)
            bins[begin][spell.state] += upto - since
            since = upto
    return [
        Spent(
            instant(begin),
            *(of_state[name] / 1000 for name in ("down", "suspect", "unknown")),
        )
        for begin, of_state in sorted(bins.items())
    ]


def outages(spells: Iterable[Spell], period: Period) -> list[Outage]:
    """Each time a broker was down in the period, from when it left to when it was seen again.

    Time in between in which nobody knew does not end one, and is not counted as down.
    """
    return [
        outage
        for key, mine in _by_broker(spells)
        for run in _runs(mine)
        if (outage := _outage(key, run, period)).down_s > 0
    ]


# -- one broker


def _by_broker(spells: Iterable[Spell]) -> Iterator[tuple[Key, list[Spell]]]:
    """``spells`` are in order of brokers and time."""
    for key, mine in groupby(spells, key=lambda spell: (spell[0], spell[1], spell[2])):
        yield key, list(mine)


def _clipped(spell: Spell, period: Period) -> tuple[int, int]:
    return max(spell.from_ms, period.from_ms), min(spell.to_ms, period.to_ms)


def _lasted_ms(spell: Spell, period: Period) -> int:
    since, until = _clipped(spell, period)
    return max(0, until - since)


def _time(key: Key, spells: Sequence[Spell], period: Period, *, slo: float) -> BrokerTime | None:
    spent_ms = dict.fromkeys(STATES, 0)
    failures = repairs = 0
    before = None
    for spell in spells:
        spent_ms[spell.state] += _lasted_ms(spell, period)
        if period.from_ms <= spell.from_ms < period.to_ms:
            failures += spell.state == "down" and before != "down"
            repairs += spell.state in ("up", "suspect") and before == "down"
        if spell.state != "unknown":
            before = spell.state
    if not any(spent_ms.values()):
        return None
    known_ms = spent_ms["up"] + spent_ms["suspect"] + spent_ms["down"]
    times = [spent_ms[state] / 1000 for state in STATES]  # in the order of the fields
    budget_s = known_ms / 1000 * round(1 - slo, 12)
    return BrokerTime._make((*key, *times, failures, repairs, budget_s))


def _runs(spells: Sequence[Spell]) -> Iterator[tuple[list[Spell], int | None]]:
    """Spells of each failure, and when the broker was something else again; None: not yet."""
    run: list[Spell] = []
    for spell in spells:
        if spell.state == "down" or (run and spell.state == "unknown"):
            run.append(spell)
        elif run:
            yield run, spell.from_ms
            run = []
    if run:
        yield run, None


def _outage(key: Key, run: tuple[list[Spell], int | None], period: Period) -> Outage:
    spells, back_ms = run
    seen_again = back_ms is not None and back_ms < period.to_ms
    unknown = [
        _clipped(spell, period)
        for spell in spells
        if spell.state == "unknown" and _lasted_ms(spell, period)
    ]
    down_ms = sum(_lasted_ms(spell, period) for spell in spells if spell.state == "down")
    return Outage(
        *key,
        left_at=instant(spells[0].from_ms),
        back_at=instant(back_ms) if back_ms is not None and seen_again else None,
        down_s=down_ms / 1000,
        unknown_s=sum(until - since for since, until in unknown) / 1000,
        unknown=tuple(unknown),
    )
