"""Node: one NameServer, connected when it is needed.

A node that cannot be reached, or that takes requests and never answers, rests for a while
that grows with each failure; a request made meanwhile waits for the rest to end, as far as its
own deadline allows. An answer ends all that.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from routebook.client.connection import Connection, Pending
from routebook.client.dialing import Dialing, Endpoint, dial, numeric_endpoints, resolved
from routebook.client.errors import CannotConnect, ConnectionLost, NoAnswer, NodeError
from routebook.client.reasons import why_not_connected
from routebook.client.relayed import Relayed, relayed
from routebook.wire.address import Address
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command

FIRST_REST_S = 0.1
LONGEST_REST_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node answered, whatever the code."""

    node: Address
    command: Command


class Node:
    def __init__(
        self, address: Address, dialing: Dialing | None = None, *, rng: random.Random | None = None
    ) -> None:
        self.address = address
        self._dialing = dialing or Dialing()
        self._rng = rng or random.Random()
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._lookup: asyncio.Task[list[Endpoint]] | None = None
        self._retired: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._rests_until = 0.0
        self._trouble = ""  # why it rests, or did
        self._closed = asyncio.Event()
        self.connection_number = 0
        self.version: int | None = None  # that its last answer carried
        self.relayed: Relayed | None = None  # the oldest answer, if it is a relay that answers

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.closing

    @property
    def rest_s(self) -> float:
        """How long it will not be tried again, 0 when it may be."""
        if self.connected:
            return 0.0
        return max(0.0, self._rests_until - asyncio.get_running_loop().time())

    async def ask(self, command: Command, *, timeout_s: float) -> Answer:
        """The answer, whatever its code; raises NodeError."""
        (answer,) = await self.ask_many([command], timeout_s=timeout_s)
        if isinstance(answer, NodeError):
            raise answer
        return answer

    async def ask_many(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> list[Answer | NodeError]:
        """Ask all at once over one connection; each answer, or why there is none."""
        if not commands:
            return []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            connection = await self._connected(deadline, timeout_s)
            sent = self._send(connection, commands)
        except NodeError as error:
            return [error for _ in commands]
        asked_at = loop.time()
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.wait([pending.answer for pending in sent])
        except TimeoutError:
            # Not one byte since we asked, or never anything that answers a question.
            if connection.heard_at <= asked_at or not connection.answered:
                connection.abort("it was silent for too long")
                self._blame(connection, f"no answer within {timeout_s:.3g} s")
        finally:
            answers = [self._outcome(pending, timeout_s) for pending in sent]
            connection.forget(sent)
        self._judge(connection, answers)
        return answers

    async def tell(self, command: Command, *, timeout_s: float) -> None:
        """Send without expecting an answer; raises NodeError when it cannot be sent."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        connection = await self._connected(deadline, timeout_s)
        try:
            async with asyncio.timeout_at(deadline):
                await connection.writable()
        except TimeoutError:
            raise NoAnswer(self.address, timeout_s) from None
        connection.send_oneway(command)

    async def connection(self, timeout_s: float) -> Connection:
        """The connection there is, made if need be; raises NodeError."""
        return await self._connected(asyncio.get_running_loop().time() + timeout_s, timeout_s)

    async def wait_closed(self) -> None:
        """Until the connection there is now is lost; at once when there is none."""
        if self._connection is not None and not self._connection.closing:
            await self._connection.wait_lost()

    async def recheck_name(self) -> None:
        """Drop a connection to an address the name no longer stands for."""
        connection = self._connection
        if connection is None or connection.closing or numeric_endpoints(self.address):
            return
        try:
            endpoints = await self._look_up()
        except OSError:
            return  # no news
        if connection.peer_host not in {sockaddr[0] for _, sockaddr in endpoints}:
            self._retire(connection)

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed.set()
        waits = [task for task in (self._connecting, self._lookup) if task is not None]
        tasks = [*waits, *self._retired]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def leave(self) -> None:
        """Close when the answers under way have come."""
        if self._connection is not None:
            self._retire(self._connection)
        await asyncio.gather(*self._retired, return_exceptions=True)
        await self.close()

    async def _connected(self, deadline: float, timeout_s: float) -> Connection:
        """The live connection, made if need be; raises NodeError."""
        if self._connection is not None and not self._connection.closing:
            return self._connection
        try:
            async with asyncio.timeout_at(deadline):
                while self._connection is None or self._connection.closing:
                    if self._closed.is_set():
                        raise CannotConnect(self.address, "this client is closed")
                    if rest_s := self.rest_s:
                        await self._rest(rest_s)
                        continue
                    if self._connecting is None:
                        self._connecting = asyncio.create_task(self._connect())
                        self._connecting.add_done_callback(self._connect_ended)
                    return await self._attempt(self._connecting)
        except TimeoutError:
            trouble = f"; before that: {self._trouble}" if self._trouble else ""
            raise CannotConnect(
                self.address, f"no connection within {timeout_s:.3g} s{trouble}"
            ) from None
        return self._connection

    async def _rest(self, rest_s: float) -> None:
        try:
            async with asyncio.timeout(rest_s):
                await self._closed.wait()
        except TimeoutError:
            pass

    async def _attempt(self, connecting: "asyncio.Task[Connection]") -> Connection:
        """One attempt for all who ask; whoever gives up leaves it to the others."""
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise CannotConnect(self.address, "this client is closed")
        return connecting.result()

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._dialing.connect_timeout_s):
                endpoints = numeric_endpoints(self.address) or await self._look_up()
                connection = await dial(self.address, endpoints, self._dialing)
        except TimeoutError:
            limit_s = self._dialing.connect_timeout_s
            raise CannotConnect(self.address, f"no connection within {limit_s:.3g} s") from None
        except OSError as error:  # ssl.SSLError is one too
            raise CannotConnect(self.address, _reason(error)) from error
        self._connection = connection
        self.connection_number += 1
        return connection

    def _connect_ended(self, task: "asyncio.Task[Connection]") -> None:
        self._connecting = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NodeError):
            self._failed(error.what)

    async def _look_up(self) -> list[Endpoint]:
        """Ask the resolver, once for all who wait: a slow one must not collect threads."""
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.create_task(resolved(self.address))
            self._lookup.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._lookup)

    def _send(self, connection: Connection, commands: Sequence[Command]) -> list[Pending]:
        try:
            return connection.send(commands)
        except ConnectionLost as error:
            self._judge(connection, [error])
            raise

    def _outcome(self, pending: Pending, timeout_s: float) -> Answer | NodeError:
        answer = pending.answer
        if not answer.done() or answer.cancelled():
            return NoAnswer(self.address, timeout_s)
        error = answer.exception()
        if error is None:
            command = answer.result()
            self.version = command.version
            told = relayed(command)
            if told is not None and (self.relayed is None or told.age_ms >= self.relayed.age_ms):
                self.relayed = told
            return Answer(self.address, command)
        assert isinstance(error, NodeError)
        return error

    def _judge(self, connection: Connection, answers: Sequence[Answer | NodeError]) -> None:
        """Trust a node that answers; let one rest that breaks off, or wants to be left alone."""
        codes = [answer.command.code for answer in answers if isinstance(answer, Answer)]
        if ResponseCode.GO_AWAY in codes:
            self._retire(connection)
            self._blame(connection, "it wants to be left alone")
        elif codes:
            self._failures = 0
            self._trouble = ""
        elif connection.closing and not connection.answered:
            self._blame(connection, "it closed a connection without an answer")

    def _blame(self, connection: Connection, trouble: str) -> None:
        """Rest, once for each connection, however many requests it fails."""
        if not connection.blamed:
            connection.blamed = True
            self._failed(trouble)

    def _failed(self, trouble: str) -> None:
        self._trouble = trouble
        longest = min(LONGEST_REST_S, FIRST_REST_S * 2**self._failures)
        self._failures = min(self._failures + 1, 16)
        rest_s = longest * self._rng.uniform(0.5, 1.0)
        self._rests_until = asyncio.get_running_loop().time() + rest_s

    def _retire(self, connection: Connection) -> None:
        """Use it no longer, and close it when the answers under way have come."""
        if connection is self._connection:
            self._connection = None
            task = asyncio.create_task(_close_when_done(connection))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)


async def _close_when_done(connection: Connection) -> None:
    try:
        for _ in range(50):
            if not connection.in_flight:
                break
            await asyncio.sleep(0.1)
    finally:
        await connection.close()


def _reason(error: OSError) -> str:
    why = why_not_connected(error)
    return why if why.startswith("connection") else f"cannot connect: {why}"
