"""Where journals are looked for: folders, what is below them, and patterns."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE, IDENTITY, LOCK, REMOVED

_DEPTH = 3
_SIGNS = {ACTIVE, IDENTITY, LOCK, REMOVED}  # of a journal
_SEGMENT = re.compile(r"\d{12,}-\d{12,}\.(jsonl|jsonl\.gz|manifest\.json)")
_WILD = set("*?[")
_NOBODYS = "lost+found"


@dataclass(frozen=True, slots=True)
class Found:
    """Folders that hold a journal, and those nobody can look into, each with the reason.

    Both by their names from the base of their root on.
    """

    journals: dict[str, Path] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Root:
    """Where to look for journals: in ``base`` itself, or in what fits ``pattern`` there."""

    base: Path
    pattern: str = ""

    def look(self) -> Found:
        """What is here or below now. A folder that is gone holds none."""
        found = Found()
        for start in self._starts():
            for folder in _journals_below(start, found.closed, self.base):
                found.journals[folder.relative_to(self.base).as_posix()] = folder
        return Found(dict(sorted(found.journals.items())), found.closed)

    def journals(self) -> dict[str, Path]:
        return self.look().journals

    def _starts(self) -> list[Path]:
        if not self.pattern:
            return [self.base]
        try:
            return sorted(self.base.glob(self.pattern))
        except OSError:
            return []  # it changed while it was looked through: there is a next time


def root_of(path: str) -> Root:
    """What ``path``, a folder or a pattern, means. Raises JournalError for no folder of here."""
    local = path.removeprefix("file://") if path.startswith("file://") else path
    local = local.removeprefix("file:")
    if "://" in local:
        raise JournalError(
            f"{path} is not on this machine: journals that are being written can only be followed"
            " in folders of this machine, or mounted there"
        )
    root = Path(local)
    if root.is_dir():
        return Root(root)
    parts = root.parts
    literal = next((i for i, part in enumerate(parts) if _WILD.intersection(part)), len(parts))
    base = Path(*parts[:literal])
    if literal == len(parts) or not base.is_dir():
        raise JournalError(f"there is no folder {base} to follow")
    return Root(base, "/".join(parts[literal:]))


def _journals_below(start: Path, closed: dict[str, str], base: Path) -> Iterator[Path]:
    def cannot(error: OSError) -> None:
        where = Path(error.filename)
        if where.name != _NOBODYS and not isinstance(error, FileNotFoundError | NotADirectoryError):
            closed[where.relative_to(base).as_posix()] = f"cannot read {where}: {error.strerror}"

    for folder, below, names in os.walk(start, onerror=cannot):
        here = Path(folder)
        if _SIGNS.intersection(names) or any(map(_SEGMENT.fullmatch, names)):
            yield here
            below.clear()
        elif len(here.relative_to(start).parts) >= _DEPTH:
            below.clear()
