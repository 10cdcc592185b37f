"""NodeRegistration: keeps one NameServer informed, and delays nobody else while doing so.

It knows which version of the broker's table its node holds, and on which connection the node
said so: a node forgets a broker whose connection is lost. Whenever that is not the table's
version, or the connection is another one, it says what is missing; when a round is
asked for it says everything again, or asks whether the node still holds it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from routebook.agent.announcement import Announcement, Announcer
from routebook.agent.settings import BrokerSettings
from routebook.client.errors import BadAnswer, ConnectionLost, NodeError, Refused
from routebook.client.node import Node
from routebook.client.requests import checked
from routebook.wire.address import Address
from routebook.wire.answers import decode_version
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from routebook.wire.errors import BadBody
from routebook.wire.headers import boolean
from routebook.wire.registration import DataVersion

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
LONGEST_REFUSED_S = 30.0  # a node that refuses will hardly change its mind
UNREGISTER_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one node's share of a round or change; ``error`` None when it holds it."""

    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the node holds it."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How one node stands to the broker.

    ``acknowledged`` is what the node holds on the connection there is now, None for nothing.
    Times are milliseconds since 1970. ``error`` is the last one, whether or not it is over.
    """

    address: Address
    connected: bool
    acknowledged: DataVersion | None
    ok_at_ms: int | None
    error: str | None
    error_at_ms: int | None


@dataclass(frozen=True, slots=True)
class _Demand:
    confirm: bool
    outcome: "asyncio.Future[Outcome]"


class NodeRegistration:
    """``heard`` is told of every answer to a registration, with the number of the last round."""

    def __init__(
        self,
        node: Node,
        announcer: Announcer,
        settings: BrokerSettings,
        *,
        heard: Callable[[int, Command], None],
        rng: random.Random,
    ) -> None:
        self._node = node
        self._announcer = announcer
        self._settings = settings
        self._heard = heard
        self._rng = rng
        self._held: tuple[DataVersion, int] | None = None  # and the number of the connection
        self._server_version = 0
        self._demands: list[_Demand] = []
        self._under_way: list[_Demand] = []
        self._wake = asyncio.Event()
        self._round = 0
        self._ending = False
        self._tasks: list[asyncio.Task[None]] = []
        self._ok_at_ms: int | None = None
        self._error: str | None = None
        self._error_at_ms: int | None = None
        self._complained = ""  # what was logged last, until it is over

    @property
    def address(self) -> Address:
        return self._node.address

    @property
    def held(self) -> DataVersion | None:
        """What the node holds; None for nothing, or when the connection is another one by now."""
        if self._held is None or not self._node.connected:
            return None
        version, connection = self._held
        return version if connection == self._node.connection_number else None

    def start(self, after: "asyncio.Task[Outcome] | None" = None) -> None:
        """Begin; with ``after``, one with the same node that is leaving, when it has left."""
        self._tasks = [asyncio.create_task(self._work(after))]
        if self._settings.heartbeat != "off":
            self._tasks.append(asyncio.create_task(self._beat()))
        for task in self._tasks:
            task.add_done_callback(_report_bug)

    def demand(self, round_number: int, *, confirm: bool) -> "asyncio.Future[Outcome]":
        """Tell the node what it lacks; with ``confirm`` speak to it in any case."""
        self._round = round_number
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if self._ending:
            outcome.set_result(Outcome("the agent is leaving"))
        else:
            self._demands.append(_Demand(confirm, outcome))
            self._wake.set()
        return outcome

    def poke(self) -> None:
        """Look whether the node lacks something."""
        self._wake.set()

    async def recheck_name(self) -> None:
        await self._node.recheck_name()

    async def leave(self) -> Outcome:
        """Unregister, if there is a connection to be listed by, and close."""
        self._ending = True
        self._wake.set()
        try:
            # A registration under way must not be overtaken: servers with several threads
            # may carry out the later request first.
            await asyncio.wait(self._tasks[:1], timeout=UNREGISTER_TIMEOUT_S)
            await self._end_tasks()
            if self._node.connected:
                farewell = self._announcer.farewell()
                answer = await self._node.ask(farewell, timeout_s=UNREGISTER_TIMEOUT_S)
                checked(farewell, answer)
        except NodeError as error:
            logger.warning("%s not unregistered: %s", self._settings.name, error)
            return Outcome(str(error))
        finally:
            await self.close()
        return Outcome()

    async def close(self) -> Outcome:
        """Close the connection without a word."""
        self._ending = True
        await self._end_tasks()
        await self._node.close()
        return Outcome()

    def status(self) -> NodeStatus:
        return NodeStatus(
            self.address,
            self._node.connected,
            self.held,
            self._ok_at_ms,
            self._error,
            self._error_at_ms,
        )

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._answer(self._under_way + self._demands, Outcome("the agent is closed"))

    # -- the work

    async def _work(self, after: "asyncio.Task[Outcome] | None") -> None:
        if after is not None:
            await asyncio.wait([after])
        failures = 0
        while not self._ending:
            self._under_way, self._demands = self._demands, []
            self._wake.clear()
            longest_s = LONGEST_RETRY_S
            try:
                await self._inform(confirm=any(demand.confirm for demand in self._under_way))
            except NodeError as error:
                # Whatever was under way, the node may hold half of it.
                self._held = None
                failures += 1
                self._failed(error)
                if isinstance(error, Refused):
                    longest_s = LONGEST_REFUSED_S
                outcome = Outcome(str(error))
            else:
                failures = 0
                self._ok_at_ms = _now_ms()
                self._complained = ""
                outcome = Outcome()
            self._answer(self._under_way, outcome)
            if failures:
                pause_s = min(longest_s, FIRST_RETRY_S * 2 ** min(failures - 1, 16))
                await self._rest(pause_s * self._rng.uniform(0.5, 1.0))
            else:
                await self._rest(None)

    async def _rest(self, pause_s: float | None) -> None:
        """Until something is to be done: for a while after a failure, or a loss of connection."""
        waits = {asyncio.create_task(self._woken())}
        if pause_s is None:
            waits.add(asyncio.create_task(self._node.wait_closed()))
        try:
            await asyncio.wait(waits, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _woken(self) -> None:
        await self._wake.wait()

    async def _inform(self, *, confirm: bool) -> None:
        """Bring the node to the table's version; raises NodeError."""
        held = self.held
        if held is None or (confirm and not self._announcer.asks_first):
            await self._say_everything(held)
            return
        if held != self._announcer.version:
            await self._say_changes(held)
        if confirm and await self._changed():
            await self._say_everything(self.held)

    async def _say_everything(self, held: DataVersion | None) -> None:
        announcement = await self._announcer.everything(held)
        if held is None and announcement.opening is not None:
            await self._say(announcement, (announcement.opening, *announcement.parts))
        else:
            await self._say(announcement, announcement.parts)
        if held is None:
            logger.info("%s registered with %s", self._settings.name, self.address)

    async def _say_changes(self, held: DataVersion) -> None:
        announcement = self._announcer.changes(held, server_version=self._server_version)
        if announcement is None:
            await self._say_everything(held)
            return
        try:
            await self._say(announcement, announcement.parts)
        except Refused as error:
            # It has forgotten the broker, or cannot add to what it knows.
            logger.info("%s; registering everything", error)
            await self._say_everything(None)

    async def _say(self, announcement: Announcement, commands: tuple[Command, ...]) -> None:
        node = self._node
        connection = node.connection_number if node.connected else None
        for command in commands:
            if self._ending:
                raise ConnectionLost(self.address, "the agent is leaving")
            answer = await node.ask(command, timeout_s=self._settings.round_timeout_s)
            checked(command, answer)
            self._server_version = answer.command.version
            if connection is None:
                connection = node.connection_number
            elif connection != node.connection_number:
                raise ConnectionLost(self.address, "the connection broke between two requests")
            if command.code == RequestCode.REGISTER_BROKER:
                self._heard(self._round, answer.command)
        if connection is not None:
            self._held = (announcement.version, connection)

    async def _changed(self) -> bool:
        """Ask whether the node still holds the table's version, which also keeps it alive."""
        question = self._announcer.question()
        version = self._announcer.version
        answer = await self._node.ask(question, timeout_s=self._settings.round_timeout_s)
        if self.held is None:
            return True  # asked over a new connection, by which the broker is not registered
        said = answer.command
        if said.code != ResponseCode.SUCCESS:
            logger.warning("%s cannot say which version it holds: %s", self.address, said.remark)
            return False
        try:
            stored = decode_version(said.body) if said.body else version
        except BadBody as error:
            raise BadAnswer(self.address, str(error)) from error
        return boolean(said, "changed") is not False or stored != version

    async def _beat(self) -> None:
        every_s = self._settings.heartbeat_s
        while True:
            await asyncio.sleep(every_s)
            if self.held is None:
                continue  # only a registration brings a broker back
            try:
                await self._node.tell(self._announcer.heartbeat(), timeout_s=every_s)
            except NodeError as error:
                logger.debug("heartbeat not sent: %s", error)

    # -- what became of it

    def _failed(self, error: NodeError) -> None:
        self._error, self._error_at_ms = str(error), _now_ms()
        if self._error != self._complained and not self._ending:
            logger.warning("%s not registered: %s", self._settings.name, error)
            self._complained = self._error

    @staticmethod
    def _answer(demands: list[_Demand], outcome: Outcome) -> None:
        for demand in demands:
            if not demand.outcome.done():
                demand.outcome.set_result(outcome)


def _report_bug(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("the registration with a node has ended by itself", exc_info=task.exception())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
