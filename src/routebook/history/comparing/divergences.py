"""Divergences: when nodes told clients different things, about what, and how it ended.

A broker that one node has and another has not is one divergence, however many topics it holds.
Where all have it, its addresses are compared, and the queues of each topic. A registration counts
when it is complete. Of a node that is no witness (down, stalled, silent, its records lost, its
clock not known, or before its first state) nothing is known, and so it disagrees with nobody.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from itertools import pairwise
from operator import attrgetter

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Cause,
    GroupRestated,
    NodeStarted,
    RegistrationCompleted,
    Shape,
    StateRestated,
    TopicsChanged,
)
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import ClockJumped, NothingRecorded, Silence, apply
from routebook.journal.groups import GroupView, Key
from routebook.journal.record import Record
from routebook.journal.view import View


class Ending(StrEnum):
    CONVERGED = "converged"  # on what one of them had said
    BOTH_CHANGED = "both changed"  # and agree on something new
    WIDENED = "widened"  # one of them lost the whole broker
    UNKNOWN = "unknown"  # one of them fell silent
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BrokerClaim:
    """What a node says of a broker; ``topics`` is how many, and no matter of dispute."""

    addrs: tuple[tuple[int, str], ...]
    topics: int = field(compare=False)


Claim = BrokerClaim | Shape | None
"""None: the node does not have it."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """``topics`` empty: about the broker itself. ``views`` are those it began with, by node."""

    cluster: str
    broker: str
    topics: tuple[str, ...]
    since_ms: int
    until_ms: int
    ending: Ending
    views: Mapping[str, Claim]

    @property
    def lasted_ms(self) -> int:
        return self.until_ms - self.since_ms


@dataclass(frozen=True, slots=True)
class Blind:
    """From ``since_ms`` to ``until_ms`` of the common clock a node is no witness.

    ``silence`` is why; None where its clock is not known.
    """

    since_ms: int
    until_ms: int
    silence: Silence | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The journal of one node: ``known`` before ``records``, which are all that change tables.

    ``partial``: there was more before, of which nothing is known. ``at_ms`` tells when a record
    was by the common clock; where nobody knows, ``blind`` covers that time.
    """

    node: str
    records: Iterable[Record]
    known: View | None = None
    partial: bool = False
    blind: tuple[Blind, ...] = ()
    at_ms: Callable[[Record], int] = attrgetter("wall_ms")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Divergences by broker and time; ``short`` ones were within the uncertainty of the clocks.

    ``compared_ms`` is for how long at least two nodes were witnesses.
    """

    divergences: tuple[Divergence, ...]
    short: int
    uncertainty_ms: int
    compared_ms: int


def compare(
    courses: Iterable[Course],
    *,
    from_ms: int,
    to_ms: int,
    topic: str | None = None,
    uncertainty_ms: int = 0,
) -> Comparison:
    """Where the nodes disagreed between ``from_ms`` and ``to_ms`` by the common clock.

    What lasted no longer than ``uncertainty_ms`` the clocks may account for.
    """
    nodes = list(courses)
    comparing = _Comparing(nodes, topic, from_ms)
    for moment in merge(*(_moments(course, topic) for course in nodes), key=lambda m: m.at_ms):
        if moment.at_ms > to_ms:
            break
        comparing.take(moment, max(moment.at_ms, from_ms))
    found = [divergence for divergence in comparing.finish(to_ms) if divergence.lasted_ms]
    lasting = [d for d in found if d.lasted_ms >= uncertainty_ms]
    joined = _joined(lasting, max(uncertainty_ms, _TOGETHER_MS))
    short = len(found) - len(lasting)
    return Comparison(tuple(joined), short, uncertainty_ms, comparing.compared_ms)


_TOGETHER_MS = 500
"""What begins and ends within this is one divergence of several topics."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A record of a node; or where it falls blind (1), or sees again (-1)."""

    at_ms: int
    node: str
    record: Record | None
    blinder: int = 0


def _moments(course: Course, topic: str | None) -> Iterator[_Moment]:
    edges = [_Moment(b.since_ms, course.node, None, 1) for b in course.blind]
    edges += [_Moment(b.until_ms, course.node, None, -1) for b in course.blind]
    edges.sort(key=lambda edge: edge.at_ms)
    # What is recorded when a blindness begins or ends still belongs to the time before.
    return merge(_recorded(course, topic), edges, key=lambda moment: moment.at_ms)


