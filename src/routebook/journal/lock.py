"""The lock of a journal folder: one process writes, and the next one learns how it ended.

The file is held with flock while a node writes, and says ``{"pid": …, "first_seq": …}``: numbers
from there on may have been given away. A node that stops in order writes ``{"last_seq": …,
"last_hash": …}`` instead: what a journal that lacks nothing ends with. A node that was killed
leaves its pid.

A folder that is removed takes its lock along, so it is claimed by name as well (claim.py), and
whoever writes looks whether it is still the one that was locked: never into one of another node.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from routebook.journal.claim import Claim, ClaimTaken, claim_path
from routebook.journal.errors import FolderInUse, JournalError
from routebook.journal.folder import LOCK, PRIVATE_FILE, make_folder
from routebook.journal.modes import Readers, open_to

_SIZE = 96  # always all of it, so that a full disk has room for the next note
_PATIENCE_S = 0.5  # whoever looks whether the lock is held holds it for a moment
_LOOK_S = 0.02
_REMEDY = "put it back, or make an empty one in its place; until then nothing is recorded"


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the file says. ``last_seq`` None: whoever gave numbers away has not stopped in order."""

    pid: int = 0
    first_seq: int = 0
    last_seq: int | None = None
    last_hash: str = ""


class FolderLock:
    """Held from ``lock_folder`` until ``release``. ``before`` is what the last one left.

    ``check`` and ``regained`` are for any thread.
    """

    def __init__(
        self, folder: Path, descriptor: int, before: Note | None, claim: Claim, readers: Readers
    ) -> None:
        self._folder = folder
        self._readers = readers
        self._descriptor = descriptor
        self._claim = claim
        self._note = Note(pid=os.getpid())
        self._checking = threading.Lock()
        self.before = before
        self.regained: Callable[[], None] = lambda: None  # called with an empty folder

    def began(self, first_seq: int) -> None:
        """Note that numbers from ``first_seq`` on are given away."""
        self._note = Note(pid=os.getpid(), first_seq=first_seq)
        _write(self._descriptor, self._note)

    def stopped(self, last_seq: int, last_hash: bytes) -> None:
        """Note that all there is to write has been written."""
        self.check()
        _write(self._descriptor, Note(last_seq=last_seq, last_hash=last_hash.hex()))

    def check(self) -> None:
        """Raises OSError unless the folder is the one that was locked.

        One that was removed, and made again by somebody who is no node, is taken again.
        """
        with self._checking:
            try:
                there = (self._folder / LOCK).stat()
            except FileNotFoundError:
                self._take_again()
                return
            if not os.path.samestat(there, os.fstat(self._descriptor)):
                raise OSError(errno.ESTALE, f"{self._folder} is not the folder it was; {_REMEDY}")

    def _take_again(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"{self._folder} was removed; {_REMEDY}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = os.open(self._folder / LOCK, flags, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, self._note)
            os.fchmod(descriptor, self._readers.file_mode)
            open_to(self._readers, self._folder, ())
            self.regained()
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        self._claim.release()
        os.close(self._descriptor)


def lock_folder(folder: Path, readers: Readers = Readers.OWNER) -> FolderLock:
    """Make ``folder`` if it is not there, and take it; let ``readers`` read what is in it.

    Raises FolderInUse when another process writes, OSError when there can be no lock.
    """
    claim = _claimed(folder)
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        make_folder(folder)
        return _locked(folder, claim, readers, missing)
    except BaseException:
        claim.release()
        raise


def _claimed(folder: Path) -> Claim:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return claim_path(folder)
        except ClaimTaken:
            if time.monotonic() > deadline:
                raise FolderInUse(str(folder), _writer_of(folder)) from None
        time.sleep(_LOOK_S)


def _writer_of(folder: Path) -> int:
    try:
        note, _ = note_in(folder)
    except JournalError:
        return 0
    return note.pid if note else 0


def _locked(folder: Path, claim: Claim, readers: Readers, made: Collection[Path]) -> FolderLock:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
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
        os.fchmod(descriptor, readers.file_mode)
        open_to(readers, folder, made)
    except BaseException:
        os.close(descriptor)
        raise
    return FolderLock(folder, descriptor, before, claim, readers)


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
