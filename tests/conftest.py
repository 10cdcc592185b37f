"""Set up for all tests: programs they start, and which of several processes runs what."""

import signal
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SPARK = "tests/spark/"
TOGETHER = {
    "tests/interop/test_mqadmin.py": "tests/interop/test_brokers.py",
    "tests/interop/test_other_clients.py": "tests/interop/test_brokers.py",
    "tests/interop/test_security.py": "tests/interop/test_brokers.py",
    "tests/spark/test_cluster.py": "tests/spark/test_build.py",
    "tests/spark/test_real_brokers.py": "tests/spark/test_build.py",
    "tests/spark/test_report_browser.py": "tests/spark/test_report.py",
}
"""Files for the process of another one: it starts once what they use, or makes what they read."""

LONGEST = (
    "tests/spark/test_build.py",
    "tests/spark/test_questions.py",
    "tests/spark/test_ingest.py",
    "tests/spark/test_report.py",
    "tests/interop/test_brokers.py",
    "tests/spark/test_ingest_fleets.py",
    "tests/spark/test_worlds.py",
    "tests/spark/test_watch.py",
)
"""Files that come first, so that no process is left with one of them when the others are done."""

# How long an example takes depends on what else the machine does: no reason to fail.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# A shell that runs the tests in the background has SIGINT ignored, and programs started from here
# would inherit that: those told to stop by Ctrl-C would not.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option, and not the environment: nothing left over there makes a test pass."""
    text = "write what commands print as what they are to print, for review"
    parser.addoption("--write-golden", action="store_true", help=text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """File by file, those of Spark not to the last process as long as there are others.

    They compute, the others mostly wait; and a Spark takes half a minute to get going.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return TOGETHER.get(file, file)

    def _assign_work_unit(self, node: Any) -> None:
        for_spark = node.gateway.id != f"gw{self.numnodes - 1}"
        for file in self.workqueue:
            if file.startswith(SPARK) is for_spark:
                self.workqueue.move_to_end(file, last=False)
                break
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
