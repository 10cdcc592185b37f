"""Service: the port of a node, which also notices when brokers leave or fall silent."""

import asyncio

from routebook.events import Cause
from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Answer, Caller, Services
from routebook.server.connection import Connection
from routebook.server.port import SWEEP_EVERY_S, Port
from routebook.settings import ListenSettings, TlsSettings
from routebook.wire.command import Command


class Service(Port):
    def __init__(self, listen: ListenSettings, tls: TlsSettings, services: Services) -> None:
        def answer(request: Command, caller: Caller) -> Answer:
            return dispatch(request, services, caller)

        super().__init__(listen, tls, dispatch=answer, memo=services.memo)
        self._services = services
        self._expiry: asyncio.TimerHandle | None = None
        self._clearing = False

    def closed(self, connection: Connection) -> None:
        super().closed(connection)
        if not self._stopped:
            self._services.record(
                self._services.routes.close_link(
                    connection.caller.link, connection.close_cause, connection.caller.peer
                )
            )

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
        services = self._services
        events, links = services.routes.expire(services.now_ms())
        services.record(events)
        for link in links:
            if connection := self._connections.get(link):
                connection.close(Cause.EXPIRED)
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
