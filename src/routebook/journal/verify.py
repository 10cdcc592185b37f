"""Whether a journal is whole: every file, every line, every number and hash.

It finds what was lost, cut, changed, inserted or moved. It cannot find what somebody made with
care who wrote all that follows anew, hashes and manifests: for that, keep a manifest elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import BinaryIO

from routebook.disk import folder_size
from routebook.journal.chain import Chain
from routebook.journal.errors import BadSegment, JournalError
from routebook.journal.folder import (
    ACTIVE,
    LOCK,
    REMOVED,
    Listing,
    Span,
    list_folder,
    snapshot_name,
)
from routebook.journal.locate import NoJournal, is_journal
from routebook.journal.lock import note_in
from routebook.journal.manifest import Manifest, manifest_sha256, read_manifest, read_removed
from routebook.journal.reader import Progress
from routebook.journal.record import Record, hash_of
from routebook.journal.segment import Summary, chunks_from, chunks_of, lines_of

_TRIES = 5
_MOST = 100  # findings of one file


@dataclass(frozen=True, slots=True)
class Finding:
    """``serious``: something is lost or wrong. ``line`` and ``seq`` where there is one."""

    file: str
    what: str
    line: int | None = None
    seq: int | None = None
    serious: bool = True

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file} line {self.line}"
        if self.seq is not None:
            where = f"{where}, record {self.seq}"
        return f"{where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """``leaps`` are the times a node was killed and the numbers jumped."""

    findings: tuple[Finding, ...]
    records: int
    segments: int
    last_seq: int
    leaps: int
    being_written: bool

    @property
    def sound(self) -> bool:
        return not any(finding.serious for finding in self.findings)


def verify(folder: Path, *, progress: Progress | None = None) -> Report:
    """Look at all of ``folder``. Raises NoJournal when there is none, or JournalError."""
    if not is_journal(folder):
        raise NoJournal(f"there is no journal in {folder}")
    return _Verification(folder, progress).run()


class _Content:
    """What the lines of a segment add up to, for its manifest."""

    def __init__(self) -> None:
        self.summary = Summary("", b"", b"")
        self._sum = sha256()

    def summed(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._sum.update(chunk)
            yield chunk

    def add(self, line: bytes, record: Record) -> None:
        self.summary.node = self.summary.node or record.node
        line_hash = hash_of(line) or b""
        self.summary.add(record.seq, record.wall_ms, size=len(line), line_hash=line_hash)

    def faults(self, manifest: Manifest) -> Iterator[str]:
        """Members of ``manifest`` that are not so."""
        summary = self.summary
        if self._sum.hexdigest() != manifest.content_sha256:
            yield "content_sha256"
        if summary.last_hash.hex() != manifest.last_hash:
            yield "last_hash"
        if summary.size != manifest.bytes:
            yield "bytes"
        for name in _COUNTED:
            if getattr(summary, name) != getattr(manifest, name):
                yield name


_COUNTED = (
    "node",
    "first_seq",
    "last_seq",
    "records",
    "first_wall_ms",
    "last_wall_ms",
    "min_wall_ms",
    "max_wall_ms",
)


class _Verification:
    def __init__(self, folder: Path, progress: Progress | None) -> None:
        self._folder = folder
        self._progress = progress
        self._chain = Chain()
        self._findings: list[Finding] = []
        self._told: Counter[str] = Counter()
        self._seen: set[Span] = set()
        self._segments = 0
        self._first_passed = 0  # what comes before is not looked at
        self._passed = 0
        self._previous_sha256: str | None = ""  # None: not known
        self._line = 0
        self._done_bytes = 0
        self._total_bytes = 0

    def run(self) -> Report:
        listing = list_folder(self._folder)
        self._total_bytes = folder_size(self._folder)
        note, held = note_in(self._folder)
        self._read_all(held=held)
        if note is not None and note.last_seq is not None and not held:
            self._check_end(note.last_seq, _hash(note.last_hash))
        self._look_at_others(listing, held=held)
        for file, count in self._told.items():
            if count > _MOST:
                self._findings.append(Finding(file, f"has {count - _MOST} more faults"))
        return Report(
            findings=tuple(self._findings),
            records=self._chain.records,
            segments=self._segments,
            last_seq=self._chain.last_seq,
            leaps=self._chain.leaps,
            being_written=held,
        )

    def _tell(
        self, file: str, what: str, *, line: int | None = None, seq: int | None = None
    ) -> None:
        self._told[file] += 1
        if self._told[file] <= _MOST:
            self._findings.append(Finding(file, what, line, seq))

    def _remark(self, file: str, what: str) -> None:
        self._findings.append(Finding(file, what, serious=False))

    def _tell_progress(self, count: int) -> None:
        self._done_bytes += count
        if self._progress is not None:
            self._progress(min(self._done_bytes, self._total_bytes), self._total_bytes)

    def _read_all(self, *, held: bool) -> None:
        """Full segments, then the active one; files may get other names meanwhile."""
        tries = 0
        while True:
            span = self._next_full()
            if span is not None:
                try:
                    self._read_full(span)
                except FileNotFoundError:
                    tries += 1
                    if tries < _TRIES:
                        continue
                    self._miss(span)
                self._seen.add(span)
                tries, self._passed = 0, span.last_seq
                continue
            with ExitStack() as stack:
                active = self._opened(stack, ACTIVE)
                if self._next_full() is not None:  # the active one was closed: it comes first
                    continue
                if active is not None:
                    self._segments += 1
                    self._read_lines(active, ACTIVE, growing=held)
                return

    def _opened(self, stack: ExitStack, name: str) -> BinaryIO | None:
        """None when there is none, or it cannot be read, which is then told."""
        try:
            return stack.enter_context((self._folder / name).open("rb"))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell(name, f"cannot be read: {error.strerror}")
            return None

    def _next_full(self) -> Span | None:
        self._pass_removed()
        listing = list_folder(self._folder)
        spans = sorted({*listing.manifests, *listing.packed, *listing.plain})
        return next((span for span in spans if span.last_seq > self._passed), None)

    def _pass_removed(self) -> None:
        """What retention took away is not missing."""
        try:
            removed = read_removed(self._folder)
        except JournalError as error:
            if not self._told[REMOVED]:
                self._tell(REMOVED, _without(REMOVED, error))
            return
        if removed is not None and removed.last_seq > self._passed:
            self._first_passed = self._passed = removed.last_seq
            self._chain.go_to(removed.last_seq, _hash(removed.last_hash))
            self._previous_sha256 = removed.manifest_sha256

    def _miss(self, span: Span) -> None:
        manifest = self._manifest(span)
        missing = f"records {span.first_seq} to {span.last_seq}"
        self._tell(span.packed, f"is missing, and with it the {missing}", seq=span.first_seq)
        self._chain.go_to(span.last_seq, _hash(manifest.last_hash) if manifest else None)

    def _manifest(self, span: Span) -> Manifest | None:
        """The manifest, which must know the one before it; None when it cannot be read."""
        try:
            manifest = read_manifest(self._folder, span)
            text_sha256 = manifest_sha256(self._folder, span)
        except FileNotFoundError:
            return None
        except JournalError as error:
            self._tell(span.manifest, _without(span.manifest, error))
            self._previous_sha256 = None
            return None
        follows = span.first_seq == self._chain.last_seq + 1
        if follows and self._previous_sha256 not in (None, manifest.previous_sha256):
            self._tell(span.manifest, "previous_sha256 is not that of the manifest before it")
        self._previous_sha256 = text_sha256
        return manifest

    def _read_full(self, span: Span) -> None:
        """Raises FileNotFoundError when its file has gone, or got another name."""
        sealed = (self._folder / span.manifest).exists()
        plain = not sealed and (self._folder / span.plain).exists()
        name = span.plain if plain else span.packed
        with (self._folder / name).open("rb") as file:
            self._segments += 1
            manifest = self._manifest(span)
            if not plain and not sealed:
                self._tell(name, "has no manifest", seq=span.first_seq)
            if manifest is not None and span.first_seq > self._chain.last_seq + 1:
                # What is missing before it is told by the number of its first record.
                self._chain.last_hash = _hash(manifest.first_hash)
            first_hash = self._chain.last_hash
            content = self._read_lines(file, name)
            if manifest is not None:
                file.seek(0)
                packed_sha256 = file_digest(file, "sha256").hexdigest()
                self._compare(manifest, content, first_hash=first_hash, packed_sha256=packed_sha256)
        if content is not None and self._chain.last_seq != span.last_seq:
            what = f"ends with record {self._chain.last_seq} instead of {span.last_seq}"
            self._tell(name, what, line=self._line, seq=self._chain.last_seq)
        if content is None or self._chain.last_seq != span.last_seq:
            self._chain.go_to(span.last_seq, _hash(manifest.last_hash) if manifest else None)

    def _read_lines(self, file: BinaryIO, name: str, *, growing: bool = False) -> _Content | None:
        """What was read; None when it could not be read to the end."""
        content, self._line = _Content(), 0

        def tell(number: int, seq: int | None, what: str) -> None:
            self._tell(name, what, line=number, seq=seq)

        chunks = content.summed(chunks_from(file, name, told=self._tell_progress))
        try:
            for line in lines_of(chunks):
                if not line.endswith(b"\n"):
                    if not growing:
                        self._tell(name, f"is cut off after {len(line)} bytes", line=self._line + 1)
                    break
                self._line += 1
                record = self._chain.feed(line, self._line, tell)
                if record is not None:
                    content.add(line, record)
        except BadSegment as error:
            self._tell(
                name, _without(name, error), line=self._line + 1, seq=self._chain.last_seq + 1
            )
            return None
        return content

    def _compare(
        self,
        manifest: Manifest,
        content: _Content | None,
        *,
        first_hash: bytes | None,
        packed_sha256: str,
    ) -> None:
        faults = ["sha256"] if packed_sha256 != manifest.sha256 else []
        if first_hash is not None and first_hash.hex() != manifest.first_hash:
            faults.append("first_hash")
        if content is not None:
            faults += content.faults(manifest)
        if faults:
            packed = manifest.span.packed
            self._tell(packed, f"does not fit its manifest: {', '.join(faults)}")

    def _check_end(self, last_seq: int, last_hash: bytes | None) -> None:
        """The node stopped in order: the journal must end with what it wrote last."""
        if self._chain.last_seq < last_seq:
            missing = f"records {self._chain.last_seq + 1} to {last_seq} are missing at the end"
            self._tell(LOCK, f"{missing}: the node wrote them before it stopped", seq=last_seq)
        elif self._chain.last_seq == last_seq and self._chain.last_hash != last_hash:
            self._tell(LOCK, "the last record is not the one the node wrote last", seq=last_seq)

    def _look_at_others(self, listing: Listing, *, held: bool) -> None:
        for span in sorted({*listing.manifests, *listing.packed, *listing.plain} - self._seen):
            if self._first_passed < span.last_seq <= self._passed:
                self._tell(span.stem, "has records that another segment has", seq=span.first_seq)
        for seq in listing.snapshots:
            name = snapshot_name(seq)
            try:
                for _ in chunks_of(self._folder / name, told=self._tell_progress):
                    pass
            except FileNotFoundError:
                continue  # retention was quicker
            except BadSegment as error:
                self._tell(name, _without(name, error), seq=seq)
                continue
            if seq > self._chain.last_seq:
                self._tell(name, "is of a record that is not there", seq=seq)
        for name in listing.torn:
            self._remark(name, "was cut off when the node was killed")
        for name in listing.temporary if not held else ():
            self._remark(name, "was left half done")
        for name in listing.foreign:
            self._remark(name, "is none of the journal's files")


def _hash(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text) or None
    except ValueError:
        return None


def _without(name: str, error: JournalError) -> str:
    """The sentence, where the name of the file stands before it anyway."""
    return str(error).removeprefix(name).lstrip()
