"""The folder of a journal: which files are in it, and what their names say.

    active.jsonl                                  being written
    000000000001-000000052000.jsonl               full, not yet sealed
    000000000001-000000052000.jsonl.gz            sealed, with
    000000000001-000000052000.manifest.json       its manifest, which is made last
    snapshot-000000052000.json.gz                 the state after that record
    torn-000000052000.bin                         cut off after that record when the node was killed
    removed.json                                  what retention has taken away
    lock                                          see lock.py
    identity.json                                 see identity.py
    alive.json                                    see alive.py

Anything else is foreign: it is left alone.
"""

import os
import re
import stat
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from routebook.disk import TEMPORARY, new_file
from routebook.journal.errors import JournalError

ACTIVE = "active.jsonl"
ALIVE = "alive.json"
IDENTITY = "identity.json"
LOCK = "lock"
REMOVED = "removed.json"
PRIVATE_FILE = 0o600  # values of applications are in there
PRIVATE_FOLDER = 0o700
_READ = 0o044  # of others than the owner

_SPAN = re.compile(r"(\d{12,})-(\d{12,})(\.jsonl|\.jsonl\.gz|\.manifest\.json)")
_SNAPSHOT = re.compile(r"snapshot-(\d{12,})\.json\.gz")
_TORN = re.compile(r"torn-\d{12,}\.bin")


class Span(NamedTuple):
    """The first and the last record of a segment, and the names of its files."""

    first_seq: int
    last_seq: int

    @property
    def stem(self) -> str:
        return f"{self.first_seq:012d}-{self.last_seq:012d}"

    @property
    def plain(self) -> str:
        return f"{self.stem}.jsonl"

    @property
    def packed(self) -> str:
        return f"{self.stem}.jsonl.gz"

    @property
    def manifest(self) -> str:
        return f"{self.stem}.manifest.json"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder held at one moment; spans in order."""

    plain: tuple[Span, ...] = ()
    packed: tuple[Span, ...] = ()
    manifests: tuple[Span, ...] = ()
    snapshots: tuple[int, ...] = ()
    active: bool = False
    torn: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    sealed: tuple[Span, ...] = field(init=False)  # those with a manifest: whole, for good

    def __post_init__(self) -> None:
        packed = set(self.packed)
        object.__setattr__(self, "sealed", tuple(s for s in self.manifests if s in packed))

    @property
    def holds_records(self) -> bool:
        """Whether it holds any, or a sign that there were some."""
        return self.active or self.last_seq > 0 or bool(self.snapshots)

    @property
    def last_seq(self) -> int:
        """Of the segments that are full; 0 without any."""
        return max(
            (span.last_seq for span in (*self.manifests, *self.packed, *self.plain)), default=0
        )


def list_folder(folder: Path) -> Listing:
    """Raises JournalError when ``folder`` is none, or cannot be read."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  a name is all that is wanted
    except OSError as error:
        raise JournalError(f"cannot read the journal {folder}: {error.strerror}") from error
    spans: dict[str, list[Span]] = {".jsonl": [], ".jsonl.gz": [], ".manifest.json": []}
    snapshots: list[int] = []
    torn: list[str] = []
    temporary: list[str] = []
    foreign: list[str] = []
    for name in names:
        if (found := _SPAN.fullmatch(name)) and _is_span(name, found):
            spans[found[3]].append(Span(int(found[1]), int(found[2])))
        elif (found := _SNAPSHOT.fullmatch(name)) and name == snapshot_name(int(found[1])):
            snapshots.append(int(found[1]))
        elif _TORN.fullmatch(name):
            torn.append(name)
        elif name.endswith(TEMPORARY) and _is_ours(name.removesuffix(TEMPORARY)):
            temporary.append(name)
        elif name not in (ACTIVE, ALIVE, IDENTITY, LOCK, REMOVED):
            foreign.append(name)
    return Listing(
        plain=tuple(sorted(spans[".jsonl"])),
        packed=tuple(sorted(spans[".jsonl.gz"])),
        manifests=tuple(sorted(spans[".manifest.json"])),
        snapshots=tuple(sorted(snapshots)),
        active=ACTIVE in names,
        torn=tuple(torn),
        temporary=tuple(temporary),
        foreign=tuple(foreign),
    )


def snapshot_name(seq: int) -> str:
    return f"snapshot-{seq:012d}.json.gz"


def torn_name(last_seq: int) -> str:
    return f"torn-{last_seq:012d}.bin"


def _is_span(name: str, found: re.Match[str]) -> bool:
    span = Span(int(found[1]), int(found[2]))
    return span.stem + found[3] == name and 0 < span.first_seq <= span.last_seq


def _is_ours(name: str) -> bool:
    known = _SPAN.fullmatch(name) or _SNAPSHOT.fullmatch(name) or _TORN.fullmatch(name)
    return bool(known or name in (IDENTITY, REMOVED))


def make_folder(folder: Path) -> None:
    """Make ``folder``, and what is missing above it, for its owner only."""
    try:
        folder.mkdir(PRIVATE_FOLDER)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def open_file(path: str | Path, flags: int) -> int:
    """Open a file of a journal; a new one may be read by whoever may read its lock (modes.py)."""
    descriptor = os.open(path, flags, PRIVATE_FILE)
    with suppress(OSError):
        readers = stat.S_IMODE(Path(path).with_name(LOCK).stat().st_mode) & _READ
        if readers:
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | readers)
    return descriptor


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, all of it or not at all, to last."""
    with made_whole(path) as file:
        file.write(content)


def made_whole(path: Path, *, lock: int | None = None) -> AbstractContextManager[BinaryIO]:
    """As ``disk.new_file``, under a name that says what it is until then."""
    temporary = path.with_name(path.name + TEMPORARY)
    return new_file(path, temporary=temporary, opener=open_file, lock=lock)
