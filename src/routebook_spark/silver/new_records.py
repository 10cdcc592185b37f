"""New records: which there are, and which rows they can change.

Of each node that has news, all records from the first new one on are looked at again. Rows of
intervals that had ended before it stay as they are; those true just before it are where the look
begins. A segment that fills a hole is news as well: its first record is the first new one, although
later ones have been looked at before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark.bronze.segments import were_taken
from routebook_spark.schemas import WITNESS
from routebook_spark.witnesses import Witness, is_of_any, witness_of


@dataclass(frozen=True, slots=True)
class NewRecords:
    """``since`` has the first new record of each node that has any.

    ``from_day`` is not after the day of any record from there on, nor after that of the last one
    before; None stands for all days. ``whole``: nothing is known yet, or is to be believed; all
    records of all nodes are new, and no table is asked which they are. ``after_batch`` is
    the last one before the news.
    """

    since: Mapping[Witness, int]
    from_day: date | None = None
    whole: bool = False
    after_batch: int = 0

    def all_of(self, witnesses: Iterable[Witness]) -> "NewRecords":
        """The same, with everything of ``witnesses`` as new."""
        since = {**self.since, **dict.fromkeys(witnesses, 0)}
        return self if since == self.since else NewRecords(since)

    def events(self, events: DataFrame) -> DataFrame:
        """The new ones."""
        return self.records(self.days(events))

    def days(self, rows: DataFrame) -> DataFrame:
        """Rows of the days since ``from_day``, of any node."""
        return rows if self.from_day is None else rows.where(F.col("day") >= self.from_day)

    def records(self, rows: DataFrame) -> DataFrame:
        """Rows of new records."""
        if self.whole:
            return rows
        return rows.where(self._any(lambda first_seq: F.col("seq") >= first_seq))

    def earlier(self, rows: DataFrame) -> DataFrame:
        """Rows of records before the new ones, of the same nodes."""
        if self.whole:
            return rows.where(F.lit(False))
        return rows.where(self._any(lambda first_seq: F.col("seq") < first_seq))

    def changed(self, intervals: DataFrame) -> DataFrame:
        """Rows that were, or are, true at a new record or just before: those to be replaced."""
        if self.whole:
            return intervals
        if self.from_day is not None:
            intervals = intervals.where(F.col("until_day") >= self.from_day)
        return intervals.where(
            self._any(lambda first: F.col("to_seq").isNull() | (F.col("to_seq") >= first))
        )

    def crossed(self, intervals: DataFrame) -> DataFrame:
        """Rows that were true just before the first new record, whatever is known of their end."""
        if self.whole:
            return intervals.where(F.lit(False))
        return self.changed(intervals).where(
            self._any(lambda first_seq: F.col("from_seq") < first_seq)
        )

    def first_seq(self) -> Column:
        """The first new record of the witness of a row."""
        return F.coalesce(*(F.when(each.is_of(), F.lit(seq)) for each, seq in self.since.items()))

    def touched(self) -> Column:
        """Whether a row is of a witness that has news."""
        return is_of_any(self.since)

    def where_records(self) -> str | None:
        """What is replaced of a table with a row for a record; None: all of it."""
        return None if self.whole else self._sql("seq >= {}")

    def where_intervals(self) -> str | None:
        """What is replaced of a table of intervals, as ``changed`` has it."""
        if self.whole:
            return None
        rows = self._sql("(to_seq IS NULL OR to_seq >= {})")
        return rows if self.from_day is None else f"until_day >= '{self.from_day}' AND ({rows})"

    def where_days(self) -> str | None:
        """What is replaced of a table of days."""
        return None if self.from_day is None else f"day >= '{self.from_day}'"

    def _any(self, condition: Callable[[int], Column]) -> Column:
        each = [each.is_of() & condition(first_seq) for each, first_seq in self.since.items()]
        return reduce(Column.__or__, each, F.lit(False))

    def _sql(self, condition: str) -> str:
        return " OR ".join(
            f"({each.sql()} AND {condition.format(first_seq)})"
            for each, first_seq in sorted(self.since.items())
        )


def new_since(segments: DataFrame, batch: int) -> NewRecords | None:
    """What was taken after ``batch``; None when nothing was."""
    taken = were_taken(segments)
    first = (
        taken.where(F.col("batch") > batch).groupBy(*WITNESS).agg(F.min("first_seq").alias("since"))
    )
    # Of the segments from there on, and of the one just before, which ends with the last record
    # that was known.
    at_or_after = F.col("last_seq") >= F.col("since")
    first_day, last_day = (
        F.to_date(F.timestamp_millis(name)) for name in ("min_wall_ms", "last_wall_ms")
    )
    found = (
        taken.join(F.broadcast(first), list(WITNESS))
        .groupBy(*WITNESS, "since")
        .agg(
            F.min(F.when(at_or_after, first_day)).alias("first_day"),
            F.max_by(last_day, F.when(~at_or_after, F.col("last_seq"))).alias("day_before"),
        )
        .select(*WITNESS, "since", F.least("first_day", "day_before").alias("day"))
        .collect()
    )
    if not found:
        return None
    return NewRecords(
        {witness_of(row): row.since for row in found},
        min(row.day for row in found),
        after_batch=batch,
    )


def all_as_new(segments: DataFrame) -> NewRecords:
    """Everything that was ever taken."""
    witnesses = were_taken(segments).select(*WITNESS).distinct().collect()
    return NewRecords({witness_of(row): 0 for row in witnesses}, whole=True)
