"""Routes of chosen topics as server-sent events, when they change."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.responses import Response

from routebook.client.errors import NameServerError, TopicNotFound
from routebook.client.watch import RouteTold
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.parameters import MAX_NAME, NODE, Parameter
from routebook.gateway.api.routes import parts_of, route_told
from routebook.gateway.api.told import node_id
from routebook.gateway.following import CannotListen
from routebook.gateway.gateway import Gateway
from routebook.gateway.nodes import FollowedNode
from routebook.gateway.streams import BOOKMARK_S, EventStream, sse
from routebook.wire.errors import BadRequest
from routebook.wire.watching import check_topic

MOST_TOPICS = 100
PATIENCE_S = 1.0  # with a node that tells nothing, until another one is asked
PACE_S = 0.05
LOOK_S = 1.0
RETRY_MS = 2000

_WATCHED = re.compile(rf"([^@]{{1,{MAX_NAME}}})(?:@([0-9a-f]{{16}}))?")


def _watched(text: str) -> tuple[str, str | None]:
    """A topic, and the etag of the route that is known of it."""
    found = _WATCHED.fullmatch(text)
    if found is None:
        raise ValueError("is a name, or a name, @ and the 16 digits of an etag")
    try:
        check_topic(found[1])
    except BadRequest as error:
        raise ValueError(f"cannot be watched: {error}") from error
    return found[1], found[2]


TOPICS = Parameter(
    "topic",
    "A topic, or topic@etag where you have its route.",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME + 17,
        "pattern": "^[^@]+(@[0-9a-f]{16})?$",
    },
    _watched,
    required=True,
    most=MOST_TOPICS,
)


@dataclass(slots=True)
class _Watched:
    """What one client has been told, and what there is to tell it: the latest of each topic."""

    etags: dict[str, str | None]
    news: dict[str, RouteTold] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # topics of which the node has said something
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, told: RouteTold) -> None:
        self.told.add(told.topic)
        if told.etag == self.etags[told.topic]:
            self.news.pop(told.topic, None)  # a change that was undone
        else:
            self.news[told.topic] = told
        self.changed.set()

    @property
    def synced(self) -> bool:
        return not self.news and len(self.told) == len(self.etags)


async def watch(question: Question) -> Response:
    etags = dict(question.given["topic"])
    frames = _frames(question.gateway, question.node, etags)
    return EventStream(question.gateway.streams, question.request, frames)


async def _frames(
    gateway: Gateway, node: FollowedNode, etags: dict[str, str | None]
) -> AsyncIterator[bytes]:
    watched = _Watched(etags)
    teller: tuple[str, str] | None = None  # who told last: its address and its boot
    loop = asyncio.get_running_loop()
    while not gateway.stopping.is_set():
        silent_s = loop.time()
        said = False
        while not node.following.live and not gateway.stopping.is_set():
            other = next((each for each in gateway.fleet.nodes if each.following.live), None)
            if other is not None and loop.time() - silent_s > PATIENCE_S:
                node = other
                break
            if not said and loop.time() - silent_s > PATIENCE_S:
                said = True
                yield sse("lost", {"text": f"{node.name} tells nothing at the moment"})
            await asyncio.sleep(0.1)
        if gateway.stopping.is_set():
            break
        now = (node.name, node.following.boot)
        reason = _reason(teller, now)
        teller = now
        yield sse("reset", {"node": node_id(node), "address": node.name, "reason": reason})
        watched.told.clear()
        try:
            for topic in etags:
                node.following.listen(topic, watched)
            async for frame in _told(gateway, node, watched):
                yield frame
        except CannotListen as error:
            yield sse("bye", {"reason": str(error), "retry_ms": RETRY_MS})
            return
        finally:
            for topic in etags:
                node.following.unlisten(topic, watched)
    yield sse("bye", {"reason": "draining", "retry_ms": RETRY_MS})


def _reason(before: tuple[str, str] | None, now: tuple[str, str]) -> str:
    if before is None:
        return "new"
    if before == now:
        return "resumed"
    return "restarted" if before[0] == now[0] else "other_node"


async def _told(gateway: Gateway, node: FollowedNode, watched: _Watched) -> AsyncIterator[bytes]:
    """What the node tells, until it tells nothing any more."""
    loop = asyncio.get_running_loop()
    bookmark_s, synced = loop.time() + BOOKMARK_S, False
    while node.following.live and not gateway.stopping.is_set():
        if watched.news:
            while watched.news:
                topic = next(iter(watched.news))
                told = watched.news.pop(topic)
                watched.etags[topic] = told.etag
                yield await _frame(node, told)
            if synced:
                await asyncio.sleep(PACE_S)  # what changes meanwhile is told together
            continue
        if watched.synced and not synced:
            synced = True
            yield sse("synced", {})
        if loop.time() >= bookmark_s:
            bookmark_s = loop.time() + BOOKMARK_S
            if synced:
                yield sse("bookmark", {})
        watched.changed.clear()
        with suppress(TimeoutError):  # whether the watch has ended is looked at now and then
            async with asyncio.timeout(LOOK_S):
                await watched.changed.wait()


async def _frame(node: FollowedNode, told: RouteTold) -> bytes:
    who = {"topic": told.topic, "node": node_id(node), "address": node.name}
    if told.gone is not None:
        return sse("gone", {**who, "why": told.gone})
    try:
        if told.route is not None:
            route = route_told(node, told.topic, told.route)
        else:  # too large to be told by itself
            route = await node.route(told.topic)
    except TopicNotFound as error:
        return sse("gone", {**who, "why": error.remark or "the node says nothing more"})
    except NameServerError as error:
        return sse("lost", {"text": f"the route of {told.topic} could not be had: {error}"})
    return sse("route", {**who, "etag": told.etag, "route": parts_of(route)})


OPERATIONS = (
    Operation(
        "GET",
        "/v1/watch",
        watch,
        "Routes of topics, when they change.",
        None,
        (TOPICS, NODE),
    ),
)
