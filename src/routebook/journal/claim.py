"""A claim to a folder or a file by its name, which lasts as long as the process.

A lock on a file in a folder goes with the folder: remove it, and the next node makes another and
locks that. So a node also holds a name that only the kernel knows: a socket in the abstract
namespace of Linux, called after the path, the file system and the mounts that the process sees.
Containers that share a network, and have different folders of one name, do not meet. Where there
is no such namespace the lock has to do.
"""

import errno
import os
import socket
import sys
from hashlib import blake2b
from pathlib import Path


class ClaimTaken(Exception):
    """Another process, or another node of this one, has it."""


class Claim:
    """Held until ``release``."""

    def __init__(self, held: socket.socket | None) -> None:
        self._held = held

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def claim_path(path: Path) -> Claim:
    """Raises ClaimTaken. ``path`` need not be there."""
    if sys.platform != "linux":
        return Claim(None)
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(_name(path))
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            raise ClaimTaken from error
        return Claim(None)  # a sandbox that has no use for sockets
    return Claim(held)


def _name(path: Path) -> bytes:
    real = Path(os.path.realpath(path))
    there = next(each for each in (real, *real.parents) if each.is_dir())
    try:
        mounts = os.readlink("/proc/self/ns/mnt")  # noqa: PTH115
    except OSError:
        mounts = ""
    facts = f"{os.getuid()}|{mounts}|{there.stat().st_dev}|{real}"
    digest = blake2b(facts.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return b"\0routebook/" + digest.encode()
