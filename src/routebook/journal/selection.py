"""Which records somebody wants to see: of some types, about a topic, about a broker.

Most lines are passed over by a look at their bytes; only those that may be wanted are decoded.
"""

import re
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
        return all(_may_name(line, name) for name in names) and (
            not self.types or any(b'"type":"%b"' % name.encode() in line for name in self.types)
        )

    def has(self, record: Record) -> bool:
        event = record.event
        return (
            (not self.types or type_of(event) in self.types)
            and (self.topic is None or _about_topic(event, self.topic))
            and (self.broker is None or _about_broker(event, self.broker))
        )


def type_of(event: Event) -> str:
    return event.type if isinstance(event, UnknownEvent) else type(event).__name__


def _may_name(line: bytes, name: str) -> bool:
    # What no UTF-8 can hold the journal writes as a question mark.
    written = msgspec.json.encode(name.encode("utf-8", "replace").decode())
    return written in line or (_REFUSED in line and written[1:-1] in line)


def _about_topic(event: Event, topic: str) -> bool:
    if isinstance(event, RequestRefused):
        return _names(event, topic, among=_OF_TOPICS)
    return topic in _topics(event)


def _about_broker(event: Event, broker: str) -> bool:
    if isinstance(event, RequestRefused):
        return _names(event, broker, among=_OF_BROKERS)
    return broker in _brokers(event)


def _names(event: RequestRefused, name: str, *, among: Collection[str]) -> bool:
    """Whether a request that was refused, one of those ``among``, was about ``name``.

    Its subject is what the request said of it: ``cluster/broker:id address`` where the request was
    understood, else its fields with a blank between them, the cluster before the broker.
    """
    subject = event.subject
    if subject == name:
        return True
    if event.request not in among:
        return False
    found = re.search(rf"(?:^|[/ ]){re.escape(name)}(?::\d+)?(?= |$)", subject)
    if found is None:
        return False
    is_cluster = found.start() == 0 and subject.count(" ") > 1
    return not is_cluster or re.search(rf" {re.escape(name)} ", subject) is not None


_REFUSED = b'"type":"RequestRefused"'
_OF_TOPICS = frozenset(
    {"GET_ROUTEINFO_BY_TOPIC", "DELETE_TOPIC_IN_NAMESRV", "REGISTER_TOPIC_IN_NAMESRV"}
)
_OF_BROKERS = frozenset(
    {
        "REGISTER_BROKER",
        "UNREGISTER_BROKER",
        "WIPE_WRITE_PERM_OF_BROKER",
        "ADD_WRITE_PERM_OF_BROKER",
        "ROUTEBOOK_RESTORE_WRITE_PERM",
        "QUERY_DATA_VERSION",
        "GET_BROKER_MEMBER_GROUP",
        "BROKER_HEARTBEAT",
    }
)


def _topics(event: Event) -> Iterator[str]:
    match event:
        case TopicsChanged(changes=listed) | RouteQueries(topics=listed):
            yield from (item.topic for item in listed)
        case MappingsChanged(mappings=mappings):
            yield from (mapping.topic for mapping in mappings)
        case GroupRestated(queues=queues, mappings=mappings):
            yield from (change.topic for change in queues)
            yield from (mapping.topic for mapping in mappings)
        case KvChanged(key=name):
            yield name


def _brokers(event: Event) -> Iterator[str]:
    match event:
        case GuardEngaged(suspects=suspects):
            yield from (suspect.broker for suspect in suspects)
        case UnknownEvent(data=data):
            yield str(data.get("broker"))
        case _:
            yield getattr(event, "broker", "")
