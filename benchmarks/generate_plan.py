"""What happens to brokers and nodes over days, as rows of a Spark frame.

    happened_ms  true time since the first midnight; the same on every node
    at_ms        when the node of this row hears of it
    kind, node, broker, value, values

Every random number is a hash of the seed, a name for what is decided, and the columns it is about:
the rows depend on neither the number of partitions nor the machines they are made on.
"""

from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
BEAT_MS = 30_000
PHASE_MS = 7919  # brokers send their heartbeats this far after each other
LATEST_MS = 26_000  # how late a heartbeat can be without being lost
ZONES = 3
DAYS_A_WEEK, DAYS_A_MONTH = 7, 30
_FIRST_MS, _LAST_MS = 5 * MINUTE_MS, 23 * HOUR_MS  # of a day, in which most things happen
_EVERYWHERE = -1
_ROWS_A_TASK = 10_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is, and how much happens to it.

    ``churn`` multiplies restarts and changes of topics. ``partition_on`` and ``loss_on`` are days
    of every week, ``cold_on`` one of every month; -1 for never.
    """

    brokers: int
    topics: int  # a broker
    nodes: int = 3
    days: int = 1
    seed: int = 1
    churn: float = 1.0
    queried: int = 200  # topics asked for in a minute
    first_day: date = date(2026, 10, 1)
    partition_on: int = 2
    loss_on: int = 4
    cold_on: int = 9

    @property
    def step(self) -> int:
        """Topics begin this far apart from broker to broker: each is on eight of them or so."""
        return max(1, self.topics // 8)

    @property
    def distinct_topics(self) -> int:
        return self.brokers * self.step


class Kind(IntEnum):
    """What happens. Of things at the same moment, the smaller comes first."""

    START = 0  # value: 1 with what it knew before, 0 with nothing
    STOP = 1
    CUT = 2  # value: the zone that cannot reach the node any more
    HEAL = 3
    LOSE = 4  # the journal has no room for records
    ROOM = 5
    DOWN = 6  # value: how, see Ending
    UP = 7
    HANG = 8
    WAKE = 9
    CREATE = 10  # value: how many topics
    DELETE = 11  # value: picks one of those created
    DRAIN = 12
    UNDRAIN = 13
    WINDOW = 14  # values: how late the two heartbeats of each broker are, ms
    QUERIES = 15  # values: topic (-n: one that does not exist) and count, in turn


class Ending(IntEnum):
    """How a broker process ends."""

    ORDERLY = 0
    KILLED = 1
    SILENT = 2  # the machine is gone; nobody closes its connections


def plan(spark: SparkSession, scale: Scale, *, partitions: int) -> DataFrame:
    """Everything that happens, in no particular order."""
    made = _Plan(spark, scale, partitions)
    sparse = reduce(
        DataFrame.union,
        [
            made.beginnings(),
            made.restarts(),
            made.flapping(),
            made.hangs(),
            made.created(),
            made.deleted(),
            made.drains(),
            made.node_restarts(),
            made.partitions_of_zones(),
            made.losses(),
        ],
    )
    return made.heard(sparse).union(made.windows()).union(made.queries())


class _Plan:
    def __init__(self, spark: SparkSession, scale: Scale, partitions: int) -> None:
        self._spark = spark
        self._scale = scale
        self._partitions = partitions
        self._days = self._range(scale.days).select(F.col("id").alias("day"))
        self._broker_days = self._range(scale.brokers * scale.days).select(
            (F.col("id") % scale.brokers).alias("broker"),
            F.expr(f"id div {scale.brokers}").alias("day"),
        )

    def _range(self, rows: int, *, partitions: int | None = None) -> DataFrame:
        """A task has more to do than to begin: a few rows are not worth many of them."""
        enough = partitions or min(self._partitions, 1 + rows // _ROWS_A_TASK)
        return self._spark.range(0, rows, 1, enough)

    def _dice(self, what: str, sides: int, *about: str | Column) -> Column:
        """A whole number below ``sides``: the same one for the same ``what`` and ``about``."""
        columns = [F.col(each) if isinstance(each, str) else each for each in about]
        drawn = F.xxhash64(F.lit(self._scale.seed), F.lit(what), *columns)
        return F.pmod(drawn, F.lit(sides))

    def _moment(self, what: str, *about: str) -> Column:
        """A time on ``day``."""
        return F.col("day") * DAY_MS + _FIRST_MS + self._dice(what, _LAST_MS, *about)

    def _sometimes(self, what: str, times_a_week: float) -> DataFrame:
        """The broker-days on which it happens."""
        thousandths = round(1000 * times_a_week * self._scale.churn)
        rolled = self._dice(what, 1000 * DAYS_A_WEEK, "broker", "day")
        return self._broker_days.where(rolled < thousandths)

    # -- brokers

    def beginnings(self) -> DataFrame:
        """Nodes start at midnight, and brokers within the first half minute."""
        nodes = self._range(self._scale.nodes).select(
            *_row(self._dice("start", 2000, "id"), Kind.START, node=F.col("id"))
        )
        brokers = self._range(self._scale.brokers).select(
            *_row(3000 + F.col("id") * PHASE_MS % BEAT_MS, Kind.UP, broker=F.col("id"))
        )
        return nodes.union(brokers)

    def restarts(self) -> DataFrame:
        """Each broker about once a week: half in order, some killed, some with their machine."""
        rolled = self._dice("how", 10, "broker", "day")
        killed, silent = F.lit(Ending.KILLED.value), F.lit(Ending.SILENT.value)
        how = F.when(rolled < 5, Ending.ORDERLY.value).when(rolled < 8, killed).otherwise(silent)
        away_ms = 20_000 + self._dice("away", 240_000, "broker", "day")
        restarts = self._sometimes("restart", 1.0).select(
            "broker",
            how.alias("how"),
            self._moment("restart at", "broker", "day").alias("down_ms"),
            # A machine takes longer to come back than a process.
            (away_ms * F.when(rolled < 8, 1).otherwise(3)).alias("away_ms"),
        )
        return _between(restarts, Kind.DOWN, Kind.UP, "down_ms", "away_ms", value=F.col("how"))

    def flapping(self) -> DataFrame:
        """One broker in a hundred is in a bad way for an hour of every third day."""
        bad = self._broker_days.where(
            (self._dice("flapper", 100, "broker") == 0)
            | (F.col("broker") == self._scale.brokers // 2)
        ).where(self._dice("bad day", 3, "broker", "day") == 0)
        ends = bad.select(
            "broker",
            self._moment("flap at", "broker", "day").alias("from_ms"),
            F.explode(F.sequence(F.lit(0), F.lit(11))).alias("n"),
        )
        jitter = self._dice("flap jitter", 200_000, "broker", "from_ms", "n")
        away = ends.select(
            "broker",
            (F.col("from_ms") + 5 * MINUTE_MS * F.col("n") + jitter).alias("down_ms"),
            (5000 + self._dice("flap away", 55_000, "broker", "from_ms", "n")).alias("away_ms"),
        )
        killed = F.lit(Ending.KILLED.value)
        return _between(away, Kind.DOWN, Kind.UP, "down_ms", "away_ms", value=killed)

    def hangs(self) -> DataFrame:
        """Long pauses: heartbeats are missed, now and then for longer than the timeout."""
        hangs = self._sometimes("hang", 0.35).select(
            "broker",
            self._moment("hang at", "broker", "day").alias("hang_ms"),
            (45_000 + self._dice("hang for", 90_000, "broker", "day")).alias("for_ms"),
        )
        return _between(hangs, Kind.HANG, Kind.WAKE, "hang_ms", "for_ms")

    def created(self) -> DataFrame:
        count = 1 + self._dice("how many", 5, "broker", "day")
        at_ms = self._moment("create at", "broker", "day")
        return self._sometimes("create", 2.0).select(
            *_row(at_ms, Kind.CREATE, broker=F.col("broker"), value=count)
        )

    def deleted(self) -> DataFrame:
        chosen = self._dice("which", 1 << 30, "broker", "day")
        at_ms = self._moment("delete at", "broker", "day")
        return self._sometimes("delete", 1.0).select(
            *_row(at_ms, Kind.DELETE, broker=F.col("broker"), value=chosen)
        )

    def drains(self) -> DataFrame:
        """One broker in two hundred a day may not be written to for an hour or two."""
        a_day = max(1, self._scale.brokers // 200)
        drains = self._days.select(
            "day", F.explode(F.sequence(F.lit(0), F.lit(a_day - 1))).alias("n")
        ).select(
            self._dice("drained", self._scale.brokers, "day", "n").alias("broker"),
            self._moment("drain at", "day", "n").alias("from_ms"),
            (30 * MINUTE_MS + self._dice("drain for", 90 * MINUTE_MS, "day", "n")).alias("for_ms"),
        )
        return _between(drains, Kind.DRAIN, Kind.UNDRAIN, "from_ms", "for_ms")

    # -- nodes

    def node_restarts(self) -> DataFrame:
        """Each node once a week, on another day each; one of them a month forgets all it knew."""
        node = F.explode(F.sequence(F.lit(0), F.lit(self._scale.nodes - 1)))
        weekly = self._days.select("day", node.alias("node")).where(
            F.col("day") % DAYS_A_WEEK == (1 + 2 * F.col("node")) % DAYS_A_WEEK
        )
        cold = self._on(self._scale.cold_on, DAYS_A_MONTH).select(
            "day", F.lit(0).cast("int").alias("node")
        )
        stops = weekly.withColumn("warm", F.lit(1)).union(cold.withColumn("warm", F.lit(0)))
        stops = stops.select(
            "node",
            "warm",
            self._moment("stop at", "day", "node", "warm").alias("stop_ms"),
            (5000 + self._dice("stop for", 60_000, "day", "node", "warm")).alias("for_ms"),
        )
        return _between(
            stops, Kind.STOP, Kind.START, "stop_ms", "for_ms", node="node", value=F.col("warm")
        )

    def partitions_of_zones(self) -> DataFrame:
        """A zone cannot reach one of the nodes for an hour."""
        cuts = self._on(self._scale.partition_on, DAYS_A_WEEK).select(
            self._dice("cut node", self._scale.nodes, "day").alias("node"),
            self._dice("cut zone", ZONES, "day").alias("zone"),
            self._moment("cut at", "day").alias("cut_ms"),
            F.lit(HOUR_MS).alias("for_ms"),
        )
        return _between(
            cuts, Kind.CUT, Kind.HEAL, "cut_ms", "for_ms", node="node", value=F.col("zone")
        )

    def losses(self) -> DataFrame:
        """The disk of a node is full for some minutes."""
        losses = self._on(self._scale.loss_on, DAYS_A_WEEK).select(
            self._dice("full node", self._scale.nodes, "day").alias("node"),
            self._moment("full at", "day").alias("full_ms"),
            (MINUTE_MS + self._dice("full for", 10 * MINUTE_MS, "day")).alias("for_ms"),
        )
        return _between(losses, Kind.LOSE, Kind.ROOM, "full_ms", "for_ms", node="node")

    def _on(self, day: int, of: int) -> DataFrame:
        return self._days.where((F.col("day") % of == day) & F.lit(day >= 0))

    # -- what each node hears

    def heard(self, happenings: DataFrame) -> DataFrame:
        """A row for each node it concerns, a little later on each."""
        everywhere = F.sequence(F.lit(0), F.lit(self._scale.nodes - 1))
        itself = F.array(F.col("node").cast("int"))
        nodes = F.when(F.col("node") == _EVERYWHERE, everywhere).otherwise(itself)
        by_hand = F.col("kind").isin(Kind.DELETE.value, Kind.DRAIN.value, Kind.UNDRAIN.value)
        delay_ms = self._dice("delay", 30, "node", "broker", "happened_ms") + F.when(
            by_hand, 150 * F.col("node")
        ).otherwise(0)
        return (
            happenings.withColumn("node", F.explode(nodes))
            .withColumn("at_ms", F.col("happened_ms") + delay_ms)
            .select(*_COLUMNS)
        )

    # -- counted all the time

    def windows(self) -> DataFrame:
        """A row for each minute of each node, with the delays of all heartbeats in it."""
        slots = F.sequence(F.lit(0), F.lit(2 * self._scale.brokers - 1))

        def late_ms(slot: Column) -> Column:
            drawn = self._dice("late", 1 << 40, "node", "window", slot)
            rolled, below = drawn % 4096, F.shiftright(drawn, 12)
            return (
                F.when(rolled == 0, 1000 + below % (LATEST_MS - 2000))
                .when(rolled < 80, below % 900)
                .otherwise(below % 40)
                .cast("int")
            )

        return self._minutes(Kind.WINDOW, F.transform(slots, late_ms))

    def queries(self) -> DataFrame:
        """The first topics are asked for most, as 1/n; one in twenty by nobody at all."""
        slots = F.sequence(F.lit(0), F.lit(self._scale.queried - 1))
        powers = [1 << n for n in range((self._scale.distinct_topics + 1).bit_length() - 1)]

        def asked(slot: Column) -> Column:
            drawn = self._dice("ask", 1 << 60, "node", "window", slot)
            # Each power of two as often as the next, and evenly within: whole numbers only, since
            # what logarithms are differs by a bit from machine to machine.
            power = F.element_at(F.lit(powers), (drawn % len(powers) + 1).cast("int"))
            below = F.shiftright(drawn, 20)
            rank = below % power + power - 1
            topic = rank - F.when(rank % 20 == 19, 1).otherwise(0)
            wrong = -1 - below % 50
            return F.array(
                F.when(below % 211 == 0, wrong).otherwise(topic).cast("int"),
                (1 + below % 30).cast("int"),
            )

        return self._minutes(Kind.QUERIES, F.flatten(F.transform(slots, asked)))

    def _minutes(self, kind: Kind, values: Column) -> DataFrame:
        windows = self._scale.days * (DAY_MS // MINUTE_MS)
        count = self._scale.nodes * windows
        minutes = self._range(count, partitions=self._partitions).select(
            F.expr(f"cast(id div {windows} as int)").alias("node"),
            (F.col("id") % windows).alias("window"),
        )
        end_ms = (F.col("window") + 1) * MINUTE_MS + 7000 * F.col("node")
        return minutes.select(
            *_row(end_ms, kind, node=F.col("node"), value=F.col("window")),
            end_ms.alias("at_ms"),
            values.alias("values"),
        ).select(*_COLUMNS)


_COLUMNS = ("node", "happened_ms", "at_ms", "kind", "broker", "value", "values")


def _row(
    happened_ms: Column,
    kind: Kind,
    *,
    node: Column | None = None,
    broker: Column | None = None,
    value: Column | None = None,
) -> list[Column]:
    nothing = F.lit(-1)
    row = [
        happened_ms.cast(LongType()).alias("happened_ms"),
        F.lit(kind.value).alias("kind"),
        (nothing if node is None else node).cast(IntegerType()).alias("node"),
        (nothing if broker is None else broker).cast(IntegerType()).alias("broker"),
        (F.lit(0) if value is None else value).cast(LongType()).alias("value"),
    ]
    if kind not in (Kind.WINDOW, Kind.QUERIES):
        row.append(F.lit(None).cast("array<int>").alias("values"))
    return row


def _between(
    spells: DataFrame,
    begin: Kind,
    end: Kind,
    from_ms: str,
    for_ms: str,
    *,
    node: str | None = None,
    value: Column | None = None,
) -> DataFrame:
    """Two rows for each spell: its beginning and its end."""
    whose = {"node": F.col(node)} if node else {"broker": F.col("broker")}
    ends_ms = F.col(from_ms) + F.col(for_ms)
    begins = spells.select(*_row(F.col(from_ms), begin, **whose, value=value))
    return begins.union(spells.select(*_row(ends_ms, end, **whose, value=value)))
