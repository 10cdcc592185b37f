"""GatewayProcess: the gateway of a node, a child that is started again whenever it ends.

Node and child have a pair of sockets: what the child asks comes over it as any request does. When
either of them dies the other one finds the end of it. The child says on its standard output where
it listens. Nothing the node does waits for the child.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from routebook.server.connection import Connection
from routebook.server.memory_watch import kill_first
from routebook.settings import Settings

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "routebook", "gateway", "--node-socket")
FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0
STEADY_S = 60.0  # a child that lived as long has not failed to start
SILENCE_S = 15.0  # it asks something every second
LOOK_EVERY_S = 1.0
LEAVE_S = 2.0  # for a child whose node is gone to end by itself

Adopt = Callable[[socket.socket, Callable[[], None]], Awaitable[Connection]]
"""Serves a connection, and calls when it is lost."""


class Said(msgspec.Struct):
    """A line of the child: where it listens, or why it does not."""

    listening: str = ""
    waiting: str = ""


_SAID = msgspec.json.Decoder(Said)


def options_of(settings: Settings, host: str, port: int) -> bytes:
    """What the child of a node that listens there is told, as ``GatewayOptions`` in JSON."""
    gateway = settings.gateway
    return msgspec.json.encode(
        {
            "port": gateway.port,
            "bind": gateway.bind,
            "address_service_port": gateway.address_service_port,
            "address_service_bind": settings.listen.bind_address,
            "advertised_address": gateway.advertised_address,
            "listen_host": host,
            "listen_port": port,
            "name_servers": dict(gateway.name_servers),
            "read_token": gateway.read_token,
            "admin_token": gateway.admin_token,
            "open": gateway.open,
            "hosts": gateway.hosts,
            "log_format": gateway.log_format,
            "data_dir": str(settings.data_dir),
        }
    )


class GatewayProcess:
    """``options`` are handed to the child; ``ready`` is called when it listens, with where.

    ``now_s`` is the time in which the node listened: a child is not silent while the node stalls.
    """

    def __init__(
        self,
        options: bytes,
        adopt: Adopt,
        *,
        now_s: Callable[[], float],
        ready: Callable[[str], None] = lambda url: None,
    ) -> None:
        self._options = options
        self._adopt = adopt
        self._now_s = now_s
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._restarts = 0
        self._said = Said()
        self._trouble: str | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def leave(self) -> None:
        """Start it no more; the one there is goes on until its connection is closed."""
        self._stopping.set()

    async def stop(self) -> None:
        """See it end; its connection is closed."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    def status(self) -> dict[str, object]:
        """For the health of the node."""
        if self._process is None:
            state = "ended"
        elif self._said.listening:
            state = "listening"
        else:
            state = "waiting" if self._said.waiting else "starting"
        return {
            "state": state,
            "address": self._said.listening or None,
            "pid": None if self._process is None else self._process.pid,
            "restarts": self._restarts,
            "trouble": self._said.waiting or self._trouble,
        }

    async def _run(self) -> None:
        loop, rest_s = asyncio.get_running_loop(), FIRST_REST_S
        while True:
            began_s = loop.time()
            try:
                self._trouble = await self._one_life()
            except OSError as error:
                self._trouble = f"it could not be started: {error}"
            except Exception as error:  # whatever it is, the next one is to come
                logger.exception("seeing after the gateway failed")
                self._trouble = f"nobody saw after it: {error!r}"
            if self._stopping.is_set():
                return
            if loop.time() - began_s > STEADY_S:
                rest_s = FIRST_REST_S
            logger.warning(
                "the gateway ended: %s; it is started again in %g s", self._trouble, rest_s
            )
            self._restarts += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return
            rest_s = min(LONGEST_REST_S, rest_s * 2)

    async def _one_life(self) -> str:
        """Start a child and see its end; why it came."""
        ours, theirs = socket.socketpair()
        try:
            # In a thread: the interpreter is started anew, which takes its milliseconds.
            process = await asyncio.to_thread(self._started, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process, self._said = process, Said()
        hearing: asyncio.Task[None] | None = None
        why = "its connection was lost"
        try:
            ours.setblocking(False)
            lost = asyncio.Event()
            connection = await self._adopt(ours, lost.set)
            hearing = asyncio.create_task(self._hear(process))
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await lost.wait()
                if self._now_s() - connection.active_at > SILENCE_S:
                    why = f"it said nothing for {SILENCE_S:g} s"
                    process.kill()
                    connection.abort()
                    await lost.wait()
        finally:
            code = await asyncio.to_thread(_ended, process)
            self._process, self._said = None, Said()
            if hearing is not None:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
            if process.stdout is not None:
                process.stdout.close()
        return f"{why}, and it ended with code {code}"

    def _started(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*COMMAND, str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
        kill_first(process.pid)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, which will be noticed
            process.stdin.write(self._options)
            process.stdin.close()
        return process

    async def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: protocol, process.stdout
        )
        try:
            while line := await reader.readline():
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    self._said = _SAID.decode(line)
                    if self._said.listening:
                        self._ready(self._said.listening)
        except ValueError:  # a line without an end: what else it says is lost
            logger.warning("the gateway said something that is no line")
        finally:
            transport.close()


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """The code of a child that has lost its connection; one that stays is killed."""
    try:
        return process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
