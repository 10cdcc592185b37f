"""The columns of a table of gold, whichever engine works them out.

Engines count instants and days in ms since 1970, so that none of their calendars matters. Here
they become what the schema says, the last thing before rows are written.

The generated journals are of one fleet, whose nodes keep their disks: engines name it in their
answers, and need not tell fleets and incarnations apart.
"""

from collections.abc import Callable, Iterable, Iterator

import polars as pl
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from routebook_spark.schemas import DEFAULT_FLEET

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

Scan = Callable[[str], pl.LazyFrame]
"""A table of the lake, by name."""


_SQL_TYPES: dict[type[DataType], str] = {
    BooleanType: "BOOLEAN",
    DoubleType: "DOUBLE",
    LongType: "BIGINT",
    MapType: "MAP(VARCHAR, BIGINT)",
    StringType: "VARCHAR",
}
_FRAME_TYPES: dict[type[DataType], pl.DataType] = {
    BooleanType: pl.Boolean(),
    DoubleType: pl.Float64(),
    LongType: pl.Int64(),
    MapType: pl.Map(pl.String(), pl.Int64()),
    StringType: pl.String(),
}


def of_one_fleet(names: Iterable[str]) -> tuple[str, ...]:
    """Columns that gold tells things apart by, where there is but one fleet."""
    return tuple(name for name in names if name not in ("fleet", "incarnation"))


def sql_columns(schema: StructType) -> Iterator[str]:
    for field in schema:
        name, kind = field.name, type(field.dataType)
        if name == "fleet":
            yield f"'{DEFAULT_FLEET}' AS fleet"
        elif kind is TimestampType:
            yield f"epoch_ms({name}::bigint) AS {name}"
        elif kind is DateType:
            yield f"epoch_ms({name}::bigint)::date AS {name}"
        else:
            yield f"{name}::{_SQL_TYPES[kind]} AS {name}"


def frame_columns(schema: StructType) -> Iterator[pl.Expr]:
    for field in schema:
        column, kind = pl.col(field.name), type(field.dataType)
        if field.name == "fleet":
            yield pl.lit(DEFAULT_FLEET).alias("fleet")
        elif kind is TimestampType:
            yield pl.from_epoch(column, "ms").cast(pl.Datetime("us", "UTC"))
        elif kind is DateType:
            yield pl.from_epoch(column, "ms").dt.date()
        else:
            yield column.cast(_FRAME_TYPES[kind])


def comparable(schema: StructType) -> Iterator[str]:
    """Expressions of DuckDB that are equal where rows are, floats up to six digits.

    Floats are shifted first: what lies between two roundings would be rounded either way, and
    0.0000005 does often, where milliseconds are divided by hours.
    """
    for field in schema:
        name, kind = field.name, type(field.dataType)
        if kind is DoubleType:
            yield f"round({name} + 0.000000123, 6)"
        elif kind is TimestampType:
            yield f"epoch_ms({name})"
        elif kind is MapType:
            yield f"list_sort(map_entries({name}))"
        else:
            yield name


def kept(rows: pl.LazyFrame) -> pl.LazyFrame:
    """``rows`` worked out, for what is used more than once: Polars does not always see that."""
    return rows.collect(engine="streaming").lazy()
