"""Relay: answers routes, clusters, topics and broker groups from its own cache.

async with Relay(RelaySettings(nameservers="10.0.0.1:9876;10.0.0.2:9876")) as relay:
    print(relay.address)

Every answer says how long ago a NameServer confirmed it. Whatever a relay cannot answer from
what NameServers say, it refuses.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgspec

from routebook.client.client import NameServerClient
from routebook.client.dialing import Dialing
from routebook.client.errors import NameServerError
from routebook.client.relayed import AGE_FIELD, STALE_FIELD
from routebook.client.sources import AddressSource
from routebook.client.watch import RouteWatch
from routebook.handlers.memo import Parts
from routebook.handlers.routes import not_found, wants_standard, zone_of
from routebook.handlers.services import Caller, HandlerResult
from routebook.relay.cache import MAX_BYTES, Entry, Loss, Question, RelayCache
from routebook.relay.rendering import RouteForms
from routebook.relay.upstream import Overloaded, Upstream, UpstreamAnswer
from routebook.server.port import Port
from routebook.settings import ListenSettings, SettingsError, TlsSettings
from routebook.version import __version__
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadRequest
from routebook.wire.headers import MAX_NAME, optional, required

logger = logging.getLogger(__name__)

DEFAULT_PORT = 9870
MAX_WARNED = 1024  # peers remembered as told that this is a relay
HEALTH_S = 0.5  # how old what is told of its health may be

_CODES = frozenset(RequestCode)
_CLUSTERS = Question(RequestCode.GET_BROKER_CLUSTER_INFO)
_TOPICS = Question(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)

Rendering = Callable[[bytes], bytes]
RelayAnswer = Reply | Coroutine[Any, Any, Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Raises SettingsError for numbers a relay cannot work with.

    ``nameservers`` None finds them as a RocketMQ client does. ``timeout_s`` is the deadline of one
    question to them; clients wait three seconds for a relay.
    """

    nameservers: str | tuple[str, ...] | AddressSource | None = None
    listen: ListenSettings = field(default_factory=lambda: ListenSettings(listen_port=DEFAULT_PORT))
    tls: TlsSettings = field(default_factory=TlsSettings)
    dialing: Dialing = field(default_factory=Dialing)
    timeout_s: float = 2.0
    poll_s: float = 30.0
    forget_after_s: float = 120.0
    max_topics: int = 100_000
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        if self.poll_s <= 0 or self.timeout_s <= 0:
            raise SettingsError("the time between polls and the deadline must be positive")
        if self.forget_after_s < 0 or self.max_topics < 1 or self.max_bytes < 1:
            raise SettingsError("a relay needs room for a topic, and time to forget one")


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """``outage_s`` is how long no NameServer has answered, None while one does.

    ``hits`` were answered from the cache, ``misses`` were not in it; ``refused`` are requests a
    relay does not answer, ``busy`` those it had no room for. ``resting`` are answers that nobody
    asked for lately. Answers were forgotten for want of room, or because NameServers deny them.
    """

    nodes: tuple[str, ...]
    chosen: str | None
    outage_s: float | None
    last_error: str | None
    topics: int
    groups: int
    entries: int
    held_bytes: int
    oldest_age_s: float | None
    hits: int
    misses: int
    refused: int
    busy: int
    resting: int
    forgotten_for_room: int
    forgotten_denied: int


class NoMemo:
    """Keeps nothing: the next answer is older, and says so."""

    def find(self, header: bytes) -> Parts | None:
        return None

    def keep(self, header: bytes, request: Command, reply: Reply) -> None:
        pass


