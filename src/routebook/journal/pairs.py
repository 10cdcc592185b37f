"""Key-value pairs in records: long values are told by length and digest, and on request all are.

The pairs themselves are in the key-value file. What a journal says of them is for history, so a
value of more than ``LONGEST`` characters is recorded as its length and a digest: enough to see
that it changed, and to what it did not.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from routebook.events import Event, KvChanged, StateRestated
from routebook.journal.record import Record

LONGEST = 1024


def in_journal(value: str) -> str:
    """``value`` as records have it."""
    if len(value) <= LONGEST:
        return value
    digest = blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"({len(value)} characters, blake2b {digest})"


def cut(event: Event) -> Event:
    """``event`` as it is recorded."""
    if isinstance(event, KvChanged):
        before, after = _changed(event.before), _changed(event.after)
        if before is event.before and after is event.after:
            return event
        return replace(event, before=before, after=after)
    if isinstance(event, StateRestated):
        return replace(event, kv=tables_in_journal(event.kv))
    return event


def tables_in_journal(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {
        namespace: {key: in_journal(value) for key, value in table.items()}
        for namespace, table in tables.items()
    }


def _changed(value: str | None) -> str | None:
    return None if value is None else in_journal(value)


def without_values(event: Event) -> Event:
    """``event`` for somebody who may know that there is a value, and not which."""
    if isinstance(event, KvChanged):
        return replace(event, before=_length(event.before), after=_length(event.after))
    if isinstance(event, StateRestated):
        kv = {
            namespace: {key: _length(value) or "" for key, value in table.items()}
            for namespace, table in event.kv.items()
        }
        return replace(event, kv=kv)
    return event


def record_without_values(record: Record) -> Record:
    event = without_values(record.event)
    return record if event is record.event else replace(record, event=event)


def _length(value: str | None) -> str | None:
    if value is None:
        return None
    if value.startswith("(") and value.endswith(")") and " characters" in value[:30]:
        return value.partition(",")[0].rstrip(")") + ")"  # cut already: its true length
    return f"({len(value)} characters)"
