"""Programs of the pipeline that are killed when something is on the disk."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from routebook_spark.tables import Table
from support.small_spark import environment
from support.waiting import wait_for


class Killable:
    """A process of its own, which is stopped or killed when something is on the disk.

    What is on the disk while it is stopped is what a kill at that moment would leave.
    """

    def __init__(self, tables: Path, command: Sequence[str]) -> None:
        self._tables = tables
        self._log = tables.with_suffix(".log").open("ab")
        self._process = subprocess.Popen(
            command,
            env=environment(tables.parent),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it at once, Java and all."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def wait(self, happened: Callable[[], bool]) -> None:
        """Fails if the process ends before."""
        while not happened():
            assert self._process.poll() is None, Path(self._log.name).read_text()
            time.sleep(0.002)

    def copy_when(self, happened: Callable[[], bool], copy: Path) -> None:
        """The tables as a kill would leave them."""
        self.wait(happened)
        os.killpg(self._process.pid, signal.SIGSTOP)
        group = processes_of(self._process.pid)
        wait_for("all to stand still", lambda: set(map(state_of, group)) <= {"T", "Z"})
        shutil.copytree(self._tables, copy)
        os.killpg(self._process.pid, signal.SIGCONT)


def processes_of(group: int) -> list[Path]:
    """Folders of them in /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(stat_of(folder)[2]) == group:
                found.append(folder)
    return found


def state_of(process: Path) -> str:
    try:
        return stat_of(process)[0]
    except OSError:
        return "Z"


def stat_of(process: Path) -> list[str]:
    """State, parent, group and so on."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def commits(tables: Path, table: Table) -> int:
    return len(list((tables / table.name / "_delta_log").glob("*.json")))
