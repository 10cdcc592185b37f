"""What a route cache knows of one topic. Told the time, asks nobody."""

import random
from dataclasses import dataclass, replace
from hashlib import blake2b

from routebook.client.changes import RouteChange, route_change
from routebook.client.errors import BadAnswer, NameServerError, TopicNotFound
from routebook.client.faults import FaultTable
from routebook.client.node import Answer
from routebook.client.picker import QueuePicker
from routebook.client.queues import BadRoute, MessageQueue, check_route, subscribe_queues
from routebook.client.routes import TopicRoute, route_of
from routebook.wire.answers import decode_route
from routebook.wire.errors import BadBody


class NotCached(LookupError):
    """No route of the topic is known yet: ``await cache.route(topic)`` comes first."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"no route of {self.topic!r} is known yet"


@dataclass(frozen=True, slots=True)
class CachedRoute:
    """A route and how far to trust it.

    ``age_s`` is the time since a NameServer last said so. ``missing_since`` is when, by the clock
    of the cache, they began to say that the topic does not exist; ``last_error`` is why the last
    question got no route. Both are None when it got one.
    """

    route: TopicRoute
    age_s: float
    missing_since: float | None = None
    last_error: NameServerError | None = None


@dataclass(slots=True, eq=False)
class Entry:
    """A good route is replaced by a better one only, never by an error. Times are in seconds."""

    topic: str
    kept: bool = False  # in use also while it has no route
    asked_at: float | None = None
    route: TopicRoute | None = None
    changed_at: float = 0.0
    confirmed_at: float = 0.0
    missing_since: float | None = None
    last_error: NameServerError | None = None
    _digest: bytes = b""  # of the body the route was read from
    _picker: QueuePicker | None = None
    _subscribe: tuple[MessageQueue, ...] | None = None

    def learn(self, answer: Answer, now: float) -> RouteChange | None:
        """Take over the route in ``answer``; what is new in it, if anything.

        Raises BadAnswer when it holds none.
        """
        change = None
        # Most answers repeat the last one, and comparing digests costs far less than decoding.
        digest = blake2b(answer.command.body, digest_size=16).digest()
        if self.route is None or digest != self._digest:
            route = _decoded(self.topic, answer)
            change = route_change(self.route, route)
            self.route, self._digest = route, digest
        elif self.route.node != answer.node:
            self.route = replace(self.route, node=answer.node)
        if change is not None:
            self.changed_at = now
            self._picker = self._subscribe = None
        self.confirmed_at = now
        self.missing_since = self.last_error = None
        return change

    def fail(self, error: NameServerError, now: float) -> None:
        """Remember why the last question got no route."""
        self.last_error = error
        if isinstance(error, TopicNotFound) and self.missing_since is None:
            self.missing_since = now

    def cached(self, now: float) -> CachedRoute | None:
        """None before the first route."""
        if self.route is None:
            return None
        age_s = now - self.confirmed_at
        return CachedRoute(self.route, age_s, self.missing_since, self.last_error)

    def known_route(self) -> TopicRoute:
        """Raises NotCached before the first route."""
        if self.route is None:
            raise NotCached(self.topic)
        return self.route

    def picker(self, rng: random.Random, faults: FaultTable | None) -> QueuePicker:
        """The one for the route there is now. Raises NotCached."""
        if self._picker is None:
            self._picker = QueuePicker(self.known_route(), rng, faults=faults)
        return self._picker

    def subscribe_queues(self) -> tuple[MessageQueue, ...]:
        """Raises NotCached."""
        if self._subscribe is None:
            self._subscribe = subscribe_queues(self.known_route())
        return self._subscribe


def _decoded(topic: str, answer: Answer) -> TopicRoute:
    try:
        route = route_of(topic, decode_route(answer.command.body), answer.node)
        check_route(route)
    except (BadBody, BadRoute) as error:
        raise BadAnswer(answer.node, str(error)) from error
    return route
