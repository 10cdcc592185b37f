"""Service: the port of a node, which also notices when brokers leave or fall silent.

One connection may have thousands of brokers, and a network all of them: they leave a few a turn.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from time import monotonic
from typing import Any

from routebook.events import Cause
from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.slicing import recorded
from routebook.histogram import Histogram
from routebook.server.background import Upkeep
from routebook.server.connection import Connection
from routebook.server.hang_ups import CLOSED_A_TURN
from routebook.server.loop_clock import LoopClock
from routebook.server.port import BUDGETS, SLICE_S, Port
from routebook.server.watching import Watching
from routebook.settings import ListenSettings, TlsSettings
from routebook.slices import Slices
from routebook.state.account import Budgets
from routebook.state.facts import Changes
from routebook.state.model import Link
from routebook.wire.command import Command, Reply
from routebook.wire.overview import ON_BEHALF_OF

logger = logging.getLogger(__name__)

LONGEST_PEER = 200
SAMPLED = 63  # one of 64 requests is timed


class Service(Port):
    def __init__(
        self,
        listen: ListenSettings,
        tls: TlsSettings,
        services: Services,
        clock: LoopClock,
        *,
        budgets: Budgets = BUDGETS,
        upkeep: Upkeep | None = None,
    ) -> None:
        def answer(request: Command, caller: Caller) -> HandlerResult:
            self._asked += 1
            if self._asked & SAMPLED:
                return dispatch(request, services, caller)
            began = monotonic()
            return self._timed(dispatch(request, services, caller), began)

        super().__init__(
            listen,
            tls,
            dispatch=answer,
            memo=services.memo,
            clock=clock,
            budgets=budgets,
            upkeep=upkeep,
        )
        self._services = services
        self._asked = 0
        self.durations = Histogram()  # of one in 64 answers that are not kept in memory
        self._hung_up: dict[Link, str] = {}  # while a stall is caught up with, and their peers
        self._idle: dict[Link, str] = {}  # links closed by the present sweep, and their peers
        self._clearing = False
        self._expiring = False  # it may take more than one sweep
        self._background: deque[Slices[Any]] = deque()
        services.carry_on = self.carry_on
        self._watchers = services.watchers
        self._watching: Watching | None = None
        if services.watchers is not None:
            self._watching = Watching(
                services.watchers,
                find=self._connections.get,
                carry_on=self.carry_on,
                upkeep=self.upkeep,
            )

    async def adopt_gateway(self, sock: socket.socket, ended: Callable[[], None]) -> Connection:
        """Serve the node's own gateway. It may say for whom it asks."""

        def answer(request: Command, caller: Caller) -> HandlerResult:
            behalf = request.ext_fields.get(ON_BEHALF_OF)
            if behalf:
                caller = replace(caller, peer=behalf[:LONGEST_PEER])
            return self.dispatch(request, caller)

        return await self.adopt(sock, ended, answer)

    def _timed(self, answer: HandlerResult, began: float) -> HandlerResult:
        """The same answer; it is noted how long it took until it was there."""
        if isinstance(answer, Reply):
            self.durations.add(monotonic() - began)
            return answer
        if isinstance(answer, Generator):
            return self._timed_slices(answer, began)
        return self._timed_wait(answer, began)

    def _timed_slices(self, answer: Slices[Reply], began: float) -> Slices[Reply]:
        reply = yield from answer
        self.durations.add(monotonic() - began)
        return reply

    async def _timed_wait(self, answer: Awaitable[Reply], began: float) -> Reply:
        reply = await answer
        self.durations.add(monotonic() - began)
        return reply

    def closed(self, connection: Connection) -> None:
        super().closed(connection)
        if self._watchers is not None and self._watchers.find(connection.caller.link) is not None:
            self.carry_on(self._watchers.end(connection.caller.link))
        if self.draining:
            return  # brokers are still there, only the node goes
        services, caller = self._services, connection.caller
        if not services.routes.members.has_link(caller.link):
            return  # nobody lived by it, as by most
        if connection.close_cause is Cause.IDLE:
            # One sweep may close many: whether their brokers are gone is a question about all.
            if not self._idle and self._sweeping is None:
                self.loop.call_soon(self._judge_idle)
            self._idle[caller.link] = caller.peer
            return
        self.clock.notice()  # it may be the first thing that is heard after a stall
        if self.clock.listening.catching_up:
            self._hung_up[caller.link] = caller.peer
        else:
            lost = services.routes.close_link(caller.link, connection.close_cause, caller.peer)
            self.carry_on(recorded(lost, services))

    def caught_up(self) -> None:
        """See who is gone of those who hung up during a stall, now that all have been heard.

        Who has registered over another connection since is there. Others may have hung up because
        nobody answered: after a stall that is long enough for that they have a lease from its end
        to return.
        """
        hung_up, self._hung_up = self._hung_up, {}
        if hung_up and not self.draining:
            listening = self.clock.listening
            lease_from_ms = listening.woke_ms if listening.gave_up else None
            services = self._services
            lost = services.routes.close_links(hung_up, lease_from_ms=lease_from_ms)
            self.carry_on(recorded(lost, services))

    def swept(self) -> None:
        if self._idle:
            self.loop.call_soon(self._judge_idle)

    def _judge_idle(self) -> None:
        idle, self._idle = self._idle, {}
        if idle and not self._stopped:
            self.let_go(self._services.routes.idle_links(idle, now_ms=self.clock.heard_ms))

    def let_go(self, silent: Changes[list[Link]]) -> None:
        """Have brokers that fell silent leave, and close what connections they have left."""
        self.carry_on(self._let_go(silent))

    def _let_go(self, silent: Changes[list[Link]]) -> Slices[None]:
        links = yield from recorded(silent, self._services)
        for number, link in enumerate(links, start=1):
            if connection := self._connections.get(link):
                connection.close(Cause.EXPIRED)
            if number % CLOSED_A_TURN == 0:
                yield

    # -- what nobody waits for

    def carry_on(self, work: Slices[Any]) -> None:
        """Do ``work``: what is quickly done at once, the rest a slice a turn."""
        self._background.append(work)
        if len(self._background) == 1:
            self._work_in_background()

    def _work_in_background(self) -> None:
        until = self.loop.time() + SLICE_S
        while self._background:
            work = self._background[0]
            try:
                for _ in work:
                    if self.loop.time() > until:
                        self.freeze()
                        self.loop.call_soon(self._work_in_background)
                        return
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # whatever it is, those behind it are to be done
                logger.exception("something that nobody waited for failed; going on")
                self.upkeep.erred("what nobody waited for", error)
            self._background.popleft()

    def reads_again(self, connection: Connection) -> None:
        if self._watchers is not None:
            self._watchers.unpark(connection.caller.link)

    def expects_silence(self, connection: Connection) -> bool:
        """Who watches is sent bookmarks, and has nothing to say."""
        link = connection.caller.link
        return self._watchers is not None and self._watchers.find(link) is not None

    async def stop(self) -> None:
        if self._watching is not None:
            await self._watching.say_goodbye()
        await super().stop()
        while self._background:  # noqa: ASYNC110 - it ends by turns of the loop
            await asyncio.sleep(0)

    def clear_away(self) -> None:
        """Clear away what brokers that left have left behind, a little at a time."""
        if not self._clearing:
            self._clearing = True
            self.loop.call_soon(self._clear_some)

    def _clear_some(self) -> None:
        self._clearing = False  # whatever happens now, the next who leaves begins it again
        if self._services.routes.topics.clear_some():
            self._clearing = True
            self.loop.call_soon(self._clear_some)

    def sweep(self) -> None:
        super().sweep()
        self.expire_brokers()

    def expire_brokers(self) -> None:
        """Drop brokers whose deadline has passed."""
        if self.draining or self._expiring:  # told to go away, they cannot be heard of
            return
        self._expiring = True
        self.carry_on(self._expired())

    def _expired(self) -> Slices[None]:
        try:
            yield from self._let_go(self._services.routes.expire(self.clock.heard_ms))
        finally:
            self._expiring = False
