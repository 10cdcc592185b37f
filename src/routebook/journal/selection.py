"""Which records somebody wants to see: of some types, about a topic, about a broker.

Most lines are passed over by a look at their bytes; only those that may be wanted are decoded.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from routebook.events import (
    Event,
    GroupRestated,
    GuardEngaged,
    KvChanged,
    MappingsChanged,
    RequestRefused,
    RouteQueries,
    TopicsChanged,
)
from routebook.journal.record import Record, UnknownEvent


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
        return all(msgspec.json.encode(name) in line for name in names) and (
            not self.types or any(b'"type":"%b"' % name.encode() in line for name in self.types)
        )

    def has(self, record: Record) -> bool:
        event = record.event
        return (
            (not self.types or type_of(event) in self.types)
            and (self.topic is None or self.topic in _topics(event))
            and (self.broker is None or self.broker in _brokers(event))
        )


def type_of(event: Event) -> str:
    return event.type if isinstance(event, UnknownEvent) else type(event).__name__


def _topics(event: Event) -> Iterator[str]:
    match event:
        case TopicsChanged(changes=listed) | RouteQueries(topics=listed):
            yield from (item.topic for item in listed)
        case MappingsChanged(mappings=mappings):
            yield from (mapping.topic for mapping in mappings)
        case GroupRestated(queues=queues, mappings=mappings):
            yield from (change.topic for change in queues)
            yield from (mapping.topic for mapping in mappings)
        case KvChanged(key=name) | RequestRefused(subject=name):
            yield name


def _brokers(event: Event) -> Iterator[str]:
    match event:
        case GuardEngaged(suspects=suspects):
            yield from (suspect.broker for suspect in suspects)
        case RequestRefused(subject=name):
            yield name
        case UnknownEvent(data=data):
            yield str(data.get("broker"))
        case _:
            yield getattr(event, "broker", "")
