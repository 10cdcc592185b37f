"""What is different between two routes of a topic, fact by fact.

Cluster, zone and the acting-master flag do not count: no client acts on them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from routebook.client.queues import first_groups, first_queues
from routebook.client.routes import TopicRoute
from routebook.wire.answers import TopicQueues
from routebook.wire.registration import MappingInfo


@dataclass(frozen=True, slots=True)
class BrokerAppeared:
    """``addrs`` are its members, broker id to address."""

    broker: str
    addrs: Mapping[int, str]

    def __str__(self) -> str:
        return f"{self.broker} joined"


@dataclass(frozen=True, slots=True)
class BrokerDisappeared:
    """``addrs`` are the members it had."""

    broker: str
    addrs: Mapping[int, str]

    def __str__(self) -> str:
        return f"{self.broker} left"


@dataclass(frozen=True, slots=True)
class AddressChanged:
    """One member of a broker that stays: None before is a new one, None after one that left."""

    broker: str
    broker_id: int
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.broker}: id {self.broker_id} joined at {self.after}"
        if self.after is None:
            return f"{self.broker}: id {self.broker_id} left {self.before}"
        return f"{self.broker}: id {self.broker_id} is at {self.after}, was at {self.before}"


@dataclass(frozen=True, slots=True)
class QueuesChanged:
    """The queues on one broker: None before or after when it has none of the topic."""

    broker: str
    before: TopicQueues | None
    after: TopicQueues | None

    def __str__(self) -> str:
        before, after = self.before, self.after
        if after is None:
            return f"{self.broker}: no queues any more"
        if before is None:
            return (
                f"{self.broker}: {after.read_queues} read and {after.write_queues} write queues,"
                f" {_permission(after)}"
            )
        return f"{self.broker}: " + ", ".join(
            f"{now}, was {then}" for now, then in _differences(before, after)
        )


@dataclass(frozen=True, slots=True)
class OrderChanged:
    """The order config, None when there is none."""

    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"order {self.after or 'none'}, was {self.before or 'none'}"


@dataclass(frozen=True, slots=True)
class MappingsChanged:
    """What brokers hold of the logical queues of a static topic."""

    before: Mapping[str, MappingInfo]
    after: Mapping[str, MappingInfo]

    def __str__(self) -> str:
        return "logical queues changed on " + ", ".join(_differing(self.before, self.after))


@dataclass(frozen=True, slots=True)
class FilterServersChanged:
    """Broker address to the filter servers beside it."""

    before: Mapping[str, list[str]]
    after: Mapping[str, list[str]]

    def __str__(self) -> str:
        return "filter servers changed at " + ", ".join(_differing(self.before, self.after))


Change = (
    BrokerAppeared
    | BrokerDisappeared
    | AddressChanged
    | QueuesChanged
    | OrderChanged
    | MappingsChanged
    | FilterServersChanged
)


@dataclass(frozen=True, slots=True)
class RouteChange:
    """``before`` is None for the first route of a topic; then all it has is new."""

    topic: str
    before: TopicRoute | None
    after: TopicRoute
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        return f"{self.topic}: " + ("; ".join(map(str, self.changes)) or "no brokers")


def route_change(before: TopicRoute | None, after: TopicRoute) -> RouteChange | None:
    """What ``after`` changes, or None when nothing that counts is different."""
    changes = tuple(_changes(before or TopicRoute(after.topic), after))
    if before is not None and not changes:
        return None
    return RouteChange(after.topic, before, after, changes)


def _changes(before: TopicRoute, after: TopicRoute) -> Iterator[Change]:
    yield from _broker_changes(before, after)
    then, now = first_queues(before), first_queues(after)
    for broker in _differing(then, now):
        yield QueuesChanged(broker, then.get(broker), now.get(broker))
    if before.order_conf != after.order_conf:
        yield OrderChanged(before.order_conf, after.order_conf)
    if before.mappings != after.mappings:
        yield MappingsChanged(before.mappings, after.mappings)
    if before.filter_servers != after.filter_servers:
        yield FilterServersChanged(before.filter_servers, after.filter_servers)


def _broker_changes(before: TopicRoute, after: TopicRoute) -> Iterator[Change]:
    then = {name: group.addrs for name, group in first_groups(before).items()}
    now = {name: group.addrs for name, group in first_groups(after).items()}
    for broker in _differing(then, now):
        if broker not in then:
            yield BrokerAppeared(broker, now[broker])
        elif broker not in now:
            yield BrokerDisappeared(broker, then[broker])
        else:
            old, new = then[broker], now[broker]
            for broker_id in sorted(old.keys() | new.keys()):
                if old.get(broker_id) != new.get(broker_id):
                    yield AddressChanged(broker, broker_id, old.get(broker_id), new.get(broker_id))


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Keys whose values are not the same, sorted."""
    return sorted(
        key
        for key in before.keys() | after.keys()
        if key not in before or key not in after or before[key] != after[key]
    )


def _differences(before: TopicQueues, after: TopicQueues) -> Iterator[tuple[str, str]]:
    if before.read_queues != after.read_queues:
        yield f"{after.read_queues} read queues", str(before.read_queues)
    if before.write_queues != after.write_queues:
        yield f"{after.write_queues} write queues", str(before.write_queues)
    if before.perm != after.perm:
        yield _permission(after), _permission(before)
    if before.sys_flag != after.sys_flag:
        yield f"system flag {after.sys_flag}", str(before.sys_flag)


def _permission(queues: TopicQueues) -> str:
    named = {(True, True): "read and write", (True, False): "read only"}
    named |= {(False, True): "write only", (False, False): "no permission"}
    return named[queues.readable, queues.writable]
