"""Upstream: a relay's side towards the NameServers.

A question met for the first time is asked at once, one at a time of each and not too many in all.
Known ones are asked again in the background, in batches. When no NameServer answers, that is noted
once for all questions, and nothing but a probe is sent until one answers again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from routebook.client.errors import BadAnswer, NameServerError, NoNameServers, Refused
from routebook.client.node import Answer
from routebook.client.relayed import relayed
from routebook.client.watch import RouteTold
from routebook.handlers.routes import not_found
from routebook.relay.cache import Loss, Question, RelayCache
from routebook.relay.rendering import standard_form
from routebook.wire import answers
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadBody

logger = logging.getLogger(__name__)

QUESTIONS_A_BATCH = 100
NOTES_A_TURN = 10  # answers looked at before others have their turn
MAX_ASKING = 64  # first questions that NameServers are asked at the same time
MAX_FLIGHTS = 1000  # first questions that are asked or wait to be
MAX_WAITING = 10_000  # requests that wait for their outcome
QUEUE_S = 0.5  # how long a first question may wait to be asked
PROBE_S = 1.0
LOSSES_S = 60.0  # between lines about answers that are gone
PROBE = Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="routebook-relay-probe")
MAX_TEXT = 1000  # of what a NameServer says to explain itself


_LOSSES = {
    Loss.ROOM: "forgot %d answers for want of room, those asked for longest ago; the last was %s;"
    " %d are held",
    Loss.DENIED: "forgot %d answers that NameServers deny; the last was %s; %d are held",
}


class Asker(Protocol):
    """What is needed of a client."""

    @property
    def chosen(self) -> Address | None: ...

    async def nodes(self, *, timeout_s: float | None = None) -> tuple[Address, ...]: ...

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]: ...


class Overloaded(NameServerError):
    """More is asked than may be passed on at a time."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} questions that were never asked before wait for NameServers")


@dataclass(frozen=True, slots=True)
class Outage:
    since_s: float
    reason: str


UpstreamAnswer = bytes | Reply | NameServerError
"""A good body, what NameServers said instead, or why they said nothing."""


