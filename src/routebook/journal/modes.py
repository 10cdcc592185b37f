"""Who may read a journal: its owner, unless the operator says that its group or everybody may.

The lock of a journal says so by its own mode, and whatever is made beside it, by whichever process,
is made alike. Only the journal is opened, and the way to it; values of key-value pairs of up to
1,024 characters are in there.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from routebook.journal.folder import PRIVATE_FILE, PRIVATE_FOLDER

_READ = 0o044
_SEARCH = 0o011


class Readers(StrEnum):
    OWNER = "owner"
    GROUP = "group"
    ALL = "all"

    @property
    def _who(self) -> int:
        return {Readers.OWNER: 0o000, Readers.GROUP: 0o070, Readers.ALL: 0o077}[self]

    @property
    def file_mode(self) -> int:
        return PRIVATE_FILE | (_READ & self._who)

    @property
    def folder_mode(self) -> int:
        return PRIVATE_FOLDER | ((_READ | _SEARCH) & self._who)

    @property
    def way_mode(self) -> int:
        """Of a folder on the way to a journal: it is gone through, not looked into."""
        return PRIVATE_FOLDER | (_SEARCH & self._who)


def open_to(readers: Readers, folder: Path, made: Collection[Path]) -> None:
    """Let ``readers`` at the journal in ``folder``, through its parent and those ``made`` for it.

    What others may do already they still may.
    """
    if readers is Readers.OWNER:
        return
    for way in {folder.parent, *made} - {folder}:
        _add(way, readers.way_mode)
    for name in os.listdir(folder):  # noqa: PTH208 - names are enough
        with suppress(FileNotFoundError):
            if (folder / name).is_file():
                _add(folder / name, readers.file_mode)
    _add(folder, readers.folder_mode)


def _add(path: Path, mode: int) -> None:
    before = stat.S_IMODE(path.stat().st_mode)
    if before | mode != before:
        path.chmod(before | mode)


def closed_to(readers: Readers, folder: Path) -> Iterator[Path]:
    """The folders on the way to ``folder`` that ``readers`` cannot go through."""
    for way in folder.absolute().parents:
        mode = stat.S_IMODE(way.stat().st_mode)
        if readers is Readers.GROUP and not mode & _SEARCH:
            yield way
        if readers is Readers.ALL and not mode & 0o001:
            yield way
