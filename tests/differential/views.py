"""What a NameServer shows of its tables: routes and lists."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from differential.canonical import SOME_ADDRESS, bean, mapping, unordered
from differential.java_hash import HASH_MAP, walk
from differential.rendering import Writer
from differential.rules import Rule
from differential.steps import GetRoute, Listing, Profile, Queues
from differential.tables import WRITE, Group, Key, Tables

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
STANDARD_SINCE = 401  # V4_9_4
_UNIT, _UNIT_SUB = 1, 2
_WANTED: dict[Listing, Callable[[int], bool]] = {
    Listing.UNIT: lambda flag: bool(flag & _UNIT),
    Listing.UNIT_SUB: lambda flag: bool(flag & _UNIT_SUB),
    Listing.UNIT_SUB_UNUNIT: lambda flag: bool(flag & _UNIT_SUB) and not flag & _UNIT,
}


@dataclass(frozen=True, slots=True)
class Views:
    tables: Tables
    rules: frozenset[Rule]
    profile: Profile
    writer: Writer

    # -- routes

    def route(self, step: GetRoute, topic: str) -> str | None:
        """None when no group holds the topic."""
        tables = self.tables
        holders = tables.topics.get(topic, {})
        groups = {key: tables.groups[key] for key in holders if key in tables.groups}
        if not groups:
            return None
        shown = {key: self._shown(topic, group, holders[key]) for key, group in groups.items()}
        kept, filters = set(holders), self._filters(groups.values())
        zoned = (step.zone_mode or "").lower() == "true" and bool((step.zone or "").strip())
        zone = step.zone if zoned else None
        if zone is not None:
            kept -= {key for key in groups if not self._in_zone(groups[key], shown[key], zone)}
            filters = self._zoned_filters(groups, kept, filters)
        standard = step.via.version >= STANDARD_SINCE or bool(step.standard_only)
        if zone is not None and Rule.ZONE_FORM not in self.rules:
            standard = False
        writer = replace(self.writer, standard=standard)
        return writer.route(
            brokers=[
                self._broker_data(writer, groups[key], shown[key]) for key in groups if key in kept
            ],
            filters=filters,
            order_conf=self._order_conf(topic),
            queues=[
                writer.queue_data(key[1], queues) for key, queues in holders.items() if key in kept
            ],
            mappings={name: info for name, (info, _) in tables.mappings.get(topic, {}).items()},
        )

    def _order_conf(self, topic: str) -> str | None:
        if not self.profile.order_message_enable:
            return None
        return self.tables.kv.get(ORDER_NAMESPACE, {}).get(topic)

    def _broker_data(self, writer: Writer, group: Group, addrs: dict[int, str]) -> str:
        return writer.broker_data(
            addrs, group.name, group.cluster, acting=group.acting_master, zone=group.zone
        )

    def _shown(self, topic: str, group: Group, queues: Queues) -> dict[int, str]:
        """The addresses of a group, the lowest id as master where a slave acts as one."""
        acting = (
            self.profile.support_acting_master
            and not topic.startswith(MEMBER_TOPIC_PREFIX)
            and group.acting_master
            and group.addrs
            and 0 not in group.addrs
            and not queues.perm & WRITE
        )
        if not acting:
            return group.addrs
        lowest = min(group.addrs)
        rest = {i: addr for i, addr in group.addrs.items() if i != lowest}
        return {0: group.addrs[lowest], **rest}

    def _in_zone(self, group: Group, shown: dict[int, str], zone: str) -> bool:
        addrs = group.addrs if Rule.ZONE_FORM in self.rules else shown
        return 0 not in addrs or (group.zone or "").lower() == zone.lower()

    def _filters(self, groups: Iterable[Group]) -> dict[str, tuple[str, ...]]:
        """Filter servers by address, which two groups may share."""
        hides = Rule.SHARED_FILTER_ADDRESS not in self.rules
        if hides:
            by_name = {group.name: group for group in groups}
            groups = [by_name[name] for name in walk(by_name, HASH_MAP)]
        filters: dict[str, tuple[str, ...]] = {}
        for group in groups:
            for addr in group.addrs.values():
                servers = self.tables.filters.get((group.cluster, addr), ())
                if servers or hides:
                    filters[addr] = servers
        return {addr: servers for addr, servers in filters.items() if servers}

    def _zoned_filters(
        self, groups: dict[Key, Group], kept: set[Key], filters: dict[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, ...]]:
        if Rule.SHARED_FILTER_ADDRESS in self.rules:
            return self._filters([group for key, group in groups.items() if key in kept])
        removed = {
            addr
            for key, group in groups.items()
            if key not in kept
            for addr in group.addrs.values()
        }
        return {addr: servers for addr, servers in filters.items() if addr not in removed}

    # -- lists

    def cluster_info(self) -> str:
        write = self.writer
        brokers: dict[str, str] = {}
        for group in self.tables.groups.values():
            data = self._broker_data(write, group, group.addrs)
            brokers.setdefault(write.text(group.name), data)
        clusters = {
            write.text(cluster): unordered(write.text(name) for name in names)
            for cluster, names in self.tables.clusters.items()
        }
        return bean({"brokerAddrTable": mapping(brokers), "clusterAddrTable": mapping(clusters)})

    def topics(self, listing: Listing) -> str:
        tables = self.tables
        if listing is Listing.ALL:
            return self._topic_list(tables.topics)
        if listing is Listing.SYSTEM:
            names = {name for names in tables.clusters.values() for name in names}
            some = any(group.addrs for group in tables.groups.values())
            return self._topic_list(names | set(tables.clusters), SOME_ADDRESS if some else None)
        wanted = _WANTED[listing]
        return self._topic_list(
            topic
            for topic, holders in tables.topics.items()
            if wanted(self._speaker(holders).sys_flag)
        )

    def _speaker(self, holders: dict[Key, Queues]) -> Queues:
        """The queues that speak for all of a topic's."""
        if Rule.UNIT_FLAGS in self.rules:
            return next(iter(holders.values()))
        by_name = {key[1]: queues for key, queues in holders.items()}
        return by_name[walk(by_name, HASH_MAP)[0]]

    def topics_of_cluster(self, cluster: str) -> str:
        tables = self.tables
        keys = {tables.key(cluster, name) for name in tables.clusters.get(cluster, {})}
        return self._topic_list(
            topic for topic, holders in tables.topics.items() if keys & set(holders)
        )

    def _topic_list(self, topics: Iterable[str], addr: str | None = None) -> str:
        texts = unordered(self.writer.text(topic) for topic in topics)
        return bean({"brokerAddr": addr, "topicList": texts})

    def members(self, cluster: str | None, name: str | None) -> str:
        tables, write = self.tables, self.writer
        group = tables.groups.get(tables.key(cluster or "", name or ""))
        if group is None:
            group = next((group for _, group in tables.groups_named(name or "")), None)
        members = {
            "brokerAddrs": write.addrs(group.addrs if group else {}),
            "brokerName": None if name is None else write.text(name),
            "cluster": None if cluster is None else write.text(cluster),
        }
        return bean({"brokerMemberGroup": bean(members)})
