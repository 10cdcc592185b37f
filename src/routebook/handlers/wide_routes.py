"""WideRoutes: routes that take long to encode, because thousands of groups hold the topic.

They are encoded in slices, one at a time, each for everybody who asked before it was begun: a
stranger who changes one of the groups again and again makes nobody wait for more than the two that
are under way then. What changes meanwhile may be in the answer or not.

    A asks        the route is begun
    B and C ask   A is answered, the route is begun once for both
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from routebook.handlers.turns import in_turns
from routebook.slices import Slices


class Question(NamedTuple):
    topic: str
    standard: bool
    zone: str | None
    order_conf: str | None


Body = bytes | None


class WideRoutes:
    def __init__(self) -> None:
        self._asked: dict[Question, asyncio.Future[Body]] = {}  # and not begun
        self._work: asyncio.Task[None] | None = None

    async def body(self, question: Question, encode: Callable[[Question], Slices[Body]]) -> Body:
        answer = self._asked.get(question)
        if answer is None:
            answer = self._asked[question] = asyncio.get_running_loop().create_future()
            if self._work is None:
                self._work = asyncio.create_task(self._answer_all(encode))
        return await asyncio.shield(answer)

    async def _answer_all(self, encode: Callable[[Question], Slices[Body]]) -> None:
        try:
            while self._asked:
                question = next(iter(self._asked))
                answer = self._asked.pop(question)
                try:
                    body = await in_turns(encode(question))
                except Exception as error:  # noqa: BLE001 - it is for those who asked
                    answer.set_exception(error)
                else:
                    answer.set_result(body)
        finally:
            self._work = None
