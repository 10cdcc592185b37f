"""Local frames: a few rows that the driver knows, as part of the plan.

Nothing runs to read them: neither a Python process, as for a list of tuples, nor the jobs in which
Delta Lake looks for the files of a table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_frame(
    spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]
) -> DataFrame:
    """Rows by name; what is not given is null."""
    names = schema.names
    columns = [{name: row.get(name) for name in names} for row in rows]
    table = pa.Table.from_pylist(columns, schema=to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(table, schema)


def held_by_driver(rows: DataFrame) -> DataFrame:
    """The same, worked out once: for a few rows that are used again and again."""
    return rows.sparkSession.createDataFrame(rows.toArrow(), rows.schema)
