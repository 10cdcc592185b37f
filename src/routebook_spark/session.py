"""The Spark session all commands share, with Delta Lake in it.

The jars of Delta Lake are found in ``share/routebook/jars`` of the Python environment, where
``make spark`` puts them, or in ``ROUTEBOOK_SPARK_JARS``. Without either Spark fetches them itself,
which takes open internet at the first start.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

JARS_VARIABLE = "ROUTEBOOK_SPARK_JARS"
_EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""The option of Java that has Spark say what went wrong, and not what it does."""


def build_session(
    name: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """A session on ``master``, or on whatever ``spark-submit`` says, or on all cores here.

    ``settings`` come last and so win.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = master is None or master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else is to be reached
    builder = SparkSession.Builder().appName(name)
    for key, value in _settings(memory).items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    elif "SPARK_ENV_LOADED" not in os.environ:
        builder = builder.master("local[*]")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings(memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.session.timeZone": "UTC",
        # Where in Python a column was made, for messages: five calls of Java more for each of them.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        # Adaptive execution joins small partitions; more than the cores are for large data only.
        "spark.sql.shuffle.partitions": str(max(2 * (os.cpu_count() or 1), 4)),
        # Ten times as much comes out of packed segments, to be sorted in memory; and small tasks
        # keep all cores busy to the end.
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.databricks.delta.snapshotPartitions": "2",
        # Of new tables. What rows are looked for by comes first in all of them, and the least and
        # greatest value of every other column would take a tenth of the time to write events.
        "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "8",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.driver.extraJavaOptions": QUIET,
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        **_jars(),
    }


def _jars() -> dict[str, str]:
    named = os.environ.get(JARS_VARIABLE)
    folder = Path(named) if named else Path(sys.prefix) / "share" / "routebook" / "jars"
    jars = sorted(folder.glob("*.jar"))
    if jars:
        return {"spark.jars": ",".join(str(jar) for jar in jars)}
    if named:
        raise FileNotFoundError(f"{JARS_VARIABLE} is {named}, and there are no jars in it")
    spark = ".".join(version("pyspark").split(".")[:2])
    return {"spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"}
