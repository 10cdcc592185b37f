"""Replay: from the view after one record to the view after a later one.

start = newest(folder, refused=print)
end = replay(folder, start, damaged=print)
end.view.route("orders")
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from routebook.events import JournalRecovered
from routebook.journal.errors import BadSegment, JournalError
from routebook.journal.folder import list_folder, snapshot_name
from routebook.journal.manifest import read_manifest, read_removed
from routebook.journal.reader import Damage, Progress, Range, read_lines
from routebook.journal.record import (
    CHAIN_START,
    VERSION,
    QueueGroup,
    Record,
    decode,
    hash_of,
    place_of,
    true_hash,
)
from routebook.journal.snapshot_file import BadSnapshot, Snapshot, load
from routebook.journal.view import View

_TOPICS_CHANGED = b'"type":"TopicsChanged"'
_HEAD_BYTES = 300  # of a line, before its data; a longer head costs time only


class _TopicsData(msgspec.Struct):
    revision: int
    cluster: str
    broker: str
    changes: list[QueueGroup]


class _TopicsLine(msgspec.Struct):
    v: int
    seq: int
    node: str
    wall_ms: int
    data: _TopicsData


_decode_topics = msgspec.json.Decoder(_TopicsLine).decode


def newest(
    folder: Path, *, upto: int | None = None, refused: Callable[[BadSnapshot], None]
) -> Snapshot | None:
    """The newest good snapshot, not after record ``upto``; those that are no good are ``refused``.

    Raises JournalError when the folder cannot be read.
    """
    for seq in reversed(list_folder(folder).snapshots):
        if upto is not None and seq > upto:
            continue
        path = folder / snapshot_name(seq)
        try:
            snapshot = load(path)
            if not _fits(folder, snapshot):
                raise BadSnapshot(f"{path.name} was made from another journal")
        except BadSnapshot as error:
            refused(error)
            continue
        return snapshot
    return None


def _fits(folder: Path, snapshot: Snapshot) -> bool:
    """Whether the journal has the hash of the snapshot where it stands, if it can be told."""
    seq = snapshot.view.seq
    for span in list_folder(folder).manifests:
        if span.last_seq == seq:
            try:
                return read_manifest(folder, span).last_hash == snapshot.hash.hex()
            except (JournalError, FileNotFoundError):
                break
    try:
        removed = read_removed(folder)
    except JournalError:
        removed = None
    if removed is not None and removed.last_seq == seq:
        return removed.last_hash == snapshot.hash.hex()
    follower = next(read_lines(folder, Range(from_seq=seq + 1), damaged=_unheard), None)
    if follower is None:
        return True
    return true_hash(follower.text, snapshot.hash) == hash_of(follower.text)


def _unheard(error: JournalError) -> None:
    """For what is told again when it matters."""


def replay(
    folder: Path,
    start: Snapshot | None = None,
    *,
    to_seq: int | None = None,
    progress: Progress | None = None,
    damaged: Damage,
) -> Snapshot:
    """Play the records after ``start``, up to ``to_seq`` or the last, into its view.

    What is missing, was changed or cannot be read is told to ``damaged``; the view is unsure
    after it.
    """
    view, last_hash = (start.view, start.hash) if start else (View(), CHAIN_START)
    told = told_before = 0

    def lost(error: JournalError) -> None:
        nonlocal told
        told += 1
        view.lose_track()
        damaged(error)

    wanted = Range(from_seq=view.seq + 1, to_seq=to_seq)
    for line in read_lines(folder, wanted, progress=progress, damaged=lost):
        try:
            _play(view, line.text, lost)
        except JournalError as error:
            lost(error)
            view.seq = place_of(line.text).seq
        line_hash = hash_of(line.text)
        # After a gap no hash fits, and that has been told.
        if told == told_before and line_hash != true_hash(line.text, last_hash):
            where = f"{line.file} line {line.number}"
            lost(BadSegment(f"{where} was changed, or one before it: its hash does not fit"))
        told_before, last_hash = told, line_hash or last_hash
    return Snapshot(view, last_hash)


def _play(view: View, line: bytes, lost: Damage) -> None:
    topics = _topics_changed(line)
    if topics is None:
        record = decode(line)
        if record.seq != view.seq + 1 and not _is_leap(record, view.seq):
            lost(BadSegment(f"records {view.seq + 1} to {record.seq - 1} are missing"))
        view.apply(record)
        return
    if topics.seq != view.seq + 1:
        lost(BadSegment(f"records {view.seq + 1} to {topics.seq - 1} are missing"))
    view.node, view.seq, view.wall_ms = topics.node, topics.seq, topics.wall_ms
    view.revision = topics.data.revision
    for alike in topics.data.changes:
        view.change_alike(topics.data.cluster, topics.data.broker, alike)


def _topics_changed(line: bytes) -> _TopicsLine | None:
    """Most of a journal are topics. Taken as they are stored, they need a third of the time."""
    if _TOPICS_CHANGED not in line[:_HEAD_BYTES]:
        return None
    try:
        topics = _decode_topics(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # and ``decode`` will say what is wrong with it
    return topics if topics.v <= VERSION else None


def _is_leap(record: Record, last_seq: int) -> bool:
    return isinstance(record.event, JournalRecovered) and record.event.last_seq == last_seq
