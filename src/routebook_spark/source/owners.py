"""Whose journal a folder holds, as far as anything in it says."""

from dataclasses import dataclass
from pathlib import Path

from routebook.journal.errors import BadRecord, JournalError
from routebook.journal.folder import ACTIVE, list_folder
from routebook.journal.identity import find_identity
from routebook.journal.manifest import Manifest, read_manifest
from routebook.journal.record import place_of

_LOOK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Owner:
    """``fleet`` and ``incarnation`` are "" where nobody said."""

    node: str
    fleet: str = ""
    incarnation: str = ""


def owner_of(folder: Path) -> Owner:
    """By what the node wrote down, by a manifest, by a line; or named for the folder."""
    try:
        identity = find_identity(folder)
    except JournalError:
        identity = None
    if identity is not None and identity.node:
        return Owner(identity.node, identity.fleet, identity.incarnation)
    manifest = _last_manifest(folder)
    if manifest is not None:
        return Owner(manifest.node, manifest.fleet, manifest.incarnation)
    return Owner(_node_in_active(folder) or _name_of(folder))


def _last_manifest(folder: Path) -> Manifest | None:
    try:
        spans = list_folder(folder).sealed
    except JournalError:
        return None
    for span in reversed(spans):
        try:
            return read_manifest(folder, span)
        except (JournalError, OSError):
            continue
    return None


def _node_in_active(folder: Path) -> str:
    try:
        with (folder / ACTIVE).open("rb") as file:
            line = file.readline(_LOOK_BYTES)
        return place_of(line).node
    except (BadRecord, OSError):
        return ""


def _name_of(folder: Path) -> str:
    """The nearest name that says more than that it is a journal."""
    return folder.parent.name if folder.name == "journal" else folder.name
