"""Watching routes: who asks to be told of changes (19005), and who has heard enough (19007).

What is told of a topic is what a query is answered, with an etag: see ``told_route``.
"""

from collections.abc import Iterator
from itertools import islice

from routebook.handlers.order import ORDER_NAMESPACE
from routebook.handlers.routes import not_ready
from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.slicing import begun
from routebook.slices import Slices
from routebook.state.account import host_of
from routebook.state.errors import NoRoom
from routebook.watch.etags import NO_ROUTE, etag_of
from routebook.watch.hub import Watchers
from routebook.watch.kept_routes import Route
from routebook.watch.watcher import Watcher
from routebook.wire import watching
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.watching import Token, decode_unwatch, decode_watch

TOPICS_A_SLICE = 500
ENDED = Reply(ResponseCode.SYSTEM_ERROR, "the watch has ended")  # it was told so, with a reason


def watch(request: Command, services: Services, caller: Caller) -> HandlerResult:
    watchers = services.watchers
    if services.find_in_production is not None or watchers is None:
        return Reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "this node asks another cluster for routes it does not have, and offers no watch",
        )
    if not_ready(services):
        return Reply(ResponseCode.SYSTEM_ERROR, "name server not ready")
    if request.is_oneway:
        return Reply()  # nobody would know where the chain begins
    return begun(_watch(request.body, watchers, caller))


def _watch(body: bytes, watchers: Watchers, caller: Caller) -> Slices[Reply]:
    asked = yield from decode_watch(body)
    since = None if asked.since is None else Token.parse(asked.since)
    feed_since = None if asked.feed_since is None else Token.parse(asked.feed_since)
    watcher = watchers.find(caller.link)
    refusal = watchers.refusal(watcher, host_of(caller.peer), asked.topics)
    if refusal is not None:
        raise NoRoom(refusal)
    if watcher is None:
        watcher = watchers.open(caller.link, host_of(caller.peer))
    topics: Iterator[tuple[str, str]] = iter(asked.topics.items())
    while some := list(islice(topics, TOPICS_A_SLICE)):
        watchers.add(watcher, some)
        yield
        if watcher.ended:
            return ENDED
    fields = {"kind": watching.ADDED, "node": watchers.node, "boot": watchers.boot}
    if asked.feed:
        fields["seq"] = str(watchers.follow(watcher, feed_since))
    if watcher.begun:
        return Reply(ext_fields=fields | {"rev": str(watcher.rev)})
    reason = _reset(since, watchers)
    fields["kind"] = watching.RESUMED if reason is None else watching.RESET
    if reason is not None:
        fields["reason"] = reason
    return Reply(ext_fields=fields | {"rev": str(watchers.begin(watcher))})


def _reset(since: Token | None, watchers: Watchers) -> str | None:
    """Why what was told before is of no use to begin with; None when it is."""
    if since is None:
        return "new"
    if since.node != watchers.node:
        return "other_node"
    return None if since.boot == watchers.boot else "restarted"


def unwatch(request: Command, services: Services, caller: Caller) -> HandlerResult:
    topics = decode_unwatch(request.body)
    watchers = services.watchers
    watcher = None if watchers is None else watchers.find(caller.link)
    if watchers is None or watcher is None:
        return Reply(ext_fields={"topics": "0"})
    if topics is None:
        services.carry_on(watchers.end(caller.link))
        return Reply(ext_fields={"topics": "0"})
    return begun(_unwatch(topics, watcher, watchers))


def _unwatch(topics: list[str], watcher: Watcher, watchers: Watchers) -> Slices[Reply]:
    for first in range(0, len(topics), TOPICS_A_SLICE):
        watchers.drop(watcher, topics[first : first + TOPICS_A_SLICE])
        yield
        if watcher.ended:
            return ENDED
    return Reply(ext_fields={"topics": str(len(watcher.has))})


def told_route(topic: str, services: Services) -> Slices[Route]:
    """What watchers of ``topic`` are told now; of one that thousands of groups hold its etag."""
    live, renderer = services.live, services.renderer
    order_conf = services.kv.find(ORDER_NAMESPACE, topic) if live.order_message_enable else None
    total, width = yield from renderer.summed(topic, live=live, order_conf=order_conf)
    if not width:
        return Route(NO_ROUTE, watching.gone_entry(topic, services.absences.reason(topic)))
    etag = etag_of(total)
    body = None
    if not services.routes.topics.is_wide(topic):
        body = renderer.render(
            topic,
            services.routes.topics.queues(topic),
            standard=True,
            live=live,
            order_conf=order_conf,
        )
    return Route(etag, watching.route_entry(topic, etag, body), 2 * width)
