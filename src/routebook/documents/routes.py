"""What is told of a route, now or in the past: its brokers, its queues, its static mappings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from routebook.client import BrokerGroup, TopicQueues, TopicRoute
from routebook.documents.columns import Column, Kind, document_of, documents_of
from routebook.wire.answers import MASTER_ID
from routebook.words import permission


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a group; a group without brokers has one member without an address."""

    group: BrokerGroup
    broker_id: int | None = None
    address: str | None = None


def members_of(groups: Iterable[BrokerGroup]) -> list[Member]:
    return [member for group in groups for member in _members(group) or [Member(group)]]


def _members(group: BrokerGroup) -> list[Member]:
    return [Member(group, broker_id, address) for broker_id, address in sorted(group.addrs.items())]


def role(broker_id: int) -> str:
    return "master" if broker_id == MASTER_ID else "slave"


MEMBERS = (
    Column[Member]("cluster", "cluster", lambda member: member.group.cluster, drop=3),
    Column[Member]("broker", "broker", lambda member: member.group.name),
    Column[Member](
        "addresses",
        None,
        lambda member: {str(id_): addr for id_, addr in sorted(member.group.addrs.items())},
    ),
    Column[Member](None, "id", lambda member: member.broker_id, kind=Kind.NUMBER),
    Column[Member](None, "role", lambda member: member.broker_id, shown=role, drop=1),
    Column[Member](None, "address", lambda member: member.address),
    Column[Member]("master", None, lambda member: member.group.master),
    Column[Member](
        "acting_master",
        "acting master",
        lambda member: member.group.acting_master,
        shown=lambda enabled: "enabled" if enabled else None,
        drop=2,
    ),
    Column[Member]("zone", "zone", lambda member: member.group.zone, drop=4),
)
"""JSON has one object for each group, a table one line for each member."""

ROUTE_MEMBERS = tuple(
    replace(column, heading=None) if column.key == "acting_master" else column for column in MEMBERS
)


def group_document(group: BrokerGroup) -> dict[str, Any]:
    return document_of(MEMBERS, Member(group))


QUEUES = (
    Column[TopicQueues]("broker", "broker", lambda queues: queues.broker),
    Column[TopicQueues]("read", "read", lambda queues: queues.read_queues, kind=Kind.NUMBER),
    Column[TopicQueues]("write", "write", lambda queues: queues.write_queues, kind=Kind.NUMBER),
    Column[TopicQueues]("perm", None, lambda queues: queues.perm),
    Column[TopicQueues]("permission", "permission", lambda queues: permission(queues.perm)),
    Column[TopicQueues]("sys_flag", None, lambda queues: queues.sys_flag),
)


@dataclass(frozen=True, slots=True)
class StaticQueues:
    """Logical queues of a static topic on one broker, and the queues they are."""

    broker: str
    scope: str | None
    total_queues: int
    epoch: int
    queues: Mapping[int, int]


MAPPINGS = (
    Column[StaticQueues](None, "broker", lambda mapping: mapping.broker),
    Column[StaticQueues]("scope", "scope", lambda mapping: mapping.scope, drop=2),
    Column[StaticQueues](
        "total_queues", "queues in all", lambda mapping: mapping.total_queues, kind=Kind.NUMBER
    ),
    Column[StaticQueues]("epoch", "epoch", lambda mapping: mapping.epoch, kind=Kind.NUMBER, drop=1),
    Column[StaticQueues](
        "queues",
        "logical queues here",
        lambda mapping: {str(logical): queue for logical, queue in sorted(mapping.queues.items())},
        shown=" ".join,
        kind=Kind.PROSE,
    ),
)
"""JSON has them by broker."""


def mappings_document(mappings: Iterable[StaticQueues]) -> dict[str, Any]:
    return {mapping.broker: document_of(MAPPINGS, mapping) for mapping in mappings}


def route_document(route: TopicRoute) -> dict[str, Any]:
    return {
        "topic": route.topic,
        "node": None if route.node is None else str(route.node),
        "brokers": [group_document(group) for group in route.brokers],
        "queues": documents_of(QUEUES, route.queues),
        "order_conf": route.order_conf,
        "mappings": mappings_document(static_queues(route)),
        "filter_servers": dict(sorted(route.filter_servers.items())),
        "relayed": None
        if route.relayed is None
        else {
            "age_ms": route.relayed.age_ms,
            "stale": route.relayed.stale,
            "doubt": route.relayed.doubt,
        },
    }


def static_queues(route: TopicRoute) -> list[StaticQueues]:
    return [
        StaticQueues(broker, info.scope, info.total_queues, info.epoch, info.curr_id_map)
        for broker, info in sorted(route.mappings.items())
    ]
