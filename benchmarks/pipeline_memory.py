"""The memory of a process and of all it started, looked at again and again from outside."""

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 0.5
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Peak:
    """Resident bytes at most: of all processes together, and of Java and the rest by themselves."""

    total: int = 0
    java: int = 0
    others: int = 0


class Watch:
    """Watches ``process`` from the beginning of the block to its end.

    It is killed when it takes more than ``limit`` bytes together with all it started.
    """

    def __init__(self, process: subprocess.Popen[str], *, limit: int) -> None:
        self.peak = Peak()
        self._process = process
        self._limit = limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        java = others = 0
        for process in _family(self._process.pid):
            if process.name == "java":
                java += process.resident
            else:
                others += process.resident
        self.peak.java = max(self.peak.java, java)
        self.peak.others = max(self.peak.others, others)
        self.peak.total = max(self.peak.total, java + others)
        if java + others > self._limit:
            self._process.kill()


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    virtual: int
    resident: int


def _family(root: int) -> list[_Process]:
    """``root`` and all that descend from it, as far as they are there.

    One that Java is about to start has all the memory of Java for a moment, the same and not as
    much again: nothing but the size tells it from what it is going to be.
    """
    by_parent: dict[int, list[_Process]] = {}
    family: list[_Process] = []
    for process in _processes():
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid == root:
            family.append(process)
    for process in family:  # which grows meanwhile
        children = by_parent.get(process.pid, [])
        family += [child for child in children if child.virtual != process.virtual]
    return family


def _processes() -> list[_Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        name, _, rest = stat.partition("(")[2].rpartition(")")
        numbers = rest.split()
        parent, virtual, resident = (int(numbers[place]) for place in (1, 20, 21))
        found.append(_Process(int(folder.name), parent, name, virtual, resident * _PAGE))
    return found
