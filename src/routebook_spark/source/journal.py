# ruff: noqa: N802  methods have the names that Spark calls them by
"""``spark.readStream.format("routebook").option("path", folder)``: journals as they are written.

An offset is the last record taken of each folder (offsets.py). With ``on_fault=tell`` a folder that
cannot be read holds up nobody but itself: what is wrong with it is a row among the records, of one
of the types below, and so is the moment when it can be read again.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from routebook.journal.errors import JournalError
from routebook_spark.source.files import (
    Piece,
    Position,
    Reach,
    first_line,
    last_seq,
    lines_in,
    pieces,
    reach_of,
    removed_upto,
)
from routebook_spark.source.offsets import START, Place, place_in, stored
from routebook_spark.source.owners import Owner, owner_of
from routebook_spark.source.roots import root_of
from routebook_spark.source.rows import Note, batch_of, note_batch

logger = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""Of lines, in one trigger, for each folder the same share."""

PATIENCE_S = 15.0
"""So long a file that is not whole is being copied, after it was last written."""

QUIET_MS = 150_000
"""So long a journal may be without news before that is told: two windows, and some of the third."""

_BATCH = 1000
_FIRST = "first-"


@dataclass(frozen=True)
class JournalPartition(InputPartition):
    """Records of a journal, or notes about folders."""

    piece: Piece | None = None
    fleet: str = ""
    incarnation: str = ""
    notes: tuple[Note, ...] = ()


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows all journals in a folder and below it; folders that come later are followed too."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._root = root_of(options["path"])
        self._max_bytes = _max_bytes(options.get("max_bytes"))
        self._fleet = options.get("fleet", "")
        self._tells = _tells(options.get("on_fault"))
        self._positions: dict[str, dict[int, Position]] = {}  # by folder and record
        self._latest: dict[str, tuple[int, float]] = {}  # by folder: last record, since when
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        found = {name: last_seq(folder) for name, folder in self._root.journals().items()}
        self._target = {name: seq for name, seq in found.items() if seq is not None}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        found = self._root.look()
        share = None
        if isinstance(limit, ReadMaxBytes):
            share = max(1, limit.max_bytes // max(1, len(found.journals)))
        latest = dict(start)
        for name, folder in found.journals.items():
            latest[name] = self._reached(name, folder, place_in(start, name), share)
        for name in start.keys() - found.journals.keys():
            reason = f"the folder {self._root.base / name} is gone, or no journal any more"
            latest[name] = self._closed(name, place_in(start, name), reason)
        for name, reason in found.closed.items():
            latest[name] = self._closed(name, place_in(start, name), reason)
        return {
            name: stored(place) if isinstance(place, Place) else place
            for name, place in latest.items()
            if name in start or place != START
        }

    def _closed(self, name: str, place: Place, reason: str) -> Place:
        """A folder nobody can look into."""
        if not self._tells:
            return place  # as before: perhaps it comes back
        return _with_fault(place, reason, owner_of(self._root.base / name))

    def _reached(self, name: str, folder: Path, place: Place, share: int | None) -> Place:
        owner = owner_of(folder)
        life = owner.incarnation or place.life
        unnamed = life != place.life and place.life.startswith(_FIRST)
        if unnamed and _life_of(folder) == place.life:
            place = replace(place, life=life)  # the same journal, and now somebody says whose
        if place.life and life != place.life:
            place = _another(place, life)
        reach = self._reach(name, folder, place.seq, share)
        if reach.shrunk and not owner.incarnation:
            other = _life_of(folder)
            if place.life and other and other != place.life:
                place = _another(place, other)
                reach = self._reach(name, folder, 0, share)
        if not place.life and reach.seq:
            place = replace(place, life=owner.incarnation or _life_of(folder))
        if not self._tells:
            _refuse(folder, place, reach)
        return self._placed(name, place, reach, owner)

    def _placed(self, name: str, place: Place, reach: Reach, owner: Owner) -> Place:
        seq = reach.seq
        if self._target is not None:
            seq = min(seq, max(self._target.get(name, 0), place.seq))
        place = replace(
            place,
            incarnation=owner.incarnation or place.incarnation,
            fleet=self._fleet or owner.fleet or place.fleet or "default",
        )
        if reach.fault and self._tells:
            place = _with_fault(place, reach.fault, owner)
        elif place.fault:
            place = replace(place, fault="", noted_ms=_now_ms())
        return self._with_silence(name, replace(place, seq=seq), owner)

    def _reach(self, name: str, folder: Path, after_seq: int, share: int | None) -> Reach:
        positions = self._positions.get(name, {})
        reach = reach_of(
            folder,
            after_seq,
            most_bytes=share,
            position=positions.get(after_seq),
            patience_s=0.0 if self._target is not None else PATIENCE_S,
        )
        positions = {after_seq: positions[after_seq]} if after_seq in positions else {}
        self._positions[name] = (
            positions if reach.position is None else {**positions, reach.seq: reach.position}
        )
        return reach

    def _with_silence(self, name: str, place: Place, owner: Owner) -> Place:
        """Noted when nothing came for a while, and again when it was twice as long."""
        if not self._tells or self._target is not None:
            return place  # what is read of the past says nothing of now
        seq, since_s = self._latest.get(name, (-1, 0.0))
        now_s = time.monotonic()
        if seq != place.seq:
            self._latest[name] = (place.seq, now_s)
            return replace(place, quiet_ms=0) if place.quiet_ms else place
        quiet_ms = round((now_s - since_s) * 1000)
        if not place.fault and quiet_ms >= max(QUIET_MS, 2 * place.quiet_ms):
            return replace(place, quiet_ms=quiet_ms, node=owner.node, noted_ms=_now_ms())
        return place

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        notes: list[Note] = []
        for name in end:
            before, after = place_in(start, name), place_in(end, name)
            notes += _notes(str(self._root.base / name), before, after)
            after_seq = before.seq if before.number == after.number else 0
            if after.seq > after_seq:
                found += [
                    JournalPartition(piece, after.fleet, after.incarnation)
                    for piece in self._pieces(name, after_seq, after.seq)
                ]
        return [*found, JournalPartition(notes=tuple(notes))] if notes else found

    def _pieces(self, name: str, after_seq: int, to_seq: int) -> Iterable[Piece]:
        position = self._positions.get(name, {}).get(after_seq)
        try:
            return list(pieces(self._root.base / name, after_seq, to_seq, position))
        except (JournalError, OSError) as error:
            if not self._tells:
                raise
            logger.warning("what was planned to be read is gone: %s", error)
            return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, JournalPartition)
        if partition.notes:
            yield note_batch(partition.notes)
        if partition.piece is None:
            return
        lines = lines_in(partition.piece)
        if self._tells:
            lines = _as_far_as_possible(lines)
        while some := list(islice(lines, _BATCH)):
            yield batch_of(some, fleet=partition.fleet, incarnation=partition.incarnation)


