"""The thread that writes records: encoded in small slices, appended, made to last, rotated.

It shares the interpreter with a server that must answer, so it holds it for a fraction of a
millisecond at a time and then sleeps for as long: whoever waits for the interpreter needs a moment
to take it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from routebook.events import Cause, RecordsLost
from routebook.journal.active import ActiveSegment
from routebook.journal.alive import EVERY_MS, Alive, SignsOfLife
from routebook.journal.record import Record, encode, hash_of
from routebook.journal.segment import Summary
from routebook.journal.trouble import Trouble
from routebook.journal.weight import weight_of

logger = logging.getLogger(__name__)

Sync = Literal["none", "interval", "batch"]

_GATHER_S = 0.005  # records that come together are written together
_SLICE_S = 0.0005
_PAUSE_S = 0.0001
_WRITTEN_BYTES = 1 << 18  # at once: each call lets go of the interpreter
_LONGEST_REST_S = 60.0
_CHECK_S = 0.9  # between looks whether the folder is still there
_BEHIND_S = 0.02  # between looks whether sealing has caught up


class WriterThread:
    """Takes records from ``queue`` until it is stopped and the queue is empty.

    Attributes without an underscore may be read by any thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: str,
        queue: deque[Record],
        last_seq: int,
        last_hash: bytes,
        sync: Sync,
        sync_interval_ms: int,
        rotate_bytes: int,
        rotate_records: int,
        rotate_age_ms: int,
        mono_ms: Callable[[], int],
        closed: Callable[[Summary], None],
        may_go_on: Callable[[], bool] = lambda: True,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check  # raises OSError unless the folder is still ours
        self._checked_s = time.monotonic()
        self._may_go_on = may_go_on
        self._folder = folder
        self._node = node
        self._queue = queue
        self._sync = sync
        self._sync_interval_ms = sync_interval_ms
        self._rotate_bytes = rotate_bytes
        self._rotate_records = rotate_records
        self._rotate_age_ms = rotate_age_ms
        self._mono_ms = mono_ms
        self._closed = closed
        self._active: ActiveSegment | None = None
        self._signs = SignsOfLife(folder)
        self._signed: Alive | None = None
        self._signed_ms = mono_ms()
        self._synced_ms = mono_ms()
        self._stopping = False
        self._give_up_s = 0.0
        self._wake = threading.Event()
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self.last_hash = last_hash
        self.written_seq = last_seq
        self.synced_seq = last_seq
        self.active_bytes = 0
        self.weight_taken = 0
        self.unwritable = 0  # records that could not be encoded
        self.waiting = False  # for segments to be sealed
        self.awake: Alive | None = None  # left here by the loop, whenever it is
        self.trouble = Trouble("cannot write the active segment")

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """There is something in the queue."""
        if self._idle:
            self._idle = False
            self._wake.set()

    def stop(self, timeout_s: float) -> bool:
        """Write what is queued and close the segment; whether that was done in time."""
        self._give_up_s = time.monotonic() + timeout_s
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s + 0.5)
        return not self._thread.is_alive() and not self._queue and self._active is None

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        done = False
        while not done:
            try:
                self._rest()
                done = self._turn(last=self._stopping)
                self.trouble.over()
            except OSError as error:
                wait_s = self.trouble.note(error)
                if self._stopping and time.monotonic() + wait_s > self._give_up_s:
                    break
                self._pause(wait_s)
            except BaseException as error:
                # A mistake of ours; without this thread nothing would ever be written again.
                if not self.trouble.failing:
                    logger.exception("journal: writing failed")
                wait_s = self.trouble.note(error)
                if self._stopping:
                    break
                self._pause(max(wait_s, 1.0))
        self._signs.close()
        if self._active is not None:
            self._active.abandon()

    def _rest(self) -> None:
        """Until there is something to do."""
        self._idle = True
        if not self._queue and not self._stopping:
            self._wake.wait(self._due_in_s())
        self._idle = False
        self._wake.clear()
        if not self._stopping:
            time.sleep(_GATHER_S)

    def _pause(self, wait_s: float) -> None:
        """Until the next try; whoever stops the thread does not wait that long."""
        until_s = time.monotonic() + wait_s
        while not self._stopping and (left_s := until_s - time.monotonic()) > 0:
            self._wake.wait(left_s)
            self._wake.clear()
        if self._stopping:
            time.sleep(min(wait_s, 0.1))

    def _due_in_s(self) -> float:
        active, now_ms = self._active, self._mono_ms()
        due_ms = [_LONGEST_REST_S * 1000.0, self._signed_ms + EVERY_MS - now_ms]
        if active is not None:
            due_ms.append(active.begun_ms + self._rotate_age_ms - now_ms)
            if self._sync == "interval" and not active.synced:
                due_ms.append(self._synced_ms + self._sync_interval_ms - now_ms)
        return max(min(due_ms) / 1000.0, 0.001)

    def _turn(self, *, last: bool) -> bool:
        """Write what is queued now; whether this was all there will be."""
        self._check_when_due(last=last)
        self._finish()
        # A stopping node writes what it has: the queue is bounded, and the next start seals it.
        self.waiting = not last and self._active is None and not self._may_go_on()
        if self.waiting:
            time.sleep(_BEHIND_S)
            return False
        todo = len(self._queue)
        while todo > 0:
            count, enough = self._slice()
            todo -= count
            if enough or todo <= 0:
                self._finish()
                if self._active is None and not last:
                    break  # a full one was closed: whether to begin the next is another question
            else:
                time.sleep(_PAUSE_S)
        self._sync_when_due()
        self._give_sign()
        if last and not self._queue:
            self._rotate()
            return True
        return False

    def _slice(self) -> tuple[int, bool]:
        """Encode some records; how many, and whether it is time to write."""
        active = self._active
        if active is None:
            active = self._active = ActiveSegment(
                self._folder,
                node=self._node,
                first_hash=self.last_hash,
                begun_ms=self._mono_ms(),
            )
        count = 0
        until_s = time.perf_counter() + _SLICE_S
        while self._queue and not self._is_full(active.summary):
            record = self._queue.popleft()
            line = self._line(record)
            self.last_hash = hash_of(line) or self.last_hash
            active.summary.add(record.seq, record.wall_ms, size=len(line), line_hash=self.last_hash)
            active.take(line)
            count += 1
            self.weight_taken += weight_of(record.event)
            if time.perf_counter() > until_s:
                break
        return count, active.unwritten_bytes >= _WRITTEN_BYTES or self._is_full(active.summary)

    def _line(self, record: Record) -> bytes:
        try:
            return encode(record, self.last_hash)
        except BaseException:
            # Its number is given away, and what holds it is a mistake of ours: say that it is lost.
            logger.exception("record %d of type %s", record.seq, record.event.type_name)
            self.unwritable += 1
            lost = RecordsLost(
                revision=record.event.revision,
                cause=Cause.JOURNAL,
                peer="",
                count=1,
                since_ms=record.wall_ms,
            )
            return encode(
                Record(record.seq, record.wall_ms, record.mono_ms, record.node, lost),
                self.last_hash,
            )

    def _finish(self) -> None:
        """Write what was taken, and close a segment that is full or old."""
        active = self._active
        if active is None:
            return
        active.write()
        self.written_seq = active.summary.last_seq
        self.active_bytes = active.summary.size
        aged = self._mono_ms() - active.begun_ms >= self._rotate_age_ms
        if aged or self._is_full(active.summary):
            self._rotate()

    def _is_full(self, summary: Summary) -> bool:
        return summary.size >= self._rotate_bytes or summary.records >= self._rotate_records

    def _check_when_due(self, *, last: bool) -> None:
        """Before files are made or renamed, and now and then."""
        now_s = time.monotonic()
        if last or self._active is None or now_s - self._checked_s >= _CHECK_S:
            self._check()
            self._checked_s = now_s

    def _sync_when_due(self) -> None:
        active = self._active
        if active is None or active.synced or self._sync == "none":
            return
        now_ms = self._mono_ms()
        if self._sync == "interval" and now_ms - self._synced_ms < self._sync_interval_ms:
            return
        active.sync()
        self._synced_ms = now_ms
        self.synced_seq = active.summary.last_seq

    def _give_sign(self) -> None:
        """Say that the loop is awake, if it is, and has recorded nothing that is not written."""
        awake, now_ms = self.awake, self._mono_ms()
        if awake is None or now_ms - self._signed_ms < EVERY_MS:
            return
        self._signed_ms = now_ms
        if awake is not self._signed and awake.seq <= self.written_seq:
            self._signed = awake
            self._check()
            self._signs.write(awake)

    def _rotate(self) -> None:
        active = self._active
        if active is None:
            return
        self._check()
        active.close()
        self._active = None
        self.active_bytes = 0
        self._synced_ms = self._mono_ms()
        self.synced_seq = active.summary.last_seq
        self._closed(active.summary)
