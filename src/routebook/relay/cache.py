"""RelayCache: what NameServers answered, kept until they have denied it for long enough.

It asks nobody and is told the time, in seconds. Each kind of question has its own shelf, in the
order in which the answers were last asked for. An answer goes for one of two reasons: NameServers
deny it, or others need its room, the one asked for longest ago first; which it was is remembered.
What nobody asked for lately rests: it is kept, and no longer asked again in advance. Topics whose
changes a node tells by itself (``is_told``) are seldom asked for, and as old as the last time the
node said that it has told all.

A denial is never an answer worth keeping for long: it is remembered apart, so that a flood of
questions about nothing costs no good answer.
Equal bodies are held once, because topics on the same brokers have equal routes.
"""

import itertools
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from routebook.client.requests import command
from routebook.deadlines import Deadlines
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply

REST_AFTER_S = 600.0
NET_S = 300.0  # between polls of what is told by itself
DENIAL_S = 2.0  # a topic may be made the next moment
MAX_DENIALS = 4096
MAX_GROUPS = 10_000
MAX_BYTES = 512 * 1024 * 1024  # of bodies, and of what is held for each question
ENTRY_BYTES = 600  # for one question without its names, about
MAX_FORGOTTEN = 10_000
EARLIEST = 0.7  # of the period: polls spread out instead of meeting

_AT_ONCE = float("-inf")
_TOPIC_LISTS = (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,)


@dataclass(frozen=True, slots=True)
class Question:
    """What a NameServer is asked, whoever asks and in whatever form."""

    code: RequestCode
    topic: str | None = None
    cluster: str | None = None
    broker: str | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"the topic {self.topic}"
        if self.broker is not None:
            return f"the broker {self.broker}"
        return "the topic list" if self.code in _TOPIC_LISTS else "the clusters"

    def command(self) -> Command:
        return command(
            self.code,
            {"topic": self.topic, "clusterName": self.cluster, "brokerName": self.broker},
        )


@dataclass(slots=True)
class Entry:
    """A good answer. ``doubt`` is why the last try did not confirm it, None when it did."""

    body: bytes
    confirmed_at: float
    asked_at: float
    denied_since: float | None = None
    doubt: str | None = None


class Loss(StrEnum):
    """Why an answer is no longer held."""

    ROOM = "room"  # others needed it
    DENIED = "denied"  # NameServers no longer know it


