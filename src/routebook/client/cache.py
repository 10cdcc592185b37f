"""RouteCache: the routes of the topics in use, kept fresh, and the queues that follow from them.

    async with NameServerClient() as client, RouteCache(client) as cache:
        await cache.route("orders")
        queue = cache.pick("orders")

A topic is in use from the first ``route`` that finds it, or from ``use``, until ``forget``. It is
asked for again every ``poll_s``, at a time of its own; one that could not be sent to is asked for
at once. Where a node offers it, changes are told instead (``RouteWatch``), and topics are asked for
every five minutes all the same. A route is replaced by a better one only: when the NameServers say
that the topic does not exist, or say nothing, or nonsense, it stays, and ``entry`` says how old it
is.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import Protocol

from routebook.client import queues
from routebook.client.client import NameServerClient
from routebook.client.entries import CachedRoute, Entry, NotCached
from routebook.client.errors import BadAnswer, NameServerError, TopicNotFound
from routebook.client.faults import FaultTable
from routebook.client.listeners import STREAM_LIMIT, ChangeStream, Listener, Listeners
from routebook.client.node import Answer
from routebook.client.poll_schedule import PollSchedule
from routebook.client.queues import MessageQueue, first_groups, holder_of
from routebook.client.requests import route_question
from routebook.client.routes import TopicRoute
from routebook.client.watch import RouteTold, RouteWatch
from routebook.wire.answers import MASTER_ID
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command

logger = logging.getLogger(__name__)

POLL_S = 30.0
NET_S = 300.0  # between polls of what a node tells of
JITTER = 0.2
TOPICS_A_POLL = 100  # asked for in one go; to decode so many takes a few milliseconds
REASK_S = 0.1  # a failure this soon after a question is answered by that one
SECOND_LOOK_S = 0.5  # after a failure

_RouteOrError = TopicRoute | NameServerError
_Flights = dict[str, "asyncio.Future[_RouteOrError]"]


class Asker(Protocol):
    """What the cache needs of a client."""

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        """Each successful answer, or the error of that request; raises nothing."""


class CacheClosed(NameServerError):
    """The cache was closed before there was an answer."""

    def __str__(self) -> str:
        return "the route cache is closed"


class RouteTimeout(NameServerError):
    """The caller's time was over before there was an answer; others may still get it."""

    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(topic, timeout_s)
        self.topic = topic
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"no route of {self.topic!r} within {self.timeout_s:.3g} s"


