"""A Spark cluster of real processes on this machine: a standalone master and its workers."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from support.small_spark import environment
from support.waiting import wait_for

_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_STARTS_S = 90.0
_STOPS_S = 20.0


@contextmanager
def cluster(folder: Path, *, workers: int) -> Iterator[str]:
    """The URL of a master whose workers have a core and 1 GB each; all are stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        log = running.enter_context(_daemon(folder / "master", "master.Master"))
        url = _told(log, r"Starting Spark master at (spark://\S+)")
        logs = [
            running.enter_context(
                _daemon(
                    folder / f"worker-{number}",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "1g", "--work-dir", folder / f"work-{number}"),
                    url,
                )
            )
            for number in range(workers)
        ]
        for log in logs:
            _told(log, r"Successfully registered with master (\S+)")
        yield url


@contextmanager
def _daemon(home: Path, name: str, *args: str | Path) -> Iterator[Path]:
    """The file it writes its log to."""
    home.mkdir()
    log = home / "log"
    command = [str(_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", _HOST, "--port", "0", "--webui-port", "0", *args],
            cwd=home,
            env={**environment(home), "SPARK_HOME": str(_HOME), "SPARK_DAEMON_MEMORY": "256m"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOPS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _told(log: Path, pattern: str) -> str:
    def look() -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    found = wait_for(f"{pattern!r} in {log}", look, timeout_s=_STARTS_S)
    assert found is not None
    return found[1]