@dataclass(frozen=True, slots=True)
class Forgotten:
    why: Loss
    at: float


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal, or a success that says nothing."""

    reply: Reply
    at: float


class RelayCache:
    def __init__(
        self,
        *,
        poll_s: float,
        forget_after_s: float,
        max_topics: int,
        max_bytes: int = MAX_BYTES,
        rng: random.Random | None = None,
        is_told: Callable[[str], bool] = lambda topic: False,
        on_topic: Callable[[str, bool], object] = lambda topic, held: None,
    ) -> None:
        self._poll_s = poll_s
        self._is_told = is_told
        self._on_topic = on_topic  # a route is held from now on, or no longer
        self._told_at = float("-inf")  # when it was said that nothing more is to be told
        self._forget_after_s = forget_after_s
        self._max_bytes = max_bytes
        self._rng = rng or random.Random()
        self._room: dict[int, int] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: max_topics,
            RequestCode.GET_BROKER_CLUSTER_INFO: 1,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: 1,
            RequestCode.GET_BROKER_MEMBER_GROUP: MAX_GROUPS,
        }
        self._shelves: dict[int, OrderedDict[Question, Entry]] = {
            code: OrderedDict() for code in self._room
        }
        self._denials: OrderedDict[Question, Denial] = OrderedDict()
        self._bodies: dict[bytes, tuple[bytes, int]] = {}  # the one copy, and how many have it
        self._bytes = 0
        self._due: Deadlines[Question, float] = Deadlines()  # when to ask again what does not rest
        self._forgotten: OrderedDict[Question, Forgotten] = OrderedDict()
        self._losses = dict.fromkeys(Loss, 0)
        self._last_lost: dict[Loss, Question] = {}
        self._unlisted = 0  # forgotten for room so long ago that nobody knows which

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def count(self, code: RequestCode) -> int:
        return len(self._shelves[code])

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def resting(self) -> int:
        """Answers that nobody asked for lately."""
        return len(self) - len(self._due)

    def lost(self, why: Loss) -> int:
        """How many answers are gone for this reason, those that came back among them."""
        return self._losses[why]

    def last_lost(self, why: Loss) -> Question | None:
        return self._last_lost.get(why)

    def find_forgotten(self, question: Question) -> Forgotten | None:
        """Why and when the answer went; None when there was none, or too many went since."""
        return self._forgotten.get(question)

    @property
    def unlisted(self) -> int:
        """How many were forgotten for room that ``find_forgotten`` no longer knows of."""
        return self._unlisted

    def oldest_age_s(self, now_s: float) -> float | None:
        """None when there is nothing."""
        times = (
            self.confirmed_at(question, entry)
            for shelf in self._shelves.values()
            for question, entry in shelf.items()
        )
        oldest = min(times, default=None)
        return None if oldest is None else now_s - oldest

    def confirmed_at(self, question: Question, entry: Entry) -> float:
        """When a NameServer last stood by it, asked or not."""
        if self._stays_told(question, entry):
            return max(entry.confirmed_at, self._told_at)
        return entry.confirmed_at

    def _stays_told(self, question: Question, entry: Entry) -> bool:
        topic = question.topic
        if topic is None or entry.denied_since is not None or entry.doubt is not None:
            return False
        return self._is_told(topic)

    def note_told(self, now_s: float) -> None:
        """All that there was to be told by itself is told."""
        self._told_at = now_s

    def plan_anew(self, now_s: float) -> None:
        """Other topics than before are told of by themselves, or none."""
        for question in self._due.keys():  # noqa: SIM118 - a heap of deadlines, not a table
            self._due.set(question, now_s + self._wait_s(question))

    # -- for those who ask

    def find(self, question: Question, now_s: float) -> Entry | None:
        """The good answer, which is in use from now on."""
        shelf = self._shelves[question.code]
        entry = shelf.get(question)
        if entry is not None:
            entry.asked_at = now_s
            shelf.move_to_end(question)
        return entry

    def find_denial(self, question: Question, now_s: float) -> Denial | None:
        denial = self._denials.get(question)
        return None if denial is None or now_s - denial.at > DENIAL_S else denial

    # -- for the one who asks NameServers

    def wake(self, question: Question, now_s: float) -> bool:
        """Have an answer that rested asked again from now on; whether it did."""
        rested = question in self._shelves[question.code] and question not in self._due
        if rested:
            self._due.set(question, now_s + self._wait_s(question))
        return rested

    def take_due(self, now_s: float, limit: int, *, rest_unused: bool = True) -> list[Question]:
        """Questions to be asked again, planned anew; what nobody asked for lately is to rest."""
        due: list[Question] = []
        while len(due) < limit and self._due.is_due(now_s):
            for question in self._due.due(now_s, limit - len(due)):
                asked_at = self._shelves[question.code][question].asked_at
                if not rest_unused or now_s - asked_at <= REST_AFTER_S:
                    due.append(question)
        for question in due:
            self._due.set(question, now_s + self._wait_s(question))
        return due

    def holds(self, body: bytes) -> bool:
        """Whether some question has this answer, which has therefore been looked at."""
        return body in self._bodies

    def confirm(
        self,
        question: Question,
        body: bytes,
        *,
        now_s: float,
        age_s: float = 0.0,
        doubt: str | None = None,
    ) -> None:
        """NameServers gave this answer ``age_s`` ago, to whom it was that told us now."""
        shelf = self._shelves[question.code]
        entry = shelf.get(question)
        self._denials.pop(question, None)
        if entry is None:
            entry = shelf[question] = Entry(self._hold(body), now_s, now_s)
            self._bytes += _cost(question)
            if question.topic is not None:
                self._on_topic(question.topic, True)
            self._forgotten.pop(question, None)
            self._due.set(question, now_s + self._wait_s(question))
        elif entry.body != body:
            self._release(entry.body)
            entry.body = self._hold(body)
        entry.confirmed_at = now_s - age_s
        entry.denied_since, entry.doubt = None, doubt
        while len(shelf) > self._room[question.code]:
            self._forget(next(iter(shelf)), Loss.ROOM, now_s)
        while self._bytes > self._max_bytes and (oldest := self._oldest(but=question)) is not None:
            self._forget(oldest, Loss.ROOM, now_s)

    def deny(self, question: Question, reply: Reply, *, now_s: float, doubt: str) -> None:
        """NameServers gave no answer of use; a good one stays until they have kept to that."""
        entry = self._shelves[question.code].get(question)
        if entry is not None:
            if entry.denied_since is None:
                entry.denied_since = now_s
            entry.doubt = doubt
            if now_s - entry.denied_since < self._forget_after_s:
                self._due.set(question, now_s + self._wait_s(question))  # whether they keep to it
                return
            self._forget(question, Loss.DENIED, now_s)
        self._denials[question] = Denial(reply, now_s)
        self._denials.move_to_end(question)
        if len(self._denials) > MAX_DENIALS:
            self._denials.popitem(last=False)

    def fail(self, question: Question, doubt: str) -> None:
        """The answer was of no use, or there was none."""
        entry = self._shelves[question.code].get(question)
        if entry is not None:
            entry.doubt = doubt

    def hasten(self, question: Question) -> None:
        """Have it asked again as soon as somebody can be asked."""
        if question in self._shelves[question.code]:
            self._due.set(question, _AT_ONCE)

    def pardon(self) -> None:
        """Count denials anew: who comes back after an outage may know little yet."""
        for entry in self._entries():
            entry.denied_since = None

    # -- its own housekeeping

    def _entries(self) -> Iterator[Entry]:
        return itertools.chain.from_iterable(shelf.values() for shelf in self._shelves.values())

    def _wait_s(self, question: Question) -> float:
        entry = self._shelves[question.code].get(question)
        told = entry is not None and self._stays_told(question, entry)
        period_s = max(self._poll_s, NET_S) if told else self._poll_s
        return period_s * self._rng.uniform(EARLIEST, 1.0)

    def _oldest(self, *, but: Question) -> Question | None:
        """What was asked for longest ago, of all shelves."""
        firsts = [
            (entry.asked_at, question)
            for shelf in self._shelves.values()
            for question, entry in itertools.islice(shelf.items(), 2)
            if question != but
        ]
        return min(firsts, key=lambda first: first[0], default=(0.0, None))[1]

    def _forget(self, question: Question, why: Loss, now_s: float) -> None:
        self._release(self._shelves[question.code].pop(question).body)
        self._due.drop(question)
        if question.topic is not None:
            self._on_topic(question.topic, False)
        self._bytes -= _cost(question)
        self._losses[why] += 1
        self._last_lost[why] = question
        self._forgotten[question] = Forgotten(why, now_s)
        self._forgotten.move_to_end(question)
        if len(self._forgotten) > MAX_FORGOTTEN:
            _, first = self._forgotten.popitem(last=False)
            self._unlisted += first.why is Loss.ROOM

    def _hold(self, body: bytes) -> bytes:
        copy, holders = self._bodies.get(body, (body, 0))
        if not holders:
            self._bytes += len(copy)
        self._bodies[copy] = (copy, holders + 1)
        return copy

    def _release(self, body: bytes) -> None:
        copy, holders = self._bodies.pop(body)
        if holders > 1:
            self._bodies[copy] = (copy, holders - 1)
        else:
            self._bytes -= len(copy)


def _cost(question: Question) -> int:
    """Bytes held for a question besides its body."""
    names = (question.topic, question.cluster, question.broker)
    return ENTRY_BYTES + sum(sys.getsizeof(name) for name in names if name is not None)
