"""Questions about the past of all nodes, answered as DataFrames.

    book = Routebook(Lake(spark, "/data/tables"))
    book.route("orders", "2026-11-15T03:12:04Z").show()
    book.diff("2026-11-15T03:00Z", "2026-11-15T04:00Z", topic="orders").show()
    book.explain_broker("broker-a").show(truncate=False)

Questions are asked of all fleets, and answers name the fleet; ``fleet=`` asks one of them. A time
is a datetime or an ISO 8601 text, in UTC unless it says otherwise, by the clock of each node.
Columns are explained in docs/pipeline/questions.md.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark import tables
from routebook_spark.answers import timeline
from routebook_spark.answers.as_of import ENDED, PROBABLY, earliest_day, moments
from routebook_spark.answers.differences import by_broker, differences, topics_come_and_gone
from routebook_spark.answers.routes_at import ROUTE, routes_at
from routebook_spark.errors import PipelineError
from routebook_spark.local_frame import held_by_driver, local_frame
from routebook_spark.schemas import STRING, TIMESTAMP, WITNESS, struct
from routebook_spark.tables import Lake, Table

__all__ = ["Routebook"]

Time = datetime | str

_MOMENTS = struct(at=TIMESTAMP)
_ASKED = struct(topic=STRING, at=TIMESTAMP)


class NoSuchTable(PipelineError):
    """A name that no table has."""

    def __init__(self, name: str) -> None:
        known = ", ".join(table.name for table in tables.ALL)
        super().__init__(f"there is no table {name}; there are {known}")


class BadTime(PipelineError):
    """A text that is no time."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no time; write 2026-11-15T03:12:04Z, or give a datetime")


@dataclass(frozen=True, slots=True)
class Routebook:
    """The past of all nodes whose journals were ingested."""

    lake: Lake

    def table(self, name: str) -> DataFrame:
        """One of the tables of the pipeline; without rows when it was never built."""
        for table in tables.ALL:
            if table.name == name:
                return self.lake.read(table)
        raise NoSuchTable(name)

    # -- routes

    def route(
        self, topic: str, at: Time, *, node: str | None = None, fleet: str | None = None
    ) -> DataFrame:
        """Who served ``topic`` at a time: a row for each node and broker of its route.

        A node without a route is one row without a broker; ``told`` says why. It is ``probably``
        where nobody saw the node answer, and ``why`` says the reason.
        """
        asked = local_frame(self.lake.spark, _ASKED, [{"topic": topic, "at": _time(at)}])
        return self.routes_at(asked, node=node, fleet=fleet)

    def routes_at(
        self, asked: DataFrame, *, node: str | None = None, fleet: str | None = None
    ) -> DataFrame:
        """As ``route``, for each row of ``asked``, which has ``topic`` and ``at``."""
        pairs = asked.select("topic", "at").distinct()
        points = pairs.join(self._moments(pairs, node, fleet), "at")
        since = earliest_day(pairs)
        served = routes_at(
            points.where(F.col("told").isNull() | (F.col("told") == PROBABLY)),
            versions=self._lasting(tables.ROUTE_VERSIONS, since),
            sessions=self._lasting(tables.BROKER_SESSIONS, since),
            suspects=self._lasting(tables.SUSPECT_TIMES, since),
        )
        told = (
            F.when(F.col("told").isNotNull(), F.col("told"))
            .when(F.col("broker").isNotNull(), "route")
            .otherwise(F.when(F.col("partial"), "unknown").otherwise("none"))
        )
        keys = ["topic", "at", *WITNESS]
        state = ("known", "told", "why", "unclear_since", "partial", "seq", "as_of")
        return (
            points.join(served, keys, "left")
            .withColumn("told", told)
            .withColumn("known", F.col("told").isin("route", "none"))
            .select(*keys, *state, *ROUTE)
        )

    # -- differences

    def diff(
        self,
        from_: Time,
        to: Time,
        *,
        node: str | None = None,
        topic: str | None = None,
        fleet: str | None = None,
    ) -> DataFrame:
        """What was different at ``to`` from what it was at ``from_``, not all that happened.

        A row for each topic of a broker and each of its members; a node that did not know at one
        of the moments is one row, not ``known``.
        """
        return self.differences(from_, to, node=node, topic=topic, fleet=fleet).rows

    def differences(
        self,
        from_: Time,
        to: Time,
        *,
        node: str | None = None,
        topic: str | None = None,
        fleet: str | None = None,
    ) -> "Differences":
        """As ``diff``, with sums for a broker and for all."""
        begin, end = _time(from_), _time(to)
        ats = local_frame(self.lake.spark, _MOMENTS, [{"at": begin}, {"at": end}])
        # A row for each node, joined with again and again.
        period = held_by_driver(_period(self._moments(ats, node, fleet), begin, end))
        since = min(begin, end).date()
        return Differences(
            period,
            versions=self._lasting(tables.ROUTE_VERSIONS, since),
            sessions=self._lasting(tables.BROKER_SESSIONS, since),
            topic=topic,
        )

    # -- stories

    def explain_topic(
        self,
        topic: str,
        *,
        begin: Time | None = None,
        end: Time | None = None,
        fleet: str | None = None,
    ) -> DataFrame:
        """What happened to ``topic``, a sentence a row, in order of time."""
        lines = timeline.of_topic(
            topic,
            versions=self.lake.read(tables.ROUTE_VERSIONS),
            events=self.lake.read(tables.EVENTS),
            coverage=self.lake.read(tables.NODE_COVERAGE),
        )
        return self._story(lines, begin, end, fleet)

    def explain_broker(
        self,
        name: str,
        *,
        begin: Time | None = None,
        end: Time | None = None,
        fleet: str | None = None,
    ) -> DataFrame:
        """What happened to the brokers called ``name``, a sentence a row, in order of time."""
        lines = timeline.of_broker(
            name,
            sessions=self.lake.read(tables.BROKER_SESSIONS),
            events=self.lake.read(tables.EVENTS),
            coverage=self.lake.read(tables.NODE_COVERAGE),
        )
        return self._story(lines, begin, end, fleet)

    def _story(
        self, lines: DataFrame, begin: Time | None, end: Time | None, fleet: str | None
    ) -> DataFrame:
        if fleet is not None:
            lines = lines.where(F.col("fleet") == fleet)
        told = timeline.ordered(lines, self.lake.read(tables.CLOCK_SKEW))
        if begin is not None:
            told = told.where(F.col("at") >= _time(begin))
        if end is not None:
            told = told.where(F.col("at") <= _time(end))
        return told

    # -- tables

    def _moments(self, ats: DataFrame, node: str | None, fleet: str | None) -> DataFrame:
        segments = self.lake.read(tables.SEGMENTS)
        if node is not None:
            segments = segments.where(F.col("node") == node)
        if fleet is not None:
            segments = segments.where(F.col("fleet") == fleet)
        return moments(
            ats,
            segments=segments,
            events=self.lake.read(tables.EVENTS),
            coverage=self.lake.read(tables.NODE_COVERAGE),
        )

    def _lasting(self, table: Table, since: date | None) -> DataFrame:
        """What had not ended before ``since``; older partitions are not read."""
        rows = self.lake.read(table)
        return rows if since is None else rows.where(F.col("until_day") >= F.lit(since))


