"""Disk: the one way a file is put in place of another, and how much there is of files.

A file is written under another name, forced to disk, renamed, and its folder is forced to disk: who
looks for it finds the old one or the new one, whole, whenever the machine stops.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import flock
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp"

Opener = Callable[[str, int], int]


@contextmanager
def new_file(
    path: Path,
    *,
    temporary: Path | None = None,
    opener: Opener | None = None,
    lock: int | None = None,
) -> Iterator[BinaryIO]:
    """A file to be filled; it becomes ``path``, to last, when the block ends without an error.

    ``temporary`` is its name until then, one of this thread alone unless given. ``lock`` is what
    flock is told: a locked one is not what a killed process left. Raises OSError.
    """
    if temporary is None:
        owner = f"{os.getpid()}.{threading.get_ident()}"
        temporary = path.with_name(f".{path.name}.{owner}{TEMPORARY}")
    with _opened(temporary, opener, lock) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()  # a disk that is full needs the room
            raise
    sync_folder(path.parent)


def write_file(path: Path, content: bytes) -> None:
    """Put ``content`` in place of ``path``; raises OSError."""
    with new_file(path) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """The bytes of a file; 0 when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def folder_size(folder: Path) -> int:
    """The bytes of all files in ``folder``; those that go meanwhile count nothing."""
    return sum(map(size_of, folder.iterdir()))


@contextmanager
def _opened(temporary: Path, opener: Opener | None, lock: int | None) -> Iterator[BinaryIO]:
    """An empty file of that name.

    Between its making and its lock another process may have removed it, or renamed it.
    """
    while True:
        with open(temporary, "ab", opener=opener) as file:
            if lock is not None:
                flock(file, lock)
            if _is_at(temporary, file):
                file.truncate(0)
                yield file
                return


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
