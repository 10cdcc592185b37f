"""Snapshot files: a view on disk, so that nobody has to replay a journal from its beginning.

    snapshot-000000052000.json.gz        the view after record 52000

Lines of JSON, packed: first what there is once (the topics among it, which the other lines name
by number), then a line for each broker group, then the sha256 of the lines before. The first line
has the hash of the record the view stands at, so that a snapshot fits one journal only.
"""

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from routebook.disk import TEMPORARY
from routebook.events import MemberFact, Shape, StaticMapping
from routebook.journal.errors import JournalError
from routebook.journal.folder import made_whole, snapshot_name
from routebook.journal.groups import GroupView, MemberView
from routebook.journal.view import View

VERSION = 1
_LEVEL = 1


class BadSnapshot(JournalError):
    """A snapshot that cannot be used; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``hash`` is that of the record ``view`` stands at."""

    view: View
    hash: bytes


class _Version(msgspec.Struct):
    v: int


class _Head(msgspec.Struct, kw_only=True):
    v: int = VERSION
    node: str
    seq: int
    wall_ms: int
    hash: str
    revision: int
    generation: int
    started_ms: int
    unsure: bool
    restated: int
    groups: int
    kv: dict[str, dict[str, str]]
    topics: list[str]


class _Queues(msgspec.Struct, omit_defaults=True):
    """Topics, by their number in the head, that one group has the same queues for."""

    told: Shape
    topics: list[int]
    registered: Shape | None = None


class _Group(msgspec.Struct):
    cluster: str
    broker: str
    acting_master: bool
    zone: str | None
    stated: bool
    members: dict[int, dict[str, Any]]
    queues: list[_Queues]
    mappings: list[StaticMapping]


class _Foot(msgspec.Struct):
    sha256: str


class _Numbers(dict[str, int]):
    """Topics in the order they are first met."""

    def __missing__(self, topic: str) -> int:
        number = self[topic] = len(self)
        return number


_encode = msgspec.json.Encoder().encode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_group = msgspec.json.Decoder(_Group).decode
_decode_foot = msgspec.json.Decoder(_Foot).decode


def encode(snapshot: Snapshot) -> Iterator[bytes]:
    """The lines of a snapshot, each with its line feed."""
    view = snapshot.view
    numbers = _Numbers()
    groups = [_encode(_packed(group, view, numbers)) for group in view.groups.by_key.values()]
    head = _Head(
        node=view.node,
        seq=view.seq,
        wall_ms=view.wall_ms,
        hash=snapshot.hash.hex(),
        revision=view.revision,
        generation=view.generation,
        started_ms=view.started_ms,
        unsure=view.unsure,
        restated=view.restated,
        groups=len(groups),
        kv=view.kv,
        topics=list(numbers),
    )
    content = sha256()
    for line in (_encode(head), *groups):
        content.update(line + b"\n")
        yield line + b"\n"
    yield _encode(_Foot(content.hexdigest())) + b"\n"


def decode(content: bytes) -> Snapshot:
    """Raises BadSnapshot for anything but the whole of what ``encode`` made."""
    end = content.rfind(b"\n", 0, -1) + 1
    try:
        foot = _decode_foot(content[end:])
        if foot.sha256 != sha256(memoryview(content)[:end]).hexdigest():
            raise BadSnapshot("its content is not what was written")
        head_line, *lines = content[:end].splitlines()
        version = _decode_version(head_line).v
        if version > VERSION:
            raise BadSnapshot(f"its version {version} is of a newer Routebook than this")
        head = _decode_head(head_line)
        if head.groups != len(lines):
            raise BadSnapshot(f"it has {len(lines)} broker groups and not {head.groups}")
        view = View(
            node=head.node,
            seq=head.seq,
            wall_ms=head.wall_ms,
            revision=head.revision,
            generation=head.generation,
            started_ms=head.started_ms,
            unsure=head.unsure,
            restated=head.restated,
            kv=head.kv,
        )
        for line in lines:
            _unpack(_decode_group(line), view, head.topics)
        return Snapshot(view, bytes.fromhex(head.hash))
    except (msgspec.MsgspecError, ValueError, LookupError, RecursionError) as error:
        raise BadSnapshot(f"it cannot be understood: {error}") from error


def _packed(group: GroupView, view: View, numbers: _Numbers) -> _Group:
    alike: defaultdict[tuple[Shape, Shape | None], list[int]] = defaultdict(list)
    registered = group.registered
    for topic, told in group.queues.items():
        alike[told, registered.get(topic)].append(numbers[topic])
    return _Group(
        cluster=group.cluster,
        broker=group.broker,
        acting_master=group.acting_master,
        zone=group.zone,
        stated=group.stated,
        members={broker_id: _stored(member) for broker_id, member in group.members.items()},
        queues=[_Queues(told, topics, said) for (told, said), topics in alike.items()],
        mappings=view.groups.mappings_of(group),
    )


def _stored(member: MemberView) -> dict[str, Any]:
    stored = {**member.known._asdict(), "since_ms": member.since_ms}
    del stored["broker_id"]  # it is the key
    return stored


def _member(broker_id: int, stored: dict[str, Any]) -> MemberView:
    said = {**stored, "broker_id": broker_id}
    known = msgspec.convert([said[name] for name in MemberFact._fields], MemberFact)
    return MemberView(known, msgspec.convert(stored["since_ms"], int))


def _unpack(packed: _Group, view: View, topics: list[str]) -> None:
    group = GroupView(
        packed.cluster,
        packed.broker,
        packed.acting_master,
        packed.zone,
        {broker_id: _member(broker_id, stored) for broker_id, stored in packed.members.items()},
        stated=packed.stated,
    )
    view.groups.put(group)
    for queues in packed.queues:
        names = list(map(topics.__getitem__, queues.topics))
        view.groups.set_alike(group, names, None, queues.told, queues.registered)
    view.groups.set_mappings(group, packed.mappings)


def write(folder: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot, all of it or nothing, to last.

    Raises OSError, BlockingIOError among them when another process is writing the same one.
    """
    path = folder / snapshot_name(snapshot.view.seq)
    with (
        made_whole(path, lock=LOCK_EX | LOCK_NB) as file,
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
    ):
        for line in encode(snapshot):
            packed.write(line)
    return path


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left of snapshots, not what a live one is writing."""
    for temporary in folder.glob(f"snapshot-*{TEMPORARY}"):
        with suppress(FileNotFoundError, BlockingIOError), temporary.open("rb") as file:
            flock(file, LOCK_EX | LOCK_NB)
            temporary.unlink()


def load(path: Path) -> Snapshot:
    """Raises BadSnapshot with the name of the file and what is wrong with it."""
    try:
        snapshot = decode(gzip.decompress(path.read_bytes()))
        if path.name != snapshot_name(snapshot.view.seq):
            raise BadSnapshot(f"it was made after record {snapshot.view.seq}")
    except BadSnapshot as error:
        raise BadSnapshot(f"{path.name} is of no use: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise BadSnapshot(f"{path.name} cannot be read: {error}") from error
    return snapshot
