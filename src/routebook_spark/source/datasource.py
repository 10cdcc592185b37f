# ruff: noqa: N802  methods have the names that Spark calls them by
"""``spark.read.format("routebook")`` and ``spark.readStream.format("routebook")``.

    register(spark)
    spark.read.format("routebook").option("nameservers", "ns-1:9876;ns-2:9876").load()
    spark.readStream.format("routebook").load("/data/journals")

With a path, journals are followed (journal.py), otherwise nodes are asked (live.py).
"""

from collections.abc import Mapping, MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from routebook_spark import schemas
from routebook_spark.source.journal import JournalStream
from routebook_spark.source.live import LiveReader, table_schema

__all__ = ["register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_OPTIONS = {
    "path": {"path", "max_bytes", "fleet", "on_fault"},
    "nameservers": {"nameservers", "table", "deadline_s", "on_error"},
}


class BadOption(ValueError):
    """An option of the data source that says nothing, or nothing that can be done."""


class RoutebookSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._follows = "path" in options
        _refuse_unknown(options, _OPTIONS["path" if self._follows else "nameservers"])

    @classmethod
    def name(cls) -> str:
        return "routebook"

    def schema(self) -> StructType:
        return schemas.EVENTS if self._follows else table_schema(self.options.get("table"))

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._follows:
            raise BadOption(
                "journals can be followed, with readStream, and not read: for what is sealed there"
                " is routebook spark ingest"
            )
        return LiveReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if not self._follows:
            raise BadOption("readStream needs the path of the folder with the journals")
        return JournalStream(self.options)


def register(spark: SparkSession) -> None:
    """Make the format known to ``spark``, and let it ask nodes for less than all."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RoutebookSource)


def _refuse_unknown(options: Mapping[str, str], known: set[str]) -> None:
    unknown = sorted(name for name in options if name.lower() not in known)
    if unknown:
        raise BadOption(f"there is no option {unknown[0]}: there are {', '.join(sorted(known))}")
