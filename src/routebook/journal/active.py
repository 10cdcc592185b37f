"""The active segment: lines appended, made to last, and closed under the name of their span."""

import os
from pathlib import Path

from routebook.disk import sync_folder
from routebook.journal.folder import ACTIVE, open_file
from routebook.journal.segment import Summary

_COPY = 1 << 20


class ActiveSegment:
    """Written by one thread. What an OSError interrupts can be tried again, and goes on there."""

    def __init__(self, folder: Path, *, node: str, first_hash: bytes, begun_ms: int) -> None:
        self._folder = folder
        self._path: Path | None = folder / ACTIVE  # None once it has its last name
        self._descriptor = _create(folder / ACTIVE)
        self._taken: list[bytes] = []
        self._unwritten = memoryview(b"")
        self._synced = False
        self.begun_ms = begun_ms
        self.unwritten_bytes = 0
        self.summary = Summary(node, first_hash, first_hash)

    @property
    def synced(self) -> bool:
        return self._synced

    def take(self, line: bytes) -> None:
        """Have ``line``, which ``summary`` knows of, written next."""
        self._taken.append(line)
        self.unwritten_bytes += len(line)

    def write(self) -> None:
        """Write what was taken."""
        while self.unwritten_bytes:
            if not self._unwritten:
                self._unwritten = memoryview(b"".join(self._taken))
                self._taken.clear()
            count = os.write(self._descriptor, self._unwritten)
            self._unwritten = self._unwritten[count:]
            self.unwritten_bytes -= count
            self._synced = False

    def sync(self) -> None:
        """Make what was written last."""
        if self._path is not None and not self._is_at(self._path):
            self._restore(self._path)
        os.fsync(self._descriptor)
        self._synced = True

    def close(self) -> None:
        """Make it last, under the name of its span. It must hold a record."""
        if self._path is not None:
            self.write()
            self.sync()
            self._path.rename(self._folder / self.summary.span.plain)
            self._path = None
        sync_folder(self._folder)
        os.close(self._descriptor)

    def abandon(self) -> None:
        os.close(self._descriptor)

    def _is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), path.stat())
        except FileNotFoundError:
            return False

    def _restore(self, path: Path) -> None:
        """Somebody removed or moved the file; as long as it is open its content is there.

        Raises FileExistsError when something else has its name.
        """
        descriptor = _create(path)
        try:
            offset = 0
            while piece := os.pread(self._descriptor, _COPY, offset):
                offset += os.write(descriptor, piece)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor


def _create(path: Path) -> int:
    return open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
