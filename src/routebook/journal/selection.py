"""Which records somebody wants to see: of some types, about a topic, about a broker.

Most lines are passed over by a look at their bytes; only those that may be wanted are decoded.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from routebook.events import RequestRefused
from routebook.journal.record import Record, type_written


@dataclass(frozen=True, slots=True)
class Selection:
    """No types: all of them. None: whatever it is about."""

    types: Collection[str] = ()
    topic: str | None = None
    broker: str | None = None

    @property
    def all(self) -> bool:
        return not self.types and self.topic is None and self.broker is None

    def may_have(self, line: bytes) -> bool:
        """Whether ``line`` has to be decoded to know."""
        names = [name for name in (self.topic, self.broker) if name is not None]
        return all(_may_name(line, name) for name in names) and (
            not self.types or any(type_written(name) in line for name in self.types)
        )

    def has(self, record: Record) -> bool:
        event = record.event
        return (
            (not self.types or event.type_name in self.types)
            and (self.topic is None or event.is_about_topic(self.topic))
            and (self.broker is None or event.is_about_broker(self.broker))
        )


def _may_name(line: bytes, name: str) -> bool:
    written = name_written(name)
    return written in line or (_REFUSED in line and written[1:-1] in line)


def name_written(name: str) -> bytes:
    """``name`` as a line of a journal has it."""
    # What no UTF-8 can hold the journal writes as a question mark.
    return msgspec.json.encode(name.encode("utf-8", "replace").decode())


_REFUSED = type_written(RequestRefused)
