"""Events as documents: a sentence ready to be shown, and what programs want to know of each."""

from typing import Any

from routebook.events import (
    BrokerEvent,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    Event,
    GroupEvent,
    GroupRestated,
    JournalRecovered,
    MappingsChanged,
    NodeStopped,
    RecordsLost,
    RegistrationCompleted,
    RouteQueries,
    TopicsChanged,
)
from routebook.history.telling.sentences import sentence
from routebook.journal.record import Record
from routebook.words import counted, exact

TOPICS = 20  # of a list

_UNHEARD_OF = frozenset(
    {Cause.EXPIRED, Cause.CONNECTION_CLOSED, Cause.IDLE, Cause.NOT_CONFIRMED, Cause.GUARD}
)


def event_document(record: Record, *, left_out: int = 0) -> dict[str, Any]:
    """All that is told of a record; ``left_out`` topics are not in its list."""
    event = record.event
    topics = _topics(event)
    return {
        "node": record.node,
        "seq": record.seq,
        "at": exact(record.wall_ms),
        **_kinds(event),
        "peer": event.peer or None,
        "cluster": event.cluster if isinstance(event, GroupEvent) else None,
        "broker": event.broker if isinstance(event, GroupEvent) else None,
        "broker_id": event.broker_id if isinstance(event, BrokerEvent) else None,
        "address": event.addr if isinstance(event, BrokerEvent) else None,
        "addresses": _addresses(event),
        "topics": topics[:TOPICS],
        "topics_in_all": topic_count(event, left_out),
        "text": event_text(event, left_out),
    }


def _kinds(event: Event) -> dict[str, Any]:
    return {
        "type": event.type_name,
        "kind": event.kind.value,
        "cause": event.cause.value,
        "alarming": is_alarming(event),
    }


def small_document(record: Record) -> dict[str, Any]:
    """The same for those who are told thousands of them at once."""
    event = record.event
    return {
        "ms": record.wall_ms,
        "seq": record.seq,
        **_kinds(event),
        "peer": event.peer or None,
        "cluster": event.cluster if isinstance(event, GroupEvent) else None,
        "broker": event.broker if isinstance(event, GroupEvent) else None,
        "topics_in_all": topic_count(event),
        "text": sentence(event),
    }


def event_text(event: Event, left_out: int = 0) -> str:
    told = sentence(event)
    if not left_out:
        return told
    return f"{told.rstrip('.')}; {counted(left_out, 'more topic')} not listed here."


def is_alarming(event: Event) -> bool:
    """Whether somebody should know of it."""
    if isinstance(event, BrokerLeft):
        return event.cause in _UNHEARD_OF
    return event.alarming or isinstance(event, NodeStopped | JournalRecovered | RecordsLost)


def topic_count(event: Event, left_out: int = 0) -> int | None:
    """How many topics it is about; None where it is about none."""
    match event:
        case BrokerLeft():
            return event.topics_lost
        case RegistrationCompleted():
            return event.topics
        case TopicsChanged() | MappingsChanged() | RouteQueries() | GroupRestated():
            return len(_topics(event)) + left_out
    return None


def _topics(event: Event) -> list[str]:
    match event:
        case TopicsChanged():
            return [change.topic for change in event.changes]
        case MappingsChanged():
            return list(dict.fromkeys(mapping.topic for mapping in event.mappings))
        case RouteQueries():
            return [count.topic for count in event.topics]
        case GroupRestated():
            return [change.topic for change in event.queues]
    return []


def _addresses(event: Event) -> dict[str, str] | None:
    if isinstance(event, BrokerRegistered | BrokerLeft):
        return {str(broker_id): addr for broker_id, addr in sorted(event.addrs_after.items())}
    if isinstance(event, GroupRestated):
        return {str(fact.broker_id): fact.addr for fact in event.members}
    return None
