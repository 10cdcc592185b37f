"""Service: the port of a node, which also notices when brokers leave or fall silent."""

import asyncio
from collections.abc import Iterable

from routebook.events import Cause, Event
from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Answer, Caller, Services
from routebook.server.connection import Connection
from routebook.server.port import SWEEP_EVERY_S, Port
from routebook.settings import ListenSettings, TlsSettings
from routebook.state.model import Link
from routebook.wire.command import Command


class Service(Port):
    def __init__(self, listen: ListenSettings, tls: TlsSettings, services: Services) -> None:
        def answer(request: Command, caller: Caller) -> Answer:
            return dispatch(request, services, caller)

        super().__init__(listen, tls, dispatch=answer, memo=services.memo)
        self._services = services
        self._expiry: asyncio.TimerHandle | None = None
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
        else:
            services.record(
                services.routes.close_link(caller.link, connection.close_cause, caller.peer)
            )

    def _judge_idle(self) -> None:
        idle, self._idle = self._idle, {}
        if not self._stopped:
            self.let_go(*self._services.routes.idle_links(idle, now_ms=self._services.now_ms()))

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
        self._clearing = self._services.routes.topics.clear_some()
        if self._clearing:
            self.loop.call_soon(self._clear_some)

    def sweep(self) -> None:
        super().sweep()
        self.expire_brokers()

    def expire_brokers(self) -> None:
        """Drop brokers whose deadline has passed, and come back at the next deadline."""
        if self.draining:
            return  # told to go away, they cannot be heard of
        services = self._services
        self.let_go(*services.routes.expire(services.now_ms()))
        due_ms = services.routes.members.next_deadline_ms()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if due_ms is not None:
            wait_s = max(0.0, (due_ms - services.now_ms()) / 1000) + 0.002
            if wait_s < SWEEP_EVERY_S:
                self._expiry = self.loop.call_later(wait_s, self.expire_brokers)

    async def stop(self) -> None:
        await super().stop()
        if self._expiry is not None:
            self._expiry.cancel()
