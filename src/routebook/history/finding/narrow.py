"""A view of one topic, or of brokers without their topics: as exact, and a thousandth as large.

Played through a ``View``, records cut down like this tell of that topic what all of them would.
"""

from dataclasses import replace

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
    event = record.event.narrowed(topic)
    return record if event is record.event else replace(record, event=event)
