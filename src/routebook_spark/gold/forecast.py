"""capacity_forecast: when the registration of a broker group outgrows a frame.

A broker says all its topics in one request, and a request of more than 16 MiB is refused by
NameServers. The size is estimated from the topics: each is named twice in an entry of otherwise
constant size.
"""

from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from routebook_spark.gold.known import DAY_MS, LAST_MS, day_of, known_units, told_routes, unit_of
from routebook_spark.schemas import CAPACITY_FORECAST, WITNESS

LIMIT_BYTES = 16 * 1024 * 1024
TOPIC_BYTES = 144
"""Of an entry, without the name that is in it twice: of 5.x brokers, with one digit a number."""
FIXED_BYTES = 294
"""Of a registration without topics."""
HISTORY_DAYS = 28
LEAST_DAYS = 3
FAR_DAYS = 3650
"""A day that is further off is not named."""

BROKER = ("fleet", "cluster", "broker")
GROUP = (*WITNESS, "cluster", "broker")


def capacity_forecast(
    versions: DataFrame, coverage: DataFrame, earlier: DataFrame, *, from_day: date | None = None
) -> DataFrame:
    """Rows of ``CAPACITY_FORECAST``; ``earlier`` are those of the days before ``from_day``."""
    sizes = _sizes(versions, coverage, from_day).withColumn("wanted", F.lit(True))
    if from_day is not None:
        looked_back = F.col("day").between(
            F.lit(from_day - timedelta(days=HISTORY_DAYS - 1)),
            F.lit(from_day - timedelta(days=1)),
        )
        before = earlier.where(looked_back).select(
            "day", *BROKER, "topics", "registration_bytes", F.lit(False)
        )
        sizes = sizes.union(before)
    number = F.unix_date("day").cast("long")
    history = (
        Window.partitionBy(*BROKER)
        .orderBy(number)
        .rangeBetween(1 - HISTORY_DAYS, Window.currentRow)
    )
    trends = sizes.withColumns(
        {
            "history_days": F.count("day").over(history),
            "topics_per_day": _slope("topics", number, history),
            "bytes_per_day": _slope("registration_bytes", number, history),
        }
    )
    enough = F.col("history_days") >= LEAST_DAYS
    return (
        trends.where("wanted")
        .withColumn("topics_per_day", F.when(enough, F.col("topics_per_day")))
        .withColumn("bytes_per_day", F.when(enough, F.col("bytes_per_day")))
        .withColumn("limit_bytes", F.lit(LIMIT_BYTES).cast("long"))
        .withColumn("days_to_limit", _days_to_limit())
        .withColumn("limit_on", _limit_on())
        .select(*CAPACITY_FORECAST.names)
    )


def _slope(size: str, day: Column, history: WindowSpec) -> Column:
    """By least squares, in whole numbers up to the division: what does not grow has exactly 0.

    ``regr_slope`` finds a hundred-billionth of a byte a day there, and a limit in 10^15 years.
    """
    days, sizes, products, squares = (
        F.sum(summand).over(history) for summand in (day, F.col(size), day * F.col(size), day * day)
    )
    count = F.count(size).over(history)
    spread = count * squares - days * days
    return F.when(spread > 0, (count * products - days * sizes) / spread)


def _days_to_limit() -> Column:
    left = F.col("limit_bytes") - F.col("registration_bytes")
    return F.when(left <= 0, F.lit(0.0)).when(
        F.col("bytes_per_day") > 0, left / F.col("bytes_per_day")
    )


def _limit_on() -> Column:
    days = F.ceil("days_to_limit")
    return F.when(days <= FAR_DAYS, F.date_add("day", days.cast("int")))


def _sizes(versions: DataFrame, coverage: DataFrame, from_day: date | None) -> DataFrame:
    """Each group at the end of each day, as the node saw it that saw most of it.

    Topics come and go by the day (``steps``), and the sum of all steps up to a day is the state of
    that day: a topic that lasts for a year is two rows here, not 365.
    """
    days = (
        known_units(coverage, DAY_MS, from_day=from_day)
        .groupBy(*WITNESS, F.col("unit").alias("day_number"))
        .agg(F.max("until_ms").alias("until_ms"))
    )
    steps = (
        _steps(versions, days, from_day)
        .groupBy(*GROUP, "day_number")
        .agg(F.sum("topics").alias("topics"), F.sum("bytes").alias("bytes"))
    )
    groups = steps.select(*GROUP).distinct()
    known = F.broadcast(days.select(*WITNESS, "day_number"))
    quiet = groups.join(known, list(WITNESS)).select(
        *GROUP, "day_number", F.lit(0), F.lit(0), F.lit(True)
    )
    so_far = Window.partitionBy(*GROUP).orderBy("day_number")
    states = (
        steps.withColumn("known", F.lit(False))
        .union(quiet)
        .groupBy(*GROUP, "day_number")
        .agg(
            F.sum("topics").alias("topics"),
            F.sum("bytes").alias("bytes"),
            F.max("known").alias("known"),
        )
        .withColumn("topics", F.sum("topics").over(so_far))
        .withColumn("bytes", F.sum("bytes").over(so_far))
        .where(F.col("known") & (F.col("topics") > 0))
    )
    size = F.struct((F.col("bytes") + FIXED_BYTES).alias("bytes"), "topics")
    return (
        states.groupBy("day_number", *BROKER)
        .agg(F.max(size).alias("size"))
        .select(
            day_of(F.col("day_number")).alias("day"),
            *BROKER,
            F.col("size.topics").alias("topics"),
            F.col("size.bytes").alias("registration_bytes"),
        )
    )


def _steps(versions: DataFrame, days: DataFrame, from_day: date | None) -> DataFrame:
    """One up, one down for each route: on the first day at the end of which it is (not) there."""
    routes = told_routes(versions, from_day=from_day).select(
        *GROUP,
        (2 * F.octet_length("topic") + TOPIC_BYTES).cast("long").alias("bytes"),
        F.explode(
            F.array(
                F.struct(F.col("begin_ms").alias("at_ms"), F.lit(1).alias("sign")),
                F.struct(F.col("end_ms").alias("at_ms"), F.lit(-1).alias("sign")),
            )
        ).alias("step"),
    )
    first_day = F.lit(0 if from_day is None else (from_day - date(1970, 1, 1)).days)
    dated = (
        routes.where(F.col("step.at_ms") < LAST_MS)
        .withColumn("day_number", F.greatest(unit_of("step.at_ms", DAY_MS), first_day))
        .join(F.broadcast(days), [*WITNESS, "day_number"], "left")
    )
    # What happened when the node no longer knew enough shows on the day after.
    late = F.when(F.col("step.at_ms") >= F.col("until_ms"), 1).otherwise(0)
    return dated.select(
        *GROUP,
        (F.col("day_number") + late).alias("day_number"),
        F.col("step.sign").cast("long").alias("topics"),
        (F.col("step.sign") * F.col("bytes")).alias("bytes"),
    )
