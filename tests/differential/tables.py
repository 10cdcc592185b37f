"""What a NameServer remembers, laid out as in the reference: tables that refer by name.

Nothing here keeps the tables in step; that they may drift apart is the subject of several
rules. With all rules on they never do.
"""

from dataclasses import dataclass, field

from differential.steps import Mapping, Queues, Stamp

Key = tuple[str, str]  # cluster and name of a group; the cluster is empty where names are global
LiveKey = tuple[str, str]  # cluster and address

WRITE = 2


@dataclass(slots=True)
class Group:
    cluster: str
    name: str
    acting_master: bool = False
    zone: str | None = None
    addrs: dict[int, str] = field(default_factory=dict)
    registered: dict[str, Queues] = field(default_factory=dict)  # as its members last said


@dataclass(slots=True)
class Live:
    """``stamp`` None is a null DataVersion; one without a timestamp equals only itself."""

    name: str
    broker_id: int
    link: int
    generation: int
    ha: str | None
    stamp: Stamp | None
    state_version: int | None  # None: asking for it raises
    other_link: int | None = None


@dataclass(slots=True)
class Tables:
    names_are_global: bool
    clusters: dict[str, dict[str, None]] = field(default_factory=dict)
    groups: dict[Key, Group] = field(default_factory=dict)
    live: dict[LiveKey, Live] = field(default_factory=dict)
    filters: dict[LiveKey, tuple[str, ...]] = field(default_factory=dict)
    topics: dict[str, dict[Key, Queues]] = field(default_factory=dict)
    mappings: dict[str, dict[str, tuple[Mapping, Key]]] = field(default_factory=dict)
    kv: dict[str, dict[str, str | None]] = field(default_factory=dict)
    registered_on: dict[int, dict[LiveKey, int]] = field(default_factory=dict)
    generation: int = 0

    def key(self, cluster: str, name: str) -> Key:
        return ("" if self.names_are_global else cluster, name)

    def groups_named(self, name: str) -> list[tuple[Key, Group]]:
        return [(key, group) for key, group in self.groups.items() if group.name == name]

    def topics_of(self, key: Key) -> list[str]:
        return [topic for topic, holders in self.topics.items() if key in holders]

    def drop_topic(self, key: Key, topic: str, *, with_mappings: bool) -> None:
        holders = self.topics[topic]
        del holders[key]
        if not holders:
            del self.topics[topic]
        if group := self.groups.get(key):
            group.registered.pop(topic, None)
        if with_mappings:
            self.drop_mappings(key, topic)

    def drop_mappings(self, key: Key, topic: str) -> None:
        by_name = self.mappings.get(topic, {})
        for name in [name for name, (_, owner) in by_name.items() if owner == key]:
            del by_name[name]
        if not by_name:
            self.mappings.pop(topic, None)
