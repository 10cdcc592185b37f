"""Intervals: rows that are true from one record of a node to another.

``from_seq`` is the record that made a row true, ``to_seq`` the one that told its end: a row is true
as of record ``s`` if ``from_seq <= s < to_seq``. Whatever wall clocks say, this is their order.
``to_seq`` is null for a row that is still true at the last record of its node.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook_spark.tables import OPEN


def holds(seq: Column) -> Column:
    """Whether the row is true as of record ``seq``."""
    return (F.col("from_seq") <= seq) & (F.col("to_seq").isNull() | (seq < F.col("to_seq")))


def until_day(end_at: Column, told_at: Column) -> Column:
    """The partition of a row that ended at ``end_at``, as the record of ``told_at`` told.

    The later of both days: what a record told is then never filed under a day before it, however
    long ago it ended. Null instants are those of a row that has not ended.
    """
    day = F.greatest(F.to_date(end_at), F.to_date(told_at))
    return F.coalesce(day, F.lit(OPEN))
