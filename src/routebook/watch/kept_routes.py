"""KeptRoutes: what is told of topics, encoded once for all who watch them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from routebook.slices import Slices

KEPT_BYTES = 8 * 1024 * 1024
ENTRY_BYTES = 200  # beside its text


class Route(NamedTuple):
    """What is told of a topic; ``width`` is how many groups it was put together from."""

    etag: str
    entry: bytes
    width: int = 1


class KeptRoutes:
    """``route_of`` encodes what is told of a topic, in slices where that takes long."""

    def __init__(self, route_of: Callable[[str], Slices[Route]], max_bytes: int) -> None:
        self._route_of = route_of
        self._max_bytes = max_bytes
        self._routes: dict[str, Route] = {}
        self._bytes = 0
        self._forgotten = 0  # raised when something kept may have become wrong

    def find(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    def encoded(self, topic: str) -> Slices[Route]:
        """As the topic is now, for everybody who comes after as well."""
        forgotten = self._forgotten
        route = yield from self._route_of(topic)
        if forgotten != self._forgotten:
            return route  # it may have changed since it was begun
        size = len(route.entry) + ENTRY_BYTES
        if self._bytes + size > self._max_bytes:
            self.forget(None)
        self._routes[topic] = route
        self._bytes += size
        return route

    def forget(self, topics: Iterable[str] | None) -> None:
        """Some are no longer as they were; None: any may be."""
        if topics is None:
            self._forgotten += 1
            self._routes.clear()
            self._bytes = 0
        else:
            for topic in topics:
                self.drop(topic)

    def drop(self, topic: str) -> None:
        """Nobody is told of it any more, nor would be of a change."""
        self._forgotten += 1
        route = self._routes.pop(topic, None)
        if route is not None:
            self._bytes -= len(route.entry) + ENTRY_BYTES
