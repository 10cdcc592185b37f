"""The one place that builds a node's parts and joins them.

async with NameServer(make_settings(folder, listen_port=0)) as node:
    print(node.address)
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from types import TracebackType

from routebook import __version__
from routebook.client.production import ProductionRoutes
from routebook.events import BrokerLeft, Event, MinBrokerChanged, RequestRefused
from routebook.handlers.memo import AnswerMemo
from routebook.handlers.rendering import RouteRenderer
from routebook.handlers.routes import not_found
from routebook.handlers.services import Services
from routebook.server import kvfile
from routebook.server.eventlog import log_event
from routebook.server.kvfile import KvFile
from routebook.server.notify import MinBrokerNotifier
from routebook.server.remoteconfig import RemoteConfig
from routebook.server.service import Service
from routebook.server.tls import client_context
from routebook.settings import LiveSettings, Settings
from routebook.state.kv import KvStore
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from routebook.wire.command import Command, Reply

logger = logging.getLogger(__name__)

KV_LOG_FIRST_S = 60.0
KV_LOG_EVERY_S = 600.0


class NameServer:
    """A node. Entering it listens, leaving it stops in order.

    Raises SettingsError with one sentence when it cannot start.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        revision = Revision()
        self._kv = KvStore(revision, settings.limits.max_kv_bytes, kvfile.load(settings.kv_path))
        self._kv_file = KvFile(settings.kv_path, self._kv, self._record)
        routes = RouteTable(
            revision,
            max_topics_per_broker=settings.limits.max_topics_per_broker,
            max_route_entries=settings.limits.max_route_entries,
        )
        self._remote_config = RemoteConfig(settings, revision, self._use, self._record)
        self._notifier = MinBrokerNotifier(client_context(settings.tls))
        self._services = Services(
            routes=routes,
            kv=self._kv,
            renderer=RouteRenderer(routes),
            memo=AnswerMemo(),
            live=settings.live,
            record=self._record,
            now_ms=_now_ms,
            started_ms=_now_ms(),
            max_frame=settings.listen.max_frame,
            max_topics_per_broker=settings.limits.max_topics_per_broker,
            commit_kv=self._kv_file.commit,
            config_text=self._remote_config.text,
            update_config=self._remote_config.update,
        )
        self._production = ProductionRoutes(settings.test_cluster)
        if settings.test_cluster.enabled:
            self._services.find_in_production = self._find_in_production
        self._service: Service | None = None
        self._kv_log: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "NameServer":
        self._service = Service(self._settings.listen, self._settings.tls, self._services)
        await self._service.start()
        self._remote_config.set_shown("listenPort", str(self.port))
        self._kv_log = asyncio.create_task(self._log_kv())
        self._report_settings()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._service is not None
        assert self._kv_log is not None
        self._kv_log.cancel()
        await asyncio.gather(self._kv_log, return_exceptions=True)
        await self._service.stop()
        await self._notifier.stop()
        await self._production.close()
        await self._kv_file.flush()

    @property
    def host(self) -> str:
        assert self._service is not None
        return self._service.address[0]

    @property
    def port(self) -> int:
        assert self._service is not None
        return self._service.address[1]

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def _record(self, events: Iterable[Event]) -> None:
        for event in events:
            log_event(event)
            if isinstance(event, RequestRefused):
                continue  # nothing changed
            self._services.memo.clear()
            self._services.renderer.clear()
            if isinstance(event, BrokerLeft) and self._service is not None:
                self._service.clear_away()
            elif isinstance(event, MinBrokerChanged) and (
                self._services.live.notify_min_broker_id_changed
            ):
                self._notifier.notify(event)

    def _use(self, live: LiveSettings) -> None:
        self._services.live = live

    async def _find_in_production(self, request: Command) -> Reply:
        body = await self._production.find(request)
        return Reply(body=body) if body else not_found(request.ext_fields.get("topic"))

    async def _log_kv(self) -> None:
        await asyncio.sleep(KV_LOG_FIRST_S)
        while True:
            self._kv_file.log_all()
            await asyncio.sleep(KV_LOG_EVERY_S)

    def _report_settings(self) -> None:
        logger.info("routebook %s, data folder %s", __version__, self._settings.data_dir)
        if self._settings.ignored:
            logger.warning("settings that do nothing here: %s", ", ".join(self._settings.ignored))
        if self._settings.unknown:
            logger.warning("settings nobody here knows: %s", ", ".join(self._settings.unknown))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
