"""Set up for all tests: programs they start, and in which order several processes run them."""

import signal
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SPARK = Path(__file__).parent / "spark"
SPARK_DONE = 0.8
"""Where in a run the last file of Spark begins: what comes after is short, and fills all cores."""
TOGETHER = {
    "tests/interop/test_mqadmin.py": "tests/interop/test_brokers.py",
    "tests/interop/test_other_clients.py": "tests/interop/test_brokers.py",
    "tests/interop/test_security.py": "tests/interop/test_brokers.py",
    "tests/spark/test_report_browser.py": "tests/spark/test_report.py",
}
"""Files for the process of another one: it starts once what they use, or makes what they read."""

# A shell that runs the tests in the background has SIGINT ignored, and programs started from here
# would inherit that: those told to stop by Ctrl-C would not.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """File by file."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return TOGETHER.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config) -> LoadFileScheduling | None:
    return Scheduling(config) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = mixed(items)


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Files of tests of Spark among the others: the former compute, the latter mostly wait."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    of_spark = [path for path in files if SPARK in path.parents]
    others = [path for path in files if SPARK not in path.parents]
    placed = {path: SPARK_DONE * place / len(of_spark) for place, path in enumerate(of_spark)}
    placed |= {path: place / len(others) for place, path in enumerate(others)}
    return [item for path in sorted(files, key=lambda path: placed[path]) for item in files[path]]
