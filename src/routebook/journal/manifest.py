"""Manifests: what a sealed segment holds, so that a gap or an edit shows."""

from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from routebook.journal.errors import BadSegment, JournalError, NewerSchema
from routebook.journal.folder import REMOVED, Span, write_whole

VERSION = 1

_Kind = TypeVar("_Kind", "Manifest", "Removed")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One sealed segment.

    Times of a machine whose clock was set back are not in order: ``min_wall_ms`` and
    ``max_wall_ms`` bound them. ``first_hash`` is the hash before the first line, and
    ``previous_sha256`` that of the manifest before this one, "" for the first of all. ``fleet`` and
    ``incarnation`` are those of identity.py, "" where the node did not say.
    """

    v: int = VERSION
    node: str
    first_seq: int
    last_seq: int
    records: int
    first_wall_ms: int
    last_wall_ms: int
    min_wall_ms: int
    max_wall_ms: int
    bytes: int  # of the lines
    packed_bytes: int  # of the file
    sha256: str  # of the file
    content_sha256: str  # of the lines
    previous_sha256: str
    first_hash: str
    last_hash: str
    sealed_at_ms: int
    fleet: str = ""
    incarnation: str = ""

    @property
    def span(self) -> Span:
        return Span(self.first_seq, self.last_seq)


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What retention took away: all up to ``last_seq``, and how that ended."""

    v: int = VERSION
    last_seq: int
    last_hash: str
    manifest_sha256: str
    segments: int  # since the first
    at_ms: int


def read_manifest(folder: Path, span: Span) -> Manifest:
    """Raises BadSegment, NewerSchema, and FileNotFoundError."""
    path = folder / span.manifest
    manifest = _read(path, Manifest)
    if manifest.span != span:
        raise BadSegment(f"{path.name} is about the records {manifest.span.stem}")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_whole(folder / manifest.span.manifest, _text(manifest))


def read_removed(folder: Path) -> Removed | None:
    """None when nothing was removed. Raises BadSegment, NewerSchema."""
    try:
        return _read(folder / REMOVED, Removed)
    except FileNotFoundError:
        return None


def find_removed(folder: Path) -> Removed | None:
    """As ``read_removed``, and None too when it cannot be read: for those who must go on."""
    try:
        return read_removed(folder)
    except JournalError:
        return None


def write_removed(folder: Path, removed: Removed) -> None:
    write_whole(folder / REMOVED, _text(removed))


def manifest_sha256(folder: Path, span: Span) -> str:
    return sha256((folder / span.manifest).read_bytes()).hexdigest()


def _text(value: Manifest | Removed) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


class _Version(msgspec.Struct):
    v: int


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    try:
        text = path.read_bytes()
        found = msgspec.json.decode(text, type=_Version).v
        if found > VERSION:
            raise NewerSchema(found, VERSION)
        return msgspec.json.decode(text, type=kind)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadSegment(f"cannot read {path.name}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadSegment(f"{path.name} cannot be understood: {error}") from error