class Differences:
    """Between two moments; ``period`` has a row for each node."""

    def __init__(
        self,
        period: DataFrame,
        *,
        versions: DataFrame,
        sessions: DataFrame,
        topic: str | None,
    ) -> None:
        self.period = period
        self._versions = versions
        self._sessions = sessions
        self.rows = differences(period, versions=versions, sessions=sessions, topic=topic)

    def by_broker(self) -> DataFrame:
        """One row for a broker, however many topics it has."""
        return by_broker(self.rows, period=self.period, sessions=self._sessions)

    def topics(self) -> DataFrame:
        """How many topics came and went altogether, and a few of them."""
        return topics_come_and_gone(self.rows, period=self.period, versions=self._versions)


def _period(stood: DataFrame, begin: datetime, end: datetime) -> DataFrame:
    """``before_seq, after_seq, told`` of nodes: why one did not know at one of them, or null.

    Numbers of different incarnations do not compare: what was before a disk was replaced is not
    known to the node that came after.
    """

    def at(moment: datetime, name: str) -> Column:
        return F.max(F.when(F.col("at") == F.lit(moment), F.col(name)))

    reason = F.coalesce(F.when(F.col("told") != F.col("why"), F.col("why")), F.lit(""))
    named = F.when(reason == "", F.col("told")).otherwise(
        F.format_string("%s (%s)", "told", reason)
    )
    why = F.concat_ws(" at ", named, F.date_format("at", "yyyy-MM-dd'T'HH:mm:ss'Z'"))
    # Beyond its last record nothing is known to have changed.
    unclear = F.col("told").isNotNull() & ~F.coalesce(F.col("why") == ENDED, F.lit(False))
    several = F.count_distinct("incarnation") > 1
    return stood.groupBy("fleet", "node").agg(
        F.max_by("incarnation", "at").alias("incarnation"),
        at(begin, "seq").alias("before_seq"),
        at(end, "seq").alias("after_seq"),
        F.coalesce(
            F.min(F.when(unclear, why)),
            F.when(several, "its disk was replaced meanwhile, and nothing of before was kept"),
        ).alias("told"),
    )


def _time(given: Time) -> datetime:
    moment = _parsed(given) if isinstance(given, str) else given
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(text) from None
