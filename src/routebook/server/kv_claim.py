"""The claim of a node to its key-value file: each change writes all of it, so one node may.

It is held as the folder of a journal is: by name, which lasts whatever becomes of the file
(journal/claim.py), and with flock on the file, for nodes that do not see each other's names. Every
write puts a new file in its place, which is locked before it is there.
"""

import errno
import fcntl
import os
import time
from enum import Enum
from pathlib import Path

from routebook.journal.claim import Claim, ClaimTaken, claim_path
from routebook.server.durable import put_in_place
from routebook.settings import SettingsError

_PATIENCE_S = 0.5  # for a node that is about to have stopped
_LOOK_S = 0.02


class Found(Enum):
    """What is where the file should be."""

    OURS = "ours"
    NOTHING = "nothing"
    ANOTHER = "another"  # file


class KvClaim:
    """Held from ``claim_kv_file`` until ``release``. ``write`` and ``look`` are for any thread."""

    def __init__(self, path: Path, claim: Claim) -> None:
        self._path = path
        self._claim = claim
        self._descriptor = _locked(path)  # None: there was no file, or none that can be locked
        self._known = file_at(path)

    def write(self, text: bytes) -> None:
        """Put a file with ``text`` in its place; raises OSError, also when another node has it."""
        if self.look() is Found.ANOTHER and (other := _locked(self._path)) is not None:
            os.close(other)  # of nobody who runs
        descriptor = put_in_place(self._path, text)
        self._let_go()
        self._descriptor, self._known = descriptor, file_at(self._path)

    def look(self) -> Found:
        """Whether the file is still the one that was read or written last."""
        there = file_at(self._path)
        if there == self._known:
            return Found.OURS
        return Found.NOTHING if there is None else Found.ANOTHER

    def release(self) -> None:
        self._let_go()
        self._claim.release()

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def file_at(path: Path) -> tuple[int, int] | None:
    """Which file there is, if any."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def claim_kv_file(path: Path) -> KvClaim:
    """Raises SettingsError when another node has the file at ``path``, which need not be there."""
    path = Path(os.path.realpath(path))
    deadline = time.monotonic() + _PATIENCE_S
    while (claim := _claimed(path)) is None:
        if time.monotonic() > deadline:
            raise SettingsError(
                f"the key-value file {path} is written by another node, and one file serves one"
                " node; choose another --kv-config-path, or stop that node first"
            )
        time.sleep(_LOOK_S)
    return claim


def _claimed(path: Path) -> KvClaim | None:
    try:
        claim = claim_path(path)
    except ClaimTaken:
        return None
    try:
        return KvClaim(path, claim)
    except OSError:
        claim.release()
        return None


def _locked(path: Path) -> int | None:
    """A descriptor of the file, locked; None where that cannot be. Raises OSError: it is taken."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None  # no file, or one that cannot be written anyway
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OSError(errno.EBUSY, "another node writes it; give each its own") from None
    except OSError:  # a file system that has no locks
        os.close(descriptor)
        return None
    return descriptor
