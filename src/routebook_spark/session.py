"""The Spark session all commands share, with Delta Lake in it.

The jars of Delta Lake are found in ``share/routebook/jars`` of the Python environment, where
``make spark`` puts them, or in ``ROUTEBOOK_SPARK_JARS``. Without either Spark fetches them itself,
which takes open internet at the first start.
"""

import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from routebook_spark.errors import BadMemory, NoMaster, SparkNotStarted

__all__ = ["build_session"]

JARS_VARIABLE = "ROUTEBOOK_SPARK_JARS"
LEAST_JAVA = 17
LEAST_MEMORY_MB = 512
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PATIENCE_S = 5.0
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

    ``settings`` come last and so win. Raises PipelineError with what is in the way.
    """
    check_memory(memory)
    if master is not None:
        check_master(master)
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
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkNotStarted(why_not(jars_folder())) from error


def check_memory(memory: str) -> None:
    """Raises BadMemory for what Java takes for no size, or Spark for too little."""
    found = re.fullmatch(r"(\d+)([kmgt])b?", memory.lower())
    if found is None or int(found[1]) * _UNITS[found[2]] < LEAST_MEMORY_MB * _UNITS["m"]:
        raise BadMemory(memory, LEAST_MEMORY_MB)


def check_master(master: str) -> None:
    """Raises NoMaster: Spark itself tries for a minute, and then says something else."""
    if not re.match(r"(local|spark://|k8s://|yarn)", master):
        raise NoMaster(master, "it is none of local[2], spark://host:7077, yarn and k8s://host")
    if not master.startswith("spark://"):
        return
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise NoMaster(master, f"{place} is no host:port")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise NoMaster(master, "; ".join(reasons))


def why_not(folder: Path) -> str:
    """Why Java ended before there was a Spark."""
    java = (
        str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
    )
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{java} cannot be run ({error.strerror}); Spark needs Java 17 or newer"
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    if found is None or int(found[1]) < LEAST_JAVA:
        version = found[1] if found else "something else"
        return f"{java} is {version}; Spark needs Java {LEAST_JAVA} or newer"
    if not any(folder.glob("*.jar")):
        return (
            f"the jars of Delta Lake are not in {folder}, and could not be fetched from Maven"
            f" Central; get {_package()} and what it needs from a Maven repository (in a checkout"
            f" `make spark` does) and name the folder they are in with {JARS_VARIABLE}"
        )
    return "Java ended at once, perhaps for want of memory; --debug shows what it says"


def _settings(memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.session.timeZone": "UTC",
        # Where a column was made, for messages: five calls of Java for each, and a stack trace.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.ui.enabled": "false",
        # Of every query, for a page that nobody sees. In full it has each node of the plan twice.
        "spark.sql.ui.explainMode": "simple",
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


def jars_folder() -> Path:
    """Where the jars of Delta Lake are looked for."""
    named = os.environ.get(JARS_VARIABLE)
    return Path(named) if named else Path(sys.prefix) / "share" / "routebook" / "jars"


def _jars() -> dict[str, str]:
    jars = sorted(jars_folder().glob("*.jar"))
    if jars:
        return {"spark.jars": ",".join(str(jar) for jar in jars)}
    if os.environ.get(JARS_VARIABLE):
        raise SparkNotStarted(
            f"{JARS_VARIABLE} is {jars_folder()}, and there are no jars in it; name a folder that"
            " has those of Delta Lake, or none"
        )
    return {"spark.jars.packages": _package()}


def _package() -> str:
    """Delta Lake as Maven calls it, for the versions of Spark and Delta Lake that are here."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"
