"""The one place that builds a node's parts and joins them.

async with NameServer(make_settings(folder, listen_port=0)) as node:
    print(node.address)
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from types import TracebackType

from routebook.client.production import ProductionRoutes
from routebook.events import (
    BrokerLeft,
    Cause,
    Event,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    TopicsChanged,
)
from routebook.handlers.absence import MAX_TOPICS, Absences
from routebook.handlers.memo import MAX_BYTES, AnswerMemo
from routebook.handlers.order import MAX_ORDER_BYTES, ORDER_NAMESPACE, OrderTable
from routebook.handlers.rendering import MAX_KEPT_BYTES, RouteRenderer
from routebook.handlers.routes import not_found
from routebook.handlers.services import Control, Services
from routebook.handlers.tally import QueryTally
from routebook.handlers.watch import told_route
from routebook.journal.errors import JournalError
from routebook.journal.modes import Readers
from routebook.journal.view import View
from routebook.recovery import catch_up_kv, recover, restate, restore
from routebook.server import kv_file, remote_config
from routebook.server.available_memory import memory_limit
from routebook.server.background import Turn, Upkeep, again_and_again
from routebook.server.descriptors import connections_within
from routebook.server.durable import clear_away
from routebook.server.event_log import log_event
from routebook.server.gateway_process import GatewayProcess, options_of
from routebook.server.kv_catch_up import CatchUp
from routebook.server.kv_file import KvFile
from routebook.server.loop_clock import LoopClock
from routebook.server.memory_watch import LOOK_EVERY_S, MemoryWatch
from routebook.server.modes import warn_of_modes
from routebook.server.notify import MinBrokerNotifier
from routebook.server.recorder import NODE_ID, Recorder
from routebook.server.remote_config import RemoteConfig
from routebook.server.report import NodeReport, now_ms, wall_ms
from routebook.server.service import Service
from routebook.server.tls import client_context
from routebook.server.windows import Windows
from routebook.settings import ListenSettings, LiveSettings, Settings, SettingsError
from routebook.state.account import Account, shared_out
from routebook.state.costs import LONGEST_NAME
from routebook.state.guard import GuardSettings
from routebook.state.kv import KvStore
from routebook.state.listening import Stall
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from routebook.table_memory import table_memory
from routebook.version import __version__
from routebook.watch.feed import MAX_BYTES as FEED_BYTES
from routebook.watch.groups import GroupBook
from routebook.watch.hub import Watchers
from routebook.watch.kept_routes import KEPT_BYTES
from routebook.wire.address import Address
from routebook.wire.command import Command, Reply

__all__ = ["NameServer"]

logger = logging.getLogger(__name__)

KV_LOG_FIRST_S = 60.0
KV_LOG_EVERY_S = 600.0
ABSENT_BYTES = 150 + LONGEST_NAME  # of a topic whose last broker has left


class NameServer:
    """A node. Entering it listens, leaving it stops in order.

    Raises SettingsError with one sentence when it cannot start.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._upkeep = Upkeep()
        self._clock = LoopClock(self._stalled, ticked=lambda: self._recorder.note_awake())
        self._revision = Revision()
        limits = settings.limits
        self._account = Account(
            shared_out(memory_limit(limits.memory), peer_percent=limits.peer_percent),
            broker_percent=limits.broker_percent,
        )
        budgets = self._account.budgets
        pairs = kv_file.load(settings.kv_path)
        self._kv = KvStore(
            self._revision,
            limits.max_kv_bytes,
            pairs,
            self._account,
            max_table_bytes={ORDER_NAMESPACE: MAX_ORDER_BYTES},
        )
        self._kv_file = KvFile(settings.kv_path, self._kv, self._record, self._upkeep)
        guard = settings.guard
        self._routes = RouteTable(
            self._revision,
            max_topics_per_broker=limits.max_topics_per_broker,
            max_route_entries=limits.max_route_entries,
            max_brokers_per_group=limits.max_brokers_per_group,
            account=self._account,
            guard=GuardSettings(
                share_percent=guard.share_percent,
                min_brokers=guard.min_brokers,
                window_ms=guard.window_s * 1000,
                hold_ms=guard.hold_s * 1000,
                idle_ms=settings.listen.idle_timeout_s * 1000,
            ),
        )
        self._recorder = Recorder(
            settings.memory,
            settings.data_dir,
            wall_ms=wall_ms,
            mono_ms=now_ms,
            restate=lambda: restate(self._routes, self._kv.tables, self._revision),
            upkeep=self._upkeep,
            max_frame=settings.listen.max_frame,
            kv_at_start={namespace: dict(table) for namespace, table in pairs.items()},
            max_bytes=budgets.records,
        )
        self._catch_up = CatchUp(
            self._kv_file,
            record=self._record,
            note=self._recorder.record,
            queued=self._recorder.queued,
            upkeep=self._upkeep,
        )
        self._remote_config = RemoteConfig(settings, self._revision, self._use, self._record)
        self._notifier = MinBrokerNotifier(client_context(settings.tls))
        tally = QueryTally()
        self._services = Services(
            routes=self._routes,
            kv=self._kv,
            renderer=RouteRenderer(self._routes, min(MAX_KEPT_BYTES, budgets.caches // 4)),
            memo=AnswerMemo(tally, min(MAX_BYTES, budgets.caches * 3 // 8)),
            tally=tally,
            absences=Absences(wall_ms(), min(MAX_TOPICS, budgets.caches // 4 // ABSENT_BYTES)),
            order=OrderTable(self._kv),
            live=settings.live,
            record=self._record,
            now_ms=self._clock.now_ms,
            started_ms=self._clock.now_ms(),
            max_frame=settings.listen.max_frame,
            max_topics_per_broker=limits.max_topics_per_broker,
            commit_kv=self._kv_file.commit,
            config_text=self._remote_config.text,
            update_config=self._remote_config.update,
            control=Control(
                health=self.health,
                statistics=lambda: self._report.statistics(),
                condition=lambda: self._report.condition(),
                revision=lambda: self._revision.value,
                wall_ms=wall_ms,
                recent=self._recorder.recent,
                release_guard=self._release_guard,
                remote=settings.allow_remote_config,
                values_shown_to=settings.memory.kv_values_shown_to,
            ),
            groups=GroupBook(self._routes, lambda: self._revision.value),
            erred=self._upkeep.erred,
        )
        self._windows = Windows(
            self._services, self._revision, last_seq=lambda: self._recorder.last_seq
        )
        self._watchers = self._services.watchers = Watchers(
            node=self._recorder.node_id,
            boot=secrets.token_hex(8),
            revision=lambda: self._revision.value,
            route_of=lambda topic: told_route(topic, self._services),
            topics_of=self._topics_of,
            last_seq=lambda: self._recorder.last_seq,
            now_ms=self._clock.now_ms,
            account=self._account,
            max_kept=min(KEPT_BYTES, budgets.caches // 16),
            max_feed=min(FEED_BYTES, budgets.caches // 16),
        )
        self._recorder.on_record = self._watchers.record
        self._memory = MemoryWatch(self._account, shed=self._shed, pack=self._recorder.pack)
        self._report = NodeReport(
            self._services,
            self._watchers,
            recorder=self._recorder,
            revision=self._revision,
            clock=self._clock,
            memory=self._memory,
            kv_file=self._kv_file,
            upkeep=self._upkeep,
        )
        self._production = ProductionRoutes(settings.test_cluster)
        if settings.test_cluster.enabled:
            self._services.find_in_production = self._find_in_production
        self._service: Service | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: GatewayProcess | None = None
        self.gateway_ready: Callable[[str], None] = lambda url: None  # told where it listens
        self._fewer = ""  # connections than the settings say, and why

    async def __aenter__(self) -> "NameServer":
        self._take_files()
        own_files = (self._settings.data_dir / name for name in (NODE_ID, remote_config.FILE_NAME))
        for path in (self._settings.kv_path, *own_files):
            clear_away(path)  # what killed nodes left half written
        self._upkeep.watch(asyncio.get_running_loop())
        try:
            view = await self._remembered()
            recovered = self._recover(view)
            changed: Iterator[Event] = iter(())
            if self._recorder.folder is not None:
                # The file of pairs is written before the journal, and by others in between.
                changed = catch_up_kv(view.kv, self._kv.tables, self._revision)
            self._service = Service(
                self._within_limits(self._settings.listen),
                self._settings.tls,
                self._services,
                self._clock,
                budgets=self._account.budgets,
                upkeep=self._upkeep,
            )
            self._recorder.pause = self._service.after_others
            await self._service.start()
            self._report.service, self._report.address = self._service, self.address
        except BaseException:
            self._upkeep.unwatch()
            await self._recorder.stop()
            self._kv_file.close()
            raise
        self._remote_config.set_shown("listenPort", str(self.port))
        identity = self._recorder.identity
        self._record(
            [
                NodeStarted(
                    revision=self._revision.value,
                    cause=Cause.START,
                    peer="",
                    version=__version__,
                    address=self.address,
                    brokers=recovered,
                    topics=self._routes.topics.entries,
                    fleet=identity.fleet,
                    incarnation=identity.incarnation,
                )
            ]
        )
        self._catch_up.tell(changed)
        self._recorder.start()
        self._tasks = [
            self._repeated("watching memory", self._memory.look, LOOK_EVERY_S),
            self._repeated(
                "looking for the key-value file",
                lambda: self._kv_file.look(self._upkeep),
                LOOK_EVERY_S,
            ),
            self._repeated(
                "logging all pairs", self._kv_file.log_all, KV_LOG_EVERY_S, first_s=KV_LOG_FIRST_S
            ),
            self._repeated(
                "summing up a window", self._windows.tell, self._settings.memory.window_s
            ),
        ]
        if self._settings.gateway.port:
            self._start_gateway(self._service)
        self._report_settings()
        return self

    def _start_gateway(self, service: Service) -> None:
        gateway = self._gateway = GatewayProcess(
            options_of(self._settings, self.host, self.port),
            service.adopt_gateway,
            now_s=self._clock.now_s,
            ready=lambda url: self.gateway_ready(url),
        )
        self._report.gateway = gateway.status
        gateway.start()

    def _repeated(
        self, what: str, turn: Turn, every_s: float, *, first_s: float | None = None
    ) -> asyncio.Task[None]:
        return asyncio.create_task(
            again_and_again(what, turn, every_s=every_s, first_s=first_s, upkeep=self._upkeep)
        )

    def _take_files(self) -> None:
        """Raises SettingsError when another node has them; nothing is left behind then."""
        try:
            self._kv_file.open()
        except SettingsError:
            self._recorder.refuse_taken()  # two nodes with one home: that is the whole of it
            raise
        try:
            self._recorder.open()
        except BaseException:
            self._kv_file.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._service is not None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._gateway is not None:
            self._gateway.leave()
        await self._service.stop()
        if self._gateway is not None:
            await self._gateway.stop()
        await self._notifier.stop()
        await self._production.close()
        await self._catch_up.wait()
        await self._kv_file.flush()
        self._windows.tell_rest()
        self._recorder.tell_rest(last=True)
        self._record(
            [
                NodeStopped(
                    revision=self._revision.value,
                    cause=Cause.STOP,
                    peer="",
                    brokers=len(self._routes.members.live()),
                    topics=self._routes.topics.entries,
                )
            ]
        )
        await self._recorder.stop()
        self._kv_file.close()
        self._upkeep.unwatch()

    @property
    def host(self) -> str:
        """The address it listens on."""
        assert self._service is not None
        return self._service.address[0]

    @property
    def port(self) -> int:
        """The port it listens on, also when the settings said 0."""
        assert self._service is not None
        return self._service.address[1]

    @property
    def address(self) -> str:
        """``host:port``, for clients."""
        return str(Address(self.host, self.port))

    def erred(self, what: str, error: BaseException) -> None:
        """Count an error of something that goes on beside the node, in its health."""
        self._upkeep.erred(what, error)

    def health(self) -> dict[str, object]:
        """How the node is, for people and for programs that watch it."""
        return self._report.health()

    def _within_limits(self, listen: ListenSettings) -> ListenSettings:
        budgets = self._account.budgets
        connections, self._fewer = connections_within(listen.max_connections, budgets.answers)
        return replace(
            listen,
            max_buffered_bytes=min(listen.max_buffered_bytes, budgets.frames),
            max_connections=connections,
        )

    async def _remembered(self) -> View:
        """What the journal says the node knew."""
        folder = self._recorder.folder
        if folder is None:
            return View()
        try:
            with table_memory:
                view = await asyncio.to_thread(recover, folder, wall_ms=wall_ms())
        except JournalError as error:
            raise SettingsError(f"{error}; move the folder away to start without it") from error
        return view or View()

    def _recover(self, view: View) -> int:
        """Go on with what the node knew; how many brokers that is."""
        self._revision.value = self._recorder.revision_after(view.revision)
        if not self._settings.memory.warm_restart:
            self._routes.members.skip_generations(view.generation)
            return 0
        with table_memory:
            recovered = restore(view, self._routes, now_ms=self._clock.now_ms())
        if recovered:
            logger.info(
                "recovered %d brokers and %d routes from the journal, to be confirmed",
                recovered,
                self._routes.topics.entries,
            )
        if view.unsure:
            self._recorder.state_anew()
        return recovered

    def _record(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._recorder.record(event):
                log_event(event)
            self._report.note(event)
            self._services.groups.note(event)
            if not event.changes_routes:
                continue
            self._services.memo.clear()
            self._services.renderer.clear()
            if isinstance(event, BrokerLeft):
                if event.topics_lost:
                    topics = self._routes.topics.abandoned(*event.group)
                    self._services.absences.note(event, wall_ms(), topics)
                if self._service is not None:
                    self._service.clear_away()
            elif isinstance(event, TopicsChanged):
                self._services.absences.note(event, wall_ms(), ())
            elif isinstance(event, MinBrokerChanged) and (
                self._services.live.notify_min_broker_id_changed
            ):
                self._notifier.notify(event)
            self._watchers.note(event)

    def _topics_of(self, cluster: str, broker: str) -> Collection[str]:
        """The topics of a group that is there, or has just gone."""
        group = self._routes.members.find_group(cluster, broker)
        if group is not None:
            return group.registered
        return self._routes.topics.abandoned(cluster, broker)

    def _stalled(self, stall: Stall) -> None:
        self._record(
            [
                NodeStalled(
                    revision=self._revision.value,
                    cause=Cause.STALL,
                    peer="",
                    from_ms=stall.from_ms,
                    to_ms=stall.to_ms,
                    longest_ms=stall.longest_ms,
                    clock_ms=stall.clock_ms,
                )
            ]
        )

    def _shed(self) -> None:
        self._services.memo.clear()
        self._services.renderer.clear()

    def _release_guard(self, peer: str) -> int:
        assert self._service is not None  # somebody asked
        released, leaving = self._routes.release_guard(peer, now_ms=self._clock.now_ms())
        self._service.let_go(leaving)
        return released

    def _use(self, live: LiveSettings) -> None:
        self._services.live = live

    async def _find_in_production(self, request: Command) -> Reply:
        body = await self._production.find(request)
        return Reply(body=body) if body else not_found(request.ext_fields.get("topic"))

    def _report_settings(self) -> None:
        data_dir, kv_path = self._settings.data_dir, self._settings.kv_path
        logger.info("routebook %s, data folder %s", __version__, data_dir)
        folder = self._recorder.folder
        warn_of_modes(data_dir, folder, kv_path, Readers(self._settings.memory.readable_by))
        if self._fewer:
            logger.info("%s", self._fewer)
        if self._settings.ignored:
            logger.warning("settings that do nothing here: %s", ", ".join(self._settings.ignored))
        if self._settings.unknown:
            logger.warning("settings nobody here knows: %s", ", ".join(self._settings.unknown))
