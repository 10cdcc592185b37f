"""Key-value pairs in records: long values are told by length and digest, and on request all are.

The pairs themselves are in the key-value file. What a journal says of them is for history, so a
value of more than ``LONGEST`` characters is recorded as its length and a digest: enough to see
that it changed, and to what it did not.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from routebook.events import Event, KvChanged, StateRestated
from routebook.journal.record import decode, encode, hash_of, type_written
from routebook.words import counted

LONGEST = 1024
_CUT = re.compile(r"\((\d+) characters, blake2b [0-9a-f]{16}\)")
_TOLD = re.compile(r"\(\d+ characters?\)")
_TYPES = (type_written(KvChanged), type_written(StateRestated))
_HEAD = 400  # bytes of a line up to its type: numbers, and the name of the node
_TAIL = len(b'"0123456789abcdef"}\n')


def in_journal(value: str) -> str:
    """``value`` as records have it."""
    if len(value) <= LONGEST:
        return value
    digest = blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"({len(value)} characters, blake2b {digest})"


def cut(event: Event) -> Event:
    """``event`` as it is recorded."""
    return event.with_values(in_journal)


def tables_in_journal(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {
        namespace: {key: in_journal(value) for key, value in table.items()}
        for namespace, table in tables.items()
    }


def without_values(event: Event) -> Event:
    """``event`` for somebody who may know that there is a value, and not which."""
    return event.with_values(_length)


def line_without_values(line: bytes) -> bytes:
    """A line of a journal likewise. Its hash stays that of the line as it is on disk.

    Raises BadRecord, NewerSchema.
    """
    if not any(kind in line[:_HEAD] for kind in _TYPES):
        return line
    record = decode(line)
    event = without_values(record.event)
    if event is record.event or (stated := hash_of(line)) is None:
        return line
    return b'%b"%b"}\n' % (encode(replace(record, event=event))[:-_TAIL], stated.hex().encode())


def is_length(value: str) -> bool:
    """Whether it stands for a value that is not told."""
    return _CUT.fullmatch(value) is not None or _TOLD.fullmatch(value) is not None


def _length(value: str) -> str:
    cut_already = _CUT.fullmatch(value)
    count = int(cut_already[1]) if cut_already else len(value)
    return f"({counted(count, 'character')})"
