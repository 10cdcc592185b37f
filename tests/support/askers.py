"""A NameServer client in memory, a clock that stands still, and a route cache over both."""

import asyncio
import random
from collections.abc import Sequence

from routebook.client.cache import RouteCache
from routebook.client.changes import RouteChange
from routebook.client.errors import AllNodesFailed, CannotConnect, NameServerError, TopicNotFound
from routebook.client.node import Answer
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from support.topic_routes import NODE

POLL_S = 30.0


class Clock:
    """Seconds, as a test wants them."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class MemoryAsker:
    """Answers route questions from ``answers``, bodies or errors; other topics do not exist.

    ``asked`` has the topics of each question; while ``gate`` is closed nothing is answered.
    """

    def __init__(self, **answers: bytes | NameServerError) -> None:
        self.answers: dict[str, bytes | NameServerError] = dict(answers)
        self.asked: list[list[str]] = []
        self.node = NODE
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()

    @property
    def topics_asked(self) -> list[str]:
        return [topic for question in self.asked for topic in question]

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        assert all(r.code == RequestCode.GET_ROUTEINFO_BY_TOPIC for r in requests)
        topics = [request.ext_fields["topic"] or "" for request in requests]
        self.asked.append(topics)
        self.called.set()
        await self.gate.wait()
        return [self._answer(topic) for topic in topics]

    def _answer(self, topic: str) -> Answer | NameServerError:
        found = self.answers.get(topic)
        if found is None:
            return not_found(self.node)
        return found if isinstance(found, NameServerError) else answer(found, self.node)


def answer(body: bytes, node: Address = NODE) -> Answer:
    return Answer(node, Command(code=ResponseCode.SUCCESS, body=body))


def not_found(node: Address = NODE) -> TopicNotFound:
    return TopicNotFound(
        node, RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST, "No topic route"
    )


def all_failed(node: Address = NODE) -> AllNodesFailed:
    return AllNodesFailed([CannotConnect(node, "nobody listens")])


class World:
    """A cache that polls when the test says so."""

    def __init__(self, *, latency_faults: bool = False, **answers: bytes | NameServerError) -> None:
        self.asker = MemoryAsker(**answers)
        self.clock = Clock()
        self.cache = RouteCache(
            self.asker,
            poll_s=POLL_S,
            latency_faults=latency_faults,
            clock=self.clock,
            rng=random.Random(3),
        )
        self.changes: list[RouteChange] = []
        self.cache.listen(self.changes.append)

    async def pass_period(self, periods: float = 1.2) -> None:
        """Let time pass, tick by tick, with the polls that fall due; 1.2 periods have them all."""
        for _ in range(round(100 * periods)):
            self.clock.now += POLL_S / 100
            while await self.cache.poll_due() == 0:
                pass


def tasks_besides_this_one() -> set["asyncio.Task[object]"]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
