"""Events as they happen, and how everything is, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response

from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.parameters import Parameter, flag, number
from routebook.gateway.api.told import node_id
from routebook.gateway.gateway import Gateway
from routebook.gateway.live_feed import LiveFeed, frame_of
from routebook.gateway.streams import BOOKMARK_S, EventStream, sse

MOST_LAST = 1000
CHUNK = 64 * 1024  # bytes sent at once
PACE_S = 0.05  # between one thing that is sent and the next
SHARE_S = 0.001  # for each who listens
RETRY_MS = 2000

SINCE = Parameter(
    "since",
    "The `id` of the last event you have.",
    {"type": "string", "maxLength": 64},
    str,
)
LAST = number("last", "Begin with so many of the latest.", least=0, most=MOST_LAST, default=0)


async def events(question: Question) -> Response:
    since = question.given.of("since", str) or question.request.headers.get("last-event-id")
    frames = _frames(
        question.gateway, since, last=question.given["last"], state=question.given["state"]
    )
    return EventStream(question.gateway.streams, question.request, frames)


async def _frames(
    gateway: Gateway, since: str | None, *, last: int, state: bool
) -> AsyncIterator[bytes]:
    feed, stopping = gateway.live, gateway.stopping
    place = None if since is None else feed.place_of(since)
    text = "what happens from here on"
    if since is not None and place is None:
        text = "what happens from here on; that id is of another gateway, or of an earlier run"
    number = feed.last if place is None else place
    if since is None and last:
        number = feed.latest_events(last)
    nodes = [{"node": node_id(node), "address": node.name} for node in gateway.fleet.nodes]
    yield sse("hello", {"id": feed.id_of(number), "nodes": nodes, "text": text})
    if since is not None and place is None:
        yield _lost(feed)
    # What is told after this is newer than how everything is now, or says it once more.
    if state:
        for frame in feed.snapshot():
            yield frame
    loop = asyncio.get_running_loop()
    bookmark_s = loop.time() + BOOKMARK_S
    while not stopping.is_set():
        if number < feed.first - 1:
            number = feed.last
            yield _lost(feed)
            if state:
                for frame in feed.snapshot():
                    yield frame
        number, chunk = _chunk(feed, number, state=state)
        if chunk:
            yield chunk
            # The more listen, the longer things are gathered: a burst costs all of them the same.
            await asyncio.sleep(max(PACE_S, len(gateway.streams) * SHARE_S))
        elif loop.time() >= bookmark_s:
            bookmark_s = loop.time() + BOOKMARK_S
            yield sse("bookmark", {"id": feed.id_of(number)})
        else:
            await _until_news(feed, number, stopping, bookmark_s - loop.time())
    yield sse("bye", {"reason": "draining", "retry_ms": RETRY_MS})


def _chunk(feed: LiveFeed, number: int, *, state: bool) -> tuple[int, bytes]:
    """What comes after ``number``, up to some bytes of it."""
    frames: list[bytes] = []
    size = 0
    for thing in feed.after(number):
        number = thing.number
        if state or not thing.state:
            frames.append(frame_of(thing))
            size += len(frames[-1])
            if size >= CHUNK:
                break
    return number, b"".join(frames)


async def _until_news(
    feed: LiveFeed, number: int, stopping: asyncio.Event, longest_s: float
) -> None:
    waits = {
        asyncio.ensure_future(feed.wait_beyond(number)),
        asyncio.ensure_future(stopping.wait()),
    }
    try:
        await asyncio.wait(waits, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _lost(feed: LiveFeed) -> bytes:
    text = "events between are gone; journals may have them: /v1/history/window"
    return sse("lost", {"node": None, "text": text}, number=feed.id_of(feed.last))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/events",
        events,
        "What happens at the nodes, as it happens.",
        None,
        (SINCE, LAST, flag("state", "How groups and nodes are as well, when it changes.")),
    ),
)
