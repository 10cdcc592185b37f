"""Port: listen, keep watch over connections, stop in order. Who answers is said from outside."""

import asyncio
import errno
import ipaddress
import itertools
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic

from routebook.events import Cause
from routebook.handlers.memo import Memo
from routebook.histogram import Histogram
from routebook.server.acceptor import Acceptor
from routebook.server.background import Upkeep, again_and_again
from routebook.server.budget import FREE_BYTES, InputBudget
from routebook.server.connection import Connection, Dispatch
from routebook.server.descriptors import ConnectionRoom
from routebook.server.encrypting import Encrypting
from routebook.server.freezing import freezer
from routebook.server.hang_ups import CLOSED_A_TURN, HangUps
from routebook.server.loop_clock import LoopClock
from routebook.server.pending import Awaited, Pending, Share
from routebook.server.receiving import Receiving
from routebook.server.scheduler import Lane, Scheduler
from routebook.server.tls import RELOAD_EVERY_S, FollowedFiles, server_context
from routebook.server.unread_answers import UnreadAnswers
from routebook.settings import ListenSettings, SettingsError, TlsSettings
from routebook.slices import Slices
from routebook.state.account import MIB, Budgets, Kind, shared_out
from routebook.state.listening import TICK_MS

logger = logging.getLogger(__name__)

SWEEP_EVERY_MS = 1000
SWEPT_A_SLICE = 2000  # connections looked at
TURNS = 6  # a connection in the backlog is accepted, made, watched and read in four
SLICE_S = 0.002  # longer than this no answer keeps the others waiting
PATIENCE = 25  # turns that what is done last leaves to others
LINGER_S = 5.0  # for answers to reach a peer that is being closed
BUDGETS = shared_out(2048 * MIB)  # of a port that is told nothing of memory


