"""RelayCache: what NameServers answered, kept until they have denied it for long enough.

It asks nobody and is told the time, in seconds. Each kind of question has its own bounded shelf, in
the order in which the answers were last asked for. A denial is never an answer worth keeping for
long: it is remembered apart, so that a flood of questions about nothing costs no good answer.
Equal bodies are held once, because topics on the same brokers have equal routes.
"""

import heapq
import itertools
import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from routebook.client.requests import command
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply

DROP_AFTER_S = 600.0
DENIAL_S = 2.0  # a topic may be made the next moment
MAX_DENIALS = 4096
MAX_GROUPS = 10_000
MAX_BYTES = 512 * 1024 * 1024
EARLIEST = 0.7  # of the period: polls spread out instead of meeting


@dataclass(frozen=True, slots=True)
class Question:
    """What a NameServer is asked, whoever asks and in whatever form."""

    code: RequestCode
    topic: str | None = None
    cluster: str | None = None
    broker: str | None = None

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
    due_at: float = 0.0
    denied_since: float | None = None
    doubt: str | None = None


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
    ) -> None:
        self._poll_s = poll_s
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
        self._agenda: list[tuple[float, int, Question]] = []  # void where an entry says otherwise
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def count(self, code: RequestCode) -> int:
        return len(self._shelves[code])

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def oldest_age_s(self, now_s: float) -> float | None:
        """None when there is nothing."""
        oldest = min((entry.confirmed_at for entry in self._entries()), default=None)
        return None if oldest is None else now_s - oldest

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

    def take_due(self, now_s: float, limit: int, *, drop_unused: bool = True) -> list[Question]:
        """Questions to be asked again, planned anew; what nobody asked for lately is dropped."""
        due: list[Question] = []
        while self._agenda and self._agenda[0][0] <= now_s and len(due) < limit:
            at, _, question = heapq.heappop(self._agenda)
            entry = self._shelves[question.code].get(question)
            if entry is None or entry.due_at != at:
                continue
            if drop_unused and now_s - entry.asked_at > DROP_AFTER_S:
                self._drop(question)
            else:
                self._plan(question, entry, now_s + self._wait_s())
                due.append(question)
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
            self._plan(question, entry, now_s + self._wait_s())
        elif entry.body != body:
            self._release(entry.body)
            entry.body = self._hold(body)
        entry.confirmed_at = now_s - age_s
        entry.denied_since, entry.doubt = None, doubt
        while len(shelf) > self._room[question.code] or self._bytes > self._max_bytes:
            oldest = next(iter(shelf))
            if oldest == question:
                break
            self._drop(oldest)

    def deny(self, question: Question, reply: Reply, *, now_s: float, doubt: str) -> None:
        """NameServers gave no answer of use; a good one stays until they have kept to that."""
        entry = self._shelves[question.code].get(question)
        if entry is not None:
            if entry.denied_since is None:
                entry.denied_since = now_s
            entry.doubt = doubt
            if now_s - entry.denied_since < self._forget_after_s:
                return
            self._drop(question)
        self._denials[question] = Denial(reply, now_s)
        self._denials.move_to_end(question)
        if len(self._denials) > MAX_DENIALS:
            self._denials.popitem(last=False)

    def fail(self, question: Question, doubt: str) -> None:
        """The answer was of no use, or there was none."""
        entry = self._shelves[question.code].get(question)
        if entry is not None:
            entry.doubt = doubt

    def hasten(self, question: Question, now_s: float) -> None:
        """Have it asked again as soon as somebody can be asked."""
        entry = self._shelves[question.code].get(question)
        if entry is not None:
            self._plan(question, entry, now_s)

    def pardon(self) -> None:
        """Count denials anew: who comes back after an outage may know little yet."""
        for entry in self._entries():
            entry.denied_since = None

    # -- its own housekeeping

    def _entries(self) -> Iterator[Entry]:
        return itertools.chain.from_iterable(shelf.values() for shelf in self._shelves.values())

    def _wait_s(self) -> float:
        return self._poll_s * self._rng.uniform(EARLIEST, 1.0)

    def _plan(self, question: Question, entry: Entry, due_at: float) -> None:
        entry.due_at = due_at
        heapq.heappush(self._agenda, (due_at, next(self._numbers), question))
        if len(self._agenda) > 2 * len(self) + 1000:
            self._agenda = [item for item in self._agenda if self._valid(item)]
            heapq.heapify(self._agenda)

    def _valid(self, item: tuple[float, int, Question]) -> bool:
        entry = self._shelves[item[2].code].get(item[2])
        return entry is not None and entry.due_at == item[0]

    def _drop(self, question: Question) -> None:
        self._release(self._shelves[question.code].pop(question).body)

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
