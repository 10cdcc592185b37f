"""Topics: the queues that brokers have for them, and who asked for them."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, TypeVar

from routebook.events.event import Event, GroupEvent, Kind

Shape = tuple[int, int, int, int]  # read queues, write queues, perm, flags


class QueueChange(NamedTuple):
    """One topic on one broker, as clients are told; None for absent.

    ``registered`` is what the broker said of it, where that is something else.
    """

    topic: str
    before: Shape | None
    after: Shape | None
    registered: Shape | None = None


class StaticMapping(NamedTuple):
    """Which logical queues of a static topic one broker holds: logical id, queue id."""

    topic: str
    bname: str
    total_queues: int
    epoch: int
    scope: str | None
    dirty: bool
    curr_id_map: tuple[tuple[int, int], ...]


class QueryCount(NamedTuple):
    """How often a topic was asked for: answered, not known, and while the node was not ready."""

    topic: str
    known: int
    unknown: int
    not_ready: int


_Listed = TypeVar("_Listed", QueueChange, StaticMapping, QueryCount)


def of_topic(topic: str | None, listed: tuple[_Listed, ...]) -> tuple[_Listed, ...]:
    return tuple(item for item in listed if item.topic == topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged(GroupEvent):
    """Queues a group has for its topics changed. One event for each slice of a registration."""

    only_topics: ClassVar[bool] = True

    changes: tuple[QueueChange, ...]

    def is_about_topic(self, topic: str) -> bool:
        return bool(of_topic(topic, self.changes))

    def narrowed(self, topic: str | None) -> Self:
        return replace(self, changes=of_topic(topic, self.changes))

    def for_clients(self) -> Self:
        """Without what only the broker says otherwise, and clients are told as before."""
        changes = tuple(change for change in self.changes if change.before != change.after)
        return replace(self, changes=changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingsChanged(GroupEvent):
    """Static topic mappings announced by a group. They go with their topic, or their group."""

    only_topics: ClassVar[bool] = True

    mappings: tuple[StaticMapping, ...]

    def is_about_topic(self, topic: str) -> bool:
        return bool(of_topic(topic, self.mappings))

    def narrowed(self, topic: str | None) -> Self:
        return replace(self, mappings=of_topic(topic, self.mappings))


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteQueries(Event):
    """Route queries of one window. ``others`` are those of topics too many to list."""

    kind: ClassVar[Kind] = Kind.WINDOW
    only_topics: ClassVar[bool] = True

    window_ms: int
    topics: tuple[QueryCount, ...]
    others: int

    def is_about_topic(self, topic: str) -> bool:
        return bool(of_topic(topic, self.topics))

    def narrowed(self, topic: str | None) -> Self:
        return replace(self, topics=of_topic(topic, self.topics), others=0)
