"""Recorder: what a node remembers of itself.

Everything that happens is given to ``record``. It goes to the journal, if there is one, and into a
list of the latest records that the node can be asked for. A journal that cannot keep up loses
records, never time: when it can again, the tables are stated anew.
"""

import asyncio
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, cast

from routebook.events import Event
from routebook.handlers.services import Recent
from routebook.journal.admission import Admission, Verdict
from routebook.journal.before import ASK_AGAIN, Before
from routebook.journal.errors import FolderInUse, JournalError
from routebook.journal.identity import Identity, find_identity, new_identity
from routebook.journal.lock import note_in
from routebook.journal.modes import Readers
from routebook.journal.narrowing import told_of
from routebook.journal.newer import refuse_newer
from routebook.journal.pairs import cut
from routebook.journal.record import Record
from routebook.journal.weight import UNIT_BYTES, weight_of
from routebook.journal.writer import JournalSettings, JournalWriter, Recovered
from routebook.server.background import Upkeep, again_and_again
from routebook.server.durable import replace_file
from routebook.server.event_log import log_event
from routebook.server.latest_records import LatestRecords, unpacked
from routebook.server.memory_watch import kill_first
from routebook.server.past import Past, nothing_before
from routebook.settings import MemorySettings, SettingsError
from routebook.slices import Slices
from routebook.state.account import UNBOUNDED
from routebook.wire.frame import MAX_FRAME

logger = logging.getLogger(__name__)

