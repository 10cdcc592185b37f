"""``routebook watch``: routes as they change."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import click

from routebook.cli.completion import complete_topics
from routebook.cli.errors import Negative
from routebook.cli.loops import say_now
from routebook.cli.nameservers import Asking, asking_options, failure
from routebook.cli.output import json_option
from routebook.client import NameServerClient, NameServerError, TopicRoute
from routebook.client.changes import RouteChange, route_change
from routebook.client.errors import what
from routebook.client.routes import route_of
from routebook.client.watch import NotOffered, RouteTold, RouteWatch
from routebook.documents.routes import route_document
from routebook.plain import json_text, one_line, word
from routebook.wire.answers import decode_route
from routebook.wire.errors import BadBody
from routebook.wire.watching import MAX_TOPICS


@click.command()
@click.argument(
    "topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics
)
@json_option
@asking_options
def watch(asking: Asking, topics: tuple[str, ...], as_json: bool) -> None:
    """Print the routes of TOPICs, and each change within milliseconds, until Ctrl-C.

    One node tells of them. When it goes away another one does. Only Routebook's nodes do that; with
    others, `routebook route TOPIC --watch` looks again and again. (`routebook spark watch` is
    something else: it follows journals and raises alerts.)
    """
    if len(set(topics)) > MAX_TOPICS:
        raise click.UsageError(f"at most {MAX_TOPICS} topics can be watched")
    try:
        asking.run(lambda client: _Watch(client, topics, as_json=as_json).run())
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


class _Watch:
    def __init__(self, client: NameServerClient, topics: tuple[str, ...], *, as_json: bool) -> None:
        self._as_json = as_json
        self._client = client
        self._topics = dict.fromkeys(topics)
        self._routes: dict[str, TopicRoute | None] = {}
        self._synced = False
        self._lost = False
        self._failed: asyncio.Future[NameServerError] = asyncio.get_running_loop().create_future()
        self._asking: set[asyncio.Task[None]] = set()
        self._watch = RouteWatch(
            client, told=self._told, changed=self._changed, failed=self._note_failure
        )

    async def run(self) -> None:
        for topic in self._topics:
            self._watch.add(topic)
        watching = asyncio.create_task(self._watch.run())
        try:
            error = await self._failed
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if isinstance(error, NotOffered):
            raise Negative(
                f"{error.address} does not offer watch, as only Routebook's nodes do;"
                " `routebook route TOPIC --watch` looks again and again"
            )
        raise failure(error)

    # -- what is heard

    def _told(self, told: RouteTold) -> None:
        if told.gone is not None:
            self._routes[told.topic] = None
            reason = one_line(told.gone)
            self._say(
                told.topic,
                f"no route: {reason}",
                {"kind": "gone", "node": str(told.node), "reason": told.gone},
            )
        elif told.route is not None:
            try:
                route = route_of(told.topic, decode_route(told.route), told.node)
            except BadBody as error:
                self._say(told.topic, one_line(error), {"kind": "error", "error": str(error)})
                return
            self._show(route)
        else:  # too large to be told
            task = asyncio.create_task(self._ask(told.topic))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, topic: str) -> None:
        try:
            self._show(await self._client.route(topic))
        except NameServerError as error:
            self._say(topic, what(error), {"kind": "error", "error": what(error)})

    def _show(self, route: TopicRoute) -> None:
        change = route_change(self._routes.get(route.topic), route)
        self._routes[route.topic] = route
        if change is not None:
            self._say(route.topic, _sentence(change), _document(change))

    def _changed(self) -> None:
        if not self._watch.live:
            return
        if not self._synced:
            for topic in self._topics:
                if topic not in self._routes:
                    self._routes[topic] = None
                    node = str(self._watch.node)
                    self._say(topic, "no route yet", {"kind": "absent", "node": node})
        self._synced = True
        if self._lost:
            self._lost = False
            node = str(self._watch.node)
            self._say(None, f"{node} tells of changes now", {"kind": "told", "node": node})

    def _note_failure(self, error: NameServerError) -> None:
        if not self._synced:
            if not self._failed.done():
                self._failed.set_result(error)
        elif not self._lost:
            self._lost = True
            said = f"not told of changes, trying again: {one_line(error)}"
            self._say(None, said, {"kind": "lost", "error": str(error)})

    def _say(self, topic: str | None, text: str, document: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            say_now(json_text({"time": time, "topic": topic, **document}))
        elif topic is None:
            say_now(f"{time} {text}")
        else:
            say_now(f"{time} {word(topic)}: {text}")


def _sentence(change: RouteChange) -> str:
    return one_line("; ".join(map(str, change.changes)) or "no brokers")


def _document(change: RouteChange) -> dict[str, Any]:
    return {
        "kind": "route",
        "node": str(change.after.node),
        "changes": [str(each) for each in change.changes],
        "route": route_document(change.after),
    }
