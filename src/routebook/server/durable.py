"""Files that are either the old or the new text, whatever happens, and their owner's alone."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from routebook.journal.folder import PRIVATE_FILE, make_folder, sync_folder


def replace_file(path: Path, text: bytes) -> None:
    """Write ``text`` so that it survives a crash once this returns; raises OSError.

    A new file is for its owner only; one that is replaced keeps the mode somebody gave it.
    """
    os.close(put_in_place(path, text))


def put_in_place(path: Path, text: bytes) -> int:
    """As ``replace_file``; returns a descriptor of the new file, which is locked until closed."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _held(temporary) as descriptor:
            os.fchmod(descriptor, _mode_of(path))
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(text)
            os.fsync(descriptor)
            temporary.replace(path)
            kept = os.dup(descriptor)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    try:
        sync_folder(path.parent)
    except OSError:
        os.close(kept)
        raise
    return kept


def clear_away(path: Path) -> None:
    """Remove what killed processes left of ``path`` half written, not what a live one writes."""
    with suppress(OSError):
        for temporary in path.parent.glob(f".{path.name}.*.tmp"):
            with suppress(OSError), temporary.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                temporary.unlink()


@contextmanager
def _held(temporary: Path) -> Iterator[int]:
    """An empty file, locked; ``clear_away`` may remove one between its making and its lock."""
    while True:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return PRIVATE_FILE
