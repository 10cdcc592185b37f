"""TopicTable: which groups hold which topic, with which queues.

Two views of the same facts are kept in step: topic -> group -> queues for look-ups, and each
group's own ``registered`` table for everything that concerns one broker.

A group that has lost its last member is gone for every reader at once; its entries are cleared
away a few at a time, since there may be a hundred thousand of them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import cast

from routebook.events import QueueChange, StaticMapping
from routebook.slices import Slices, finished
from routebook.state import costs
from routebook.state.account import Account, Kind
from routebook.state.model import PERM_WRITE, Group, QueueShape

TOPICS_A_SLICE = 1000
NAMES_A_SLICE = 5000
PERMISSIONS_A_SLICE = 300
HOLDERS_A_SLICE = 10_000
CLEARED_A_SLICE = 500
ADOPTED_A_TURN = 500
MOST_HOLES = 1000  # where groups were in the table of a topic's holders
WIDE = 600  # groups and mappings that can be told at once, in 3 ms at most
IDS_A_GROUP = 20  # of a mapping: they are as quickly told
SHRUNK = 8  # times fewer topics than there were: worth a new table

# QueueChange(*fields), in half the time: a registration makes thousands.
_queue_change = partial(cast(Callable[..., QueueChange], tuple.__new__), QueueChange)
_topic_of = itemgetter(0)


class _WithoutWrite(dict[QueueShape, QueueShape]):
    """Each distinct shape once, without the write bit."""

    def __missing__(self, shape: QueueShape) -> QueueShape:
        closed = self[shape] = shape.without_write()
        return closed


class TopicTable:
    def __init__(self, account: Account | None = None) -> None:
        self._account = account or Account()
        self._queues: dict[str, dict[Group, QueueShape]] = {}
        self._names: dict[str, str] = {}  # of the topics, each held once
        self._mappings: dict[str, dict[str, tuple[StaticMapping, Group]]] = {}
        self._abandoned: dict[tuple[str, str], deque[Group]] = {}  # by cluster and name
        self._to_clear: deque[Group] = deque()  # the same, in the order they went
        self._cleared: Iterator[str] | None = None  # how far the oldest of them is cleared away
        self._reshaped = 0  # raised when topics come or go
        self._holes: dict[str, int] = {}  # by topic of many holders
        self.entries = 0  # (topic, group) pairs held
        self._most = 0  # topics there have been

    def __iter__(self) -> Iterator[str]:
        """The topics somebody holds, for whoever has time."""
        return iter(finished(self.names()))

    def names(self) -> Slices[list[str]]:
        """The topics somebody holds. One that comes or goes meanwhile may be among them or not."""
        found: list[str] = []
        names, reshaped = iter(self._queues), self._reshaped
        while some := list(islice(names, NAMES_A_SLICE)):
            found += some
            yield
            if self._reshaped != reshaped:
                found = list(self._queues)
                break
        if not self._abandoned:
            return found
        held: list[str] = []
        yield from self._look_at(found, lambda topic, _: held.append(topic))
        return held

    def names_where(self, wanted: Callable[[int], bool]) -> Slices[list[str]]:
        """Topics whose system flags, as one of its brokers tells them, are ``wanted``."""
        found: list[str] = []

        def look(topic: str, shape: QueueShape) -> None:
            if wanted(shape.sys_flag):
                found.append(topic)

        yield from self._look_at((yield from self.names()), look)
        return found

    def _look_at(
        self, topics: Iterable[str], look: Callable[[str, QueueShape], object]
    ) -> Slices[None]:
        """Show those of ``topics`` that somebody holds, as the first of its brokers tells it."""
        room = HOLDERS_A_SLICE
        for topic in topics:
            holders = self._queues.get(topic, {})
            for group, shape in holders.items():
                room -= 1
                if group.members:
                    look(topic, shape)
                    break
            room -= 1
            if room < 0:
                room = HOLDERS_A_SLICE
                yield

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

    def holders(self, topic: str) -> list[Group]:
        """Who holds ``topic``, for whoever looks at them one after the other: see ``told``."""
        return list(self._queues.get(topic, ()))

    def told(self, topic: str, group: Group) -> QueueShape | None:
        """Queues of ``topic`` on ``group``; None when it holds it no longer."""
        return self._queues.get(topic, {}).get(group) if group.members else None

    def is_wide(self, topic: str) -> bool:
        """Whether it takes long to tell all there is to tell of ``topic``."""
        width = len(self._queues.get(topic, ()))
        if topic in self._mappings:
            mappings = self._mappings[topic].values()
            width += len(mappings)
            if width <= WIDE:
                width += sum(len(mapping.curr_id_map) for mapping, _ in mappings) // IDS_A_GROUP
        return width > WIDE

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
        chunk, registered, queues = list(topics), group.registered, self._queues
        if registered.keys().isdisjoint(map(_topic_of, chunk)):
            return self._add(group, chunk, read_only=read_only)
        changes: list[QueueChange] = []
        new: list[tuple[str, QueueShape]] = []
        closed = _WithoutWrite()
        for topic, shape in chunk:
            known = registered.get(topic)
            if known is None:
                new.append((topic, shape))
                continue
            if known == shape:
                if not rewrite:
                    continue
                shape = known
            holders = queues[topic]
            before, after = holders[group], closed[shape] if read_only else shape
            if before is after and known is shape:
                continue
            registered[topic] = shape
            if before != after or known is not shape:
                holders[group] = after
                said = None if after == shape else shape
                changes.append(_queue_change((topic, before, after, said)))
        return changes + self._add(group, new, read_only=read_only) if new else changes

    def _add(
        self, group: Group, topics: list[tuple[str, QueueShape]], *, read_only: bool
    ) -> list[QueueChange]:
        """Take over topics that are new to the group."""
        queues, before = self._queues, len(self._queues)
        topics = self._with_own_names(topics)
        group.registered.update(topics)
        closed = _WithoutWrite()
        told = [(topic, closed[shape]) for topic, shape in topics] if read_only else topics
        fresh: list[str] = []  # topics nobody had
        for topic, shape in told:
            holders = queues.get(topic)
            if holders is not None:
                holders[group] = shape
            else:
                queues[topic] = {group: shape}
                fresh.append(topic)
        self.entries += len(topics)
        self._reshaped += len(queues) != before
        self._bill(group, len(topics), fresh)
        self._most = max(self._most, len(queues))
        if not read_only:
            return [_queue_change((topic, None, shape, None)) for topic, shape in topics]
        return [
            QueueChange(topic, None, after, None if after == shape else shape)
            for (topic, shape), (_, after) in zip(topics, told, strict=True)
        ]

    def _with_own_names(self, topics: list[tuple[str, QueueShape]]) -> list[tuple[str, QueueShape]]:
        """The same with the names as they are held here: one, however many groups have it.

        Names nobody had are made anew. What came with the request need not stay, and the tables
        are together in memory that can be given back. (``sys.intern`` keeps all names for ever in
        Python 3.12.)
        """
        if not topics:
            return topics
        names, shapes = zip(*topics, strict=True)
        own = list(map(self._names.get, names))
        if None in own:
            new = [name for name, held in zip(names, own, strict=True) if held is None]
            again = "\n".join(new).split("\n")
            if len(again) != len(new):
                again = new
            self._names.update(zip(again, again, strict=True))
            own = list(map(self._names.get, names))
        return cast(list[tuple[str, QueueShape]], list(zip(own, shapes, strict=True)))

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

    def set_permission(
        self, group: Group, *, writable: bool, as_registered: bool = False
    ) -> Iterator[list[QueueChange]]:
        """Give or take the write bit of what clients are told, all topics of the group.

        In slices, each with what changed; topics that come meanwhile are left as they come.
        ``as_registered``: only of those that the group registered with it.
        """
        made: dict[QueueShape, QueueShape] = {}
        for topics in _slices_of(group):
            changes: list[QueueChange] = []
            for topic in topics:
                said = group.registered.get(topic)
                if said is None or (as_registered and not said.perm & PERM_WRITE):
                    continue
                holders = self._queues[topic]
                before = holders[group]
                after = made.get(before)
                if after is None:
                    after = before.with_write() if writable else before.without_write()
                    made[before] = after
                if after != before:
                    holders[group] = after
                    registered = None if said == after else said
                    changes.append(QueueChange(topic, before, after, registered))
            yield changes

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
                    self._names[topic] = topic
                else:
                    holders[group] = shape
            if some:
                turns.append((group, shapes))
        self.entries += sum(map(len, told.values()))
        self._reshaped += 1
        self._most = max(self._most, len(queues))
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
        """Forget everything of a group without members; returns how many topics it had.

        What it registered stays with the group for whoever wants to know what was lost.
        """
        lost = len(group.registered)
        self.entries -= lost
        if lost or group.mapped_topics or group.shapes:
            self._abandoned.setdefault((group.cluster, group.name), deque()).append(group)
            self._to_clear.append(group)
        return lost

    def abandoned(self, cluster: str, name: str) -> Collection[str]:
        """The topics of a group that has just gone."""
        groups = self._abandoned.get((cluster, name))
        return groups[-1].registered if groups else ()

    def clear_some(self) -> bool:
        """Clear away some entries of abandoned groups; whether there are more."""
        room = CLEARED_A_SLICE
        while self._to_clear and room > 0:
            group = self._to_clear[0]
            if self._cleared is None:
                self._cleared = iter(group.registered)
            some = list(islice(self._cleared, room))
            for topic in some:
                self._let_go(group, topic)
            mapped = list(islice(group.mapped_topics, room - len(some)))
            self.drop_mappings(group, mapped)
            room -= len(some) + len(mapped) + 1
            if room >= 0:
                self._cleared = None
                self._account.bill(Kind.TOPICS, group, -costs.SHAPE * group.shapes)
                group.shapes = 0
                self._to_clear.popleft()
                key = group.cluster, group.name
                self._abandoned[key].popleft()
                if not self._abandoned[key]:
                    del self._abandoned[key]
        if not self._abandoned and len(self._queues) * SHRUNK < self._most:
            # A table keeps the room of all it ever held.
            self._queues, self._most = dict(self._queues), len(self._queues)
            self._names = dict(self._names)
        return bool(self._abandoned)

    def _drop_one(self, group: Group, topic: str) -> None:
        del group.registered[topic]
        self._let_go(group, topic)

    def _let_go(self, group: Group, topic: str) -> None:
        holders = self._without_holes(topic)
        paid = costs.TOPIC + costs.text(topic) if next(iter(holders)) is group else 0
        del holders[group]
        self._account.bill(Kind.TOPICS, group, -costs.ENTRY - paid)
        if not holders:
            del self._queues[topic]
            del self._names[topic]
            self._holes.pop(topic, None)
            self._reshaped += 1
        elif paid:
            self._account.bill(Kind.TOPICS, next(iter(holders)), paid)
        if topic in group.mapped_topics:
            self.drop_mappings(group, [topic])

    def _without_holes(self, topic: str) -> dict[Group, QueueShape]:
        """The holders of a topic, one of whom is about to go.

        To find the first of those left is to look where each was that has gone, so a table that
        thousands leave is made anew now and then.
        """
        holders = self._queues[topic]
        if len(holders) > MOST_HOLES or topic in self._holes:
            self._holes[topic] = holes = self._holes.get(topic, 0) + 1
            if holes > MOST_HOLES:
                del self._holes[topic]
                holders = self._queues[topic] = dict(holders)
        return holders

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


def _slices_of(group: Group) -> Iterator[list[str]]:
    topics = iter(list(group.registered))
    while some := list(islice(topics, PERMISSIONS_A_SLICE)):
        yield some
