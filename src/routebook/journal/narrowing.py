"""Records cut down to what they say of one topic, or of one broker."""

from dataclasses import replace

from routebook.events import GroupEvent, RouteQueries
from routebook.journal.pairs import without_values
from routebook.journal.record import Record, encode


def told_of(
    record: Record, topic: str | None, broker: str | None, *, values: bool = True
) -> bytes | None:
    """The line of ``record``, as far as it is about what was asked for; None when it is not.

    Without ``values`` those of key-value pairs are told by their length.
    """
    event = record.event
    named = isinstance(event, GroupEvent | RouteQueries)
    if broker is not None and named and not event.is_about_broker(broker):
        return None
    if topic is not None:
        if event.only_topics and not event.is_about_topic(topic):
            return None
        event = event.narrowed(topic)
    if not values:
        event = without_values(event)
    return encode(record if event is record.event else replace(record, event=event))
