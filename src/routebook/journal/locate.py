"""Where a journal is, given a folder that somebody named.

People name the data folder of a node as often as the journal in it, and now and then a folder that
has nothing to do with either. No records are no proof of a journal that lacks none.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from routebook.journal.errors import JournalError
from routebook.journal.folder import LOCK, list_folder
from routebook.journal.identity import find_identity
from routebook.journal.lock import Note
from routebook.journal.manifest import read_removed
from routebook.words import listed

USUAL = "journal"  # its name in the data folder of a node
_NAMED = 5


class NoJournal(JournalError):
    """There is none where one was looked for."""


def locate(folder: Path) -> Path:
    """``folder`` if it is a journal, else the one journal in it.

    Raises NoJournal when there is none, or several; JournalError when it cannot be read.
    """
    try:
        if is_journal(folder):
            return folder
        if (folder / USUAL).is_dir() and is_journal(folder / USUAL):
            return folder / USUAL
    except PermissionError as error:
        raise JournalError(f"cannot read the journal {folder}: {error.strerror}") from error
    found = list(_journals_in(folder))
    if len(found) == 1:
        return found[0]
    if found:
        names = listed([path.name for path in found], most=_NAMED)
        raise NoJournal(f"{folder} is no journal, and has several in it; name one of {names}")
    raise NoJournal(
        f"there is no journal in {folder}; a node keeps it in the folder `{USUAL}` of its data"
        " folder (dataDir)"
    )


def is_journal(folder: Path) -> bool:
    """Whether there are records in ``folder``, or signs of a node that wrote some there.

    Raises JournalError when it is no folder, or cannot be read.
    """
    listing = list_folder(folder)
    return bool(listing.holds_records or listing.torn) or any(
        found(folder) for found in (_has_identity, _has_removed, _has_note)
    )


def _journals_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        try:
            if path.is_dir() and is_journal(path):
                yield path
        except (JournalError, OSError):
            continue  # nobody said that it is one


def _has_identity(folder: Path) -> bool:
    try:
        return find_identity(folder) is not None
    except JournalError:
        return False


def _has_removed(folder: Path) -> bool:
    try:
        return read_removed(folder) is not None
    except JournalError:
        return False


def _has_note(folder: Path) -> bool:
    """Whether a node locked the folder; other programs have locks too."""
    path = folder / LOCK
    try:
        if not path.is_file():
            return False
        note = msgspec.json.decode(path.read_bytes().strip(), type=Note)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return bool(note.first_seq or note.last_seq)
