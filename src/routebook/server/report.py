"""NodeReport: how a node is, for people (health), for its gateway (condition) and in numbers."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from routebook.events import BrokerLeft, BrokerRegistered, Cause, Event
from routebook.handlers.counts import RESULTS
from routebook.handlers.routes import not_ready
from routebook.handlers.services import Services
from routebook.server.background import Upkeep
from routebook.server.guard_status import guard_status
from routebook.server.kv_file import KvFile
from routebook.server.loop_clock import LoopClock
from routebook.server.memory_watch import MemoryWatch
from routebook.server.recorder import Recorder
from routebook.server.service import Service
from routebook.state.account import Kind
from routebook.state.revision import Revision
from routebook.version import __version__
from routebook.watch.hub import Watchers
from routebook.wire.codes import RequestCode
from routebook.wire.overview import Condition


class NodeReport:
    """``service`` and ``address`` are there once the node listens; ``gateway`` tells of its own."""

    def __init__(
        self,
        services: Services,
        watchers: Watchers,
        *,
        recorder: Recorder,
        revision: Revision,
        clock: LoopClock,
        memory: MemoryWatch,
        kv_file: KvFile,
        upkeep: Upkeep,
    ) -> None:
        self._services = services
        self._routes = services.routes
        self._watchers = watchers
        self._recorder = recorder
        self._revision = revision
        self._clock = clock
        self._memory = memory
        self._kv_file = kv_file
        self._upkeep = upkeep
        self._started_ms = now_ms()
        self._registered = 0
        self._left: Counter[Cause] = Counter()
        self.service: Service | None = None
        self.address = ""
        self.gateway: Callable[[], dict[str, object]] | None = None

    def note(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, BrokerRegistered):
            self._registered += 1
        elif isinstance(event, BrokerLeft):
            self._left[event.cause] += 1

    def health(self) -> dict[str, object]:
        """How the node is, for people and for programs that watch it."""
        members = self._routes.members.live()
        journal = self._recorder.status()
        guard = guard_status(self._routes.guard, now_ms=self._clock.now_ms(), wall_ms=wall_ms())
        memory = self._memory_status()
        identity = self._recorder.identity
        return {
            "node": self._recorder.node_id,
            "fleet": identity.fleet,
            "incarnation": identity.incarnation,
            "boot": self._watchers.boot,
            "version": __version__,
            "address": self.address,
            "uptime_ms": now_ms() - self._started_ms,
            "wall_ms": wall_ms(),
            "revision": self._revision.value,
            "brokers": len(members),
            "unconfirmed": sum(not member.known.confirmed for member in members),
            "topics": self._routes.topics.known,
            "routes": self._routes.topics.entries,
            "memory": memory,
            "journal": journal,
            "guard": guard,
            "stalls": self._clock.status(),
            "work": self.service.work_status() if self.service is not None else {},
            "watch": self._watchers.status(),
            "gateway": None if self.gateway is None else self.gateway(),
            "tasks": self._upkeep.status(),
            "ok": not (
                guard["held"] or journal.get("failing") or memory["pressed"] or self._upkeep.failing
            ),
        }

    def condition(self) -> Condition:
        """Whether it serves, at a glance."""
        members = self._routes.members.live()
        return Condition(
            waiting_for_service=not_ready(self._services),
            draining=self.service is not None and self.service.draining,
            journal_failing=bool(self._recorder.status().get("failing")),
            memory_pressed=self._memory.pressed,
            held=len(self._routes.guard.held),
            brokers=len(members),
            unconfirmed=sum(not member.known.confirmed for member in members),
            topics=self._routes.topics.known,
            routes=self._routes.topics.entries,
        )

    def statistics(self) -> dict[str, object]:
        """All that is counted; numbers only, but for names."""
        services, service = self._services, self.service
        known, unknown, unready = services.tally.totals()
        asked = services.counts.get(RequestCode.GET_ROUTEINFO_BY_TOPIC, [0, 0, 0])
        journal = self._recorder.status()
        condition = self.condition()
        return {
            "node": self._recorder.node_id,
            "boot": self._watchers.boot,
            "version": __version__,
            "uptime_ms": now_ms() - self._started_ms,
            "revision": self._revision.value,
            "requests": {
                _name(code): dict(zip(RESULTS, cell, strict=True))
                for code, cell in services.counts.items()
            },
            "overload": {} if service is None else service.work_status()["refused"],
            "routes": {"known": known, "unknown": unknown, "not_ready": unready},
            # What is answered from memory is counted with its topic, and nowhere else.
            "remembered": max(0, known + unknown + unready - sum(asked)),
            "cache_bytes": services.memo.kept_bytes + services.renderer.kept_bytes,
            "registered": self._registered,
            "left": dict(self._left),
            "connections": 0 if service is None else service.open_connections,
            "brokers": condition.brokers,
            "unconfirmed": condition.unconfirmed,
            "held": condition.held,
            "topics": condition.topics,
            "route_entries": condition.routes,
            "memory": {
                "limit": self._memory.limit,
                "resident": self._memory.resident,
                "pressed": int(condition.memory_pressed),
            },
            "watch": self._watchers.status(),
            "journal": {
                name: int(bool(value)) if name == "failing" else value
                for name, value in journal.items()
                if name in JOURNAL
            },
            "stalls": {
                "count": self._clock.listening.count,
                "paused_ms": self._clock.listening.paused_ms,
            },
            "errors": self._upkeep.errors,
            "durations": {} if service is None else service.durations.told(),
            "deliveries": self._watchers.delivered.told(),
            "lags": {} if service is None else service.lags.told(),
        }

    def _memory_status(self) -> dict[str, object]:
        service = self.service
        held: dict[Kind, Mapping[str, int]] = {} if service is None else service.memory()
        return self._memory.status(
            {
                Kind.RECORDS: self._recorder.latest_by_host,
                Kind.DECODING: self._services.decoding.by_host,
                Kind.PENDING: self._kv_file.waiting_bytes,
                **held,
            }
        )


JOURNAL = frozenset(
    {"queued", "lost", "last_seq", "written_seq", "synced_seq", "errors", "failing", "bytes"}
)
_CODES = frozenset(RequestCode)


def _name(code: int) -> str:
    return RequestCode(code).name if code in _CODES else "OTHER"


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
