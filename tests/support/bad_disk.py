"""Disks that are full or stand still, for the files of one folder in the test's own process."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class BadDisk:
    """While ``full``, writes below ``folder`` fail; while ``stuck``, syncs there do not return."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder.resolve()
        self._flowing = threading.Event()
        self._flowing.set()
        self.full = False
        monkeypatch.setattr(os, "write", self._full(os.write))
        monkeypatch.setattr(os, "fsync", self._stuck(os.fsync))

    @property
    def stuck(self) -> bool:
        return not self._flowing.is_set()

    @stuck.setter
    def stuck(self, value: bool) -> None:
        if value:
            self._flowing.clear()
        else:
            self._flowing.set()

    def _full(self, write: Callable[..., int]) -> Callable[..., int]:
        def checked(descriptor: int, data: Any) -> int:
            if self.full and self._is_here(descriptor):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        return checked

    def _stuck(self, fsync: Callable[..., None]) -> Callable[..., None]:
        def checked(descriptor: Any) -> None:
            if self.stuck and self._is_here(descriptor):
                self._flowing.wait()
            fsync(descriptor)

        return checked

    def _is_here(self, descriptor: int) -> bool:
        return self._folder in Path(f"/proc/self/fd/{descriptor}").readlink().parents
