"""Past: what a node believed before the oldest record it still has in memory.

Read from its journal. A small one is read in a thread, a large one in a process of its own, one at
a time: a replay needs the memory of a second node. The last result is kept, for whoever asks again.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from routebook.disk import folder_size
from routebook.events import Cause, StateRestated
from routebook.journal.before import ASK_AGAIN, Before, before, decoded
from routebook.journal.errors import JournalError
from routebook.journal.pairs import cut, without_values
from routebook.journal.record import Record, encode
from routebook.server.memory_watch import kill_first

MAX_STATE = 8 * 1024 * 1024  # bytes in one answer
SMALL = 32 * 1024  # bytes of a journal that is quickly read
ANSWER_S = 1.5  # whoever asks does not wait for longer
CHILD_S = 120.0
BEING_READ = f"it is being read from the journal: {ASK_AGAIN}"

Question = tuple[int, str | None, str | None, bool]  # before which record; topic; broker; values


class Past:
    def __init__(self, folder: Path | None, *, max_state: int) -> None:
        self._folder = folder
        self._max_state = min(MAX_STATE, max_state)
        self._reading: tuple[Question, asyncio.Task[Before]] | None = None

    async def before(self, seq: int, topic: str | None, broker: str | None, values: bool) -> Before:
        """The state before record ``seq``, narrowed; or why there is none."""
        if self._folder is None:
            return Before([], seq, "this node keeps no journal, and has forgotten older records")
        question = (seq, topic, broker, values)
        if self._reading is None or (self._reading[0] != question and self._reading[1].done()):
            self._reading = question, asyncio.create_task(self._read(self._folder, question))
        asked, task = self._reading
        done, _ = await asyncio.wait([task], timeout=ANSWER_S)
        if asked != question:
            return Before([], seq, BEING_READ) if not done else await self.before(*question)
        if not done:
            return Before([], seq, BEING_READ)
        if task.exception() is not None or task.result().why is not None:
            self._reading = None  # may be better next time
        return task.result()

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading[1].cancel()
            await asyncio.gather(self._reading[1], return_exceptions=True)

    async def _read(self, folder: Path, question: Question) -> Before:
        try:
            small = await asyncio.to_thread(folder_size, folder) <= SMALL
            read = _in_a_thread if small else _in_a_process
            return await read(folder, question, self._max_state)
        except (JournalError, OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            return Before([], question[0], f"the journal cannot be read: {error}")


def nothing_before(first: Record, kv: dict[str, dict[str, str]], *, values: bool) -> Before:
    """The first record ever: nobody was known."""
    note = {"revision": first.event.revision, "cause": Cause.JOURNAL, "peer": ""}
    event = cut(StateRestated(**note, groups=0, kv=kv))  # type: ignore[arg-type]
    told = event if values else without_values(event)
    record = Record(first.seq - 1, first.wall_ms, first.mono_ms, first.node, told)
    return Before([encode(record)], first.seq)


async def _in_a_thread(folder: Path, question: Question, limit: int) -> Before:
    seq, topic, broker, values = question
    return await asyncio.to_thread(
        before, folder, seq, limit=limit, topic=topic, broker=broker, values=values
    )


async def _in_a_process(folder: Path, question: Question, limit: int) -> Before:
    seq, topic, broker, values = question
    lengths = "" if values else "lengths"
    words = [str(folder), str(seq), str(limit), topic or "", broker or "", lengths]
    child = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "routebook.journal.before", *words],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        os.setpriority(os.PRIO_PROCESS, child.pid, 5)
        kill_first(child.pid)
        async with asyncio.timeout(CHILD_S):
            output, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return await asyncio.to_thread(decoded, output)
