"""Chronicle: what a node remembers of itself.

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
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from routebook.events import (
    Event,
    GroupRestated,
    MappingsChanged,
    RouteQueries,
    TopicsChanged,
)
from routebook.journal.errors import JournalError
from routebook.journal.identity import Identity, new_identity
from routebook.journal.newer import refuse_newer
from routebook.journal.record import Record, encode
from routebook.journal.writer import JournalSettings, JournalWriter
from routebook.server.durable import replace_file
from routebook.server.lasting import again_and_again
from routebook.settings import MemorySettings, SettingsError

logger = logging.getLogger(__name__)

FOLDER = "journal"
NODE_ID = "node-id"
RECENT_RECORDS = 20_000
RECENT_TOPICS = 200_000  # changed topics in all of them
LOOK_EVERY_S = 0.5  # whether the journal has lost something
RESTATE_BELOW = 1000  # records still to be written
WORTH_A_SNAPSHOT = 512 * 1024  # bytes of the segment sealed at the stop
SNAPSHOT_S = 10.0  # a stopping node waits for it
_DAY_S = 24 * 3600
_FOR_EVER = 2**53
_NODE_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Chronicle:
    def __init__(
        self,
        settings: MemorySettings,
        data_dir: Path,
        *,
        wall_ms: Callable[[], int],
        mono_ms: Callable[[], int],
        restate: Callable[[], Iterator[Event]],
    ) -> None:
        self._wall_ms = wall_ms
        self._mono_ms = mono_ms
        self._restate = restate
        self._folder = data_dir / FOLDER
        self._recent: deque[Record] = deque()
        self._recent_topics = 0
        self._unwritten = 0  # records, numbered all the same
        self._stopping = False
        self._stated = 0  # how many records were lost when the tables were last stated anew
        self._writer: JournalWriter | None = None
        self._watching: asyncio.Task[None] | None = None
        self._snapshot: subprocess.Popen[bytes] | None = None
        self.node_id = settings.node_id or _node_id(data_dir, keep=settings.journal)
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
                ),
                self.node_id,
                wall_ms=wall_ms,
                mono_ms=mono_ms,
                on_sealed=self._sealed,
            )

    @property
    def identity(self) -> Identity:
        """Whose records these are; the incarnation is the folder's, if there is one."""
        return self._identity if self._writer is None else self._writer.identity

    @property
    def folder(self) -> Path | None:
        """Where the journal is; None without one."""
        return None if self._writer is None else self._folder

    def open(self) -> None:
        """Take the journal's folder; raises SettingsError when it is not to be had."""
        if self._writer is None:
            return
        try:
            refuse_newer(self._folder)
            found = self._writer.open()
        except JournalError as error:
            raise SettingsError(
                f"{error}; choose another --data-dir, or start with --journal false"
            ) from error
        if found.unclean:
            logger.warning(
                "journal: the node was not stopped in order; what came after record %d, if"
                " anything, is lost (%d bytes that cannot be read were cut off)",
                found.last_seq,
                found.torn_bytes,
            )

    def start(self) -> None:
        """Look after the journal from now on."""
        if self._writer is not None:
            self._watching = asyncio.create_task(
                again_and_again("looking after the journal", self._look, every_s=LOOK_EVERY_S)
            )

    async def stop(self) -> None:
        """Write everything down."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._stopping = True
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        if self._snapshot is not None:
            await asyncio.to_thread(_wait_for, self._snapshot)

    def record(self, event: Event) -> None:
        if self._writer is not None:
            record = self._writer.append(event)
            if record is None:
                return  # lost, and counted there
        else:
            self._unwritten += 1
            record = Record(self._unwritten, self._wall_ms(), self._mono_ms(), self.node_id, event)
        self._recent.append(record)
        self._recent_topics += _topics_in(event)
        while len(self._recent) > RECENT_RECORDS or self._recent_topics > RECENT_TOPICS:
            self._recent_topics -= _topics_in(self._recent.popleft().event)

    def note_awake(self) -> None:
        """The loop is: somebody who asks would be answered."""
        if self._writer is not None:
            self._writer.note_awake()

    @property
    def last_seq(self) -> int:
        """Of the last record there is."""
        return self._recent[-1].seq if self._recent else 0

    def recent(self, topic: str | None, broker: str | None) -> Iterator[bytes]:
        """Lines of the latest records, oldest first; about a topic or a broker, if given."""
        for record in list(self._recent):
            event: Event | None = record.event
            if broker is not None and (
                isinstance(event, RouteQueries) or getattr(event, "broker", broker) != broker
            ):
                continue
            if topic is not None:
                event = _narrowed(record.event, topic)
            if event is not None:
                yield encode(record if event is record.event else replace(record, event=event))

    def state_anew(self) -> None:
        """The journal cannot be believed as it is: have the tables stated anew."""
        self._stated = -1

    def status(self) -> dict[str, object]:
        """For the health of the node; empty without a journal."""
        if self._writer is None:
            return {}
        status = self._writer.status()
        return {name: getattr(status, name) for name in status.__slots__}

    async def _look(self) -> None:
        """State the tables anew when records were lost and there is room again."""
        assert self._writer is not None
        status = self._writer.status()
        if status.lost == self._stated or status.failing or status.queued > RESTATE_BELOW:
            return
        why = f"{status.lost} records were lost" if status.lost else "it was damaged"
        logger.warning("journal: %s; stating the tables anew", why)
        for event in self._restate():
            self.record(event)
            await asyncio.sleep(0)
        self._stated = status.lost

    def _sealed(self, segment: Path) -> None:
        """Make a snapshot in a process of its own. Called in a thread of the journal."""
        if self._snapshot is not None and self._snapshot.poll() is None:
            return  # the next one will have this segment too
        if self._stopping and segment.stat().st_size < WORTH_A_SNAPSHOT:
            return  # quickly replayed at the next start
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
        except OSError as error:
            logger.warning("journal: no snapshot of %s: %s", segment.name, error)


def _wait_for(snapshot: "subprocess.Popen[bytes]") -> None:
    try:
        snapshot.wait(SNAPSHOT_S)
    except subprocess.TimeoutExpired:
        snapshot.terminate()  # the next start can do without it
        snapshot.wait()


def _narrowed(event: Event, topic: str) -> Event | None:
    """What there is in ``event`` of ``topic``; None for a list that does not have it."""
    match event:
        case TopicsChanged():
            changes = tuple(change for change in event.changes if change.topic == topic)
            return replace(event, changes=changes) if changes else None
        case MappingsChanged():
            mappings = tuple(mapping for mapping in event.mappings if mapping.topic == topic)
            return replace(event, mappings=mappings) if mappings else None
        case RouteQueries():
            counts = tuple(count for count in event.topics if count.topic == topic)
            return replace(event, topics=counts) if counts else None
        case GroupRestated():
            return replace(
                event,
                queues=tuple(queue for queue in event.queues if queue.topic == topic),
                mappings=tuple(mapping for mapping in event.mappings if mapping.topic == topic),
            )
    return event


def _topics_in(event: Event) -> int:
    if isinstance(event, TopicsChanged):
        return len(event.changes)
    return len(event.queues) if isinstance(event, GroupRestated) else 0


def _sync(text: str) -> Literal["none", "interval", "batch"]:
    return cast(Literal["none", "interval", "batch"], text)


def _node_id(data_dir: Path, *, keep: bool) -> str:
    """The name this node has always had, or a new one.

    Raises SettingsError when it is to be kept and cannot be.
    """
    path = data_dir / NODE_ID
    unusable: SettingsError | None = None
    try:
        text = path.read_text(encoding="ascii").strip()
        if _NODE_ID.fullmatch(text):
            return text
        unusable = SettingsError(f"{path} does not hold a node id; repair or remove it")
    except FileNotFoundError:
        pass
    except (NotADirectoryError, PermissionError) as error:
        unusable = _unusable(data_dir, error)
    except (OSError, UnicodeDecodeError) as error:
        unusable = SettingsError(f"{path} cannot be read ({error}); repair or remove it")
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:80] or "node"
    text = f"{host}-{secrets.token_hex(4)}"
    if keep:
        if unusable is not None:
            raise unusable
        try:
            replace_file(path, f"{text}\n".encode())
        except OSError as error:
            raise _unusable(data_dir, error) from error
    return text


def _unusable(data_dir: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"the data folder {data_dir} cannot be used ({error.strerror});"
        " choose another --data-dir, or start with --journal false"
    )
