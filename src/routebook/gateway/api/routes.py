"""Routes of topics as nodes tell them now, the topics there are, and key-value pairs."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from routebook.client.errors import (
    BadAnswer,
    NameServerError,
    NotReady,
    TopicNotFound,
    what,
)
from routebook.client.routes import TopicRoute, route_of
from routebook.documents.routes import route_document
from routebook.gateway.api import shapes
from routebook.gateway.api.failures import Failure, not_found
from routebook.gateway.api.history import route_at
from routebook.gateway.api.history_shapes import RouteHistory
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.pages import page_of
from routebook.gateway.api.parameters import (
    CONTAINS,
    CURSOR,
    LIMIT,
    NODE,
    flag,
    moment,
    name_parameter,
)
from routebook.gateway.api.told import node_id
from routebook.gateway.nodes import FollowedNode
from routebook.gateway.route_memory import RouteMemory
from routebook.plain import one_line
from routebook.system_topics import is_system_topic
from routebook.wire.answers import decode_route
from routebook.wire.errors import BadBody

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class Told:
    """What a node says of a topic: a route, or ``why`` there is none.

    ``etag`` None: the node was asked, and does not tell etags.
    """

    route: TopicRoute | None
    etag: str | None
    why: str | None
    age_ms: int = 0


async def told_of(memory: RouteMemory, node: FollowedNode, topic: str) -> Told:
    """Raises NameServerError."""
    remembered = await memory.find(node, topic)
    if remembered is not None and remembered.gone is not None:
        return Told(None, remembered.etag, remembered.gone, _age_ms(node))
    if remembered is not None and remembered.route is not None:
        route = route_told(node, topic, remembered.route)
        return Told(route, remembered.etag, None, _age_ms(node))
    try:
        route = await node.route(topic)
    except TopicNotFound as error:
        return Told(None, None, error.remark or "the node says nothing more")
    return Told(route, None if remembered is None else remembered.etag, None)


def _age_ms(node: FollowedNode) -> int:
    """Of what a node tells by itself: a change before its last sign of life it has told."""
    return round(node.silent_s * 1000)


def route_told(node: FollowedNode, topic: str, body: bytes) -> TopicRoute:
    """The route that ``body`` is; raises BadAnswer."""
    try:
        return route_of(topic, decode_route(body), node.address, None)
    except BadBody as error:
        raise BadAnswer(node.address, str(error)) from error


def parts_of(route: TopicRoute) -> dict[str, Any]:
    """What a route says, without who says it."""
    document = route_document(route)
    return {name: document[name] for name in shapes.RouteParts.__struct_fields__}


async def route(question: Question) -> Response:
    topic = question.given.name("topic")
    if question.given["at"] is not None:
        return await route_at(question)
    if question.given["all"]:
        return await _of_all_nodes(question, topic)
    node = question.node
    try:
        told = await told_of(question.gateway.routes, node, topic)
    except NotReady as error:
        raise Failure(503, "node_away", str(error), retry_after_s=2) from error
    if told.route is None:
        raise not_found(
            "no_route",
            f"no route for {topic}: {one_line(told.why).rstrip('.')}; GET /v1/topics lists those"
            " there are",
        )
    document = {
        "topic": topic,
        "node": node_id(node),
        "address": node.name,
        "age_ms": told.age_ms,
        "etag": told.etag,
        "revision": node.following.rev or None,
        **parts_of(told.route),
    }
    return question.answer(document, age_ms=told.age_ms)


async def _of_all_nodes(question: Question, topic: str) -> Response:
    gateway = question.gateway
    if question.given["node"] is not None:
        raise Failure(400, "bad_parameter", "give node or all=true, not both")
    found = await asyncio.gather(
        *(_at_node(gateway.routes, node, topic) for node in gateway.fleet.nodes)
    )
    said = [msgspec.json.encode(each.route, order="sorted") for each in found if each.error is None]
    document = shapes.RoutesOfNodes(
        topic=topic, agree=len(set(said)) == 1 if len(said) > 1 else None, nodes=list(found)
    )
    ages = [each.age_ms for each in found if each.age_ms is not None]
    return question.answer(document, age_ms=max(ages, default=None))


async def _at_node(memory: RouteMemory, node: FollowedNode, topic: str) -> shapes.RouteAtNode:
    error = route = None
    told = Told(None, None, None)
    try:
        told = await told_of(memory, node, topic)
    except NameServerError as failed:
        error = what(failed)
    if told.route is not None:
        route = msgspec.convert(parts_of(told.route), shapes.RouteParts)
    return shapes.RouteAtNode(
        node=node_id(node),
        address=node.name,
        age_ms=told.age_ms if error is None else None,
        etag=told.etag,
        route=route,
        why=told.why,
        error=error,
    )


async def topics(question: Question) -> Response:
    node, given = question.node, question.given
    cluster = given.of("cluster", str)
    if cluster is None:
        told = await node.topics_now()
    else:
        told = await node.shared(f"topics of {cluster}", lambda: node.topics_of_cluster(cluster))
    own = await _own_names(node)
    part, system = (given.of("q", str) or "").casefold(), given.of("system", bool)
    wanted = sorted(name for name in told.value if part in name.casefold())
    if system is not None:
        wanted = [name for name in wanted if is_system_topic(name, own) is system]
    page = page_of(
        wanted, lambda name: (name,), limit=given["limit"], cursor=given.of("cursor", str)
    )
    document = shapes.TopicList(
        node=node_id(node),
        address=node.name,
        age_ms=told.age_ms,
        total=page.total,
        next=page.next,
        topics=[shapes.TopicName(name, is_system_topic(name, own)) for name in page.rows],
    )
    return question.answer(document, age_ms=told.age_ms)


async def _own_names(node: FollowedNode) -> frozenset[str]:
    """Of clusters and brokers, which are topics too."""
    if node.view is not None:
        return frozenset(name for key in node.view.value.groups for name in key)
    view = (await node.shared("cluster", node.cluster_view)).value
    return frozenset({*view.clusters, *view.brokers})


async def pairs(question: Question) -> Response:
    node, given = question.node, question.given
    namespace = given.name("namespace")
    told = await node.shared(f"pairs of {namespace}", lambda: node.kv_table(namespace))
    page = page_of(
        sorted(told.value.items()),
        lambda pair: (pair[0],),
        limit=given["limit"],
        cursor=given.of("cursor", str),
    )
    document = shapes.PairList(
        node=node_id(node),
        address=node.name,
        age_ms=told.age_ms,
        namespace=namespace,
        total=page.total,
        next=page.next,
        pairs=[shapes.Pair(*pair) for pair in page.rows],
    )
    return question.answer(document, age_ms=told.age_ms)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/routes/{topic}",
        route,
        "The route of a topic, now or at a moment.",
        (shapes.Route, shapes.RoutesOfNodes, RouteHistory),
        (
            name_parameter("topic", "The name of a topic.", in_path=True),
            NODE,
            flag("all", "The answers of all nodes."),
            moment("at", "The past: the answer is that of /v1/history/route."),
        ),
    ),
    Operation(
        "GET",
        "/v1/topics",
        topics,
        "Names of topics.",
        shapes.TopicList,
        (
            NODE,
            LIMIT,
            CURSOR,
            CONTAINS,
            name_parameter("cluster", "Only of this cluster."),
            flag("system", "Only RocketMQ's own, or only others.", default=None),
        ),
    ),
    Operation(
        "GET",
        "/v1/kv",
        pairs,
        "The key-value pairs of a namespace.",
        shapes.PairList,
        (
            NODE,
            LIMIT,
            CURSOR,
            name_parameter("namespace", "The namespace.", default=ORDER_NAMESPACE),
        ),
    ),
)