class Port:
    def __init__(
        self,
        listen: ListenSettings,
        tls: TlsSettings,
        *,
        dispatch: Dispatch,
        memo: Memo,
        clock: LoopClock | None = None,
        budgets: Budgets = BUDGETS,
        upkeep: Upkeep | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.upkeep = upkeep or Upkeep()
        self._listen = listen
        self._behind: set[Connection] = set()  # not yet heard to the end after a stall
        self._behind_at_ms = 0  # time paused when it was seen who they are
        self._swept_ms = 0
        self._sweeping: Slices[None] | None = None
        self._slept_s: float | None = None  # since when nobody kept watch
        self.lags = Histogram()  # by how much a turn came later than it was due
        self._connections: dict[int, Connection] = {}
        self._inside: dict[Connection, Callable[[], None]] = {}  # and whom to tell of its end
        self._links = itertools.count(1)
        self._acceptor: Acceptor | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._in_line: deque[Connection] = deque()
        self._calling: deque[Connection] = deque()
        self._until: dict[Share, float] = {}  # in this turn of the loop
        self._giving = False
        self.scheduler: Scheduler[Connection] = Scheduler()
        self.pending = Pending()
        self.receiving = Receiving(self.loop.call_soon)
        self.hang_ups = HangUps(self.loop.call_soon)
        self.freeze = freezer()
        self.encrypting = Encrypting(self.loop.call_soon)
        self._working = False
        self._stopped = False
        self._refusing = False
        self.clock = clock or LoopClock()
        # Remainders of all connections together are free up to half of the budget.
        free = listen.max_buffered_bytes // 2 // listen.max_connections
        self.budget = InputBudget(
            listen.max_buffered_bytes,
            most=listen.max_buffered_bytes + budgets.frames,
            free=min(FREE_BYTES, max(256, free)),
        )
        self._room = ConnectionRoom(listen.max_connections, budgets.answers)
        # One whole answer is never too much.
        self.unread = UnreadAnswers(
            max(budgets.answers, listen.max_frame),
            of_one_host=max(budgets.of_one_peer(budgets.answers), listen.max_frame),
        )
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
        assert self._acceptor is not None
        return self._acceptor.address

    async def start(self) -> None:
        """Listen; raises SettingsError when the address is not to be had."""
        listen = self._listen
        self._acceptor = Acceptor(
            lambda: Connection(self), lambda: self._room.left(len(self._connections))
        )
        try:
            await self._acceptor.listen(
                listen.bind_address, listen.listen_port, backlog=max(1, listen.backlog)
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

    @property
    def open_connections(self) -> int:
        """Without that of the gateway."""
        return len(self._connections) - len(self._inside)

    def memory(self) -> dict[Kind, Mapping[str, int]]:
        """What connections hold, in bytes, by host; of themselves it is not told."""
        return {
            Kind.FRAMES: self.budget.by_host,
            Kind.ANSWERS: self.unread.by_host,
            Kind.CONNECTIONS: {"": self._room.taken(len(self._connections))},
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
        full = self._room.left(len(self._connections)) < 0 and not connection.inside
        if full or self.draining:
            if not self._refusing and not self.draining:
                logger.warning(
                    "refusing connections from %s on: %d are open (maxConnections)",
                    connection.caller.peer,
                    len(self._connections) - 1,
                )
                self._refusing = True
            connection.abort()
            return
        # By default a connection is told as soon as anything waits to be read by its peer: a
        # transport keeps a whole answer until its last byte is sent.
        transport.set_write_buffer_limits(*self._listen.water_marks)
        sock = transport.get_extra_info("socket")
        for option, size in (
            (socket.SO_SNDBUF, self._listen.send_buffer),
            (socket.SO_RCVBUF, self._listen.receive_buffer),
        ):
            if size and sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    async def adopt(
        self, sock: socket.socket, ended: Callable[[], None], dispatch: Dispatch | None = None
    ) -> Connection:
        """Serve a connection from inside the node; ``ended`` is called when it is lost."""

        def made() -> Connection:
            connection = Connection(self, inside=True, dispatch=dispatch)
            self._inside[connection] = ended
            return connection

        _, connection = await self.loop.connect_accepted_socket(made, sock)
        return connection

    def begin_tls(self, connection: Connection) -> bool:
        """Whether there is memory for a TLS session of ``connection``."""
        return self._room.begin_tls(connection, len(self._connections))

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection.caller.link, None)
        if (ended := self._inside.pop(connection, None)) is not None:
            ended()
        self._room.leave(connection)
        if len(self._connections) < self._listen.max_connections * 9 // 10:
            self._refusing = False  # who comes and goes at the limit is told of once
        self.budget.forget(connection)
        self.unread.forget(connection)

    def reads_again(self, connection: Connection) -> None:
        """The peer has read all that was written to it."""

    def expects_silence(self, connection: Connection) -> bool:
        """Whether the peer has reason to say nothing for long."""
        return False

    # -- turns of those who send more than one turn takes, and of those who call

    def line_up(self, connection: Connection) -> None:
        """Give ``connection`` another turn after those who wait for theirs."""
        self._in_line.append(connection)
        self._will_give_turns()

    def may_go_on(self, share: Share) -> bool:
        """Whether there is time left for such requests in the present turn of the loop."""
        now = monotonic()
        until = self._until.get(share)
        if until is not None:
            return now < until
        if not self._until:
            self.loop.call_soon(self._until.clear)
        self._until[share] = now + SLICE_S
        return True

    def line_up_call(self, connection: Connection) -> bool:
        """Give ``connection`` a turn after other calls; False: too many wait for theirs."""
        if not self.pending.enter(Awaited.CALL, connection.host):
            return False
        self._calling.append(connection)
        self._will_give_turns()
        return True

    def _will_give_turns(self) -> None:
        if not self._giving:
            self._giving = True
            self.loop.call_soon(self._give_turns)

    def _give_turns(self) -> None:
        """A turn for as many as there is time for; everybody else is heard in between."""
        until = monotonic() + SLICE_S
        self._until.clear()  # those who wait come before those who ask in this turn
        try:
            for _ in range(len(self._in_line)):
                self._in_line.popleft().take_turn()
                if monotonic() > until:
                    break
            while self._calling and self.may_go_on(Share.CALLS):
                connection = self._calling.popleft()
                self.pending.leave(Awaited.CALL, connection.host)
                connection.take_turn()
        finally:
            self._giving = bool(self._in_line or self._calling)
            if self._giving:
                self.loop.call_soon(self._give_turns)

    # -- long work: one answer of each lane at a time, so memory is bounded

    def work_on(self, connection: Connection) -> bool:
        """Begin with a sliced answer now, or have it wait for its turn; False: no room."""
        lane, idle = connection.lane, not self.scheduler and not self._working
        # Receiving and checking a large body took its time; decoding it is another turn.
        if idle and not connection.large and connection.advance(monotonic() + SLICE_S):
            return True
        if not self.scheduler.put(lane, connection.host, connection):
            return False
        if len(self.scheduler) == 1 and not self._working:
            self.loop.call_soon(self._work)
        return True

    def _work(self) -> None:
        until = monotonic() + SLICE_S
        self._working = True  # answers submitted meanwhile wait for their turn
        try:
            while picked := self.scheduler.pick():
                lane, connection = picked
                given = connection.advance(until)
                self.freeze()
                if given:
                    self.scheduler.leave(lane)
                    connection.proceed()
                elif lane is Lane.REGISTRATION and connection.outlasts_its_trial:
                    self.scheduler.leave(lane)
                    # Only one of a lane is open: the others are given up and begun anew.
                    if self.scheduler.is_idle(Lane.LARGE) or connection.start_over():
                        self._put_large(connection)
                if monotonic() > until:
                    break
        finally:
            self._working = False
            if self.scheduler:
                self.loop.call_soon(self._work)

    def _put_large(self, connection: Connection) -> None:
        if not self.scheduler.put(Lane.LARGE, connection.host, connection):
            connection.say_busy()
            connection.proceed()

    def work_status(self) -> dict[str, dict[str, int]]:
        """How many answers wait for their turn, and how many found no room; for health."""
        scheduler, pending = self.scheduler.status(), self.pending.status()
        return {name: scheduler[name] | pending[name] for name in ("waiting", "refused")}

    async def after_others(self) -> None:
        """Wait while others work, but not for ever: for what is done last."""
        for _ in range(PATIENCE):
            await asyncio.sleep(0)
            if not (self.scheduler or self._in_line or self._calling):
                return

    # -- watching

    async def _hear(self) -> None:
        """Let everybody who waits be heard; then, and only then, see who is silent."""
        if self._slept_s is not None:
            self.lags.add(self.loop.time() - self._slept_s - TICK_MS / 1000)
        try:
            await self._keep_watch()
        finally:
            self._slept_s = self.loop.time()

    async def _keep_watch(self) -> None:
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
        waiting = self._acceptor is not None and self._acceptor.behind
        return waiting or bool(self._behind)

    def caught_up(self) -> None:
        """After a stall: everybody who was waiting has been heard."""

    def sweep(self) -> None:
        """What is looked after a few times a second."""
        heard_ms = self.clock.heard_ms
        if heard_ms - self._swept_ms >= SWEEP_EVERY_MS and self._sweeping is None:
            self._swept_ms = heard_ms
            self._sweeping = self._sweep_connections(heard_ms / 1000)
            self._sweep_some()

    def _sweep_some(self) -> None:
        assert self._sweeping is not None
        done = True  # also when it fails: the next sweep begins anew
        try:
            done = next(self._sweeping, True) is True
        finally:
            if done:
                self._sweeping = None
                self.swept()
            else:
                self.loop.call_soon(self._sweep_some)

    def _sweep_connections(self, now: float) -> Slices[None]:
        """Close connections that are idle, that trickle a frame, or that do not finish closing."""
        closed = 0
        for number, connection in enumerate(list(self._connections.values()), start=1):
            closed += self._closed_by_sweep(connection, now)
            if closed == CLOSED_A_TURN or number % SWEPT_A_SLICE == 0:
                closed = 0
                yield

    def _closed_by_sweep(self, connection: Connection, now: float) -> bool:
        idle_s, frame_s = self._listen.idle_timeout_s, self._listen.frame_timeout_s
        if connection.closing_since is not None:
            if now - connection.closing_since <= LINGER_S:
                return False
            connection.abort()
        elif (
            connection.partial_since is not None
            and not connection.waits
            and now - connection.partial_since > frame_s
        ):
            connection.offend(f"a frame was not complete after {frame_s} s")
        elif (
            idle_s
            and now - connection.active_at > idle_s
            and not connection.busy
            and not self.expects_silence(connection)
        ):
            logger.info("closing connection of %s: idle", connection.caller.peer)
            connection.abort(Cause.IDLE)
        else:
            return False
        return True

    def swept(self) -> None:
        """All connections have been looked at."""

    # -- stopping

    async def stop(self) -> None:
        """Stop accepting, let peers go, finish answers, close."""
        self.draining = True
        if self._acceptor is not None:
            await self._acceptor.close()
        others = len(self._connections) - len(self._inside)
        if self.go_away and others:
            logger.info("telling %d connections to go away", others)
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
        # The gateway stays until the last: it tells those who ask that the node stops.
        while len(self._connections) > len(self._inside) and self.loop.time() < deadline:  # noqa: ASYNC110 - for many reasons
            await asyncio.sleep(0.01)


def _listen_failure(listen: ListenSettings, error: OSError) -> str:
    where = f"{listen.bind_address}:{listen.listen_port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use; stop what listens there or choose another --listen-port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{where} needs privileges; choose a --listen-port above 1023"
    return f"cannot listen on {where} ({error.strerror or error}); check --bind-address"