FOLDER = "journal"
NODE_ID = "node-id"
MAX_QUEUED = 200_000  # records to be written, as the journal weighs them
QUEUED_BYTES = 700  # of one of them
MAX_RECENT = 4 * 1024 * 1024  # bytes of records in one answer
_RECORDS_A_SLICE = 5  # each may list a thousand topics
LOOK_EVERY_S = 0.5  # whether the journal has lost something
RESTATE_BELOW = 1000  # records still to be written
QUIET_MS = 5_000  # since a flood last lost records, before the tables are stated anew
RESTATE_EVERY_MS = 600_000  # after floods
WORTH_A_SNAPSHOT = 512 * 1024  # bytes of the segment sealed at the stop
SNAPSHOT_S = 10.0  # a stopping node waits for it
_DAY_S = 24 * 3600
_FOR_EVER = 2**53
_ROOM = 10 * 1024**3  # to share out where a journal is kept without bounds
_KEPT_DAYS = 30
_SNAPSHOT = "making a snapshot"
_NODE_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Recorder:
    def __init__(
        self,
        settings: MemorySettings,
        data_dir: Path,
        *,
        wall_ms: Callable[[], int],
        mono_ms: Callable[[], int],
        restate: Callable[[], Iterator[Event]],
        upkeep: Upkeep | None = None,
        kv_at_start: dict[str, dict[str, str]] | None = None,
        max_frame: int = MAX_FRAME,
        max_bytes: int = UNBOUNDED.records,
    ) -> None:
        self._wall_ms = wall_ms
        self._mono_ms = mono_ms
        self._restate = restate
        self._upkeep = upkeep or Upkeep()
        self._folder = data_dir / FOLDER
        self._latest = LatestRecords(max_bytes // 2)
        self._began_seq = 1  # with this boot
        self._found: Recovered | None = None
        self._unwritten = 0  # records, numbered all the same
        self._stopping = False
        self._stated = 0  # how many records were lost when the tables were last stated anew
        self._writer: JournalWriter | None = None
        self._admission = Admission(
            room=settings.retain_mb * 1024 * 1024 or _ROOM,
            kept_ms=(settings.retain_days or _KEPT_DAYS) * _DAY_S * 1000,
            now_ms=mono_ms(),
        )
        self._revision = 0
        self._flooded = 0  # records lost to floods when that was last looked at
        self._flooded_ms = 0
        self._restated_ms: int | None = None
        self._watching: asyncio.Task[None] | None = None
        self._snapshot: subprocess.Popen[bytes] | None = None
        self._snapshot_due = False  # a segment was sealed
        self._snapshot_failed = False
        self._kv_at_start = kv_at_start or {}
        self._telling = asyncio.Lock()
        self.pause: Callable[[], Awaitable[None]] = _a_turn  # between slices of a look back
        self.on_record: Callable[[Record], object] = lambda record: None
        self._max_recent = min(MAX_RECENT, max_frame // 4)
        self._past = Past(self._folder if settings.journal else None, max_state=max_frame // 2)
        self._data_dir = data_dir
        kept = None if settings.node_id else _kept_id(data_dir, keep=settings.journal)
        self._unkept_id = not (settings.node_id or kept)
        self.node_id = settings.node_id or kept or _new_id()
        self._identity = new_identity(self.node_id, settings.fleet)
        if settings.journal:
            self._writer = JournalWriter(
                JournalSettings(
                    folder=self._folder,
                    sync=_sync(settings.sync),
                    sync_interval_ms=settings.sync_interval_ms,
                    rotate_bytes=settings.rotate_bytes,
                    rotate_age_s=settings.rotate_s,
                    retain_age_s=settings.retain_days * _DAY_S or _FOR_EVER,
                    retain_bytes=settings.retain_mb * 1024 * 1024 or _FOR_EVER,
                    fleet=settings.fleet,
                    readers=Readers(settings.readable_by),
                    max_queued=min(MAX_QUEUED, max_bytes // 2 // QUEUED_BYTES),
                ),
                self.node_id,
                wall_ms=wall_ms,
                mono_ms=mono_ms,
                on_sealed=self._sealed,
                on_own=self._remember,
            )

    @property
    def identity(self) -> Identity:
        """Whose records these are; the incarnation is the folder's, if there is one."""
        return self._identity if self._writer is None else self._writer.identity

    @property
    def folder(self) -> Path | None:
        """Where the journal is; None without one."""
        return None if self._writer is None else self._folder

    def refuse_taken(self) -> None:
        """Raises SettingsError when another node has the journal's folder now."""
        note, held = (None, False) if self._writer is None else note_in(self._folder)
        if held:
            raise _not_to_be_had(FolderInUse(str(self._folder), note.pid if note else 0))

    def open(self) -> None:
        """Take the journal's folder; raises SettingsError when it is not to be had."""
        if self._writer is None:
            return
        try:
            refuse_newer(self._folder)
            found = self._writer.open()
        except JournalError as error:
            raise _not_to_be_had(error) from error
        self._began_seq, self._found = found.next_seq, found
        if self._unkept_id:
            # Not before the folder is ours: whoever is refused leaves nothing behind.
            self._keep_id()
        if found.unclean:
            logger.warning(
                "journal: the node was not stopped in order; what came after record %d, if"
                " anything, is lost (%d bytes that cannot be read were cut off)",
                found.last_seq,
                found.torn_bytes,
            )

    def _keep_id(self) -> None:
        assert self._writer is not None
        try:
            replace_file(self._data_dir / NODE_ID, f"{self.node_id}\n".encode())
        except OSError as error:
            self._writer.close()
            raise _unusable(self._data_dir, error) from error

    def revision_after(self, remembered: int) -> int:
        """Where revisions go on, which were ``remembered`` up to there: none is given twice."""
        if self._found is None:
            return remembered
        if remembered <= self._found.revision:
            return self._found.revision
        return remembered + self._found.leap

    def start(self) -> None:
        """Look after the journal from now on."""
        self._watching = asyncio.create_task(
            again_and_again(
                "looking after the journal", self._look, every_s=LOOK_EVERY_S, upkeep=self._upkeep
            )
        )

    async def stop(self) -> None:
        """Write everything down."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._past.stop()
        self._stopping = True
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        if self._snapshot_due:
            self._make_snapshot()
        if self._snapshot is not None:
            await asyncio.to_thread(_wait_for, self._snapshot)

    def record(self, event: Event) -> bool:
        """Whether it is one to be told of: not noise beyond its rate, which is only counted."""
        event = cut(event)
        self._revision = event.revision
        verdict = self._admission.judge(
            event,
            UNIT_BYTES * weight_of(event),
            now_ms=self._mono_ms(),
            wall_ms=self._wall_ms(),
        )
        if verdict is Verdict.LOSE and self._writer is not None:
            self._writer.lose()
        elif verdict is not Verdict.COUNT:
            self._write(event)
        return verdict is not Verdict.COUNT

    def _write(self, event: Event) -> None:
        if self._writer is not None:
            record = self._writer.append(event)
            if record is None:
                return  # lost, and counted there
        else:
            self._unwritten += 1
            record = Record(self._unwritten, self._wall_ms(), self._mono_ms(), self.node_id, event)
        self._remember(record)

    def tell_rest(self, *, last: bool = False) -> None:
        """Record how much was counted and not written, when it is time to."""
        rest = self._admission.rest(revision=self._revision, now_ms=self._mono_ms(), last=last)
        if rest is not None:
            log_event(rest)
            self._write(rest)

    def _remember(self, record: Record) -> None:
        self._latest.add(record)
        self.on_record(record)

    def pack(self) -> Slices[None]:
        """Have the latest records take less memory."""
        return self._latest.pack()

    @property
    def latest_by_host(self) -> Mapping[str, int]:
        """Bytes of the latest records, by the host whose requests made them."""
        return self._latest.by_host

    def note_awake(self) -> None:
        """The loop is: somebody who asks would be answered."""
        if self._writer is not None:
            self._writer.note_awake()

    @property
    def last_seq(self) -> int:
        """Of the last record there is."""
        return self._latest.last_seq

    async def recent(self, topic: str | None, broker: str | None, values: bool) -> Recent:
        """The latest records, oldest first, and before them a state, if there is one.

        About a topic or a broker, if given; with the ``values`` of pairs or their lengths. One at a
        time, in slices: it takes memory and time.
        """
        async with self._telling:
            first: Record | None = None
            lines: deque[tuple[int, bytes]] = deque()
            size = dropped = 0
            for number, record in enumerate(unpacked(self._latest.held())):
                first = first or record
                if (line := told_of(record, topic, broker, values=values)) is not None:
                    lines.append((record.seq, line))
                    size += len(line)
                while size > self._max_recent:
                    size -= len(lines.popleft()[1])
                    dropped += 1
                large = weight_of(record.event) > 1
                if large or number % _RECORDS_A_SLICE == _RECORDS_A_SLICE - 1:
                    await self.pause()
            if first is None:
                return Recent([], 0, 0, "nothing has been recorded yet")
            from_seq = lines[0][0] if dropped else first.seq
            found = await self._before(from_seq, first, topic, broker, values)
            sent = [*found.lines, *(line for _, line in lines)]
            return Recent(sent, found.from_seq, dropped, found.why)

    async def _before(
        self, seq: int, first: Record, topic: str | None, broker: str | None, values: bool
    ) -> Before:
        if first.seq == seq == 1:
            kv = {} if self._writer is not None or broker is not None else self._kv_at_start
            if topic is not None:
                kv = {name: {topic: pairs[topic]} for name, pairs in kv.items() if topic in pairs}
            return nothing_before(first, kv, values=values)
        written_seq = seq if self._writer is None else self._writer.status().written_seq
        if self._began_seq < seq and written_seq < seq - 1:
            return Before([], seq, f"it is not written yet: {ASK_AGAIN}")
        return await self._past.before(seq, topic, broker, values)

    def state_anew(self) -> None:
        """The journal cannot be believed as it is: have the tables stated anew."""
        self._stated = -1

    def queued(self) -> int:
        """How many records wait for the disk."""
        return 0 if self._writer is None else self._writer.status().queued

    def status(self) -> dict[str, object]:
        """For the health of the node; empty without a journal."""
        if self._writer is None:
            return {}
        status = self._writer.status()
        told = {name: getattr(status, name) for name in status.__slots__}
        return told | {"counted": self._admission.counted, "flooded": self._admission.lost}

    async def _look(self) -> None:
        """Tell what was counted. Restate the tables when records were lost and there is room."""
        self.tell_rest()
        if self._writer is None:
            return
        status = self._writer.status()
        if status.packing is not None:
            self._admission.packing = status.packing
        self._look_at_snapshot()
        if self._snapshot_due:
            self._make_snapshot()
        if status.lost == self._stated or status.failing or status.queued > RESTATE_BELOW:
            return
        if self._is_flooded():
            return
        why = f"{status.lost} records were lost" if status.lost else "it was damaged"
        logger.warning("journal: %s; stating the tables anew", why)
        for event in self._restate():
            self.record(event)
            await asyncio.sleep(0)
        self._stated = status.lost
        self._restated_ms = self._mono_ms()

    def _is_flooded(self) -> bool:
        """Whether records are lost to a flood, or were so lately that it may not be over.

        To state all tables anew takes room too, and must not be what a flood fills the journal by.
        """
        now_ms, lost = self._mono_ms(), self._admission.lost
        if lost != self._flooded:
            self._flooded, self._flooded_ms = lost, now_ms
        if not lost:
            return False
        again = self._restated_ms is None or now_ms - self._restated_ms >= RESTATE_EVERY_MS
        quiet = now_ms - self._flooded_ms >= QUIET_MS
        return not (again and quiet and self._admission.has_room_to_restate(now_ms))

    def _sealed(self, segment: Path) -> None:
        """Have a snapshot made. Called in a thread of the journal."""
        if self._stopping:
            if segment.stat().st_size >= WORTH_A_SNAPSHOT:  # else quickly replayed at the start
                self._make_snapshot()
        else:
            self._snapshot_due = True

    def _look_at_snapshot(self) -> None:
        """Whether the process that made the last one failed; it said why in the log."""
        if self._snapshot is None or (code := self._snapshot.poll()) is None:
            return
        if code == 0:
            self._upkeep.works(_SNAPSHOT)
        elif not self._snapshot_failed and self._upkeep.failed(_SNAPSHOT, f"exit code {code}"):
            logger.error(
                "journal: %s failed (exit code %d): nothing older than the last one can go",
                _SNAPSHOT,
                code,
            )
        self._snapshot_failed = code != 0

    def _make_snapshot(self) -> None:
        """In a process of its own, one at a time."""
        if self._snapshot is not None and self._snapshot.poll() is None:
            return  # the next one will have what this one does not
        self._snapshot_due = self._snapshot_failed = False
        try:
            self._snapshot = subprocess.Popen(
                [sys.executable, "-m", "routebook.journal.snapshot", str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Not stopped with the node by Ctrl-C. Not a session of its own either: Linux
                # shares the cores fairly between sessions, whatever the priority within them.
                process_group=0,
            )
            os.setpriority(os.PRIO_PROCESS, self._snapshot.pid, 15)
            kill_first(self._snapshot.pid)
        except OSError as error:
            logger.warning("journal: no snapshot: %s", error)


async def _a_turn() -> None:
    await asyncio.sleep(0)


def _wait_for(snapshot: "subprocess.Popen[bytes]") -> None:
    try:
        snapshot.wait(SNAPSHOT_S)
    except subprocess.TimeoutExpired:
        snapshot.terminate()  # the next start can do without it
        snapshot.wait()


def _sync(text: str) -> Literal["none", "interval", "batch"]:
    return cast(Literal["none", "interval", "batch"], text)


def _kept_id(data_dir: Path, *, keep: bool) -> str | None:
    """The name this node has always had; None when it has none yet.

    Raises SettingsError when there is one that nobody can read, and it is to be kept.
    """
    path = data_dir / NODE_ID
    try:
        text = path.read_text(encoding="ascii").strip()
        if _NODE_ID.fullmatch(text):
            return text
        unusable = SettingsError(f"{path} does not hold a node id; repair or remove it")
    except FileNotFoundError:
        return _id_in_journal(data_dir / FOLDER)
    except (NotADirectoryError, PermissionError) as error:
        unusable = _unusable(data_dir, error)
    except (OSError, UnicodeDecodeError) as error:
        unusable = SettingsError(f"{path} cannot be read ({error}); repair or remove it")
    if keep:
        raise unusable
    return None


def _id_in_journal(folder: Path) -> str | None:
    """Of a node whose data folder was removed under it, and which went on in a new one."""
    try:
        found = find_identity(folder)
    except JournalError:
        return None
    return found.node or None if found else None


def _new_id() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:80] or "node"
    return f"{host}-{secrets.token_hex(4)}"


def _not_to_be_had(error: JournalError) -> SettingsError:
    return SettingsError(f"{error}; choose another --data-dir, or start with --journal false")


def _unusable(data_dir: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"the data folder {data_dir} cannot be used ({error.strerror});"
        " choose another --data-dir, or start with --journal false"
    )