class Relay:
    """Entering it listens, whether or not a NameServer answers; leaving it stops in order.

    Raises SettingsError with one sentence when it cannot start.
    """

    def __init__(
        self, settings: RelaySettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        try:
            self._client = NameServerClient(
                settings.nameservers, timeout_s=settings.timeout_s, dialing=settings.dialing
            )
        except ValueError as error:
            raise SettingsError(str(error)) from error
        self._cache = RelayCache(
            poll_s=settings.poll_s,
            forget_after_s=settings.forget_after_s,
            max_topics=settings.max_topics,
            max_bytes=settings.max_bytes,
            is_told=lambda topic: self._watch.live and self._watch.watches(topic),
            on_topic=self._follow,
        )
        self._upstream = Upstream(
            self._client,
            self._cache,
            poll_s=settings.poll_s,
            timeout_s=settings.timeout_s,
            clock=clock,
        )
        self._watch = RouteWatch(
            self._client,
            told=self._upstream.told,
            changed=lambda: self._cache.plan_anew(self._clock()),
            confirmed=lambda: self._cache.note_told(self._clock()),
        )
        self._watching: asyncio.Task[None] | None = None
        self._forms = RouteForms()
        self._port: Port | None = None
        self._refresher: asyncio.Task[None] | None = None
        self._warned: set[str] = set()
        self._hits = self._misses = self._refused = self._busy = 0
        self._started_at = clock()
        self._told, self._told_at = b"", float("-inf")  # of its health

    async def __aenter__(self) -> "Relay":
        port = Port(
            self._settings.listen, self._settings.tls, dispatch=self.dispatch, memo=NoMemo()
        )
        await port.start()
        self._port = port
        self._refresher = asyncio.create_task(self._upstream.run())
        self._watching = asyncio.create_task(self._watch.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._port is not None
        assert self._refresher is not None
        assert self._watching is not None
        tasks = self._refresher, self._watching
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._port.stop()
        await self._upstream.close()
        await self._client.close()

    @property
    def host(self) -> str:
        assert self._port is not None
        return self._port.address[0]

    @property
    def port(self) -> int:
        assert self._port is not None
        return self._port.address[1]

    @property
    def address(self) -> str:
        return str(Address(self.host, self.port))

    def status(self) -> RelayStatus:
        now_s, outage, chosen = self._clock(), self._upstream.outage, self._client.chosen
        return RelayStatus(
            nodes=tuple(map(str, self._upstream.nodes)),
            chosen=None if chosen is None else str(chosen),
            outage_s=None if outage is None else now_s - outage.since_s,
            last_error=self._upstream.last_error,
            topics=self._cache.count(RequestCode.GET_ROUTEINFO_BY_TOPIC),
            groups=self._cache.count(RequestCode.GET_BROKER_MEMBER_GROUP),
            entries=len(self._cache),
            held_bytes=self._cache.held_bytes,
            oldest_age_s=self._cache.oldest_age_s(now_s),
            hits=self._hits,
            misses=self._misses,
            refused=self._refused,
            busy=self._busy,
            resting=self._cache.resting,
            forgotten_for_room=self._cache.lost(Loss.ROOM),
            forgotten_denied=self._cache.lost(Loss.DENIED),
        )

    def health(self) -> dict[str, object]:
        """As a node tells of itself, so that whoever asks learns that this is none."""
        status = self.status()
        return {
            "relay": True,
            "version": __version__,
            "address": self.address,
            "uptime_ms": _ms(self._clock() - self._started_at),
            "nameservers": status.nodes,
            "chosen": status.chosen,
            "watched": self._watch.live,
            "outage_ms": _ms(status.outage_s),
            "last_error": status.last_error,
            "oldest_ms": _ms(status.oldest_age_s),
            "topics": status.topics,
            "answers": status.entries,
            "resting": status.resting,
            "bytes": status.held_bytes,
            "max_bytes": self._settings.max_bytes,
            "max_topics": self._settings.max_topics,
            "forgotten_for_room": status.forgotten_for_room,
            "forgotten_denied": status.forgotten_denied,
            "hits": status.hits,
            "misses": status.misses,
            "refused": status.refused,
            "busy": status.busy,
            "ok": status.outage_s is None,
        }

    # -- requests

    def dispatch(self, request: Command, caller: Caller) -> HandlerResult:
        """The answer to ``request``; never raises."""
        handler = _HANDLERS.get(request.code)
        if handler is None:
            return self._refusal(request, caller)
        if request.is_oneway:
            return Reply()  # which nobody will read
        try:
            answer = handler(self, request)
        except BadRequest as error:
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - a bug must not take the connection down
            return _fault(request, caller, error)
        return answer if isinstance(answer, Reply) else _guarded(answer, request, caller)

    def _route(self, request: Command) -> RelayAnswer:
        topic = request.ext_fields.get("topic")
        if topic is None or len(topic) > MAX_NAME:
            return not_found(topic)
        standard, zone = wants_standard(request), zone_of(request)
        question = Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        return self._answer(
            question, lambda route: self._forms.body(route, standard=standard, zone=zone)
        )

    def _clusters(self, request: Command) -> RelayAnswer:
        return self._answer(_CLUSTERS)

    def _topics(self, request: Command) -> RelayAnswer:
        return self._answer(_TOPICS)

    def _group(self, request: Command) -> RelayAnswer:
        broker, cluster = required(request, "brokerName"), optional(request, "clusterName")
        question = Question(RequestCode.GET_BROKER_MEMBER_GROUP, cluster=cluster, broker=broker)
        return self._answer(question)

    def _health(self, request: Command) -> RelayAnswer:
        now_s = self._clock()
        if now_s - self._told_at > HEALTH_S:  # it looks at every answer that is held
            self._told, self._told_at = msgspec.json.encode(self.health()), now_s
        return Reply(body=self._told)

    def _no_watch(self, request: Command) -> RelayAnswer:
        """Caches ask for it and poll then: nobody is to be warned."""
        remark = "this is a relay, which offers no watch"
        return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def _refusal(self, request: Command, caller: Caller) -> Reply:
        self._refused += 1
        name = RequestCode(request.code).name if request.code in _CODES else str(request.code)
        nodes = ";".join(map(str, self._upstream.nodes))
        remark = (
            "this is a relay: it answers routes (105), clusters (106), topics (206) and broker"
            f" groups (901); send {name} to a NameServer{': ' if nodes else ''}{nodes}"
        )
        host = caller.peer.rpartition(":")[0]
        if host not in self._warned:
            if len(self._warned) >= MAX_WARNED:
                self._warned.clear()
            self._warned.add(host)
            logger.warning("refusing %s of %s: %s", name, caller.peer, remark)
        return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    # -- answers

    def _answer(self, question: Question, shape: Rendering = bytes) -> RelayAnswer:
        now_s, outage = self._clock(), self._upstream.outage
        entry = self._cache.find(question, now_s)
        rested = self._cache.wake(question, now_s)
        if entry is not None and (not rested or outage is not None):
            self._hits += 1
            doubt = entry.doubt if outage is None else outage.reason
            return _good(shape(entry.body), self._age_s(question, entry), doubt)
        denial = self._cache.find_denial(question, now_s)
        if denial is not None:
            self._hits += 1
            return _passed_on(denial.reply, now_s - denial.at)
        self._misses += 1
        if outage is not None:
            return self._unknown(question, outage.reason)
        if self._upstream.full and not rested:
            return self._too_busy(self._upstream.overloaded())
        return self._asked(question, shape)

    async def _asked(self, question: Question, shape: Rendering) -> Reply:
        """What NameServers say now; where they say nothing of use, what they said before."""
        outcome: UpstreamAnswer = (
            self._upstream.overloaded()
            if self._upstream.full
            else await self._upstream.ask(question)
        )
        entry = self._cache.find(question, self._clock())
        if entry is not None:
            doubt = str(outcome) if isinstance(outcome, Overloaded) else entry.doubt
            return _good(shape(entry.body), self._age_s(question, entry), doubt)
        if isinstance(outcome, bytes):
            return _good(shape(outcome), 0.0, None)
        if isinstance(outcome, Reply):
            return _passed_on(outcome, 0.0)
        if isinstance(outcome, Overloaded):
            return self._too_busy(outcome)
        return self._unknown(question, str(outcome))

    def _age_s(self, question: Question, entry: Entry) -> float:
        return self._clock() - self._cache.confirmed_at(question, entry)

    def _follow(self, topic: str, held: bool) -> None:
        """A route came into the cache, or went."""
        if held:
            self._watch.add(topic)
        else:
            self._watch.drop(topic)

    def _unknown(self, question: Question, reason: str) -> Reply:
        """Nobody can be asked; whether that was so from the beginning."""
        forgotten, unlisted = self._cache.find_forgotten(question), self._cache.unlisted
        if forgotten is not None:
            ago_s = self._clock() - forgotten.at
            why = (
                "to make room for others"
                if forgotten.why is Loss.ROOM
                else "since NameServers no longer knew it"
            )
            known = f"this relay forgot {question} {ago_s:.1f} s ago, {why},"
        elif unlisted:
            known = (
                f"this relay does not know {question}, which may be one of {unlisted} answers that"
                " it forgot to make room for others,"
            )
        else:
            known = f"this relay has never seen {question}"
        return Reply(ResponseCode.SYSTEM_ERROR, f"{known} and cannot ask for it: {reason}")

    def _too_busy(self, error: NameServerError) -> Reply:
        self._busy += 1
        return Reply(ResponseCode.SYSTEM_BUSY, f"this relay is busy: {error}; try again")


_HANDLERS: dict[int, Callable[[Relay, Command], RelayAnswer]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Relay._route,
    RequestCode.GET_BROKER_CLUSTER_INFO: Relay._clusters,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Relay._topics,
    RequestCode.GET_BROKER_MEMBER_GROUP: Relay._group,
    RequestCode.ROUTEBOOK_HEALTH: Relay._health,
    RequestCode.ROUTEBOOK_WATCH: Relay._no_watch,
}


async def _guarded(answer: Coroutine[Any, Any, Reply], request: Command, caller: Caller) -> Reply:
    try:
        return await answer
    except Exception as error:  # noqa: BLE001 - nor one that comes after a wait
        return _fault(request, caller, error)


def _fault(request: Command, caller: Caller, error: Exception) -> Reply:
    logger.error("request %d of %s failed", request.code, caller.peer, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, "internal error")


def _good(body: bytes, age_s: float, doubt: str | None) -> Reply:
    fields = {AGE_FIELD: str(max(0, int(age_s * 1000)))}
    if doubt is None:
        return Reply(ext_fields=fields, body=body)
    fields[STALE_FIELD] = "true"
    return Reply(remark=f"relayed, {age_s:.1f} s old: {doubt}", ext_fields=fields, body=body)


def _passed_on(reply: Reply, age_s: float) -> Reply:
    if reply.code != ResponseCode.SUCCESS:
        return reply
    return _good(reply.body, age_s, None)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
