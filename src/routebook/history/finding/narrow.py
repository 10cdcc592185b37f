"""A view of one topic, or of brokers without their topics: as exact, and a thousandth as large.

Played through a ``View``, records cut down like this tell of that topic what all of them would.
"""

from dataclasses import replace

from routebook.events import Event, GroupRestated, MappingsChanged, TopicsChanged
from routebook.journal.groups import Groups, GroupView
from routebook.journal.record import Record
from routebook.journal.view import View


def narrow_view(view: View, topic: str | None) -> View:
    """A copy with all brokers, and of their topics only ``topic``."""
    mappings = view.groups.mappings
    return replace(
        view,
        groups=Groups(
            {key: _narrow_group(group, topic) for key, group in view.groups.by_key.items()},
            {topic: mappings[topic].copy()} if topic in mappings else {},
        ),
        kv={},
        contradictions=[],
    )


def _narrow_group(group: GroupView, topic: str | None) -> GroupView:
    return replace(
        group,
        members={number: replace(member) for number, member in group.members.items()},
        queues={topic: group.queues[topic]} if topic in group.queues else {},
        registered={topic: group.registered[topic]} if topic in group.registered else {},
        mapped_topics=group.mapped_topics & {topic},
    )


def narrow_record(record: Record, topic: str | None) -> Record:
    event = _narrow_event(record.event, topic)
    return record if event is record.event else replace(record, event=event)


def _narrow_event(event: Event, topic: str | None) -> Event:
    match event:
        case TopicsChanged():
            return replace(event, changes=tuple(c for c in event.changes if c.topic == topic))
        case MappingsChanged():
            return replace(event, mappings=tuple(m for m in event.mappings if m.topic == topic))
        case GroupRestated():
            return replace(
                event,
                queues=tuple(c for c in event.queues if c.topic == topic),
                mappings=tuple(m for m in event.mappings if m.topic == topic),
            )
    return event
