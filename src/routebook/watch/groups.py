"""GroupBook: which groups changed since when, and a digest of what clients are told of each.

Who looks every second wants to know what is new, and whether two nodes tell the same. A digest is a
sum of hashes, so that a change is a difference; of a group it has not met it is worked out in
slices, so many topics at a look. Nothing is kept until somebody looks for the first time.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple
from weakref import ref

from routebook.events import (
    Event,
    GroupEvent,
    GuardEngaged,
    GuardReleased,
    MappingsChanged,
    QueueChange,
    TopicsChanged,
)
from routebook.events import Kind as EventKind
from routebook.slices import Slices
from routebook.state.model import Group
from routebook.state.routes import RouteTable
from routebook.watch.etags import etag_of

TOPICS_A_SLICE = 500
TOPICS_A_LOOK = 30_000  # are hashed; digests of the rest follow with the next looks
MOST_PENDING = 5_000  # changes of a group between two looks; beyond it all is hashed anew
MOST_GONE = 10_000
HELD_LOOKS = 20  # for which a group that was held is told again: several may look
UNKNOWN = ""

Key = tuple[str, str]  # cluster and broker name


class Changed(NamedTuple):
    """``full``: these are all groups there are; else those that changed since, or are gone."""

    full: bool
    groups: list[Group]
    gone: list[Key]


class _Page:
    """What is known of one group."""

    __slots__ = ("group", "mappings", "mappings_known", "pending", "stale", "topics")

    def __init__(self, group: Group) -> None:
        self.group = ref(group)
        self.topics = 0  # the sum of the hashes of all topics
        self.mappings = 0
        self.mappings_known = False
        self.stale = True  # the sum has to be made anew
        self.pending: list[QueueChange] = []  # not in the sum yet

    def note(self, changes: tuple[QueueChange, ...]) -> None:
        if not self.stale:
            self.pending += changes
            if len(self.pending) > MOST_PENDING:
                self.stale = True
                self.pending.clear()


class GroupBook:
    def __init__(self, routes: RouteTable, revision: Callable[[], int]) -> None:
        self._routes = routes
        self._revision = revision
        self._pages: dict[Key, _Page] = {}
        self._changed: dict[Key, int] = {}  # and at which revision; the latest are last
        self._owed: set[Key] = set()  # whose digest somebody waits for
        self._held: dict[Key, int] = {}  # with members the guard holds, or did so many looks ago
        self._from: int | None = None  # what changed after it is known; None: nobody has looked
        self._hashed = 0

    def note(self, event: Event) -> None:
        """Any event, after what it tells of has been done."""
        if self._from is None:
            return
        if isinstance(event, GroupEvent) and event.kind is EventKind.CHANGE:
            key = (event.cluster, event.broker)
            self._changed.pop(key, None)
            self._changed[key] = event.revision
            page = self._pages.get(key)
            if page is None:
                return
            if isinstance(event, TopicsChanged):
                page.note(event.changes)
            elif isinstance(event, MappingsChanged):
                page.mappings_known = False
        elif isinstance(event, GuardEngaged | GuardReleased):
            self._from = event.revision  # any of them may be held now, or be so no longer
            self._changed.clear()

    def look(self, since: int | None) -> Changed:
        """What there is to be told to somebody who knows everything up to ``since``."""
        if self._from is None:
            self._from = self._revision()
        self._hashed = 0
        self._forget_gone()
        held = self._note_held()
        members = self._routes.members
        if since is None or since < self._from:
            return Changed(True, [group for group in members.groups() if group.members], [])
        keys: dict[Key, None] = {}
        for key, revision in reversed(self._changed.items()):
            if revision <= since:
                break
            keys[key] = None
        keys.update(dict.fromkeys(self._owed))
        keys.update(dict.fromkeys(held))
        found = [(key, members.find_group(*key)) for key in keys]
        return Changed(
            False,
            [group for _, group in found if group is not None and group.members],
            [key for key, group in found if group is None or not group.members],
        )

    def _note_held(self) -> Iterable[Key]:
        """Groups to be told again: that a held broker is heard of once more is no event."""
        held = {(m.group.cluster, m.group.name): 0 for m in self._routes.guard.held}
        before = {key: looks + 1 for key, looks in self._held.items() if looks < HELD_LOOKS}
        self._held = before | held
        return self._held

    def _forget_gone(self) -> None:
        """Bound what is known of groups that are no more."""
        members = self._routes.members
        if len(self._changed) > MOST_GONE:
            for key in list(islice(self._changed, len(self._changed) - MOST_GONE)):
                self._from = self._changed.pop(key)
        if len(self._pages) > 2 * sum(1 for _ in members.groups()) + 16:
            there = {(group.cluster, group.name) for group in members.groups()}
            self._pages = {key: page for key, page in self._pages.items() if key in there}
            self._owed &= there

    def changed_at(self, group: Group) -> int:
        """The revision of the last change of a group that is known."""
        return self._changed.get((group.cluster, group.name), self._from or 0)

    def digest(self, group: Group, told: bytes) -> Slices[str]:
        """Of what clients are told of ``group``, ``told`` of its members; UNKNOWN: not yet."""
        key = (group.cluster, group.name)
        page = self._pages.get(key)
        if page is None or page.group() is not group:
            page = self._pages[key] = _Page(group)
        if self._hashed > TOPICS_A_LOOK:
            if page.stale or page.pending:
                self._owed.add(key)
                return UNKNOWN
        elif page.stale:
            if not (yield from self._sum_up(page, group)):
                self._owed.add(key)
                return UNKNOWN
        elif page.pending:
            pending, page.pending = page.pending, []
            self._hashed += len(pending)
            page.topics += sum(_difference(pending))
        if not page.mappings_known:
            page.mappings_known = True
            page.mappings = sum(
                _hashed(repr((*each[:-1], len(each.curr_id_map))))
                for each in self._routes.topics.mappings_of(group)
            )
        self._owed.discard(key)
        return etag_of(page.topics + page.mappings + int.from_bytes(_hash(told)))

    def _sum_up(self, page: _Page, group: Group) -> Slices[bool]:
        """Make the sum of a group anew; False: it changed meanwhile."""
        page.stale, page.pending, total = False, [], 0
        topics, names = self._routes.topics, iter(list(group.registered))
        while some := list(islice(names, TOPICS_A_SLICE)):
            for topic in some:
                shape = topics.told(topic, group)
                if shape is not None:
                    total += _of_topic(topic, shape)
            self._hashed += len(some)
            yield
            if page.stale or page.pending:
                page.stale, page.pending = True, []
                return False
        page.topics = total
        return True


def _difference(changes: Iterable[QueueChange]) -> Iterator[int]:
    for topic, before, after, _ in changes:
        if after is not None:
            yield _of_topic(topic, after)
        if before is not None:
            yield -_of_topic(topic, before)


def _of_topic(topic: str, shape: Iterable[int]) -> int:
    return _hashed("\0".join((topic, *map(str, shape))))


def _hashed(text: str) -> int:
    return int.from_bytes(_hash(text.encode("utf-8", "surrogatepass")))


def _hash(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).digest()