def _recorded(course: Course, topic: str | None) -> Iterator[_Moment]:
    at_ms = 0
    for record in course.records:
        if isinstance(record.event, NothingRecorded | ClockJumped):
            continue  # the node is blind then
        # Clocks that are set back must not turn the order of records around.
        at_ms = max(at_ms, course.at_ms(record))
        yield _Moment(at_ms, course.node, narrow_record(record, topic) if topic else record)


class _Node:
    """What one node says. ``arriving`` are brokers whose first registration is not complete."""

    def __init__(self, known: View | None, topic: str | None, *, partial: bool) -> None:
        self.view = View() if known is None else narrow_view(known, topic) if topic else known
        self._begun = known is not None and not partial
        self._blind = 0
        self._arriving: set[Key] = set()
        self._topic = topic

    @property
    def sure(self) -> bool:
        return self._begun and self._blind <= 0 and not self.view.unsure

    def fall_blind(self, more: int) -> None:
        self._blind += more

    def take(self, record: Record) -> None:
        apply(self.view, record)
        event = record.event
        if isinstance(event, BrokerRegistered) and not event.addrs_before:
            self._arriving.add(event.group)
        elif isinstance(event, RegistrationCompleted | BrokerLeft):
            self._arriving.discard(event.group)
        elif isinstance(event, NodeStarted | StateRestated):
            self._arriving.clear()
            cold = isinstance(event, NodeStarted) and not event.brokers
            restated = isinstance(event, StateRestated) and not self.view.unsure
            self._begun = self._begun or cold or restated

    def group(self, key: Key) -> GroupView | None:
        group = self.view.groups.by_key.get(key)
        if group is None or not group.members or key in self._arriving:
            return None
        return group if self._topic is None or self._topic in group.queues else None


@dataclass(slots=True)
class _Open:
    since_ms: int
    views: dict[str, Claim]


class _Comparing:
    def __init__(self, courses: Iterable[Course], topic: str | None, from_ms: int) -> None:
        self._nodes = {
            course.node: _Node(course.known, topic, partial=course.partial) for course in courses
        }
        self._brokers: dict[Key, _Open] = {}
        self._topics: dict[Key, dict[str, _Open]] = {}
        self._compared: set[Key] = set()  # brokers that all have, and whose topics are compared
        self._found: list[Divergence] = []
        self._now_ms = from_ms
        self.compared_ms = 0
        self._check_all()

    def take(self, moment: _Moment, at_ms: int) -> None:
        self._go_on(at_ms)
        node = self._nodes[moment.node]
        was_sure = node.sure
        if moment.record is None:
            node.fall_blind(moment.blinder)
        else:
            node.take(moment.record)
        event = moment.record.event if moment.record else None
        if was_sure != node.sure or isinstance(event, NodeStarted | StateRestated):
            self._check_all()
        elif isinstance(event, TopicsChanged):
            topics = [change.topic for change in event.changes]
            self._check(event.group, topics)
        elif isinstance(event, GroupRestated):
            self._check(event.group, None)
        elif isinstance(event, BrokerRegistered | BrokerLeft | RegistrationCompleted) and (
            event.cause is not Cause.REPLACED  # its successor is told of next
        ):
            self._check(event.group, ())

    def _go_on(self, at_ms: int) -> None:
        if sum(node.sure for node in self._nodes.values()) > 1:
            self.compared_ms += at_ms - self._now_ms
        self._now_ms = at_ms

    def finish(self, to_ms: int) -> list[Divergence]:
        self._go_on(to_ms)
        for key, dispute in self._brokers.items():
            self._note(key, None, dispute, Ending.OPEN)
        for key, disputes in self._topics.items():
            for topic, dispute in disputes.items():
                self._note(key, topic, dispute, Ending.OPEN)
        return self._found

    def _check_all(self) -> None:
        keys = set(self._brokers) | set(self._topics)
        for node in self._nodes.values():
            keys.update(node.view.groups.by_key)
        for key in keys:
            self._check(key, None)

    def _check(self, key: Key, topics: Iterable[str] | None) -> None:
        """Compare one broker; of its topics those given, or all if None.

        They are all compared too when they had not been before.
        """
        groups = {name: node.group(key) for name, node in self._nodes.items() if node.sure}
        claims: dict[str, Claim] = {name: _claim(group) for name, group in groups.items()}
        opened = self._brokers.get(key)
        dispute = self._decide(key, None, opened, claims)
        if dispute is None:
            self._brokers.pop(key, None)
        else:
            self._brokers[key] = dispute
        present = {name: group for name, group in groups.items() if group is not None}
        if len(present) < len(groups) or len(present) < 2:
            self._compared.discard(key)
            self._drop_topics(key, Ending.UNKNOWN if len(groups) < 2 else Ending.WIDENED)
        elif topics is None or key not in self._compared:
            self._compared.add(key)
            self._check_topics(key, _disputed(present, self._topics.get(key, {})), present)
        else:
            self._check_topics(key, topics, present)

    def _check_topics(self, key: Key, topics: Iterable[str], groups: dict[str, GroupView]) -> None:
        disputes = self._topics.get(key, {})
        for topic in topics:
            claims: dict[str, Claim] = {n: g.queues.get(topic) for n, g in groups.items()}
            dispute = self._decide(key, topic, disputes.get(topic), claims)
            if dispute is None:
                disputes.pop(topic, None)
            else:
                disputes[topic] = dispute
        if disputes:
            self._topics[key] = disputes
        else:
            self._topics.pop(key, None)

    def _drop_topics(self, key: Key, ending: Ending) -> None:
        for topic, dispute in self._topics.pop(key, {}).items():
            self._note(key, topic, dispute, ending)

    def _decide(
        self, key: Key, topic: str | None, opened: _Open | None, claims: dict[str, Claim]
    ) -> _Open | None:
        """The dispute there is now, noting the one that ended."""
        distinct = set(claims.values())
        if opened is None:
            return _Open(self._now_ms, claims) if len(distinct) > 1 else None
        if len(distinct) > 1 and claims.keys() == opened.views.keys():
            return opened
        if claims.keys() != opened.views.keys():
            ending = Ending.UNKNOWN
        else:
            same = distinct <= set(opened.views.values())
            ending = Ending.CONVERGED if same else Ending.BOTH_CHANGED
        self._note(key, topic, opened, ending)
        return _Open(self._now_ms, claims) if len(distinct) > 1 else None

    def _note(self, key: Key, topic: str | None, dispute: _Open, ending: Ending) -> None:
        topics = () if topic is None else (topic,)
        self._found.append(
            Divergence(*key, topics, dispute.since_ms, self._now_ms, ending, dispute.views)
        )