class RouteCache:
    """Routes of the topics in use, polled while it is entered. Belongs to one event loop.

    A topic is in use from the first ``route`` that finds it, or from ``use``, until ``forget``. A
    good route is replaced by a better one only, never by an error.

    ``latency_faults`` passes over brokers that are slow or fail when queues are picked. ``clock``
    gives seconds. ``watch`` False only polls.
    """

    def __init__(
        self,
        client: Asker,
        *,
        poll_s: float = POLL_S,
        jitter: float = JITTER,
        latency_faults: bool = False,
        watch: bool = True,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng or random.Random()
        self._faults = FaultTable() if latency_faults else None
        self._listeners = Listeners()
        self._entries: dict[str, Entry] = {}
        self._flights: _Flights = {}  # one question a topic at a time
        self._schedule = PollSchedule(
            poll_s, jitter, self._rng, rare=self._is_told, rare_period_s=NET_S
        )
        self._watch: RouteWatch | None = None
        if watch and isinstance(client, NameServerClient):
            self._watch = RouteWatch(
                client,
                told=self._told,
                changed=self._watch_changed,
                confirmed=self._all_told,
                rng=self._rng,
            )
        self._told_at = 0.0  # when the node last said that nothing is left to be told
        self._watching: asyncio.Task[None] | None = None
        self._brokers: dict[str, Mapping[int, str]] | None = None  # None: to be made anew
        self._poller: asyncio.Task[None] | None = None
        self._added = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._second_looks: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

    async def __aenter__(self) -> "RouteCache":
        self._poller = asyncio.create_task(self._poll())
        if self._watch is not None:
            self._watching = asyncio.create_task(self._watch.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop polling; whoever waits for a route gets CacheClosed. What is cached stays."""
        self._closed = True
        for look in self._second_looks.values():
            look.cancel()
        own = [task for task in (self._poller, self._watching) if task is not None]
        tasks = [*self._tasks, *own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for topic, flight in list(self._flights.items()):  # of tasks that never began
            self._land(topic, flight, CacheClosed())
        self._listeners.end()

    # -- routes

    async def route(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute:
        """The cached route, or else the one the NameServers have.

        When there is none it raises why, and the topic is forgotten unless it is kept by ``use``.
        ``timeout_s`` limits the wait of this caller; the question has the deadline of the client.
        """
        entry = self._entries.get(topic)
        if entry is not None and entry.route is not None:
            return entry.route
        return await self.refresh(topic, timeout_s=timeout_s)

    async def refresh(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute:
        """Ask for the topic now, or wait for the answer if that was done already.

        Raises what went wrong; a route that is cached stays cached.
        """
        if self._closed:
            raise CacheClosed
        self._entries.setdefault(topic, Entry(topic))
        if topic not in self._flights:
            self._ask_for(topic)
        flight = self._flights[topic]
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: one caller that gives up must not take the answer from the others.
                outcome = await asyncio.shield(flight)
        except TimeoutError:
            raise RouteTimeout(topic, timeout_s or 0.0) from None
        if isinstance(outcome, NameServerError):
            raise copy(outcome)  # each caller its own: a traceback is of one
        return outcome

    def use(self, topic: str) -> None:
        """Poll the topic from now on, also while it does not exist."""
        entry = self._entries.setdefault(topic, Entry(topic))
        entry.kept = True
        if topic not in self._schedule:
            self._start_polling(topic, at_once=True)

    def forget(self, topic: str) -> None:
        """Drop the topic and its route, and poll it no longer."""
        self._entries.pop(topic, None)
        self._schedule.drop(topic)
        if self._watch is not None:
            self._watch.drop(topic)
        self._brokers = None

    @property
    def watched(self) -> bool:
        """Whether a node tells of changes now; else they are found by polling."""
        return self._watch is not None and self._watch.live

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in use."""
        return tuple(self._entries)

    def entry(self, topic: str) -> CachedRoute | None:
        """The route and its state, or None while there is no route."""
        entry = self._entries.get(topic)
        cached = None if entry is None else entry.cached(self._clock())
        if cached is None or cached.last_error is not None or not self._is_told(topic):
            return cached
        return replace(cached, age_s=min(cached.age_s, self._clock() - self._told_at))

    def age_s(self, topic: str) -> float | None:
        """Time since a NameServer last gave this route, or None while there is no route."""
        cached = self.entry(topic)
        return None if cached is None else cached.age_s

    def last_error(self, topic: str) -> NameServerError | None:
        """Why the last question for the topic got no route, or None when it got one."""
        entry = self._entries.get(topic)
        return None if entry is None else entry.last_error

    # -- changes

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Have ``callback`` called with each RouteChange until the returned function is called.

        It is called in the event loop and must be quick. What it raises is logged.
        """
        return self._listeners.add(callback)

    def changes(self, *, limit: int = STREAM_LIMIT) -> ChangeStream:
        """All changes from now on; a reader more than ``limit`` behind loses the oldest."""
        return self._listeners.stream(limit)

    # -- queues, from cached routes; all raise NotCached before the first route of the topic

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Where messages may be sent, in the order in which writers take turns."""
        return self._entry(topic).picker(self._rng, self._faults).queues

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Where messages may be read, sorted."""
        return self._entry(topic).subscribe_queues()

    def address_of(
        self, queue: MessageQueue, *, broker_id: int = MASTER_ID, reading: bool = False
    ) -> str | None:
        """Where to send to, or read from, ``queue``; None when nobody is there."""
        route = self._entry(queue.topic).known_route()
        return queues.address_of(route, queue, broker_id=broker_id, reading=reading)

    def pick(
        self, topic: str, *, avoiding: MessageQueue | str | None = None
    ) -> MessageQueue | None:
        """The queue to send to next; None when no queue of the topic can be written.

        ``avoiding`` is the queue, or the broker, of the attempt that just failed.
        """
        entry = self._entry(topic)
        if isinstance(avoiding, MessageQueue):
            avoiding = holder_of(entry.known_route(), avoiding)
        picker = entry.picker(self._rng, self._faults)
        return picker.pick(avoiding=avoiding, now_ms=self._now_ms())

    def sent(self, queue: MessageQueue, latency_ms: float) -> None:
        """Say how long the broker of ``queue`` took to accept a message."""
        self._record(queue, latency_ms)

    def failed(self, queue: MessageQueue, *, reachable: bool = True) -> None:
        """Say that sending to ``queue`` failed; its topic is asked for in the background.

        ``reachable`` False makes its broker the last choice until it accepts a message again.
        """
        self._record(queue, 0.0, isolate=True, reachable=reachable)
        topic = queue.topic
        entry = self._entries.get(topic)
        if entry is None or self._closed:
            return
        late = entry.asked_at is None or self._clock() - entry.asked_at >= REASK_S
        if late and topic not in self._flights:
            self._ask_for(topic)
        if topic not in self._second_looks:
            # Whoever fails first may learn of it before the NameServer does.
            loop = asyncio.get_running_loop()
            look = loop.call_later(SECOND_LOOK_S, self._look_again, topic)
            self._second_looks[topic] = look

    def _look_again(self, topic: str) -> None:
        del self._second_looks[topic]
        if topic in self._entries and topic not in self._flights:
            self._ask_for(topic)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """All brokers of all cached routes: name to broker id to address.

        Where routes disagree, the one that changed last is believed.
        """
        if self._brokers is None:
            known = [entry for entry in self._entries.values() if entry.route is not None]
            known.sort(key=lambda entry: entry.changed_at)
            self._brokers = {
                name: group.addrs
                for entry in known
                for name, group in first_groups(entry.known_route()).items()
            }
        return self._brokers

    # -- asking

    async def poll_due(self) -> float:
        """Ask for topics that are due, and give the seconds until the next ones are.

        The cache does this by itself while it is entered.
        """
        due = self._schedule.take_due(self._clock(), TOPICS_A_POLL)
        await self._fetch(self._depart(due))
        if self._faults is not None and len(self._faults) > len(self.brokers()):
            self._faults.keep_only(self.brokers())
        return self._schedule.next_in_s(self._clock())

    async def _poll(self) -> None:
        while True:
            try:
                wait_s = await self.poll_due()
            except Exception:  # whatever one topic does, the others are to be polled
                logger.exception("polling failed")
                wait_s = self._schedule.tick_s
            self._added.clear()
            try:
                async with asyncio.timeout(None if wait_s == math.inf else wait_s):
                    await self._added.wait()
            except TimeoutError:
                pass

    def _start_polling(self, topic: str, *, at_once: bool) -> None:
        self._schedule.add(topic, self._clock(), at_once=at_once)
        self._added.set()
        if self._watch is not None:
            self._watch.add(topic)

    def _ask_for(self, topic: str) -> None:
        task = asyncio.create_task(self._fetch(self._depart([topic])))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _depart(self, topics: Iterable[str]) -> _Flights:
        """Promise an outcome for each topic that is not asked for already."""
        loop, now = asyncio.get_running_loop(), self._clock()
        flights: _Flights = {t: loop.create_future() for t in topics if t not in self._flights}
        for topic in flights:
            self._entries[topic].asked_at = now
        self._flights |= flights
        return flights

    async def _fetch(self, flights: _Flights) -> None:
        if not flights:
            return
        try:
            answers = await self._client.ask_many([route_question(topic) for topic in flights])
            for (topic, flight), answer in zip(flights.items(), answers, strict=True):
                outcome = self._settle(topic, answer)
                self._land(topic, flight, outcome)
        finally:
            for topic, flight in flights.items():
                self._land(topic, flight, CacheClosed())

    def _land(
        self, topic: str, flight: "asyncio.Future[_RouteOrError]", outcome: _RouteOrError
    ) -> None:
        """Keep the promise, unless that was done already."""
        if not flight.done():
            del self._flights[topic]
            flight.set_result(outcome)

    def _settle(self, topic: str, answer: Answer | NameServerError) -> _RouteOrError:
        known = self._entries.get(topic)
        # Forgotten meanwhile: those who wait are answered, and nothing is kept.
        entry = known or Entry(topic)
        try:
            if isinstance(answer, NameServerError):
                return self._without_route(entry, answer)
            change = entry.learn(answer, self._clock())
        except BadAnswer as error:
            # Its traceback would keep the whole body alive for as long as the error is shown.
            return self._without_route(entry, copy(error))
        if known is not None:
            if topic not in self._schedule:
                self._start_polling(topic, at_once=False)
            if change is not None:
                self._brokers = None
                self._listeners.tell(change)
                if self._is_told(topic) and self._watch is not None:
                    self._watch.add(topic)  # what it was told is not what it has now
        return entry.known_route()

    # -- being told

    def _is_told(self, topic: str) -> bool:
        watch = self._watch
        return watch is not None and watch.live and watch.watches(topic)

    def _told(self, told: RouteTold) -> None:
        entry = self._entries.get(told.topic)
        if entry is None or self._closed:
            return
        if told.gone is not None:
            code, asked = ResponseCode.TOPIC_NOT_EXIST, RequestCode.GET_ROUTEINFO_BY_TOPIC
            entry.fail(TopicNotFound(told.node, asked, code, told.gone), self._clock())
            return
        if told.route is None:  # too large to be told
            if told.topic not in self._flights:
                self._ask_for(told.topic)
            return
        try:
            change = entry.learn(Answer(told.node, Command(body=told.route)), self._clock())
        except BadAnswer as error:
            entry.fail(copy(error), self._clock())
            return
        if change is not None:
            self._brokers = None
            self._listeners.tell(change)

    def _all_told(self) -> None:
        self._told_at = self._clock()

    def _watch_changed(self) -> None:
        """Topics are polled as often as they have to be."""
        self._schedule.plan_anew(self._clock())
        self._added.set()

    def _without_route(self, entry: Entry, error: NameServerError) -> NameServerError:
        entry.fail(error, self._clock())
        if entry.route is None and not entry.kept:
            self._entries.pop(entry.topic, None)
        return error

    # -- small things

    def _entry(self, topic: str) -> Entry:
        entry = self._entries.get(topic)
        if entry is None:
            raise NotCached(topic)
        return entry

    def _record(
        self,
        queue: MessageQueue,
        latency_ms: float,
        *,
        isolate: bool = False,
        reachable: bool = True,
    ) -> None:
        entry = self._entries.get(queue.topic)
        if self._faults is None or entry is None or entry.route is None:
            return
        broker = holder_of(entry.route, queue)
        if broker is not None:
            self._faults.record(
                broker, latency_ms, isolate=isolate, reachable=reachable, now_ms=self._now_ms()
            )

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
