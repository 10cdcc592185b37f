"""Surveys: looks at all nodes that take their time, one for all who want to see it."""

import asyncio
from dataclasses import dataclass
from time import monotonic, time_ns

from routebook.client.dialing import Dialing
from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import Job, Progress
from routebook.gateway.worker.process import Answered, Worker

EVERY_S = 30.0
PATIENCE_S = 5.0  # then whoever asked is told how far it is
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a look, and when it was done."""

    answered: Answered
    at_s: float

    @property
    def age_ms(self) -> int:
        return round((monotonic() - self.at_s) * 1000)


@dataclass(slots=True)
class Looking:
    """A look under way; wall time."""

    since_ms: int
    progress: Progress | None = None


class Surveys:
    """``nodes`` are the addresses to look at, ``dialing`` is how they are connected to."""

    def __init__(self, nodes: tuple[str, ...], dialing: Dialing) -> None:
        self._nodes = nodes
        self._dialing = dialing
        self._worker = Worker(longest_s=LONGEST_S)
        self._seen: dict[str, Seen] = {}
        self._looks: dict[str, tuple[Looking, asyncio.Task[Seen]]] = {}

    async def see(self, question: str) -> Seen | Looking:
        """What a look shows that is not old, or how far it is; raises Failure."""
        seen = self._seen.get(question)
        if seen is not None and monotonic() - seen.at_s < EVERY_S:
            return seen
        if question not in self._looks:
            looking = Looking(time_ns() // 1_000_000)
            task = asyncio.create_task(self._look(question, looking))
            task.add_done_callback(lambda task: self._ended(question, task))
            self._looks[question] = looking, task
        looking, task = self._looks[question]
        done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
        return task.result() if done else looking

    async def _look(self, question: str, looking: Looking) -> Seen:
        def told(progress: Progress) -> None:
            looking.progress = progress

        job = Job(question=question, nodes=self._nodes, dialing=self._dialing)
        answered = await self._worker.do(job, told)
        outcome = answered.outcome
        if outcome.failed:
            raise Failure(outcome.status, outcome.failed, outcome.text, retry_after_s=2)
        seen = self._seen[question] = Seen(answered, monotonic())
        return seen

    def _ended(self, question: str, task: "asyncio.Task[Seen]") -> None:
        self._looks.pop(question, None)
        if not task.cancelled():
            task.exception()  # those who still wait are told

    async def close(self) -> None:
        tasks = [task for _, task in self._looks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._worker.close()
