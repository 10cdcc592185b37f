"""The last sign of life of a node, for the time after its last record.

    {"v":1,"seq":17,"wall_ms":…,"mono_ms":…}

At ``wall_ms`` the node was awake, all its records up to ``seq`` were written, and there were no
others. It is written in place about once a second, so it costs nothing and needs no room; it may
not outlive a loss of power. A node that stops in order leaves none.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from routebook.journal.folder import ALIVE, open_file

VERSION = 1
EVERY_MS = 1000
_SIZE = 112  # always all of it


class Alive(msgspec.Struct, frozen=True):
    v: int
    seq: int
    wall_ms: int
    mono_ms: int


def find_alive(folder: Path) -> Alive | None:
    """What the node that writes, or wrote, ``folder`` said last; None where there is nothing."""
    try:
        found = msgspec.json.decode((folder / ALIVE).read_bytes(), type=Alive)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if found.v <= VERSION else None


def remove_alive(folder: Path) -> None:
    with suppress(OSError):
        (folder / ALIVE).unlink()


class SignsOfLife:
    """Of one node, written by one thread. What cannot be written is left out."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ALIVE
        self._descriptor: int | None = None

    def write(self, alive: Alive) -> None:
        text = msgspec.json.encode(alive).ljust(_SIZE - 1) + b"\n"
        with suppress(OSError):
            if self._descriptor is not None and not os.fstat(self._descriptor).st_nlink:
                self.close()  # somebody removed it
            if self._descriptor is None:
                self._descriptor = open_file(self._path, os.O_WRONLY | os.O_CREAT)
            os.pwrite(self._descriptor, text, 0)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
