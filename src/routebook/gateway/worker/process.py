"""Worker: the process that long work is done in, started when there is some.

One job at a time, a few may wait, the rest are turned away at once. A job that takes too long ends
with its process; a process that has nothing to do for some minutes is let go.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import (
    HEAD,
    Done,
    Job,
    Outcome,
    Progress,
    decode_message,
    frame,
    lengths,
)

logger = logging.getLogger(__name__)

MOST_WAITING = 8
LONGEST_S = 60.0
IDLE_S = 300.0
RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class Answered:
    outcome: Outcome
    body: bytes


class Worker:
    """``longest_s`` is how long one job may take."""

    def __init__(
        self,
        *,
        most_waiting: int = MOST_WAITING,
        longest_s: float = LONGEST_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._most_waiting = most_waiting
        self._longest_s = longest_s
        self._idle_s = idle_s
        self._turn = asyncio.Lock()
        self._asked = 0  # jobs that wait or are being done
        self._process: Process | None = None
        self._letting_go: asyncio.TimerHandle | None = None
        self._ends: set[asyncio.Task[None]] = set()  # of processes that are no longer used

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def do(
        self, job: Job, progress: Callable[[Progress], object] = lambda told: None
    ) -> Answered:
        """Raises Failure when it is not done."""
        if self._asked > self._most_waiting:
            raise Failure(
                503,
                "busy",
                f"{self._most_waiting} questions wait already; ask again in {RETRY_AFTER_S} s",
                retry_after_s=RETRY_AFTER_S,
            )
        self._asked += 1
        try:
            async with self._turn:
                return await self._done(job, progress)
        finally:
            self._asked -= 1

    async def close(self) -> None:
        self._stay()
        process, self._process = self._process, None
        if process is not None:
            self._end(process)
        await asyncio.gather(*self._ends)

    async def _done(self, job: Job, progress: Callable[[Progress], object]) -> Answered:
        self._stay()
        process = await self._running()
        whole = False
        try:
            async with asyncio.timeout(self._longest_s):
                answered = await _exchange(process, job, progress)
            whole = True
        except TimeoutError:
            raise Failure(
                504,
                "took_too_long",
                f"that took more than {self._longest_s:g} s; ask for a shorter period, or use"
                " `routebook history` on the machine of the node",
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            logger.exception("the worker ended in the middle of a question: %s", job.question)
            raise Failure(
                500, "internal", "the process that answers this ended; the log says more"
            ) from error
        finally:
            if whole:
                loop = asyncio.get_running_loop()
                self._letting_go = loop.call_later(self._idle_s, self._let_go)
            else:  # also when whoever asked went away: nobody would read the rest
                self._process = None
                await asyncio.shield(self._end(process))
        return answered

    async def _running(self) -> Process:
        process = self._process
        if process is None or process.returncode is not None:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "routebook.gateway.worker.program",
                stdin=PIPE,
                stdout=PIPE,
                stderr=None,  # its log is the gateway's
                limit=2**20,
            )
        return process

    def _stay(self) -> None:
        if self._letting_go is not None:
            self._letting_go.cancel()
            self._letting_go = None

    def _let_go(self) -> None:
        """It has nothing to do."""
        process, self._process = self._process, None
        if process is not None:
            self._end(process)

    def _end(self, process: Process) -> "asyncio.Task[None]":
        """Have a process end, also when nobody waits for it; ``close`` does."""
        end = asyncio.get_running_loop().create_task(_ended(process))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return end


async def _exchange(process: Process, job: Job, progress: Callable[[Progress], object]) -> Answered:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(frame(job))
    await process.stdin.drain()
    while True:
        header, body = lengths(await process.stdout.readexactly(HEAD))
        message = decode_message(await process.stdout.readexactly(header))
        content = await process.stdout.readexactly(body)
        if isinstance(message, Done):
            return Answered(message.outcome, content)
        progress(message)


async def _ended(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
