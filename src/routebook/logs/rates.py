"""How much of each kind of line a log takes: a burst, and so much a second after that.

What peers do makes lines. A kind is what the program wrote, without what came from a peer. Lines
beyond the rate are counted, and a line says how many were left out.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from routebook.journal.admission import Bucket

KIND_BYTES = 4 * 1024 * 1024
KIND_FILL_MS = 2_048_000  # 2 KiB/s
ALL_BYTES = 16 * 1024 * 1024
ALL_FILL_MS = 2_048_000  # 8 KiB/s
NOTE_EVERY_MS = 10_000
MAX_KINDS = 512


@dataclass(slots=True)
class _Kind:
    bucket: Bucket
    left_out: int = 0
    noted_ms: int = 0


class LineRates:
    """Told the time by ``now_ms``."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._all = Bucket(ALL_BYTES, fill_ms=ALL_FILL_MS, now_ms=now_ms())
        self._kinds: dict[object, _Kind] = {}

    def admits(self, kind: object, size: int) -> bool:
        now_ms = self._now_ms()
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()  # nobody writes so many by purpose
            bucket = Bucket(KIND_BYTES, fill_ms=KIND_FILL_MS, now_ms=now_ms)
            found = self._kinds[kind] = _Kind(bucket, noted_ms=now_ms)
        if found.bucket.has(size, now_ms) and self._all.has(size, now_ms):
            found.bucket.take(size)
            self._all.take(size)
            return True
        found.left_out += 1
        return False

    def note(self, kind: object) -> int:
        """How many lines of ``kind`` were left out, where it is time to say so; 0 else."""
        found, now_ms = self._kinds.get(kind), self._now_ms()
        if found is None or not found.left_out or now_ms - found.noted_ms < NOTE_EVERY_MS:
            return 0
        left_out, found.left_out, found.noted_ms = found.left_out, 0, now_ms
        return left_out

    @property
    def left_out(self) -> int:
        """Lines that nobody was told of yet."""
        return sum(found.left_out for found in self._kinds.values())


def kind_of(record: logging.LogRecord) -> object:
    """Whoever writes lines of several kinds from one place says which with ``extra``."""
    text = record.msg if isinstance(record.msg, str) else ""
    return record.name, record.levelno, text, getattr(record, "kind", None)
