"""Desk: a node's handlers and state without sockets, files or a clock of their own."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from routebook.events import Cause, Event
from routebook.handlers.absence import Absences
from routebook.handlers.dispatch import dispatch
from routebook.handlers.memo import AnswerMemo
from routebook.handlers.order import OrderTable
from routebook.handlers.rendering import RouteRenderer
from routebook.handlers.services import Caller, Control, Recent, Services
from routebook.handlers.tally import QueryTally
from routebook.settings import LiveSettings
from routebook.slices import carried_out, finished
from routebook.state.kv import KvChange, KvStore
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from routebook.watch.groups import GroupBook
from routebook.wire import fastjson
from routebook.wire.codes import RequestCode, ResponseCode, Version
from routebook.wire.command import Command, Reply
from routebook.wire.overview import Condition
from support.builders import broker_fields, registration_body

E = TypeVar("E", bound=Event)


class Desk:
    def __init__(
        self,
        *,
        max_topics_per_broker: int = 100_000,
        max_route_entries: int = 1_000_000,
        max_kv_bytes: int = 10_000,
        revision: Revision | None = None,
        pairs: dict[str, dict[str, str]] | None = None,
        **live: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.events: list[Event] = []
        self.tally = QueryTally()
        self.revision = revision = revision or Revision()
        self.routes = RouteTable(
            revision,
            max_topics_per_broker=max_topics_per_broker,
            max_route_entries=max_route_entries,
            max_brokers_per_group=64,
        )
        self.kv = KvStore(revision, max_kv_bytes, pairs)
        self.services = Services(
            routes=self.routes,
            kv=self.kv,
            renderer=RouteRenderer(self.routes),
            memo=AnswerMemo(self.tally),
            tally=self.tally,
            absences=Absences(started_wall_ms=1_700_000_000_000),
            order=OrderTable(self.kv),
            live=LiveSettings(**live),
            record=self._record,
            now_ms=lambda: self.now_ms,
            started_ms=self.now_ms,
            max_frame=16 * 1024 * 1024,
            max_topics_per_broker=max_topics_per_broker,
            commit_kv=self._commit_kv,
            config_text=lambda: "listenPort=9876\n",
            update_config=self._update_config,
            control=Control(
                health=lambda: {"revision": revision.value},
                statistics=lambda: {"revision": revision.value},
                condition=self._condition,
                revision=lambda: revision.value,
                wall_ms=lambda: 1_700_000_000_000 + self.now_ms,
                recent=_recent,
                release_guard=lambda peer: 3,
                remote=False,
            ),
            groups=GroupBook(self.routes, lambda: revision.value),
        )

    def _record(self, events: Iterable[Event]) -> None:
        for event in events:
            self.services.renderer.clear()
            self.services.groups.note(event)
            self.events.append(event)

    def _condition(self) -> Condition:
        return Condition(
            waiting_for_service=False,
            draining=False,
            journal_failing=False,
            memory_pressed=False,
            held=len(self.routes.guard.held),
            brokers=len(self.routes.members.live()),
            unconfirmed=0,
            topics=self.routes.topics.known,
            routes=self.routes.topics.entries,
        )

    async def _commit_kv(self, change: KvChange) -> None:
        if self.kv.check(change):
            self._record(self.kv.apply([change]))

    async def _update_config(self, text: str, caller: Caller) -> None:
        raise AssertionError("tested with a node")

    def ask(
        self,
        code: int,
        fields: dict[str, str | None] | None = None,
        body: bytes = b"",
        *,
        version: int = Version.V5_5_0,
        link: int = 1,
        oneway: bool = False,
        peer: str | None = None,
    ) -> Reply:
        request = Command(code, 2 if oneway else 0, 7, version, None, fields or {}, body)
        return self.carry_out(request, link=link, peer=peer)

    def carry_out(self, request: Command, *, link: int = 1, peer: str | None = None) -> Reply:
        answer: Any = dispatch(request, self.services, Caller(link, peer or f"peer-{link}"))
        if isinstance(answer, Reply):
            return answer
        if hasattr(answer, "__await__"):
            try:
                answer.send(None)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            raise AssertionError("the answer waits for something")
        reply: Reply = finished(answer)
        return reply

    def register(
        self,
        name: str = "broker-a",
        broker_id: int = 0,
        *,
        body: bytes | None = None,
        link: int | None = None,
        version: int = Version.V5_5_0,
        **fields: str | None,
    ) -> Reply:
        """Register on a connection of the broker's own unless told which."""
        ext = broker_fields(name, broker_id, **fields)  # type: ignore[arg-type]
        if link is None:
            link = abs(hash((ext["clusterName"], ext["brokerAddr"]))) % 10_000 + 100
        return self.ask(
            RequestCode.REGISTER_BROKER,
            ext,
            registration_body() if body is None else body,
            version=version,
            link=link,
        )

    def close(self, link: int, cause: Cause = Cause.CONNECTION_CLOSED) -> list[Event]:
        events, _ = carried_out(self.routes.close_link(link, cause, f"peer-{link}"))
        self._record(events)
        return events

    def expire(self, after_ms: int = 0) -> list[int]:
        """Let time pass; returns the links of the brokers that expired."""
        self.now_ms += after_ms
        events, links = carried_out(self.routes.expire(self.now_ms))
        self._record(events)
        return links

    def route(
        self, topic: str = "orders", *, version: int = Version.V5_5_0, **fields: str
    ) -> dict[str, Any] | None:
        """The decoded route, None for TOPIC_NOT_EXIST."""
        reply = self.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **fields}, version=version
        )
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert reply.code == ResponseCode.SUCCESS, reply
        route: dict[str, Any] = fastjson.loads(reply.body)
        return route

    def addrs(self, topic: str = "orders") -> dict[str, dict[str, str]]:
        """Broker name -> id -> address of a topic, {} when it has no route."""
        route = self.route(topic)
        return (
            {}
            if route is None
            else {b["brokerName"]: b["brokerAddrs"] for b in route["brokerDatas"]}
        )

    def perms(self, topic: str = "orders") -> dict[str, int]:
        route = self.route(topic)
        return {} if route is None else {q["brokerName"]: q["perm"] for q in route["queueDatas"]}

    def cluster_info(self) -> dict[str, Any]:
        info: dict[str, Any] = fastjson.loads(self.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
        return info

    def topic_list(self, code: int, **fields: str) -> list[str]:
        return sorted(fastjson.loads(self.ask(code, dict(fields)).body)["topicList"])

    def use(self, **live: Any) -> None:
        self.services.live = replace(self.services.live, **live)
        self.services.renderer.clear()

    def last(self, kind: type[E]) -> E:
        """The newest event of a kind."""
        found = [event for event in self.events if isinstance(event, kind)]
        assert found, f"no {kind.__name__} among {[type(e).__name__ for e in self.events]}"
        return found[-1]


async def _recent(topic: str | None, broker: str | None, values: bool) -> Recent:
    return Recent([b"one\n", b"two\n"], 1, 0, None)
