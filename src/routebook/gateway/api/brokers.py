"""Brokers and clusters, as nodes know them now."""

from collections.abc import Iterable

from starlette.responses import Response

from routebook.documents.suggestions import close_names
from routebook.gateway.api import shapes
from routebook.gateway.api.failures import not_found
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.pages import page_of
from routebook.gateway.api.parameters import CONTAINS, CURSOR, LIMIT, NODE, name_parameter
from routebook.gateway.api.told import (
    HELD,
    UNCONFIRMED,
    excuse,
    group_told,
    member_state,
    node_id,
    silent_for,
    view_of,
)
from routebook.gateway.fleet_state import agreement
from routebook.gateway.nodes import FollowedNode
from routebook.wire.answers import MASTER_ID
from routebook.wire.overview import GroupTold


async def brokers(question: Question) -> Response:
    node = question.node
    told = view_of(node)
    view, given = told.value, question.given
    cluster, part = given.of("cluster", str), (given.of("q", str) or "").casefold()
    wanted = [
        group
        for key, group in sorted(view.groups.items())
        if cluster in (None, group.cluster) and part in group.broker.casefold()
    ]
    page = page_of(
        wanted, lambda group: group.key, limit=given["limit"], cursor=given.of("cursor", str)
    )
    silent = silent_for(view.silences)
    document = shapes.BrokerList(
        node=view.node,
        address=node.name,
        age_ms=told.age_ms,
        revision=view.rev,
        total=page.total,
        next=page.next,
        brokers=[group_told(group, silent) for group in page.rows],
    )
    return question.answer(document, age_ms=told.age_ms)


async def broker(question: Question) -> Response:
    name = question.given.name("broker")
    nodes = question.gateway.fleet.nodes
    found = {node: _groups_of(node, name) for node in nodes}
    if not any(found.values()):
        known = {g.broker for node in nodes if node.view for g in node.view.value.groups.values()}
        close = close_names(name, known) or "GET /v1/brokers lists those there are"
        raise not_found("no_broker", f"no node knows a broker named {name}; {close}")
    up = [node for node, _ in question.gateway.state.up()]
    keys = {group.key for groups in found.values() for group in groups}
    verdicts = {agreement([_group(node, key) for node in up]) for key in keys}
    document = shapes.Broker(
        broker=name,
        agree=False if False in verdicts else None if None in verdicts else True,
        nodes=[_at_node(node, groups) for node, groups in found.items()],
    )
    return question.answer(document)


def _groups_of(node: FollowedNode, broker: str) -> list[GroupTold]:
    groups = () if node.view is None else node.view.value.groups.values()
    return sorted((g for g in groups if g.broker == broker), key=lambda group: group.key)


def _group(node: FollowedNode, key: tuple[str, str]) -> GroupTold | None:
    return None if node.view is None else node.view.value.groups.get(key)


def _at_node(node: FollowedNode, groups: Iterable[GroupTold]) -> shapes.GroupsAtNode:
    silent = silent_for(None if node.view is None else node.view.value.silences)
    return shapes.GroupsAtNode(
        node=node_id(node),
        address=node.name,
        age_ms=None if node.view is None else node.view.age_ms,
        error=excuse(node),
        groups=[group_told(group, silent) for group in groups],
    )


async def clusters(question: Question) -> Response:
    node = question.node
    told = view_of(node)
    by_name: dict[str, list[GroupTold]] = {}
    for _, group in sorted(told.value.groups.items()):
        by_name.setdefault(group.cluster, []).append(group)
    page = page_of(
        sorted(by_name),
        lambda name: (name,),
        limit=question.given["limit"],
        cursor=question.given.of("cursor", str),
    )
    document = shapes.ClusterList(
        node=told.value.node,
        address=node.name,
        age_ms=told.age_ms,
        total=page.total,
        next=page.next,
        clusters=[_cluster(name, by_name[name]) for name in page.rows],
    )
    return question.answer(document, age_ms=told.age_ms)


def _cluster(name: str, groups: list[GroupTold]) -> shapes.Cluster:
    members = [member for group in groups for member in group.members]
    masters = [member for member in members if member.id == MASTER_ID]
    states = [member_state(member) for member in members]
    return shapes.Cluster(
        cluster=name,
        groups=len(groups),
        masters=len(masters),
        slaves=len(members) - len(masters),
        held=states.count(HELD),
        unconfirmed=states.count(UNCONFIRMED),
        without_master=[
            group.broker
            for group in groups
            if all(member.id != MASTER_ID for member in group.members)
        ],
    )


OPERATIONS = (
    Operation(
        "GET",
        "/v1/brokers",
        brokers,
        "Broker groups as a node knows them.",
        shapes.BrokerList,
        (NODE, LIMIT, CURSOR, name_parameter("cluster", "Only of this cluster."), CONTAINS),
    ),
    Operation(
        "GET",
        "/v1/brokers/{broker}",
        broker,
        "The groups of one name, at every node.",
        shapes.Broker,
        (name_parameter("broker", "The name of a broker group.", in_path=True),),
    ),
    Operation(
        "GET",
        "/v1/clusters",
        clusters,
        "Clusters as a node knows them.",
        shapes.ClusterList,
        (NODE, LIMIT, CURSOR),
    ),
)
