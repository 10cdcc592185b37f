"""How much memory there is for this process: the least of its cgroups and the machine."""

import os
from pathlib import Path

from routebook.state.account import LEAST

SHARE_PERCENT = 75  # of what there is, unless the operator says otherwise
_NO_LIMIT = 2**60


def memory_limit(told: int) -> int:
    """What a node told so much, 0 for nothing, stays under; never less than it needs to serve."""
    return told or max(LEAST, available_memory() * SHARE_PERCENT // 100)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes; ``root`` is where ``proc`` and ``sys`` are looked for."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits(root)])


def _cgroup_limits(root: Path) -> list[int]:
    """Limits of the cgroups this process is in, and of those around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        folder = base / path.strip("/")
        # In a container the path may be that of the host; then the folder itself is ours.
        for place in (folder, *folder.parents):
            if place.is_relative_to(base):
                limits += _limit_in(place / name)
    return limits


def _limit_in(file: Path) -> list[int]:
    try:
        text = file.read_text().strip()
    except OSError:
        return []
    return [int(text)] if text.isdigit() and 0 < int(text) < _NO_LIMIT else []
