"""Tables that an earlier version made, read as if this one had.

A column, or a member of one, that such a table does not have is null in all its rows, or what
``FILLED`` says of it.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from routebook_spark.schemas import FILLED


def lacks(stored: DataType, wanted: DataType) -> bool:
    """Whether ``wanted`` has members, at any depth, that ``stored`` has not."""
    if isinstance(wanted, ArrayType) and isinstance(stored, ArrayType):
        return lacks(stored.elementType, wanted.elementType)
    if not (isinstance(wanted, StructType) and isinstance(stored, StructType)):
        return False
    return any(
        each.name not in stored.names or lacks(stored[each.name].dataType, each.dataType)
        for each in wanted
    )


def as_now(rows: DataFrame, wanted: StructType) -> DataFrame:
    """``rows`` with all columns of ``wanted``, in its order; others after them."""
    stored = rows.schema
    if not lacks(stored, wanted):
        return rows
    columns = [
        _column(F.col(each.name), stored[each.name].dataType, each.dataType).alias(each.name)
        if each.name in stored.names
        else F.lit(FILLED.get(each.name)).cast(each.dataType).alias(each.name)
        for each in wanted
    ]
    others = [F.col(name) for name in stored.names if name not in wanted.names]
    return rows.select(*columns, *others)


def _column(column: Column, stored: DataType, wanted: DataType) -> Column:
    if not lacks(stored, wanted):
        return column
    if isinstance(wanted, ArrayType) and isinstance(stored, ArrayType):
        each_stored, each_wanted = stored.elementType, wanted.elementType
        return F.transform(column, lambda each: _column(each, each_stored, each_wanted))
    assert isinstance(wanted, StructType)
    assert isinstance(stored, StructType)
    members = [
        _column(column[each.name], stored[each.name].dataType, each.dataType).alias(each.name)
        if each.name in stored.names
        else F.lit(None).cast(each.dataType).alias(each.name)
        for each in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*members))
