"""NodeView: all that one NameServer says of brokers and topics, as good as at one moment.

A view is taken with three kinds of requests: the cluster table (106), the topic list (206), and
the route of every topic (105), a few hundred at a time over one connection.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from routebook.client.client import NameServerClient, NodeClient
from routebook.client.errors import (
    BadAnswer,
    LeavingNode,
    NameServerError,
    NodeError,
    NotReady,
    Refused,
    TopicNotFound,
)
from routebook.client.node import Answer
from routebook.client.relayed import relayed
from routebook.client.requests import route_question
from routebook.client.routes import ClusterView, TopicRoute, route_of
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues, decode_route
from routebook.wire.errors import BadBody

TOPICS_AT_ONCE = 200

Value = TypeVar("Value")
Views = Mapping[Address, "NodeView | NameServerError"]


@dataclass(frozen=True, slots=True)
class NodeView:
    """``errors`` has the topics whose route the node would not tell, and why.

    ``whole`` is False for a view of chosen topics only.
    """

    node: Address
    cluster: ClusterView
    routes: Mapping[str, TopicRoute]
    taken_at_ms: int
    errors: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True

    def updated(self, newer: "NodeView", topics: Collection[str]) -> "NodeView":
        """The same view with what ``newer`` says of the brokers and of ``topics``."""
        return replace(
            self,
            cluster=newer.cluster,
            routes=_without(self.routes, topics) | dict(newer.routes),
            taken_at_ms=newer.taken_at_ms,
            errors=_without(self.errors, topics) | dict(newer.errors),
        )


async def take_view(
    node: NodeClient,
    *,
    topics: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    rest_s: float = 0.0,
) -> NodeView:
    """What ``node`` says of all topics, or of ``topics``; raises NameServerError.

    A topic the node does not know, or no longer knows when its turn comes, is left out.
    ``progress`` is told how many topics of how many have been asked for. ``rest_s`` is left to the
    node between one handful of questions and the next.
    """
    cluster = await node.cluster_view()
    wanted = await node.topics() if topics is None else sorted(set(topics))
    shared = _Shared()
    routes: dict[str, TopicRoute] = {}
    errors: dict[str, str] = {}
    for done, chunk in _chunks(wanted):
        answers = await node.ask_many([route_question(topic) for topic in chunk])
        for topic, answer in zip(chunk, answers, strict=True):
            try:
                routes[topic] = shared.route(topic, answer)
            except TopicNotFound:
                continue
            except (LeavingNode, NotReady):
                raise  # it will say so of every topic
            except (BadAnswer, Refused) as error:
                errors[topic] = error.what
        if progress is not None:
            progress(done, len(wanted))
        if rest_s and done < len(wanted):
            await asyncio.sleep(rest_s)
    return NodeView(
        node.address,
        cluster,
        routes,
        taken_at_ms=time.time_ns() // 1_000_000,
        errors=errors,
        whole=topics is None,
    )


async def take_views(
    client: NameServerClient,
    *,
    topics: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    rest_s: float = 0.0,
) -> dict[Address, NodeView | NameServerError]:
    """The views of all nodes, taken at the same time; raises NoNameServers.

    ``progress`` is told of all nodes together; ``rest_s`` is as for ``take_view``.
    """
    told: dict[Address, tuple[int, int]] = {}

    async def view(node: NodeClient) -> NodeView:
        def counted(done: int, total: int) -> None:
            told[node.address] = (done, total)
            if progress is not None:
                progress(sum(d for d, _ in told.values()), sum(t for _, t in told.values()))

        return await take_view(node, topics=topics, progress=counted, rest_s=rest_s)

    return await client.on_every_node(view)


def failures_of(outcomes: Views) -> dict[Address, str]:
    """The nodes that could not be asked, and why."""
    return {
        node: error.what if isinstance(error, NodeError) else str(error)
        for node, error in outcomes.items()
        if isinstance(error, NameServerError)
    }


class _Shared:
    """One object for all equal groups and queues: ten thousand routes repeat a few of them."""

    def __init__(self) -> None:
        self._groups: dict[object, BrokerGroup] = {}
        self._queues: dict[TopicQueues, TopicQueues] = {}

    def route(self, topic: str, answer: Answer | NameServerError) -> TopicRoute:
        """Raises the error that ``answer`` is, or BadAnswer for an unreadable route."""
        if isinstance(answer, NameServerError):
            raise answer
        try:
            body = decode_route(answer.command.body)
        except BadBody as error:
            raise BadAnswer(answer.node, str(error)) from error
        body.brokers = [self._group(group) for group in body.brokers or ()]
        body.queues = [self._queues.setdefault(queues, queues) for queues in body.queues or ()]
        return route_of(topic, body, answer.node, relayed(answer.command))

    def _group(self, group: BrokerGroup) -> BrokerGroup:
        addrs = tuple(group.addrs.items())
        key = (group.name, group.cluster, addrs, group.acting_master, group.zone)
        return self._groups.setdefault(key, group)


def _chunks(topics: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Topics in handfuls, each with the count of those asked for once it is done."""
    rest, done = iter(topics), 0
    while chunk := list(islice(rest, TOPICS_AT_ONCE)):
        done += len(chunk)
        yield done, chunk


def _without(table: Mapping[str, Value], topics: Collection[str]) -> dict[str, Value]:
    dropped = set(topics)
    return {topic: value for topic, value in table.items() if topic not in dropped}
