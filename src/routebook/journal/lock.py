"""The lock of a journal folder: one process writes, and the next one learns how it ended.

The file is held with flock while a node writes, and says ``{"pid": …, "first_seq": …}``: numbers
from there on may have been given away. A node that stops in order writes ``{"last_seq": …,
"last_hash": …}`` instead: what a journal that lacks nothing ends with. A node that was killed
leaves its pid.
"""

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from routebook.journal.errors import FolderInUse, JournalError
from routebook.journal.folder import LOCK

_SIZE = 96  # always all of it, so that a full disk has room for the next note
_PATIENCE_S = 0.5  # whoever looks whether the lock is held holds it for a moment
_LOOK_S = 0.02


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the file says. ``last_seq`` None: whoever gave numbers away has not stopped in order."""

    pid: int = 0
    first_seq: int = 0
    last_seq: int | None = None
    last_hash: str = ""


@dataclass(slots=True)
class FolderLock:
    """Held from ``lock_folder`` until ``release``. ``before`` is what the last one left."""

    descriptor: int
    before: Note | None

    def began(self, first_seq: int) -> None:
        """Note that numbers from ``first_seq`` on are given away."""
        _write(self.descriptor, Note(pid=os.getpid(), first_seq=first_seq))

    def stopped(self, last_seq: int, last_hash: bytes) -> None:
        """Note that all there is to write has been written."""
        _write(self.descriptor, Note(last_seq=last_seq, last_hash=last_hash.hex()))

    def release(self) -> None:
        os.close(self.descriptor)


def lock_folder(folder: Path) -> FolderLock:
    """Raises FolderInUse when another process writes, OSError when there can be no lock."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _taken(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                note = _read(descriptor)
                raise FolderInUse(str(folder), note.pid if note else 0)
            time.sleep(_LOOK_S)
        before = _read(descriptor)
        # What it says of the numbers holds until this one gives numbers away.
        now = msgspec.structs.replace(before or Note(last_seq=0), pid=os.getpid())
        _write(descriptor, now)
    except BaseException:
        os.close(descriptor)
        raise
    return FolderLock(descriptor, before)


def note_in(folder: Path) -> tuple[Note | None, bool]:
    """What the lock of ``folder`` says, and whether a process holds it. Raises JournalError."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None, False
    except OSError as error:
        raise JournalError(f"cannot read {folder / LOCK}: {error.strerror}") from error
    try:
        held = not _taken(descriptor, fcntl.LOCK_SH)
        return _read(descriptor), held
    finally:
        os.close(descriptor)


def _taken(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> Note | None:
    """None for an empty file: nobody has ever written here."""
    text = os.pread(descriptor, _SIZE, 0)
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=Note)
    except msgspec.MsgspecError:
        return Note()


def _write(descriptor: int, note: Note) -> None:
    text = msgspec.json.encode(note)
    os.pwrite(descriptor, text.ljust(_SIZE - 1) + b"\n", 0)
    os.fsync(descriptor)
