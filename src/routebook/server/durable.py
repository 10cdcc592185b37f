"""Files that a node replaces as a whole, and that are their owner's alone."""

import os
import stat
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from routebook.disk import TEMPORARY, new_file
from routebook.journal.folder import PRIVATE_FILE, make_folder


def replace_file(path: Path, text: bytes) -> None:
    """Write ``text`` so that it survives a crash once this returns; raises OSError.

    A new file is for its owner only; one that is replaced keeps the mode somebody gave it.
    """
    os.close(put_in_place(path, text))


def put_in_place(path: Path, text: bytes) -> int:
    """As ``replace_file``; returns a descriptor of the new file, which is locked until closed."""

    def open_alike(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, PRIVATE_FILE)
        os.fchmod(descriptor, _mode_of(path))
        return descriptor

    make_folder(path.parent)
    kept = -1
    try:
        with new_file(path, opener=open_alike, lock=LOCK_EX) as file:
            kept = os.dup(file.fileno())
            file.write(text)
    except OSError:
        if kept >= 0:
            os.close(kept)
        raise
    return kept


def clear_away(path: Path) -> None:
    """Remove what killed processes left of ``path`` half written, not what a live one writes."""
    with suppress(OSError):
        for temporary in path.parent.glob(f".{path.name}.*{TEMPORARY}"):
            with suppress(OSError), temporary.open("rb") as file:
                flock(file, LOCK_EX | LOCK_NB)
                temporary.unlink()


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return PRIVATE_FILE
