"""TouchedTopics: which topics an event may have changed, of those that somebody watches.

An event about topics names them. One about the members of a group means all topics of the group: a
walk, from the smaller side, over what the group has or what is watched, some at a time. Until an
event's topics are marked, nothing newer than what came before it is settled.

A registration of many topics comes in slices, an event each. Its topics are held until it is
complete, or for 200 ms, so that a watcher of many of them is told once.

Events may come faster than their topics are marked, and whoever makes them come is not asked
whether others watch. So walks that wait are joined: all topics that are named are in one, a group
has one however often it changes, and when groups that wait have more topics than are watched, one
walk over all that is watched takes the place of theirs.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    ConfigChanged,
    Event,
    KvChanged,
    MappingsChanged,
    QueueChange,
    RegistrationCompleted,
    TopicsChanged,
)
from routebook.state.model import PERM_WRITE

HOLD_MS = 200
LOOKED_AT_A_SLICE = 2000
MAX_WAITING = 20_000  # topics of groups, or as many as are watched
_PERM = 2  # where it is in a shape

GroupName = tuple[str, str]  # cluster and name


class Walk:
    """Topics to be marked for events from ``revision`` on, those that are watched."""

    def __init__(self, revision: int, topics: Collection[str], *, loss: bool) -> None:
        self.revision = revision
        self.topics = topics
        self.loss = loss
        self.begun = False
        self.size = 0  # topics that are kept from being forgotten while it waits

    def slices(self, watched: Mapping[str, object]) -> Iterator[list[str]]:
        """As they are when the walk begins; what comes to them later has events of its own."""
        ours = self.topics
        looked_at, wanted = (ours, watched) if len(ours) <= len(watched) else (watched, ours)
        topics = iter(list(looked_at))
        while some := list(islice(topics, LOOKED_AT_A_SLICE)):
            yield [topic for topic in some if topic in wanted]


class _Walks:
    """Walks that wait, by revision; those that can be joined before they begin are."""

    def __init__(self, watched: Mapping[str, object], *, loss: bool) -> None:
        self._watched = watched
        self._loss = loss
        self._waiting: deque[Walk] = deque()
        self._by_topics: dict[int, Walk] = {}  # walks of groups, by the id of their topics
        self._named: dict[str, None] | None = None  # topics of the walk that more can be added to
        self._first: Walk | None = None  # of topics that were held; before all others
        self._first_topics: dict[str, None] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def revision(self) -> int | None:
        """Of the first event whose topics are not all marked."""
        return self._waiting[0].revision if self._waiting else None

    def add(self, revision: int, topics: Collection[str]) -> None:
        """``topics`` of a group, or all that are watched, as they are when it begins."""
        if self._has_everything or id(topics) in self._by_topics:
            return
        walk = self._append(revision, topics)
        self._by_topics[id(topics)] = walk
        if topics is not self._watched:
            walk.size = len(topics)
            self._size += walk.size
            if len(self._by_topics) > 1 and self._size > max(MAX_WAITING, len(self._watched)):
                self._join_all()

    def name(self, revision: int, topics: Iterable[str]) -> None:
        if self._has_everything:
            return
        if self._named is None:
            self._named = {}
            self._append(revision, self._named)
        self._named.update(dict.fromkeys(topics))

    def put_first(self, revision: int, topics: dict[str, None]) -> None:
        """What was held comes before all others, which are not settled before it is."""
        if self._waiting:
            revision = min(revision, self._waiting[0].revision)
        if self._first is None:
            self._first_topics = topics
            self._first = Walk(revision, topics, loss=self._loss)
            self._waiting.appendleft(self._first)
        else:
            self._first.revision = revision
            self._first_topics.update(topics)

    def take(self) -> Walk | None:
        if not self._waiting:
            return None
        walk = self._waiting[0]
        walk.begun = True
        self._size, walk.size = self._size - walk.size, 0
        self._by_topics.pop(id(walk.topics), None)
        if walk.topics is self._named:
            self._named = None
        if walk is self._first:
            self._first = None
        return walk

    def done(self, walk: Walk) -> None:
        self._waiting.remove(walk)  # others that were put first meanwhile may stand before it

    @property
    def _has_everything(self) -> bool:
        return id(self._watched) in self._by_topics

    def _append(self, revision: int, topics: Collection[str]) -> Walk:
        walk = Walk(revision, topics, loss=self._loss)
        self._waiting.append(walk)
        return walk

    def _join_all(self) -> None:
        """One walk over everything, for all that wait in their order."""
        stay = [walk for walk in self._waiting if walk.begun or walk is self._first]
        joined = [walk for walk in self._waiting if walk not in stay]
        self._waiting = deque(stay)
        self._by_topics, self._named, self._size = {}, None, 0
        self.add(joined[0].revision, self._watched)


class _Held:
    """Topics of a registration that is not complete."""

    def __init__(self, revision: int, until_ms: int) -> None:
        self.revision = revision
        self.until_ms = until_ms
        self.topics: dict[str, None] = {}


class TouchedTopics:
    """``watched`` are the topics of all watchers, ``topics_of`` those a group has, or had.

    ``forget`` is told at once what is no longer as it was: some topics, or None for any.
    """

    def __init__(
        self,
        watched: Mapping[str, object],
        topics_of: Callable[[str, str], Collection[str]],
        forget: Callable[[Iterable[str] | None], None],
    ) -> None:
        self._watched = watched
        self._topics_of = topics_of
        self._forget = forget
        self._losses = _Walks(watched, loss=True)  # which come first
        self._walks = _Walks(watched, loss=False)
        self._held: dict[GroupName, _Held] = {}

    def __bool__(self) -> bool:
        """Whether there are topics to be marked now."""
        return bool(self._losses or self._walks)

    def settled(self, revision: int) -> int:
        """Of all that happened up to ``revision``: up to where every topic is marked."""
        if not (self._held or self._losses or self._walks):
            return revision
        unsettled = [held.revision for held in self._held.values()]
        unsettled += [
            walks.revision for walks in (self._losses, self._walks) if walks.revision is not None
        ]
        return min(unsettled) - 1 if unsettled else revision

    def note(self, event: Event, now_ms: int) -> None:
        if not self._watched:
            return
        if isinstance(event, TopicsChanged):
            self._note_topics(event, now_ms)
        elif isinstance(event, BrokerRegistered | BrokerUpdated | BrokerLeft):
            self._forget(None)
            loss = isinstance(event, BrokerLeft)
            self._walk(event.revision, self._topics_of(*event.group), loss=loss)
        elif isinstance(event, RegistrationCompleted):
            self._release(event.group)
        elif isinstance(event, MappingsChanged):
            self._name(event.revision, [mapping.topic for mapping in event.mappings])
        elif isinstance(event, KvChanged):
            self._name(event.revision, [event.key])
        elif isinstance(event, ConfigChanged):
            self._forget(None)
            self._walk(event.revision, self._watched, loss=False)

    def _note_topics(self, event: TopicsChanged, now_ms: int) -> None:
        watched = self._watched
        changes = [c for c in event.changes if c.topic in watched and c.before != c.after]
        lost = [change.topic for change in changes if _is_loss(change)]
        changed = [change.topic for change in changes if not _is_loss(change)]
        self._name(event.revision, lost, loss=True)
        # One topic alone is not the slice of a large registration.
        if event.cause is not Cause.REGISTER or len(event.changes) == 1:
            self._name(event.revision, changed)
        elif changed:
            self._forget(changed)
            held = self._held.get(event.group)
            if held is None:
                held = self._held[event.group] = _Held(event.revision, now_ms + HOLD_MS)
            held.topics.update(dict.fromkeys(changed))

    def _name(self, revision: int, topics: list[str], *, loss: bool = False) -> None:
        topics = [topic for topic in topics if topic in self._watched]
        self._forget(topics)
        if topics:
            self._walks_of(loss=loss).name(revision, topics)

    def _walk(self, revision: int, topics: Collection[str], *, loss: bool) -> None:
        if topics:
            self._walks_of(loss=loss).add(revision, topics)

    def _walks_of(self, *, loss: bool) -> _Walks:
        return self._losses if loss else self._walks

    def _release(self, group: GroupName) -> None:
        held = self._held.pop(group, None)
        if held is not None:
            self._walks.put_first(held.revision, held.topics)

    def release_due(self, now_ms: int) -> None:
        """Hold no registration longer than it may be."""
        if self._held:
            for group in [g for g, held in self._held.items() if held.until_ms <= now_ms]:
                self._release(group)

    def next_ms(self) -> int | None:
        """When something held is due next."""
        return min((held.until_ms for held in self._held.values()), default=None)

    def take(self) -> Walk | None:
        """The next walk, which nothing is settled after until it is ``done``."""
        return (self._losses or self._walks).take()

    def done(self, walk: Walk) -> None:
        self._walks_of(loss=walk.loss).done(walk)


def _is_loss(change: QueueChange) -> bool:
    """Whether something that could be used before cannot be now."""
    if change.before is None or change.after is None:
        return change.after is None
    return bool(change.before[_PERM] & PERM_WRITE and not change.after[_PERM] & PERM_WRITE)
