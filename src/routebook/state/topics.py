"""TopicTable: which groups hold which topic, with which queues.

Two views of the same facts are kept in step: topic -> group -> queues for look-ups, and each
group's own ``registered`` table for everything that concerns one broker.

A group that has lost its last member is gone for every reader at once; its entries are cleared
away a few at a time, since there may be a hundred thousand of them.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from routebook.events import QueueChange, StaticMapping
from routebook.state import costs
from routebook.state.account import Account, Kind
from routebook.state.model import PERM_WRITE, Group, QueueShape

CLEARED_A_SLICE = 2000
ADOPTED_A_TURN = 500


class TopicTable:
    def __init__(self, account: Account | None = None) -> None:
        self._account = account or Account()
        self._queues: dict[str, dict[Group, QueueShape]] = {}
        self._mappings: dict[str, dict[str, tuple[StaticMapping, Group]]] = {}
        self._abandoned: deque[Group] = deque()
        self.entries = 0  # (topic, group) pairs held

    def __iter__(self) -> Iterator[str]:
        while self.clear_some():
            pass
        return iter(self._queues)

    @property
    def known(self) -> int:
        """How many topics there are; those of a group that has just gone, a moment longer."""
        return len(self._queues)

    def queues(self, topic: str) -> Mapping[Group, QueueShape]:
        """Queues of ``topic`` by group; empty when nobody holds it."""
        holders = self._queues.get(topic, {})
        if self._abandoned:
            return {group: shape for group, shape in holders.items() if group.members}
        return holders

    def mappings(self, topic: str) -> list[StaticMapping]:
        held = self._mappings.get(topic, {}).values()
        return [mapping for mapping, group in held if group.members]

    def held(self, group: Group, topics: Iterable[str]) -> list[QueueChange]:
        """What ``group`` has of ``topics``, as if it had just come to it."""
        found = []
        for topic in topics:
            said = group.registered.get(topic)
            if said is not None:
                told = self._queues[topic][group]
                found.append(QueueChange(topic, None, told, None if said == told else said))
        return found

    def holds(self, topic: str) -> bool:
        """Whether there is a table of holders of ``topic``."""
        return topic in self._queues

    def cost_of_mappings(self, group: Group, anew: Iterable[StaticMapping]) -> int:
        """What ``group`` pays for mappings it has now in the places of ``anew``."""
        held = [self._mappings.get(each.topic, {}).get(each.bname) for each in anew]
        return sum(costs.mapping(each[0]) for each in held if each and each[1] is group)

    def mappings_of(self, group: Group) -> list[StaticMapping]:
        return [
            mapping
            for topic in sorted(group.mapped_topics)
            for mapping, owner in self._mappings.get(topic, {}).values()
            if owner is group
        ]

    def write(
        self,
        group: Group,
        topics: Iterable[tuple[str, QueueShape]],
        *,
        rewrite: bool,
        read_only: bool,
    ) -> list[QueueChange]:
        """Take over what a member says of ``topics`` and return what changed for clients.

        A topic whose registered shape is as before keeps its present queues, unless ``rewrite``:
        permissions an administrator changed survive a registration that says nothing new.
        """
        queues, registered = self._queues, group.registered
        changes: list[QueueChange] = []
        fresh: list[str] = []  # topics nobody had
        read_only_shapes: dict[QueueShape, QueueShape] = {}
        known_before = len(registered)
        for topic, shape in topics:
            after = shape
            if read_only and shape.writable:
                after = read_only_shapes.setdefault(shape, shape.without_write())
            known = registered.get(topic)
            said = None if after is shape else shape
            if known is None:
                registered[topic] = shape
                changes.append(QueueChange(topic, None, after, said))
                if topic in queues:
                    queues[topic][group] = after
                else:
                    queues[topic] = {group: after}
                    fresh.append(topic)
            elif rewrite or known != shape:
                registered[topic] = shape
                holders = queues[topic]
                before = holders[group]
                if before != after or known != shape:
                    holders[group] = after
                    changes.append(QueueChange(topic, before, after, said))
        new = len(registered) - known_before
        if new:
            self.entries += new
            self._bill(group, new, fresh)
        return changes

    def _bill(self, group: Group, entries: int, topics: Collection[str]) -> None:
        """A topic is paid for by the group that has had it longest, a place by whose it is."""
        cost = costs.ENTRY * entries + costs.TOPIC * len(topics) + costs.texts(topics)
        self._account.bill(Kind.TOPICS, group, cost)

    def count_shapes(self, group: Group, registered: int, shapes: int) -> None:
        """A member has registered so many topics of so many different shapes."""
        known = len(group.registered)
        after = shapes if registered >= known else min(known, group.shapes + shapes)
        self._account.bill(Kind.TOPICS, group, costs.SHAPE * (after - group.shapes))
        group.shapes = after

    def set_permission(self, group: Group, *, writable: bool) -> list[QueueChange]:
        """Give or take the write bit of what clients are told, all topics of the group."""
        changes: list[QueueChange] = []
        made: dict[QueueShape, QueueShape] = {}
        for topic, said in group.registered.items():
            holders = self._queues[topic]
            before = holders[group]
            after = made.get(before)
            if after is None:
                perm = before.perm | PERM_WRITE if writable else before.perm & ~PERM_WRITE
                after = made[before] = before._replace(perm=perm)
            if after != before:
                holders[group] = after
                changes.append(QueueChange(topic, before, after, None if said == after else said))
        return changes

    def restore_permission(self, group: Group) -> list[QueueChange]:
        """Give the write bit back where the group registered it, and nowhere else."""
        changes: list[QueueChange] = []
        made: dict[QueueShape, QueueShape] = {}
        for topic, said in group.registered.items():
            holders = self._queues[topic]
            before = holders[group]
            if said.perm & PERM_WRITE and not before.perm & PERM_WRITE:
                after = made.get(before)
                if after is None:
                    after = made[before] = before.with_write()
                holders[group] = after
                changes.append(QueueChange(topic, before, after, None if said == after else said))
        return changes

    def unwritable(self, group: Group, topics: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Of ``topics``, those clients may not write, and whether the group registered them so."""
        for topic in topics:
            said = group.registered.get(topic)
            if said is not None and not self._queues[topic][group].perm & PERM_WRITE:
                yield topic, not said.perm & PERM_WRITE

    def overwrite(self, group: Group, topic: str, shape: QueueShape) -> list[QueueChange]:
        """Set what clients are told of one topic; a new topic counts as registered so."""
        said = group.registered.get(topic)
        if said is None:
            return self.write(group, [(topic, shape)], rewrite=True, read_only=False)
        before = self._queues[topic][group]
        if before == shape:
            return []
        self._queues[topic][group] = shape
        return [QueueChange(topic, before, shape, None if said == shape else said)]

    def adopt(self, told: Mapping[Group, Mapping[str, QueueShape]]) -> None:
        """Take over groups known from before a restart: what clients are told of their topics."""
        queues = self._queues
        # By turns: groups of one cluster have much the same topics, and a topic met again while
        # it is in the processor's cache costs half as much.
        turns = deque((group, iter(shapes.items())) for group, shapes in told.items())
        while turns:
            group, shapes = turns.popleft()
            some = list(islice(shapes, ADOPTED_A_TURN))
            for topic, shape in some:
                holders = queues.get(topic)
                if holders is None:
                    queues[topic] = {group: shape}
                else:
                    holders[group] = shape
            if some:
                turns.append((group, shapes))
        self.entries += sum(map(len, told.values()))
        for group, held in told.items():
            self._bill(group, len(held), [t for t in held if next(iter(queues[t])) is group])
            self.count_shapes(group, len(held), len(set(held.values())))

    def drop(self, group: Group, topics: Iterable[str]) -> list[QueueChange]:
        """Forget ``topics`` of the group, mappings included."""
        changes = []
        for topic in list(topics):
            if topic in group.registered:
                changes.append(QueueChange(topic, self._queues[topic][group], None))
                self._drop_one(group, topic)
                self.entries -= 1
        return changes

    def abandon(self, group: Group) -> int:
        """Forget everything of a group without members; returns how many topics it had."""
        lost = len(group.registered)
        self.entries -= lost
        self._abandoned.append(group)
        return lost

    def abandoned(self, cluster: str, name: str) -> Collection[str]:
        """The topics of a group that has just gone."""
        for group in reversed(self._abandoned):
            if (group.cluster, group.name) == (cluster, name):
                return group.registered
        return ()

    def clear_some(self) -> bool:
        """Clear away some entries of abandoned groups; whether there are more."""
        if not self._abandoned:
            return False
        group = self._abandoned[0]
        for topic in list(islice(group.registered, CLEARED_A_SLICE)):
            self._drop_one(group, topic)
        if not group.registered:
            self.drop_mappings(group, list(group.mapped_topics))
            self.count_shapes(group, 0, 0)
            self._abandoned.popleft()
        return bool(self._abandoned)

    def _drop_one(self, group: Group, topic: str) -> None:
        del group.registered[topic]
        holders = self._queues[topic]
        paid = costs.TOPIC + costs.text(topic) if next(iter(holders)) is group else 0
        del holders[group]
        self._account.bill(Kind.TOPICS, group, -costs.ENTRY - paid)
        if not holders:
            del self._queues[topic]
        elif paid:
            self._account.bill(Kind.TOPICS, next(iter(holders)), paid)
        if topic in group.mapped_topics:
            self.drop_mappings(group, [topic])

    def set_mapping(self, group: Group, mapping: StaticMapping) -> bool:
        """Whether anything changed."""
        by_name = self._mappings.setdefault(mapping.topic, {})
        before = by_name.get(mapping.bname)
        if before is not None and before == (mapping, group):
            return False
        if before is not None and before[1] is not group:
            before[1].touched += 1  # its next registration will want the place back
        if before is not None:
            self._account.bill(Kind.MAPPINGS, before[1], -costs.mapping(before[0]))
        self._account.bill(Kind.MAPPINGS, group, costs.mapping(mapping))
        by_name[mapping.bname] = (mapping, group)
        group.mapped_topics.add(mapping.topic)
        return True

    def drop_mappings(self, group: Group, topics: Iterable[str]) -> None:
        for topic in topics:
            by_name = self._mappings.get(topic, {})
            for bname in [name for name, (_, owner) in by_name.items() if owner is group]:
                self._account.bill(Kind.MAPPINGS, group, -costs.mapping(by_name[bname][0]))
                del by_name[bname]
            if not by_name:
                self._mappings.pop(topic, None)
            group.mapped_topics.discard(topic)