def _disputed(groups: dict[str, GroupView], known: Iterable[str]) -> set[str]:
    """Topics that not all have with the same queues, and those that were ``known`` not to be."""
    tables = [group.queues for group in groups.values()]
    topics = set(known)
    for one, other in pairwise(tables):
        if one != other:
            topics.update(topic for topic, _ in one.items() ^ other.items())
    return topics


def _claim(group: GroupView | None) -> BrokerClaim | None:
    return None if group is None else BrokerClaim(tuple(group.addrs.items()), len(group.queues))


def _joined(divergences: list[Divergence], together_ms: int) -> list[Divergence]:
    """Topics of one broker about which nodes disagreed in the same way and time are one."""
    joined = [divergence for divergence in divergences if not divergence.topics]
    alike: dict[tuple[object, ...], list[Divergence]] = {}
    for divergence in divergences:
        if divergence.topics:
            views = tuple(divergence.views.items())
            key = (divergence.cluster, divergence.broker, divergence.ending, views)
            alike.setdefault(key, []).append(divergence)
    for same in alike.values():
        same.sort(key=lambda d: (d.since_ms, d.until_ms))
        joined += _runs(same, together_ms)
    return sorted(joined, key=lambda d: (d.cluster, d.broker, d.since_ms, d.topics))


def _runs(same: list[Divergence], together_ms: int) -> Iterator[Divergence]:
    run: list[Divergence] = []
    for divergence in same:
        if run and (
            divergence.since_ms - run[0].since_ms > together_ms
            or abs(divergence.until_ms - run[0].until_ms) > together_ms
        ):
            yield _one(run)
            run = []
        run.append(divergence)
    if run:
        yield _one(run)


def _one(run: list[Divergence]) -> Divergence:
    first = run[0]
    return Divergence(
        first.cluster,
        first.broker,
        tuple(sorted({topic for divergence in run for topic in divergence.topics})),
        min(divergence.since_ms for divergence in run),
        max(divergence.until_ms for divergence in run),
        first.ending,
        first.views,
    )
