"""Port: listen, keep watch over connections, stop in order. Who answers is said from outside."""

import asyncio
import errno
import ipaddress
import itertools
import logging
import socket
import ssl
from collections import deque

from routebook.events import Cause
from routebook.listener import close_listener
from routebook.server.budget import FREE_BYTES, InputBudget
from routebook.server.connection import Connection, Dispatch, Memo
from routebook.server.descriptors import CONNECTION_BYTES
from routebook.server.lasting import Upkeep, again_and_again
from routebook.server.loopclock import LoopClock
from routebook.server.tls import RELOAD_EVERY_S, FollowedFiles, server_context
from routebook.server.unread import UnreadAnswers
from routebook.settings import ListenSettings, SettingsError, TlsSettings
from routebook.state.account import Kind
from routebook.state.listening import TICK_MS

logger = logging.getLogger(__name__)

SWEEP_EVERY_MS = 1000
TURNS = 6  # a connection in the backlog is accepted, made, watched and read in four
SLICE_S = 0.002  # longer than this no answer keeps the others waiting
LINGER_S = 5.0  # for answers to reach a peer that is being closed
MAX_UNREAD = 256 * 1024 * 1024  # of all answers together, unless told otherwise


class Port:
    def __init__(
        self,
        listen: ListenSettings,
        tls: TlsSettings,
        *,
        dispatch: Dispatch,
        memo: Memo,
        clock: LoopClock | None = None,
        upkeep: Upkeep | None = None,
        max_unread: int = MAX_UNREAD,
    ) -> None:
        self.upkeep = upkeep or Upkeep()
        self._listen = listen
        self._behind: set[Connection] = set()  # not yet heard to the end after a stall
        self._behind_at_ms = 0  # time paused when it was seen who they are
        self._swept_ms = 0
        self._connections: dict[int, Connection] = {}
        self._links = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._at_work: deque[Connection] = deque()
        self._working = False
        self._stopped = False
        self._refusing = False
        self.loop = asyncio.get_running_loop()
        self.clock = clock or LoopClock()
        # Remainders of all connections together are free up to half of the budget.
        free = listen.max_buffered_bytes // 2 // listen.max_connections
        self.budget = InputBudget(listen.max_buffered_bytes, min(FREE_BYTES, max(256, free)))
        # One whole answer is never too much.
        self.unread = UnreadAnswers(max(max_unread, listen.max_frame))
        self.dispatch = dispatch
        self.memo = memo
        self.max_frame = listen.max_frame
        self.tls_settings = tls
        self._tls_files = FollowedFiles(tls, self._use_tls)
        self.tls_context = server_context(tls)
        self.draining = False
        self.go_away = listen.go_away

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        """Listen; raises SettingsError when the address is not to be had."""
        listen = self._listen
        try:
            self._server = await self.loop.create_server(
                lambda: Connection(self),
                listen.bind_address,
                listen.listen_port,
                backlog=listen.backlog,
                reuse_address=True,
                reuse_port=False,
            )
        except OSError as error:
            raise SettingsError(_listen_failure(listen, error)) from error
        self.clock.begin()
        self._tasks.append(
            self.loop.create_task(
                again_and_again(
                    "keeping watch", self._hear, every_s=TICK_MS / 1000, upkeep=self.upkeep
                )
            )
        )
        if self.tls_context is not None:
            self._tasks.append(
                self.loop.create_task(
                    again_and_again(
                        "looking for new TLS files",
                        self._tls_files.look,
                        every_s=RELOAD_EVERY_S,
                        upkeep=self.upkeep,
                    )
                )
            )

    def _use_tls(self, context: ssl.SSLContext) -> None:
        self.tls_context = context

    def memory(self) -> dict[Kind, int]:
        """What connections hold, in bytes."""
        return {
            Kind.FRAMES: self.budget.used,
            Kind.ANSWERS: self.unread.used,
            Kind.CONNECTIONS: len(self._connections) * CONNECTION_BYTES,
        }

    # -- connections

    def next_link(self) -> int:
        return next(self._links)

    def trusts_proxy(self, host: str) -> bool:
        if not self._listen.trusted_proxies:
            return False
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:  # gone before it could be asked for its address
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._listen.trusted_proxies)

    def opened(self, connection: Connection) -> None:
        self._connections[connection.caller.link] = connection
        transport = connection.transport
        if len(self._connections) > self._listen.max_connections or self.draining:
            if not self._refusing and not self.draining:
                logger.warning(
                    "refusing connections from %s on: %d are open (maxConnections)",
                    connection.caller.peer,
                    self._listen.max_connections,
                )
                self._refusing = True
            connection.abort()
            return
        # By default a connection is told as soon as anything waits to be read by its peer: a
        # transport keeps a whole answer until its last byte is sent.
        transport.set_write_buffer_limits(self._listen.high_water, self._listen.low_water)
        sock = transport.get_extra_info("socket")
        for option, size in (
            (socket.SO_SNDBUF, self._listen.send_buffer),
            (socket.SO_RCVBUF, self._listen.receive_buffer),
        ):
            if size and sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection.caller.link, None)
        if len(self._connections) < self._listen.max_connections * 9 // 10:
            self._refusing = False  # who comes and goes at the limit is told of once
        self.budget.forget(connection)
        self.unread.forget(connection)

    # -- long work, one answer at a time so that its memory is bounded

    def work_on(self, connection: Connection, *, large: bool) -> None:
        """Begin with a sliced answer now, or have it wait for its turn."""
        self._at_work.append(connection)
        if len(self._at_work) > 1 or self._working:
            return
        # Receiving and checking a large body took its time; decoding it is another turn.
        if not large and connection.advance(self.loop.time() + SLICE_S):
            self._at_work.popleft()
        else:
            self.loop.call_soon(self._work)

    def _work(self) -> None:
        until = self.loop.time() + SLICE_S
        self._working = True  # answers submitted meanwhile wait for their turn
        try:
            while self._at_work and self._at_work[0].advance(until):
                self._at_work.popleft().proceed()
                if self.loop.time() > until:
                    break
        finally:
            self._working = False
            if self._at_work:
                self.loop.call_soon(self._work)

    # -- watching

    async def _hear(self) -> None:
        """Let everybody who waits be heard; then, and only then, see who is silent."""
        clock = self.clock
        clock.notice()
        at_ms = clock.now_ms()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if not clock.listening.settles(at_ms, behind=self._is_behind()):
            return
        if clock.listening.catching_up:
            self.caught_up()
            clock.listening.caught_up()
            self._behind.clear()
        self.sweep()

    def _is_behind(self) -> bool:
        """Whether a connection that had to wait for us when we woke has had no turn since."""
        listening, open_now = self.clock.listening, self._connections.values()
        if not listening.catching_up:
            return False
        if self._behind_at_ms != listening.paused_ms:
            self._behind_at_ms = listening.paused_ms
            self._behind.update(open_now)
        self._behind = {c for c in self._behind.intersection(open_now) if c.unheard}
        return bool(self._behind)

    def caught_up(self) -> None:
        """After a stall: everybody who was waiting has been heard."""

    def sweep(self) -> None:
        """What is looked after a few times a second."""
        heard_ms = self.clock.heard_ms
        if heard_ms - self._swept_ms >= SWEEP_EVERY_MS:
            self._swept_ms = heard_ms
            self.sweep_connections(heard_ms / 1000)

    def sweep_connections(self, now: float) -> None:
        """Close connections that are idle, that trickle a frame, or that do not finish closing."""
        idle_s, frame_s = self._listen.idle_timeout_s, self._listen.frame_timeout_s
        for connection in list(self._connections.values()):
            if connection.closing_since is not None:
                if now - connection.closing_since > LINGER_S:
                    connection.abort()
            elif (
                connection.partial_since is not None
                and not connection.waits
                and now - connection.partial_since > frame_s
            ):
                connection.offend(f"a frame was not complete after {frame_s} s")
            elif idle_s and now - connection.active_at > idle_s and not connection.busy:
                logger.info("closing connection of %s: idle", connection.caller.peer)
                connection.abort(Cause.IDLE)

    # -- stopping

    async def stop(self) -> None:
        """Stop accepting, let peers go, finish answers, close."""
        self.draining = True
        if self._server is not None:
            await close_listener(self._server)
        if self.go_away and self._connections:
            logger.info("telling %d connections to go away", len(self._connections))
            await self._until_empty(self._listen.go_away_s)
        deadline = self.loop.time() + LINGER_S
        while self.loop.time() < deadline:
            if not any(connection.busy for connection in self._connections.values()):
                break
            await asyncio.sleep(0.01)
        self._stopped = True
        for connection in list(self._connections.values()):
            connection.close()
        await self._until_empty(LINGER_S)
        for connection in list(self._connections.values()):
            connection.abort()
        self.clock.notice(last=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until_empty(self, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while self._connections and self.loop.time() < deadline:  # noqa: ASYNC110 - for many reasons
            await asyncio.sleep(0.01)


def _listen_failure(listen: ListenSettings, error: OSError) -> str:
    where = f"{listen.bind_address}:{listen.listen_port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use; stop what listens there or choose another --listen-port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{where} needs privileges; choose a --listen-port above 1023"
    return f"cannot listen on {where} ({error.strerror or error}); check --bind-address"
