"""The journal of a running node: events in, records on disk, and nobody waits for it.

    writer = JournalWriter(JournalSettings(folder), "ns-1-0a1b2c3d", wall_ms=..., mono_ms=...)
    writer.open()
    writer.append(event)
    writer.close()

The event loop numbers a record and puts it into a queue; one thread writes (writer_thread.py),
another one seals (sealer.py). A record that finds the queue full is lost, has no number, and is
counted: ``RecordsLost`` precedes the next one that finds room.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from routebook.events import Cause, Event, JournalRecovered, NodeStalled, RecordsLost
from routebook.journal.alive import VERSION as ALIVE_VERSION
from routebook.journal.alive import Alive, find_alive, remove_alive
from routebook.journal.errors import JournalError
from routebook.journal.identity import (
    Identity,
    new_identity,
    take_identity,
    write_identity,
)
from routebook.journal.lock import FolderLock, lock_folder
from routebook.journal.modes import Readers
from routebook.journal.record import Record
from routebook.journal.repair import Found, repair
from routebook.journal.sealer import Sealer
from routebook.journal.snapshot_file import remove_unfinished
from routebook.journal.weight import weight_of
from routebook.journal.writer_thread import Sync, WriterThread

logger = logging.getLogger(__name__)

# How far sequence numbers jump when a node was killed: more than can have been given away
# since the last record that is sure to be on disk.
LEAP = 2**20
SMALLEST_SEGMENT = 64 * 1024
MAX_UNSEALED = 512 * 1024 * 1024

# Revisions leap with them, and further: events whose records were lost have no number. No node
# raises its revision more often than this.
REVISIONS_A_MS = 1000


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """``max_queued`` counts a record as 1, and 1 more for each eight topics it lists.

    So that a journal keeps within ``retain_bytes``, a segment is no more than a sixteenth of it,
    and no more than a quarter, or ``MAX_UNSEALED``, waits to be sealed.
    """

    folder: Path
    sync: Sync = "interval"
    sync_interval_ms: int = 1000
    rotate_bytes: int = 64 * 1024 * 1024
    rotate_records: int = 2**19
    rotate_age_s: int = 3600
    retain_age_s: int = 30 * 86_400
    retain_bytes: int = 10 * 1024**3
    max_queued: int = 200_000
    fleet: str = ""
    readers: Readers = Readers.OWNER

    def __post_init__(self) -> None:
        if self.rotate_records + self.max_queued >= LEAP:
            raise ValueError(f"rotate_records and max_queued are to be less than {LEAP} together")

    @property
    def segment_bytes(self) -> int:
        return min(self.rotate_bytes, max(self.retain_bytes // 16, SMALLEST_SEGMENT))

    @property
    def unsealed_bytes(self) -> int:
        """So much of closed segments may wait to be sealed, and then nothing more is written."""
        return max(min(self.retain_bytes // 4, MAX_UNSEALED), 2 * self.segment_bytes)


@dataclass(frozen=True, slots=True)
class Recovered:
    """How a folder was found. ``next_seq`` is the number of the next event.

    ``leap`` is by how much revisions have to leap so that none comes again, and ``revision`` what
    that makes of the last one; 0 and 0 after an orderly stop.
    """

    last_seq: int
    unclean: bool
    torn_bytes: int
    next_seq: int
    leap: int
    revision: int


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """``queued`` are records; ``lost`` those that are nowhere. ``failing``: right now."""

    node: str
    last_seq: int  # the last number given away
    written_seq: int
    synced_seq: int
    queued: int
    lost: int
    errors: int
    last_error: str | None
    failing: bool
    bytes: int
    segments: int
    unsealed: int  # bytes that wait to be sealed, or for a snapshot to be made of them
    packing: float | None  # what sealing leaves of a byte; None before the first


class JournalWriter:
    """``on_sealed`` is called in a thread of the journal, with the path of a sealed segment.

    ``on_own`` is told of records that nobody else appended, before whatever follows them.
    """

    def __init__(
        self,
        settings: JournalSettings,
        node_id: str,
        *,
        wall_ms: Callable[[], int],
        mono_ms: Callable[[], int],
        on_sealed: Callable[[Path], None] | None = None,
        on_own: Callable[[Record], None] | None = None,
    ) -> None:
        self._on_own = on_own
        self._settings = settings
        self._node = node_id
        self.identity: Identity = new_identity(
            node_id, settings.fleet
        )  # the folder's, once it is open
        self._wall_ms = wall_ms
        self._mono_ms = mono_ms
        self._on_sealed = on_sealed
        self._queue: deque[Record] = deque()
        self._max_queued = settings.max_queued
        self._open = False
        self._next_seq = 1
        self._weight_put = 0
        self._revision = 0
        self._lost = 0
        self._lost_untold = 0
        self._flooded_untold = 0
        self._lost_since_ms = 0
        self._lock: FolderLock | None = None
        self._writer_thread: WriterThread
        self._sealer: Sealer

    def open(self) -> Recovered:
        """Take the folder, mend it, and start writing.

        Raises JournalError with one sentence when the folder is in use or cannot be.
        """
        folder = self._settings.folder
        try:
            self._lock = lock_folder(folder, self._settings.readers)
            try:
                alive = find_alive(folder)
                found = repair(folder, self._lock.before)
                self._next_seq = _next_seq(found)
                remove_unfinished(folder)
                self.identity = take_identity(folder, self._node, self._settings.fleet)
                self._lock.regained = lambda: write_identity(folder, self.identity)
                self._lock.began(self._next_seq)
                remove_alive(folder)
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise JournalError(f"cannot use the journal {folder}: {reason}") from error
        leap = self._leap(found)
        revision = found.revision + leap
        self._begin(found, revision, _alive_ms(alive, found))
        return Recovered(
            found.last_seq, found.unclean, found.torn_bytes, self._next_seq, leap, revision
        )

    def append(self, event: Event) -> Record | None:
        """The record ``event`` became; None when it is lost. For the event loop only."""
        weight = weight_of(event)
        queued = self._weight_put - self._writer_thread.weight_taken
        untold = 1 if self._lost_untold else 0
        if not self._open or (queued and queued + untold + weight > self._max_queued):
            self._lose(event)
            return None
        if untold:
            self._tell_loss()
        return self._put(event, weight)

    def _put(self, event: Event, weight: int) -> Record:
        record = Record(self._next_seq, self._wall_ms(), self._mono_ms(), self._node, event)
        self._next_seq += 1
        self._revision = event.revision
        self._weight_put += weight
        self._queue.append(record)
        self._writer_thread.nudge()
        return record

    def lose(self) -> None:
        """Count a record that is not to be written: there are too many of its peer."""
        self._lose()
        self._flooded_untold += 1

    def note_awake(self) -> None:
        """The event loop is. For the event loop only."""
        if self._open and not self._lost_untold:
            now = self._wall_ms(), self._mono_ms()
            self._writer_thread.awake = Alive(ALIVE_VERSION, self._next_seq - 1, *now)

    def status(self) -> JournalStatus:
        """For any thread, once the journal was opened."""
        writer_thread, sealer = self._writer_thread, self._sealer
        troubles = (writer_thread.trouble, sealer.trouble)
        # First who fails, then why: threads go on meanwhile, and say why before they say that.
        failing = [trouble for trouble in troubles if trouble.failing]
        return JournalStatus(
            node=self._node,
            last_seq=self._next_seq - 1,
            written_seq=writer_thread.written_seq,
            synced_seq=writer_thread.synced_seq,
            queued=len(self._queue),
            lost=self._lost + writer_thread.unwritable,
            errors=sum(trouble.errors for trouble in troubles),
            last_error=next((t.last_error for t in (*failing, *troubles) if t.last_error), None),
            failing=bool(failing) or (self._open and not (writer_thread.alive and sealer.alive)),
            bytes=writer_thread.active_bytes + sealer.loose_bytes + sealer.sealed_bytes,
            segments=sealer.segments,
            unsealed=sealer.backlog_bytes,
            packing=sealer.packing,
        )

    def close(self, timeout_s: float = 10.0) -> None:
        """Write, seal and unlock, in ``timeout_s`` or a little more.

        What cannot be written by then is lost; the next start will say so.
        """
        if not self._open or self._lock is None:
            return
        deadline_s = monotonic() + timeout_s
        if self._lost_untold:
            self._tell_loss()
        self._open = False
        written = self._writer_thread.stop(timeout_s)
        sealed = self._sealer.stop(max(deadline_s - monotonic(), 0.0))
        if not written:
            self._lost += len(self._queue)
            logger.error("journal: stopped with %d records not written", len(self._queue))
        elif self._note_stop(self._lock):
            remove_alive(self._settings.folder)
        if sealed and not self._writer_thread.alive:
            self._lock.release()  # else a thread may still write; the lock ends with the process

    def _leap(self, found: Found) -> int:
        """More revisions than can have been given away since the last record on disk."""
        if not found.unclean:
            return 0
        since_ms = max(self._wall_ms() - found.wall_ms, 0) if found.wall_ms else 0
        return self._next_seq - found.last_seq + since_ms * REVISIONS_A_MS

    def _begin(self, found: Found, revision: int, alive_ms: int | None) -> None:
        settings = self._settings
        assert self._lock is not None
        self._queue.clear()
        self._weight_put = 0
        self._sealer = Sealer(
            settings.folder,
            identity=self.identity,
            retain_age_ms=settings.retain_age_s * 1000,
            retain_bytes=settings.retain_bytes,
            wall_ms=self._wall_ms,
            on_sealed=self._on_sealed,
            check=self._lock.check,
        )
        self._writer_thread = WriterThread(
            settings.folder,
            node=self._node,
            queue=self._queue,
            last_seq=found.last_seq,
            last_hash=found.last_hash,
            sync=settings.sync,
            sync_interval_ms=settings.sync_interval_ms,
            rotate_bytes=settings.segment_bytes,
            rotate_records=settings.rotate_records,
            rotate_age_ms=settings.rotate_age_s * 1000,
            mono_ms=self._mono_ms,
            closed=self._sealer.put,
            check=self._lock.check,
            may_go_on=lambda: self._sealer.backlog_bytes < settings.unsealed_bytes,
        )
        for span in found.closed:
            self._sealer.put(span)
        self._revision = revision
        self._open = True
        self._writer_thread.start()
        self._sealer.start()
        if found.unclean:
            self._append_own(
                JournalRecovered(
                    revision=revision,
                    cause=Cause.JOURNAL,
                    peer="",
                    last_seq=found.last_seq,
                    torn_bytes=found.torn_bytes,
                    alive_ms=alive_ms,
                )
            )

    def _append_own(self, event: Event) -> None:
        record = self._put(event, weight_of(event))
        if self._on_own is not None:
            self._on_own(record)

    def _lose(self, event: Event | None = None) -> None:
        now_ms = self._wall_ms()
        if not self._lost_untold:
            self._lost_since_ms = now_ms
        if isinstance(event, NodeStalled):  # nobody else tells of the time before it
            self._lost_since_ms = min(self._lost_since_ms, event.from_ms)
        self._lost += 1
        self._lost_untold += 1

    def _tell_loss(self) -> None:
        """Record what was lost, now that there is room again."""
        lost = RecordsLost(
            revision=self._revision,
            cause=Cause.JOURNAL,
            peer="",
            count=self._lost_untold,
            since_ms=self._lost_since_ms,
            flooded=self._flooded_untold,
        )
        self._lost_untold = self._flooded_untold = 0
        self._append_own(lost)

    def _note_stop(self, lock: FolderLock) -> bool:
        try:
            lock.stopped(self._writer_thread.written_seq, self._writer_thread.last_hash)
        except OSError as error:
            logger.error(  # noqa: TRY400  the disk, not us
                "journal: cannot note the orderly stop: %s", error.strerror
            )
            return False
        return True


def _alive_ms(alive: Alive | None, found: Found) -> int | None:
    """When the node that was killed last said that it had nothing to write after the last record.

    One that wrote more than is left, or that was another, tells nothing.
    """
    if alive is None or not found.first_given_seq <= alive.seq <= found.last_seq:
        return None
    return alive.wall_ms


def _next_seq(found: Found) -> int:
    if not found.unclean:
        return found.last_seq + 1
    return (found.given_seq // LEAP + 2) * LEAP
