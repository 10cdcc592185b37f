"""Difference: what two views tell brokers and clients differently.

The views may be of one node at two times, or of two nodes at one time. What only the node itself
knows (generations, data versions, when it heard what) is no difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from routebook.events import MemberFact, QueueChange, StaticMapping
from routebook.journal.groups import Groups, GroupView

K = TypeVar("K", bound=tuple[object, ...])
V = TypeVar("V")

KvTables = Mapping[str, Mapping[str, str]]


class MemberDifference(NamedTuple):
    """What a broker process says of itself."""

    cluster: str
    broker: str
    broker_id: int
    before: MemberFact | None
    after: MemberFact | None


class GroupFacts(NamedTuple):
    acting_master: bool
    zone: str | None


class GroupDifference(NamedTuple):
    cluster: str
    broker: str
    before: GroupFacts | None
    after: GroupFacts | None


class QueueDifference(NamedTuple):
    cluster: str
    broker: str
    change: QueueChange


class MappingDifference(NamedTuple):
    topic: str
    bname: str
    before: StaticMapping | None
    after: StaticMapping | None


class KvDifference(NamedTuple):
    namespace: str
    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Each list in the order of its names; all empty when both views say the same."""

    groups: tuple[GroupDifference, ...]
    members: tuple[MemberDifference, ...]
    queues: tuple[QueueDifference, ...]
    mappings: tuple[MappingDifference, ...]
    kv: tuple[KvDifference, ...]

    def __bool__(self) -> bool:
        return bool(self.groups or self.members or self.queues or self.mappings or self.kv)


def difference(before: Groups, after: Groups, *, kv: tuple[KvTables, KvTables]) -> Difference:
    return Difference(
        groups=tuple(
            GroupDifference(*key, *values)
            for key, *values in _changed(_each_group(before), _each_group(after))
        ),
        members=tuple(
            MemberDifference(*key, *values)
            for key, *values in _changed(_each_member(before), _each_member(after))
        ),
        queues=tuple(_changed_queues(before, after)),
        mappings=tuple(
            MappingDifference(*key, *values)
            for key, *values in _changed(_each_mapping(before), _each_mapping(after))
        ),
        kv=tuple(
            KvDifference(*key, *values)
            for key, *values in _changed(_each_pair(kv[0]), _each_pair(kv[1]))
        ),
    )


def _changed(before: Mapping[K, V], after: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _changed_queues(before: Groups, after: Groups) -> Iterator[QueueDifference]:
    for cluster, broker in sorted(before.by_key.keys() | after.by_key.keys()):
        old, new = _told(before, cluster, broker), _told(after, cluster, broker)
        if old.queues == new.queues and old.registered == new.registered:
            continue
        for topic in sorted(old.queues.keys() | new.queues.keys()):
            was, told = old.queues.get(topic), new.queues.get(topic)
            said = new.registered.get(topic)
            if was != told or old.registered.get(topic) != said:
                yield QueueDifference(cluster, broker, QueueChange(topic, was, told, said))


def _told(groups: Groups, cluster: str, broker: str) -> GroupView:
    group = groups.find(cluster, broker)
    return group if group is not None and group.members else GroupView(cluster, broker)


def _each_group(groups: Groups) -> dict[tuple[str, str], GroupFacts]:
    return {
        key: GroupFacts(group.acting_master, group.zone)
        for key, group in groups.by_key.items()
        if group.members
    }


def _each_member(groups: Groups) -> dict[tuple[str, str, int], MemberFact]:
    return {
        (*key, broker_id): member.known.said()
        for key, group in groups.by_key.items()
        for broker_id, member in group.members.items()
    }


def _each_mapping(groups: Groups) -> dict[tuple[str, str], StaticMapping]:
    return {
        (topic, bname): mapping
        for topic, by_name in groups.mappings.items()
        for bname, (mapping, _) in by_name.items()
    }


def _each_pair(tables: KvTables) -> dict[tuple[str, str], str]:
    return {
        (namespace, key): value
        for namespace, table in tables.items()
        for key, value in table.items()
    }