class Upstream:
    def __init__(
        self,
        client: Asker,
        cache: RelayCache,
        *,
        poll_s: float,
        timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._cache = cache
        self._tick_s = min(1.0, poll_s / 10)
        self._probe_s = min(PROBE_S, poll_s)
        self._timeout_s = timeout_s
        self._clock = clock
        self._heard_at = float("-inf")
        self._asking = asyncio.Semaphore(MAX_ASKING)
        self._flights: dict[Question, asyncio.Task[UpstreamAnswer]] = {}
        self._waiting = 0
        self._told_losses = dict.fromkeys(Loss, 0)
        self._told_losses_at = float("-inf")
        self.nodes: tuple[Address, ...] = ()
        self.outage: Outage | None = None
        self.last_error: str | None = None

    async def run(self) -> None:
        """Keep the cache fresh for ever."""
        while True:
            try:
                all_asked = await self.turn()
            except Exception as error:  # whatever one answer does, the others are to be kept fresh
                logger.exception("refreshing failed")
                self.last_error = f"refreshing failed: {error!r}"[:MAX_TEXT]
                all_asked = True
            if self.outage is not None:
                await asyncio.sleep(self._probe_s)
            elif all_asked:
                await asyncio.sleep(self._tick_s)

    async def turn(self) -> bool:
        """Ask one batch of what is due, or probe during an outage; whether nothing more is due."""
        asked_at = self._clock()
        try:
            self.nodes = await self._client.nodes(timeout_s=self._timeout_s)
        except NoNameServers as error:
            self._not_heard(error, asked_at)
            return True
        if self.outage is not None:
            # A node may be slow to say what it does not know, so it is asked something known, too.
            due = [PROBE, *self._cache.take_due(self._clock(), 1, rest_unused=False)]
        else:
            due = self._cache.take_due(self._clock(), QUESTIONS_A_BATCH)
        if due:
            await self._ask(due)
        self._tell_losses()
        return len(due) < QUESTIONS_A_BATCH

    # -- what NameServers tell by themselves

    def told(self, told: RouteTold) -> None:
        """A route that changed, as a node tells it."""
        question = Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=told.topic)
        if told.gone is not None:
            reply = not_found(told.topic)
            reply = Reply(reply.code, f"{reply.remark}\nReason: {told.gone}"[:MAX_TEXT])
            doubt = f"{told.node} answers with code {reply.code}"
            self._cache.deny(question, reply, now_s=self._clock(), doubt=doubt)
        elif told.route is None:
            self._cache.hasten(question)  # too large to be told
        else:
            self._answered(question, Answer(told.node, Command(body=told.route)))

    async def close(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    # -- first questions

    @property
    def full(self) -> bool:
        return self._waiting >= MAX_WAITING or len(self._flights) >= MAX_FLIGHTS

    def overloaded(self) -> Overloaded:
        return Overloaded(self._waiting)

    async def ask(self, question: Question) -> UpstreamAnswer:
        """What NameServers say, asked once for all who wait for it."""
        flight = self._flights.get(question)
        if flight is None:
            flight = self._flights[question] = asyncio.create_task(self._fly(question))
            flight.add_done_callback(lambda _: self._flights.pop(question))
        self._waiting += 1
        try:
            return await asyncio.shield(flight)
        finally:
            self._waiting -= 1

    async def _fly(self, question: Question) -> UpstreamAnswer:
        try:
            async with asyncio.timeout(QUEUE_S):
                await self._asking.acquire()
        except TimeoutError:
            return self.overloaded()
        try:
            if self.outage is not None:
                return NameServerError(self.outage.reason)
            (outcome,) = await self._ask([question])
        finally:
            self._asking.release()
        return outcome

    # -- asking, and what comes of it

    async def _ask(self, questions: Sequence[Question]) -> list[UpstreamAnswer]:
        asked_at = self._clock()
        said = await self._client.ask_many(
            [question.command() for question in questions], timeout_s=self._timeout_s
        )
        for answer in said:
            if isinstance(answer, Answer | Refused):
                self._heard(answer.node if isinstance(answer, Answer) else answer.address)
                break
        outcomes: list[UpstreamAnswer] = []
        for question, answer in zip(questions, said, strict=True):
            outcomes.append(self._noted(question, answer, asked_at))
            if len(outcomes) % NOTES_A_TURN == 0:
                await asyncio.sleep(0)
        return outcomes

    def _noted(
        self, question: Question, said: Answer | NameServerError, asked_at: float
    ) -> UpstreamAnswer:
        if isinstance(said, Answer):
            return self._answered(question, said)
        if isinstance(said, Refused):
            reply = Reply(said.code, said.remark and said.remark[:MAX_TEXT])
            doubt = f"{said.address} answers with code {said.code}"
            self._cache.deny(question, reply, now_s=self._clock(), doubt=doubt)
            return reply
        self._cache.fail(question, _text(said))
        self._not_heard(said, asked_at)
        if self.outage is not None:
            self._cache.hasten(question)
        return said

    def _answered(self, question: Question, said: Answer) -> UpstreamAnswer:
        given = said.command.body
        try:
            body, empty = (given, False) if self._cache.holds(given) else _read(question, given)
        except BadBody as error:
            failure = BadAnswer(said.node, str(error))
            self.last_error = _text(failure)
            self._cache.fail(question, self.last_error)
            return failure
        if empty:
            reply, doubt = Reply(body=body), f"{said.node} knows nothing of it"
            self._cache.deny(question, reply, now_s=self._clock(), doubt=doubt)
            return reply
        age_s, doubt_of_relay = _relayed(said)
        self._cache.confirm(question, body, now_s=self._clock(), age_s=age_s, doubt=doubt_of_relay)
        return body

    def _heard(self, node: Address) -> None:
        now_s = self._heard_at = self._clock()
        if self.outage is not None:
            logger.info(
                "%s answers after %.1f s without NameServers; %s",
                node,
                now_s - self.outage.since_s,
                self._memory(now_s),
            )
            self.outage = None
            self._cache.pardon()

    def _not_heard(self, error: NameServerError, asked_at: float) -> None:
        """Nobody answered a question; an outage, unless others were answered meanwhile."""
        self.last_error = _text(error)
        if self._heard_at >= asked_at:
            return
        now_s = self._clock()
        if self.outage is None:
            logger.warning("%s; %s", self.last_error, self._memory(now_s))
        since_s = now_s if self.outage is None else self.outage.since_s
        self.outage = Outage(since_s, self.last_error)

    def _tell_losses(self) -> None:
        """A line at most every minute for all answers that are gone."""
        now_s = self._clock()
        if now_s - self._told_losses_at < LOSSES_S:
            return
        for why, sentence in _LOSSES.items():
            lost = self._cache.lost(why)
            if lost > self._told_losses[why]:
                count = lost - self._told_losses[why]
                logger.warning(sentence, count, self._cache.last_lost(why), len(self._cache))
                self._told_losses[why] = lost
                self._told_losses_at = now_s

    def _memory(self, now_s: float) -> str:
        age_s = self._cache.oldest_age_s(now_s)
        if age_s is None:
            return "nothing is remembered"
        return f"{len(self._cache)} answers are remembered, the oldest is {age_s:.1f} s old"


def _read(question: Question, given: bytes) -> tuple[bytes, bool]:
    """The body to keep, and whether it says nothing; raises BadBody."""
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        route = answers.decode_route(given)
        return standard_form(given, route), not route.brokers
    if question.code == RequestCode.GET_BROKER_CLUSTER_INFO:
        return given, not answers.decode_cluster(given).brokers
    if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        group = answers.decode_group(given)
        return given, group is None or not group.addrs
    return given, not answers.decode_topic_list(given).topic_list


def _relayed(said: Answer) -> tuple[float, str | None]:
    """Age and doubt of an answer that came from another relay; none if from a NameServer."""
    told = relayed(said.command)
    if told is None:
        return 0.0, None
    doubt = None if told.doubt is None else f"{said.node}: {told.doubt}"[:MAX_TEXT]
    return told.age_ms / 1000, doubt


def _text(error: NameServerError) -> str:
    return str(error)[:MAX_TEXT]