def _as_far_as_possible(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Files may go away after they were looked through; numbers that are missing show it."""
    try:
        yield from lines
    except (JournalError, OSError) as error:
        logger.warning("what was planned to be read is gone: %s", error)


def _notes(folder: str, before: Place, after: Place) -> Iterator[Note]:
    if after.fault and after.fault != before.fault:
        yield Note(
            "JournalUnreadable", folder, after.node, after.fleet, after.noted_ms, after.fault
        )
    if before.fault and not after.fault:
        yield Note("JournalReadable", folder, before.node, before.fleet, after.noted_ms)
    if after.quiet_ms > before.quiet_ms:
        yield Note(
            "JournalQuiet",
            folder,
            after.node,
            after.fleet,
            after.noted_ms,
            quiet_ms=after.quiet_ms,
        )


def _another(place: Place, life: str) -> Place:
    """Another journal took the place of the one that was followed."""
    return replace(place, seq=0, life=life, incarnation=life, number=place.number + 1)


def _with_fault(place: Place, fault: str, owner: Owner) -> Place:
    if fault == place.fault:
        return place
    return replace(
        place,
        fault=fault,
        node=place.node if place.fault else owner.node,
        fleet=place.fleet or owner.fleet or "default",
        noted_ms=_now_ms(),
    )


def _life_of(folder: Path) -> str:
    """What tells a journal without an incarnation from another: its first line."""
    try:
        line = first_line(folder)
    except (JournalError, OSError):
        return ""
    return "" if line is None else f"{_FIRST}{blake2b(line, digest_size=6).hexdigest()}"


def _refuse(folder: Path, place: Place, reach: Reach) -> None:
    """Raises JournalError for what ``on_fault=fail`` fails for."""
    removed = removed_upto(folder)
    if place.seq and removed > place.seq:
        raise JournalError(
            f"records {place.seq + 1} to {removed} of the journal {folder} were removed before they"
            " had been read; with a new checkpoint reading begins with those that are left"
        )
    if reach.fault and reach.seq == place.seq:
        raise JournalError(reach.fault)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _tells(given: str | None) -> bool:
    if given not in (None, "fail", "tell"):
        raise ValueError(f"on_fault is {given!r}, and must be fail or tell")
    return given == "tell"


def _max_bytes(given: str | None) -> int:
    if given is None:
        return MAX_BYTES
    if not given.isdecimal() or not int(given):
        raise ValueError(f"max_bytes is {given!r}, and must be a number of bytes")
    return int(given)
