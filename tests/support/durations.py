"""What the tests take: seconds of a clock and of processors, by test and by file.

A plugin of pytest. With ``--durations-file`` the phases of tests are measured, with all processes
they start, and the file is written at the end, the most expensive first. Seconds of processors
depend less than those of the clock on what else the machine does. Those of a program whose parent
was killed before it are not known.
"""

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

OPTION = "--durations-file"
WORTH_A_LOOK_S = 0.2
"""Of what takes less only the sum is known, and told with the next that takes more."""
_NAME = "took"
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, default=None, help="write what each test took into this file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(OPTION) is None:
        return
    config.pluginmanager.register(_Stopwatch())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(Path(str(config.getoption(OPTION)))))


class _Stopwatch:
    """Measures, in the process that runs the test."""

    def __init__(self) -> None:
        self._last = (time.monotonic(), processor_s(os.getpid()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if time.monotonic() - self._last[0] < WORTH_A_LOOK_S:
            return report
        now = (time.monotonic(), processor_s(os.getpid()))
        wall_s, cpu_s = (after - before for before, after in zip(self._last, now, strict=True))
        self._last = now
        # A list of its own: that of the test goes on into its later phases.
        report.user_properties = [(_NAME, (wall_s, max(cpu_s, 0.0)))]
        return report


class _Record:
    """Adds up, in the process that is told all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[tuple[str, str], tuple[float, float]] = {}
        self._started = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, took in report.user_properties:
            if name == _NAME and isinstance(took, (tuple, list)):
                self._tests[report.nodeid, report.when or ""] = (float(took[0]), float(took[1]))

    def pytest_sessionfinish(self) -> None:
        files: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for (test, _), (wall_s, cpu_s) in self._tests.items():
            name = test.partition("::")[0]
            files[name] = (files[name][0] + wall_s, files[name][1] + cpu_s)
        all_s = [sum(column) for column in zip(*files.values(), strict=True)] or [0.0, 0.0]
        lasted_s = time.monotonic() - self._started
        lines = [
            f"{len(files)} files in {lasted_s:.0f} s; all together: clock {all_s[0]:.0f} s,"
            f" processors {all_s[1]:.0f} s",
            "",
            "   clock  processors  file",
            *_lines((name, took) for name, took in files.items()),
            "",
            "   clock  processors  test",
            *_lines((f"{name} ({when})", took) for (name, when), took in self._tests.items()),
        ]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("\n".join(lines) + "\n")


def _lines(took: Iterator[tuple[str, tuple[float, float]]]) -> list[str]:
    dear = sorted(took, key=lambda each: -each[1][1])
    return [
        f"{wall_s:8.1f}  {cpu_s:10.1f}  {name}"
        for name, (wall_s, cpu_s) in dear
        if max(wall_s, cpu_s) >= 0.05
    ]


def processor_s(pid: int) -> float:
    """Of the process, of all it started that still run, and of those it has waited for."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        children[int(fields[1])].append(int(folder.name))
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total, left = 0, [pid]
    while left:
        each = left.pop()
        total += ticks.get(each, 0)
        left += children[each]
    return total / _TICKS
