"""A cgroup of so much memory and no more, for a process that claims to need no more."""

import os
import re
from pathlib import Path
from types import TracebackType

from support.waiting import wait_for

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """Inside of the group we are in, so that limits around it hold as well.

    Raises OSError where none can be made: without the rights, or where version 2 of cgroups does
    not let a group with processes have groups of its own.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._folder, self._v1 = _own_group()
        self._folder /= f"routebook-{os.getpid()}"

    def __enter__(self) -> "MemoryGroup":
        self._folder.mkdir()
        try:
            name = "memory.limit_in_bytes" if self._v1 else "memory.max"
            (self._folder / name).write_text(str(self._limit))
        except OSError:
            self._folder.rmdir()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Nodes end snapshots of theirs that run on; a group with processes cannot be removed.
        procs = self._folder / "cgroup.procs"
        wait_for("the group to be empty", procs.read_text, until=lambda text: not text)
        self._folder.rmdir()

    @property
    def begun_by(self) -> list[str]:
        """What a command must begin with to be in the group."""
        return ["sh", "-c", f'echo $$ > {self._folder}/cgroup.procs && exec "$@"', "sh"]

    def peak(self) -> int:
        """Bytes at their highest, files the system has read or written included."""
        name = "memory.max_usage_in_bytes" if self._v1 else "memory.peak"
        return int((self._folder / name).read_text())

    def killed(self) -> int:
        """How many processes were killed because there was no more memory."""
        name = "memory.oom_control" if self._v1 else "memory.events"
        found = re.search(r"^oom_kill (\d+)", (self._folder / name).read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])


def _own_group() -> tuple[Path, bool]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _ROOT / "memory" / path.strip("/"), True
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return _ROOT / line[3:].strip("/"), False
    raise OSError("no cgroups here")
