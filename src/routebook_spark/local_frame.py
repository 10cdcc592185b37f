"""Local frames: a few rows that the driver knows: what is written down about files."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_frame(
    spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]
) -> DataFrame:
    """Rows by name; what is not given is null.

    Through Arrow they become part of the plan. A list of tuples takes a Python process to read.
    """
    names = schema.names
    columns = [{name: row.get(name) for name in names} for row in rows]
    table = pa.Table.from_pylist(columns, schema=to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(table, schema)
