"""Settings of Spark for tests: queries run once, on a few rows."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

SETTINGS = {
    # Compiling takes longer than interpreting, and planning anew longer than running as planned.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
# A new worker of Python has 15 s to report, which is little on a machine that does much else.
PATIENT = {"spark.python.authenticate.socketTimeout": "300s"}
# The second compiler takes a third of the processors of the first minutes, and is not yet worth it.
# With one compiler alone the room for compiled code is 48 MB, which a build of all tables outgrows.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def environment(
    folder: Path, settings: Mapping[str, str] = MappingProxyType(SETTINGS)
) -> dict[str, str]:
    """Of programs that start Spark, or talk to one here; their files are in ``folder``."""
    configuration = folder / "spark"
    configuration.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in {**PATIENT, **settings}.items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
        "JDK_JAVA_OPTIONS": JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
