"""Whether lines follow each other, as their numbers and their hashes say.

The chain goes on from each line as it is, so that one fault is told once: a line that was changed
does not make all that follow look changed.
"""

from collections.abc import Callable

from routebook.events import JournalRecovered
from routebook.journal.errors import JournalError
from routebook.journal.record import CHAIN_START, Record, decode, hash_of, true_hash

Tell = Callable[[int, int | None, str], None]
"""Line number, sequence number if there is one, and what is wrong."""


class Chain:
    """What was read up to now. ``last_hash`` is None when nobody can know it."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.last_hash: bytes | None = CHAIN_START
        self.records = 0
        self.leaps = 0
        self._true_hash: bytes | None = None  # of the last line, where that says another
        self._hash_before: bytes | None = None  # the last line but one
        self._unread = False  # the last line was no record; it may have been the next one
        self._doubted = False  # the last line had a number out of place

    def go_to(self, last_seq: int, last_hash: bytes | None) -> None:
        """Take up the chain after ``last_seq``, whatever came before."""
        self.last_seq = last_seq
        self.last_hash = last_hash
        self._true_hash = self._hash_before = None
        self._unread = self._doubted = False

    def feed(self, line: bytes, number: int, tell: Tell) -> Record | None:
        """Look at the next line; None when it is no record."""
        stated = hash_of(line)
        try:
            record = decode(line)
        except JournalError as error:
            tell(number, None, str(error))
            self._unread = True
            self._go_on(stated or self.last_hash, None)
            return None
        self.records += 1
        truth = None if self.last_hash is None else true_hash(line, self.last_hash)
        fits = truth is None or stated in (
            truth,
            self._true_hash and true_hash(line, self._true_hash),
        )
        if stated is None:
            tell(number, record.seq, "has no hash")
        in_place = self._check_place(record, number, tell, fits=fits)
        if not fits and stated is not None:
            inserted = self._hash_before and stated == true_hash(line, self._hash_before)
            if not inserted and in_place:
                tell(number, record.seq, "was changed, or a line before it: its hash does not fit")
            elif inserted and (self._unread or (in_place and not self._doubted)):
                tell(number - 1, None, f"was inserted: record {record.seq} knows nothing of it")
        self._unread = False
        self._doubted = not in_place
        self._go_on(stated, truth)
        return record

    def _go_on(self, stated: bytes | None, truth: bytes | None) -> None:
        self._hash_before = self.last_hash
        self.last_hash = stated
        self._true_hash = None if truth == stated else truth

    def _check_place(self, record: Record, number: int, tell: Tell, *, fits: bool) -> bool:
        """Whether the number is that of the next record."""
        seq, last_seq = record.seq, self.last_seq
        wrong = self._misplaced(record, fits=fits)
        if wrong is None:
            self.last_seq = seq
            return True
        if self._doubted and fits and seq < last_seq:
            self.last_seq = seq  # it was the line before that had a wrong number
            return True
        tell(number, seq, wrong)
        self.last_seq = max(seq, last_seq)
        return False

    def _misplaced(self, record: Record, *, fits: bool) -> str | None:
        seq, last_seq, event = record.seq, self.last_seq, record.event
        if isinstance(event, JournalRecovered) and seq > last_seq + 1:
            self.leaps += 1
            if event.last_seq < last_seq:
                return f"says that record {event.last_seq} was the last one, not {last_seq}"
            return None if event.last_seq == last_seq else _missing(last_seq + 1, event.last_seq)
        if seq == last_seq + 1 or (self._unread and seq == last_seq + 2):
            return None
        if seq > last_seq:
            missing = _missing(last_seq + 1, seq - 1)
            return missing if fits else f"{missing}, or it was changed"
        if seq == last_seq:
            return f"record {seq} is there twice: one of them was inserted"
        return f"record {seq} is out of order: it comes after record {last_seq}"


def _missing(first_seq: int, last_seq: int) -> str:
    if first_seq == last_seq:
        return f"record {first_seq} is missing before it"
    return f"records {first_seq} to {last_seq} are missing before it"
