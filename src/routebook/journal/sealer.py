"""The thread that seals full segments and takes old ones away, behind everything else."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from routebook.journal.errors import JournalError
from routebook.journal.folder import Listing, Span, list_folder
from routebook.journal.identity import Identity
from routebook.journal.manifest import find_removed, manifest_sha256
from routebook.journal.record import place_of
from routebook.journal.repair import hash_before
from routebook.journal.retention import Kept, expired, kept_in, loose_bytes_in, remove
from routebook.journal.segment import Summary, chunks_of, lines_of, seal, summary_of
from routebook.journal.trouble import Trouble

logger = logging.getLogger(__name__)

_NICENESS = 10
_LOOK_S = 1.0  # whether there is a snapshot, while segments cannot go for want of one

_NOTHING = Span(0, 0)


class Sealer:
    """Attributes without an underscore may be read by any thread.

    ``on_sealed`` is called in this one, with the path of a segment that was sealed. Whoever it is
    makes snapshots: nothing is taken away before there is one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        identity: Identity,
        retain_age_ms: int,
        retain_bytes: int,
        wall_ms: Callable[[], int],
        on_sealed: Callable[[Path], None] | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check  # raises OSError unless the folder is still ours
        self._folder = folder
        self._identity = identity
        self._retain_age_ms = retain_age_ms
        self._retain_bytes = retain_bytes
        self._wall_ms = wall_ms
        self._on_sealed = on_sealed
        self._todo: SimpleQueue[Summary | Span | None] = SimpleQueue()
        self._known: dict[Span, Kept] = {}
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-seal", daemon=True)
        self._unsealed: dict[Span, int] = {}
        self._needed_bytes = 0  # of sealed segments that the newest snapshot does not have
        self.sealed_bytes = 0
        self.loose_bytes = 0  # of segments that wait, and of what was cut off
        self.segments = 0
        self.packing: float | None = None  # what sealing left of a byte, of late
        self.trouble = Trouble("cannot seal a segment")

    def start(self) -> None:
        self._thread.start()

    def put(self, closed: Summary | Span) -> None:
        """Have a closed segment sealed; one that nobody has summed up yet by its span."""
        if isinstance(closed, Span):
            with suppress(OSError):
                self._unsealed[closed] = (self._folder / closed.plain).stat().st_size
        else:
            self._unsealed[closed.span] = closed.size
        self._todo.put(closed)

    @property
    def backlog_bytes(self) -> int:
        """What is on disk and cannot go: not sealed yet, or far ahead of the newest snapshot."""
        return sum(tuple(self._unsealed.values())) + max(
            self._needed_bytes - self._retain_bytes // 2, 0
        )

    def stop(self, timeout_s: float) -> bool:
        """Seal what there is to seal; False when time was up, and it is left for the next start."""
        self._todo.put(None)
        self._thread.join(timeout_s)
        self._abandoned.set()
        self._thread.join(1.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        if sys.platform == "linux":  # elsewhere it would be the whole process
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        self._patiently(self._keep_house)
        while (closed := self._next()) is not None:
            if closed is not _NOTHING:
                self._patiently(lambda closed=closed: self._seal(closed))  # type: ignore[misc]
                self._unsealed.pop(closed if isinstance(closed, Span) else closed.span, None)
            self._patiently(self._keep_house)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _next(self) -> Summary | Span | None:
        """What is to be sealed; nothing, after a while, where room is wanted meanwhile."""
        try:
            return self._todo.get(timeout=_LOOK_S if self.backlog_bytes else None)
        except Empty:
            return _NOTHING

    def _patiently(self, work: Callable[[], None]) -> None:
        """Do ``work``, and again until the disk lets it be done."""
        while not self._abandoned.is_set():
            try:
                self._check()
                work()
            except OSError as error:
                self._abandoned.wait(self.trouble.note(error))
            except JournalError as error:
                self.trouble.tell(error)  # a damaged file, and it says which
                return
            except BaseException as error:
                # A mistake of ours: this is left undone, and what comes next is not.
                logger.exception("journal: sealing failed")
                self.trouble.tell(error)
                return
            else:
                self.trouble.over()
                return

    def _seal(self, closed: Summary | Span) -> None:
        span = closed if isinstance(closed, Span) else closed.span
        try:
            self._seal_there(closed)
        except FileNotFoundError as error:
            list_folder(self._folder)  # or is it all of the folder that is gone?
            if (self._folder / span.plain).exists():
                raise
            raise JournalError(
                f"{span.plain} vanished before it was sealed: records {span.first_seq} to"
                f" {span.last_seq} are missing from the journal"
            ) from error

    def _seal_there(self, closed: Summary | Span) -> None:
        listing = list_folder(self._folder)
        summary = self._summary(closed, listing) if isinstance(closed, Span) else closed
        manifest = seal(
            self._folder,
            summary,
            previous_sha256=self._previous(listing, summary.first_seq),
            sealed_at_ms=self._wall_ms(),
            stopped=self._abandoned.is_set,
            identity=self._identity,
        )
        if manifest is None:
            return
        left = manifest.packed_bytes / max(manifest.bytes, 1)
        self.packing = left if self.packing is None else (self.packing + left) / 2
        if self._on_sealed is None:
            return
        try:
            self._on_sealed(self._folder / manifest.span.packed)
        except BaseException as error:  # somebody else's, and it is sealed all the same
            logger.exception("after sealing %s", manifest.span.packed)
            self.trouble.tell(error)

    def _summary(self, span: Span, listing: Listing) -> Summary:
        path = self._folder / span.plain
        first = next(lines_of(chunks_of(path)), b"")
        return summary_of(
            lines_of(chunks_of(path)),
            node=place_of(first).node,
            first_hash=hash_before(self._folder, listing, span.first_seq),
        )

    def _previous(self, listing: Listing, first_seq: int) -> str:
        before = [span for span in listing.sealed if span.last_seq < first_seq]
        if before:
            return manifest_sha256(self._folder, before[-1])
        removed = find_removed(self._folder)
        return removed.manifest_sha256 if removed else ""

    def _keep_house(self) -> None:
        listing = list_folder(self._folder)
        kept = kept_in(self._folder, listing, self._known)
        newest = listing.snapshots[-1] if listing.snapshots else None
        if newest is None and self._on_sealed is not None:
            newest = 0  # what the node knows is in the records only
        gone = expired(
            kept,
            now_ms=self._wall_ms(),
            retain_age_ms=self._retain_age_ms,
            retain_bytes=self._retain_bytes,
            snapshot_seq=newest,
            loose_bytes=loose_bytes_in(self._folder, listing, kept),
        )
        if gone:
            remove(self._folder, gone, listing, now_ms=self._wall_ms())
            for span in gone:
                del self._known[span]
            logger.info(
                "journal: removed %d segments up to record %d", len(gone), gone[-1].last_seq
            )
        left = kept[len(gone) :]
        self._needed_bytes = sum(
            segment.bytes for segment in left if newest is not None and segment.span[1] > newest
        )
        self.sealed_bytes = sum(segment.bytes for segment in left)
        self.loose_bytes = sum(tuple(self._unsealed.values()))
        self.segments = len(left)
