"""Records cut down to what they say of one topic, or of one broker."""

from dataclasses import replace

from routebook.events import Event, GroupRestated, MappingsChanged, RouteQueries, TopicsChanged
from routebook.journal.pairs import without_values
from routebook.journal.record import Record, encode


def told_of(
    record: Record, topic: str | None, broker: str | None, *, values: bool = True
) -> bytes | None:
    """The line of ``record``, as far as it is about what was asked for; None when it is not.

    Without ``values`` those of key-value pairs are told by their length.
    """
    event: Event | None = record.event
    if broker is not None and (
        isinstance(event, RouteQueries) or getattr(event, "broker", broker) != broker
    ):
        return None
    if topic is not None:
        event = _narrowed(record.event, topic)
    if event is None:
        return None
    if not values:
        event = without_values(event)
    return encode(record if event is record.event else replace(record, event=event))


def _narrowed(event: Event, topic: str) -> Event | None:
    """What there is in ``event`` of ``topic``; None for a list that does not have it."""
    match event:
        case TopicsChanged():
            changes = tuple(change for change in event.changes if change.topic == topic)
            return replace(event, changes=changes) if changes else None
        case MappingsChanged():
            mappings = tuple(mapping for mapping in event.mappings if mapping.topic == topic)
            return replace(event, mappings=mappings) if mappings else None
        case RouteQueries():
            counts = tuple(count for count in event.topics if count.topic == topic)
            return replace(event, topics=counts) if counts else None
        case GroupRestated():
            return replace(
                event,
                queues=tuple(queue for queue in event.queues if queue.topic == topic),
                mappings=tuple(mapping for mapping in event.mappings if mapping.topic == topic),
            )
    return event
