"""Watchers: all who watch, the topics they watch, and whose turn it is to be told something.

    events ──► TouchedTopics ──► topics to be marked ──► dirty sets ──► batches ──► frames

``note`` costs next to nothing, and nothing at all while nobody watches. The rest is done in
``work``: a generator that gives frames to be sent, and None where others may have a turn. It is
told the time by ``now_ms`` and sends nothing itself.

A watcher is in one of these places:

* nowhere: it has everything, and waits for a change or for a bookmark;
* ``_paced``: something changed less than 50 ms after it was told everything;
* ``_ready``: its turn comes, for one frame;
* ``_unfinished``: that frame did not take all of its batch. A turn in sixteen is for these, and
  all that others leave: who begins with ten thousand topics keeps nobody waiting;
* ``_parked``: it does not read. What changes is marked, and told when it reads again.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from routebook.deadlines import Deadlines
from routebook.events import Event
from routebook.histogram import Histogram
from routebook.journal.record import Record
from routebook.slices import Slices
from routebook.state import costs
from routebook.state.account import Account, Kind
from routebook.state.model import Link
from routebook.watch.feed import MAX_BYTES as FEED_BYTES
from routebook.watch.feed import Feed
from routebook.watch.kept_routes import KEPT_BYTES, KeptRoutes, Route
from routebook.watch.touched_topics import TouchedTopics
from routebook.watch.watcher import Watcher
from routebook.wire import watching
from routebook.wire.watching import MAX_TOPICS, Token

PACE_MS = 50
BOOKMARK_MS = 15_000
LOOK_AGAIN_MS = 1000  # whether one who lacks something has everything by now
SLOW_MS = 30_000
FRAME_BYTES = 64 * 1024
FRAME_TOPICS = 500
TURNS = 16  # of watchers, between looks at what else there is to do; the last for the unfinished
DUE_A_SLICE = 500
GROUPS_A_SLICE = 300  # whose parts of routes are put together
MARKED_A_SLICE = 1000  # watchers
SPREAD_MS = 500  # over which watchers of a node that stops come back, and for each two 1 ms more


class Frame(NamedTuple):
    """To be sent to the watcher on ``link``, its ``first`` or its ``last`` one."""

    link: Link
    data: bytes
    first: bool = False
    last: bool = False


@dataclass(slots=True)
class Counts:
    """For health and metrics."""

    frames: int = 0
    routes: int = 0
    slow: int = 0
    refused: int = 0


class Watchers:
    """``route_of`` encodes what is told of a topic, in slices where that takes long."""

    def __init__(
        self,
        *,
        node: str,
        boot: str,
        revision: Callable[[], int],
        route_of: Callable[[str], Slices[Route]],
        topics_of: Callable[[str, str], Collection[str]],
        last_seq: Callable[[], int],
        now_ms: Callable[[], int],
        account: Account | None = None,
        max_kept: int = KEPT_BYTES,
        max_feed: int = FEED_BYTES,
        rng: random.Random | None = None,
    ) -> None:
        self.node = node
        self.boot = boot
        self.feed = Feed(last_seq, max_feed)
        self.counts = Counts()
        self.wake: Callable[[], None] = lambda: None  # there may be work
        self._revision = revision
        self.now_ms = now_ms
        self._account = account or Account()
        self._rng = rng or random.Random()
        self._watchers: dict[Link, Watcher] = {}
        self._by_topic: dict[str, dict[Watcher, None]] = {}
        self._names: dict[str, str] = {}  # of those topics, each held once
        self._routes = KeptRoutes(route_of, max_kept)
        self._touched = TouchedTopics(self._by_topic, topics_of, self._routes.forget)
        # A plain dict steps over all that was taken from its head to find the next.
        self._ready: OrderedDict[Watcher, None] = OrderedDict()
        self._unfinished: OrderedDict[Watcher, None] = OrderedDict()
        self._paced: Deadlines[Watcher, int] = Deadlines()
        self._bookmarks: Deadlines[Watcher, int] = Deadlines()
        self._parked: Deadlines[Watcher, int] = Deadlines()
        self._followers: dict[Watcher, None] = {}
        self._fed = False  # there are events that they do not have a turn for yet
        self._stopping = False
        self._noted_ms: int | None = None  # the first change that not all were told yet
        self.delivered = Histogram()  # how long it took until all were told
        self.telling: Link | None = None  # whose frame is being made

    def __len__(self) -> int:
        return len(self._watchers)

    # -- who watches what

    def find(self, link: Link) -> Watcher | None:
        return self._watchers.get(link)

    def refusal(self, watcher: Watcher | None, host: str, topics: Collection[str]) -> str | None:
        """Why ``topics`` more cannot be watched, in one sentence; None when they can."""
        has = watcher.has if watcher is not None else {}
        new = [topic for topic in topics if topic not in has]
        if self._stopping:
            reason: str | None = "this node is stopping"
        elif len(has) + len(new) > MAX_TOPICS:
            reason = f"one connection watches at most {MAX_TOPICS} topics"
        else:
            cost = costs.WATCHED * len(new) + costs.texts(new)
            cost += costs.WATCHER if watcher is None else 0
            reason = self._account.refusal(host, cost)
        self.counts.refused += reason is not None
        return reason

    def open(self, link: Link, host: str) -> Watcher:
        """A watcher without topics, which is told nothing before it has ``begun``."""
        watcher = self._watchers[link] = Watcher(link, host)
        self._charge(watcher, costs.WATCHER)
        return watcher

    def add(self, watcher: Watcher, topics: Iterable[tuple[str, str]]) -> None:
        """Let it watch ``topics``, of which it has these etags."""
        for name, etag in topics:
            topic = self._names.setdefault(name, name)  # thousands may watch the same one
            if topic not in watcher.has:
                self._charge(watcher, costs.WATCHED + costs.text(topic))
                self._by_topic.setdefault(topic, {})[watcher] = None
            watcher.has[topic] = etag
            watcher.mark(topic, loss=False)
        self._schedule(watcher)

    def follow(self, watcher: Watcher, since: Token | None) -> int:
        """Let it be told events, those after ``since`` if they are there; after which number."""
        self.feed.begin()
        if watcher.cursor is None:
            ours = since is not None and (since.node, since.boot) == (self.node, self.boot)
            at = since.at if since is not None and ours else self.feed.last
            watcher.cursor = min(at, self.feed.last)
            self._followers[watcher] = None
        self._schedule(watcher)
        return watcher.cursor

    def begin(self, watcher: Watcher) -> int:
        """Its WATCH is answered now; the revision the chain begins with."""
        watcher.begun = True
        watcher.rev = self._touched.settled(self._revision())
        self._schedule(watcher)
        return watcher.rev

    def drop(self, watcher: Watcher, topics: Iterable[str]) -> None:
        """Let it watch ``topics`` no longer."""
        for topic in topics:
            if watcher.has.pop(topic, None) is not None:
                watcher.unmark(topic)
                self._leave(watcher, topic)

    def end(self, link: Link) -> Slices[None]:
        """Forget the watcher on ``link``, which is gone at once; its topics go in slices."""
        watcher = self._watchers.pop(link, None) or Watcher(link, "")
        watcher.ended = True
        for those in (self._ready, self._unfinished, self._followers):
            those.pop(watcher, None)
        for deadlines in (self._paced, self._bookmarks, self._parked):
            deadlines.drop(watcher)
        return self._clear(watcher)

    def _clear(self, watcher: Watcher) -> Slices[None]:
        topics = iter(watcher.has)
        while some := list(islice(topics, MARKED_A_SLICE)):
            for topic in some:
                self._leave(watcher, topic)
            yield
        self._charge(watcher, -watcher.cost)

    def _leave(self, watcher: Watcher, topic: str) -> None:
        watchers = self._by_topic[topic]
        del watchers[watcher]
        if not watchers:
            del self._by_topic[topic], self._names[topic]
            self._routes.drop(topic)
        self._charge(watcher, -costs.WATCHED - costs.text(topic))

    def _charge(self, watcher: Watcher, amount: int) -> None:
        watcher.cost += amount
        self._account.charge(Kind.WATCHES, watcher.host, amount)

    # -- what happens

    def note(self, event: Event) -> None:
        """An event that may change routes."""
        if self._by_topic:
            now_ms = self.now_ms()
            if self._noted_ms is None:
                self._noted_ms = now_ms
            self._touched.note(event, now_ms)
            self.wake()

    def record(self, record: Record) -> None:
        """Any event, as it was recorded."""
        if self.feed.begun:
            self.feed.add(record)
            self._fed = True
            self.wake()

    def park(self, link: Link) -> None:
        """It does not read: nothing is told until it does."""
        watcher = self._watchers.get(link)
        if watcher is not None and not watcher.parked:
            watcher.parked = True
            self._ready.pop(watcher, None)
            self._unfinished.pop(watcher, None)
            self._parked.set(watcher, self.now_ms() + SLOW_MS)
            self.wake()

    def unpark(self, link: Link) -> None:
        """It reads again."""
        watcher = self._watchers.get(link)
        if watcher is not None and watcher.parked:
            watcher.parked = False
            self._parked.drop(watcher)
            self._schedule(watcher)

    def _schedule(self, watcher: Watcher) -> None:
        """Give it a turn when it may have one, if there is anything to tell."""
        if not watcher.begun or watcher.parked:
            return
        if watcher in self._ready or watcher in self._unfinished:
            return
        if not (watcher.dirty or not watcher.synced or self._has_events(watcher)):
            return
        at = None if watcher.told_ms is None else watcher.told_ms + PACE_MS
        if at is None or at <= self.now_ms():
            self._ready[watcher] = None
        elif watcher not in self._paced:
            self._paced.set(watcher, at)
        self.wake()

    def _has_events(self, watcher: Watcher) -> bool:
        return watcher.cursor is not None and watcher.cursor < self.feed.last

    # -- telling

    def next_ms(self) -> int | None:
        """When there is work that time brings; None when none is planned."""
        times = (
            self._paced.next_at(),
            self._bookmarks.next_at(),
            self._parked.next_at(),
            self._touched.next_ms(),
        )
        return min((at for at in times if at is not None), default=None)

    def work(self) -> Iterator[Frame | None]:
        """All that can be done now. None: others may have a turn before it goes on."""
        while True:
            now_ms = self.now_ms()
            self._touched.release_due(now_ms)
            yield from self._due(now_ms)
            if (walk := self._touched.take()) is not None:
                slices = walk.slices(self._by_topic)
                topics = next(slices, None)
                while topics is not None:
                    yield from self._mark(topics, loss=walk.loss)
                    topics = next(slices, None)
                    if topics is not None:
                        yield from self._a_turn(self._ready)
                self._touched.done(walk)
            elif not (self._ready or self._unfinished or self._fed):
                self._note_told(self.now_ms())
                return
            if self._fed:
                yield from self._feed_followers()
            for _ in range(TURNS - 1):
                yield from self._a_turn(self._ready)
                if not self._ready:
                    break
            else:
                yield from self._a_turn(self._unfinished)

    def _note_told(self, now_ms: int) -> None:
        """Nobody is left who could be told now: note how long the first change waited."""
        later = (self._paced.next_at(), self._touched.next_ms())
        if self._noted_ms is not None and later == (None, None):
            self.delivered.add((now_ms - self._noted_ms) / 1000)
            self._noted_ms = None

    def _a_turn(self, those: OrderedDict[Watcher, None]) -> Iterator[Frame | None]:
        """A frame for the first of ``those``, or where there is none, of the others."""
        waiting = those or self._ready or self._unfinished
        if waiting:
            watcher, _ = waiting.popitem(last=False)
            frame = self._told_at_once(watcher)
            if frame is not None:
                yield frame
            else:
                yield from self._told(watcher)
        else:
            yield None

    def _due(self, now_ms: int) -> Iterator[Frame | None]:
        """What time has brought."""
        for watcher in self._paced.due(now_ms + 1, DUE_A_SLICE):
            if not watcher.parked and watcher not in self._unfinished:
                self._ready[watcher] = None
        for watcher in self._parked.due(now_ms + 1, DUE_A_SLICE):
            if not watcher.ended:
                self.counts.slow += 1
                yield self._bye(watcher, watching.SLOW, 0)
        for watcher in self._bookmarks.due(now_ms + 1, DUE_A_SLICE):
            if watcher.ended:
                continue
            has_all = watcher.synced and not watcher.dirty and not watcher.parked
            self._bookmarks.set(watcher, now_ms + (BOOKMARK_MS if has_all else LOOK_AGAIN_MS))
            if has_all:
                yield self._frame(watcher, watching.BOOKMARK)

    def _feed_followers(self) -> Iterator[None]:
        """Give turns to those who follow the events, some of thousands at a time."""
        self._fed = False
        followers = iter(list(self._followers))
        while some := list(islice(followers, MARKED_A_SLICE)):
            for watcher in some:
                if not watcher.ended:
                    self._schedule(watcher)
            yield None

    def _mark(self, topics: list[str], *, loss: bool) -> Iterator[None]:
        marked = 0
        for topic in topics:
            watchers = iter(list(self._by_topic.get(topic, ())))
            while some := list(islice(watchers, MARKED_A_SLICE)):
                for watcher in some:
                    if topic in watcher.has and not watcher.ended:
                        watcher.mark(topic, loss=loss)
                        self._schedule(watcher)
                marked += len(some)
                if marked >= MARKED_A_SLICE:
                    marked = 0
                    yield None

    def _told_at_once(self, watcher: Watcher) -> Frame | None:
        """The frame of one topic whose entry is kept, where nothing else is to be told.

        When ten thousand watch one topic this is what each of them gets. It says what ``_told``
        would, in a third of the time.
        """
        topic = watcher.only_topic() if watcher.synced and watcher.cursor is None else None
        route = None if topic is None else self._routes.find(topic)
        if topic is None or route is None or watcher.has[topic] == route.etag:
            return None
        self.telling = watcher.link
        watcher.unmark(topic)
        watcher.has[topic] = route.etag
        watcher.told_ms = self.now_ms()
        self.counts.routes += 1
        return self._frame(watcher, watching.ROUTES, b"[%b]" % route.entry)

    def _told(self, watcher: Watcher) -> Iterator[Frame | None]:
        """One frame of what the watcher was not told yet, and its next turn."""
        self.telling = watcher.link
        if not watcher.batch:
            watcher.begin_batch()
        rev = self._touched.settled(self._revision())
        entries = yield from self._entries(watcher)
        if watcher.ended:
            return
        if entries:
            self.counts.routes += len(entries)
            watcher.told_ms = self.now_ms()
            yield self._frame(watcher, watching.ROUTES, watching.listed(entries), rev=rev)
        if watcher.batch:
            if not watcher.parked:
                self._unfinished[watcher] = None
            return
        if self._has_events(watcher):
            yield from self._events(watcher)
        if watcher.ended:
            return
        if not watcher.synced and not watcher.dirty:
            watcher.synced = True
            self._bookmarks.set(watcher, self.now_ms() + BOOKMARK_MS)
            yield self._frame(watcher, watching.SYNCED)
        self._schedule(watcher)

    def _entries(self, watcher: Watcher) -> Slices[list[bytes]]:
        """For one frame; topics whose route the watcher has are passed over."""
        entries: list[bytes] = []
        size = width = 0
        while len(entries) < FRAME_TOPICS and size < FRAME_BYTES and not watcher.ended:
            topic = watcher.next_topic()
            if topic is None:
                break
            if topic not in watcher.has:
                continue
            route = self._routes.find(topic)
            if route is None:
                route = yield from self._routes.encoded(topic)
                width += route.width
            if topic in watcher.has and watcher.has[topic] != route.etag:
                watcher.has[topic] = route.etag
                entries.append(route.entry)
                size += len(route.entry)
            width += 1
            if width > GROUPS_A_SLICE:
                width = 0
                yield None
        return entries

    def _events(self, watcher: Watcher) -> Iterator[Frame]:
        assert watcher.cursor is not None
        told = self.feed.after(watcher.cursor, at_most=FRAME_BYTES)
        if told.lost_to is not None:
            more = {"from": str(watcher.cursor + 1), "to": str(told.lost_to)}
            yield self._frame(watcher, watching.LOST, more=more)
        watcher.cursor = told.seq
        watcher.told_ms = self.now_ms()
        if told.entries:
            token = str(Token(self.node, self.boot, told.seq))
            more = {"seq": str(told.seq), "token": token}
            yield self._frame(watcher, watching.EVENTS, watching.listed(told.entries), more=more)

    def _frame(
        self,
        watcher: Watcher,
        kind: str,
        body: bytes = b"",
        *,
        rev: int | None = None,
        more: dict[str, str] | None = None,
        last: bool = False,
    ) -> Frame:
        """``rev`` None: everything is told up to the revision that is settled now."""
        place = watcher.place(self._touched.settled(self._revision()) if rev is None else rev)
        self.counts.frames += 1
        data = watching.push_frame(kind, self.boot, *place, body, more)
        return Frame(watcher.link, data, place.n == 1, last)

    def _bye(self, watcher: Watcher, reason: str, retry_ms: int) -> Frame:
        more = {"reason": reason, "retry_ms": str(retry_ms)}
        return self._frame(watcher, watching.BYE, rev=watcher.rev, more=more, last=True)

    def goodbyes(self) -> Iterator[Frame]:
        """For everybody, before the node stops; each is to come back at a time of its own."""
        self._stopping = True
        spread_ms = SPREAD_MS + len(self._watchers) // 2
        for watcher in list(self._watchers.values()):
            if watcher.begun and not watcher.parked and not watcher.ended:
                yield self._bye(watcher, watching.DRAINING, self._rng.randrange(spread_ms))

    # -- for health

    def status(self) -> dict[str, object]:
        watchers = self._watchers.values()
        return {
            "watchers": len(self._watchers),
            "topics": len(self._by_topic),
            "untold": sum(watcher.dirty for watcher in watchers),
            "parked": len(self._parked),
            "feeds": len(self._followers),
            "frames": self.counts.frames,
            "routes": self.counts.routes,
            "closed_as_slow": self.counts.slow,
            "refused": self.counts.refused,
        }
