"""A view told as events: what was believed at a moment, for somebody who begins there.

for event in restated(view, topic="orders"):
    other.tell(event, wall_ms=view.wall_ms)   # and the other view believes the same
"""

from collections.abc import Iterator
from itertools import islice

from routebook.events import Cause, GroupRestated, QueueChange, StateRestated
from routebook.journal.groups import GroupView
from routebook.journal.view import View

QUEUES_A_PART = 2000


def restated(
    view: View, *, topic: str | None = None, broker: str | None = None
) -> Iterator[GroupRestated | StateRestated]:
    """Every group, then that these are all.

    With ``topic`` groups have only its queues and mappings, and there are only the pairs whose key
    it is. With ``broker`` there are only groups of that name, and no pairs.
    """
    groups = [g for g in view.groups.listed() if broker is None or g.broker == broker]
    for group in groups:
        yield from _parts(view, group, topic)
    kv = {name: dict(table) for name, table in view.kv.items()} if broker is None else {}
    if topic is not None:
        kv = {name: {topic: table[topic]} for name, table in kv.items() if topic in table}
    yield StateRestated(
        revision=view.revision,
        cause=Cause.JOURNAL,
        peer="",
        groups=len(groups),
        kv=kv,
        generation=view.generation,
    )


def _parts(view: View, group: GroupView, topic: str | None) -> Iterator[GroupRestated]:
    topics = iter(group.queues) if topic is None else iter([topic] if topic in group.queues else [])
    members = tuple(member.known for _, member in sorted(group.members.items()))
    mappings = tuple(
        mapping
        for mapping in view.groups.mappings_of(group)
        if topic is None or mapping.topic == topic
    )
    continued = False
    while (part := list(islice(topics, QUEUES_A_PART))) or not continued:
        yield GroupRestated(
            revision=view.revision,
            cause=Cause.JOURNAL,
            peer="",
            cluster=group.cluster,
            broker=group.broker,
            acting_master=group.acting_master,
            zone=group.zone,
            members=() if continued else members,
            queues=tuple(
                QueueChange(name, None, group.queues[name], group.registered.get(name))
                for name in part
            ),
            mappings=() if continued else mappings,
            continued=continued,
        )
        continued = True
