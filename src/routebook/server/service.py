"""Service: the port of a node, which also notices when brokers leave or fall silent."""

from collections.abc import Iterable

from routebook.events import Cause, Event
from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Answer, Caller, Services
from routebook.server.connection import Connection
from routebook.server.lasting import Upkeep
from routebook.server.loopclock import LoopClock
from routebook.server.port import Port
from routebook.settings import ListenSettings, TlsSettings
from routebook.state.model import Link
from routebook.wire.command import Command


class Service(Port):
    def __init__(
        self,
        listen: ListenSettings,
        tls: TlsSettings,
        services: Services,
        clock: LoopClock,
        upkeep: Upkeep | None = None,
    ) -> None:
        def answer(request: Command, caller: Caller) -> Answer:
            return dispatch(request, services, caller)

        super().__init__(
            listen, tls, dispatch=answer, memo=services.memo, clock=clock, upkeep=upkeep
        )
        self._services = services
        self._hung_up: dict[Link, str] = {}  # while a stall is caught up with, and their peers
        self._idle: dict[Link, str] = {}  # links closed by the present sweep, and their peers
        self._clearing = False

    def closed(self, connection: Connection) -> None:
        super().closed(connection)
        if self.draining:
            return  # brokers are still there, only the node goes
        services, caller = self._services, connection.caller
        if connection.close_cause is Cause.IDLE:
            # One sweep may close many: whether their brokers are gone is a question about all.
            if not self._idle:
                self.loop.call_soon(self._judge_idle)
            self._idle[caller.link] = caller.peer
            return
        self.clock.notice()  # it may be the first thing that is heard after a stall
        if self.clock.listening.catching_up:
            self._hung_up[caller.link] = caller.peer
        else:
            services.record(
                services.routes.close_link(caller.link, connection.close_cause, caller.peer)
            )

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
            services.record(services.routes.close_links(hung_up, lease_from_ms=lease_from_ms))

    def _judge_idle(self) -> None:
        idle, self._idle = self._idle, {}
        if not self._stopped:
            self.let_go(*self._services.routes.idle_links(idle, now_ms=self.clock.heard_ms))

    def let_go(self, events: Iterable[Event], links: Iterable[Link]) -> None:
        """Record that brokers fell silent, and close what connections they have left."""
        self._services.record(events)
        for link in links:
            if connection := self._connections.get(link):
                connection.close(Cause.EXPIRED)

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
        if not self.draining:  # told to go away, they cannot be heard of
            self.let_go(*self._services.routes.expire(self.clock.heard_ms))
