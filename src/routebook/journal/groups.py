"""Groups: brokers, queues and static mappings as records tell them.

The same facts as in the tables of a live node, in a form made for being replayed into, compared
and written down. Topics and queue shapes are held once, however many brokers have them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

from routebook.events import MemberFact, QueueChange, Shape, StaticMapping

Key = tuple[str, str]  # cluster and broker name

NAMES_DROPPED = 10_000  # more than there are: most of those known are of no use any more


@dataclass(slots=True)
class MemberView:
    """One broker process, and when this generation of it began, wall time."""

    known: MemberFact
    since_ms: int


@dataclass(slots=True)
class GroupView:
    """A master and its slaves. ``registered`` holds only what differs from ``queues``."""

    cluster: str
    broker: str
    acting_master: bool = False
    zone: str | None = None
    members: dict[int, MemberView] = field(default_factory=dict)
    queues: dict[str, Shape] = field(default_factory=dict)
    registered: dict[str, Shape] = field(default_factory=dict)
    mapped_topics: set[str] = field(default_factory=set, compare=False)  # these, if not fewer
    stated: bool = field(default=True, compare=False)  # told in full since records were lost

    @property
    def key(self) -> Key:
        return self.cluster, self.broker

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.broker}"

    @property
    def addrs(self) -> dict[int, str]:
        return {broker_id: member.known.addr for broker_id, member in sorted(self.members.items())}

    def copy(self) -> "GroupView":
        return replace(
            self,
            members={broker_id: replace(member) for broker_id, member in self.members.items()},
            queues=self.queues.copy(),
            registered=self.registered.copy(),
            mapped_topics=self.mapped_topics.copy(),
        )


class _Shared(dict[Shape, Shape]):
    """Each distinct shape once, as a plain tuple."""

    def __missing__(self, shape: Shape) -> Shape:
        plain = self[shape[0], shape[1], shape[2], shape[3]] = (*shape,)
        return plain


@dataclass(slots=True)
class Groups:
    """``mappings`` has the owner beside each static mapping: topic, then broker name."""

    by_key: dict[Key, GroupView] = field(default_factory=dict)
    mappings: dict[str, dict[str, tuple[StaticMapping, Key]]] = field(default_factory=dict)
    _shapes: _Shared = field(default_factory=_Shared, compare=False, repr=False)
    _names: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _dropped: int = field(default=0, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.by_key)

    def listed(self) -> list[GroupView]:
        """By cluster and broker name."""
        return [group for _, group in sorted(self.by_key.items())]

    def find(self, cluster: str, broker: str) -> GroupView | None:
        return self.by_key.get((cluster, broker))

    def members(self) -> int:
        return sum(len(group.members) for group in self.by_key.values())

    def copy(self) -> "Groups":
        return Groups(
            {key: group.copy() for key, group in self.by_key.items()},
            {topic: by_name.copy() for topic, by_name in self.mappings.items()},
            self._shapes,
            self._names,
        )

    def put(self, group: GroupView) -> None:
        """Put ``group`` in the place of what was known of it."""
        before = self.by_key.get(group.key)
        if before is not None:
            self.drop(before)
        self.by_key[group.key] = group

    def drop(self, group: GroupView) -> None:
        """Forget a group with all it holds."""
        del self.by_key[group.key]
        self._count_dropped(len(group.queues))
        for topic in group.mapped_topics:
            self._drop_mappings(group, topic)

    def clear(self) -> None:
        self.by_key.clear()
        self.mappings.clear()

    def set_queues(
        self, group: GroupView, changes: tuple[QueueChange, ...]
    ) -> list[tuple[QueueChange, Shape | None]]:
        """Make ``changes``; returns those that were changes from something else, with that."""
        if not changes:
            return []
        # Thousands of topics at once are usual: as little as can be is done for each of them here.
        topics, befores, afters, registered = zip(*changes, strict=True)
        held = tuple(map(group.queues.get, topics))
        if None in afters:
            self._drop_topics(group, [change.topic for change in changes if change.after is None])
            self.set_queues(group, tuple(change for change in changes if change.after is not None))
        else:
            names = self._own(topics)
            group.queues.update(zip(names, map(self._shapes.__getitem__, afters), strict=True))
            if group.registered or any(registered):
                self._set_registered(group, zip(names, registered, strict=True))
        if held == befores:
            return []
        return [
            (change, before)
            for change, before in zip(changes, held, strict=True)
            if change.before != before
        ]

    def _set_registered(self, group: GroupView, shapes: Iterable[tuple[str, Shape | None]]) -> None:
        for topic, shape in shapes:
            if shape is None:
                group.registered.pop(topic, None)
            else:
                group.registered[topic] = self._shapes[shape]

    def set_alike(
        self,
        group: GroupView,
        topics: list[str],
        before: Shape | None,
        after: Shape | None,
        registered: Shape | None,
    ) -> list[tuple[str, Shape | None]]:
        """As ``set_queues``, for topics that changed in the same way."""
        queues = group.queues
        if before is None:
            agreed = queues.keys().isdisjoint(topics)
        else:
            agreed = list(map(queues.get, topics)).count(before) == len(topics)
        held = [] if agreed else [(topic, queues.get(topic)) for topic in topics]
        wrong = [(topic, shape) for topic, shape in held if shape != before]
        if after is None:
            self._drop_topics(group, topics)
            return wrong
        names = self._own(topics)
        queues.update(dict.fromkeys(names, self._shapes[after]))
        if registered is not None or group.registered:
            self._set_registered(group, zip(names, repeat(registered), strict=False))
        return wrong

    def set_mappings(self, group: GroupView, mappings: Iterable[StaticMapping]) -> None:
        for mapping in mappings:
            # Another group that announced the same place has lost it.
            self.mappings.setdefault(mapping.topic, {})[mapping.bname] = (mapping, group.key)
            group.mapped_topics.add(mapping.topic)

    def mappings_of(self, group: GroupView) -> list[StaticMapping]:
        return [
            mapping
            for topic in sorted(group.mapped_topics)
            for mapping, owner in self.mappings.get(topic, {}).values()
            if owner == group.key
        ]

    def _own(self, topics: Sequence[str]) -> list[str]:
        """Each name once, however many groups have it."""
        return list(map(self._names.setdefault, topics, topics))

    def _count_dropped(self, topics: int) -> None:
        """Forget all names now and then: those still in use are met again, if at all."""
        self._dropped += topics
        if self._dropped > len(self._names) + NAMES_DROPPED:
            self._names.clear()
            self._dropped = 0

    def _drop_topics(self, group: GroupView, topics: Sequence[str]) -> None:
        self._count_dropped(len(topics))
        for topic in topics:
            group.queues.pop(topic, None)
            group.registered.pop(topic, None)
            if topic in group.mapped_topics:
                group.mapped_topics.discard(topic)
                self._drop_mappings(group, topic)

    def _drop_mappings(self, group: GroupView, topic: str) -> None:
        by_name = self.mappings.get(topic, {})
        for bname in [name for name, (_, owner) in by_name.items() if owner == group.key]:
            del by_name[bname]
        if not by_name:
            self.mappings.pop(topic, None)
