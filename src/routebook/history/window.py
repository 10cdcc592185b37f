"""Windows: all broker groups of a node at a moment, and step by step what became of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from routebook.events import GroupEvent, NodeStarted, Shape, StateRestated
from routebook.history.finding.journals import Base, BeforeJournal, Journal
from routebook.history.finding.line_filter import about_broker, about_tables
from routebook.history.finding.witness import MadeUp, Silence, Silences, apply
from routebook.history.questions import doubts_at, gone_on, period, records_after
from routebook.history.times import AtTime, Moment
from routebook.journal.groups import GroupView
from routebook.journal.record import Record
from routebook.journal.view import View

MAX_STEPS = 20_000


class GroupState(NamedTuple):
    """A group as a node knew it: members by id, and how many topics; no members: it is gone."""

    cluster: str
    broker: str
    zone: str | None
    acting_master: bool
    members: dict[int, str]
    unconfirmed: tuple[int, ...]
    topics: int


@dataclass(frozen=True, slots=True)
class Step:
    """A record, and what it made of its group, if it is about one.

    ``all_groups``: everything is as told here, whatever was before.
    """

    record: Record
    after: GroupState | None = None
    all_groups: tuple[GroupState, ...] | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """``known``: what the node believed at the beginning is; ``doubts`` say why not.

    ``complete``: there were not more steps than fit; else it ends before the moment asked for.
    """

    node: str
    from_ms: int
    to_ms: int
    from_seq: int
    to_seq: int
    known: bool
    complete: bool
    doubts: tuple[str, ...]
    groups: tuple[GroupState, ...]
    steps: tuple[Step, ...]
    silences: tuple[Silence, ...]


def window_of(
    journal: Journal, begin: Moment, end: Moment, *, max_steps: int = MAX_STEPS
) -> Window:
    """From ``begin`` to ``end``; raises BeforeJournal when all of it is before the journal."""
    asked = period(journal, begin, end)
    base = next(journal.bases(asked.after_seq))
    view = base.view
    silences = Silences(view.wall_ms if view.seq else None)
    found: list[Silence] = []
    steps: list[Step] = []
    groups: tuple[GroupState, ...] | None = None
    doubts: tuple[str, ...] = ()
    known, complete = not base.partial, True
    for record in records_after(journal, base, asked.to_seq, about_tables):
        if groups is None and record.seq > asked.after_seq:
            groups, known = _groups(view), known and not view.unsure
            doubts = tuple(_doubts(journal, begin, asked.after_seq, base))
        silence = silences.next(record, listed=view.groups.members() > 0)
        if silence is not None and silence.until_ms >= asked.from_ms:
            found.append(silence)
        apply(view, record)
        if groups is None or isinstance(record.event, MadeUp):
            continue
        if len(steps) == max_steps:
            complete = False
            break
        steps.append(_step(view, record))
    if groups is None:
        groups, known = _groups(view), known and not view.unsure
        doubts = tuple(_doubts(journal, begin, asked.after_seq, base))
    last = steps[-1].record if steps and not complete else None
    return Window(
        node=journal.node,
        from_ms=max(asked.from_ms, journal.first.wall_ms),
        to_ms=last.wall_ms if last else _known_until_ms(journal, end),
        from_seq=asked.after_seq,
        to_seq=last.seq if last else asked.to_seq,
        known=known,
        complete=complete,
        doubts=doubts,
        groups=groups,
        steps=tuple(steps),
        silences=tuple(found),
    )


def _known_until_ms(journal: Journal, end: Moment) -> int:
    """``end``, or when the node was last known to be awake if that is earlier."""
    known_ms = max(journal.last.wall_ms, journal.alive_ms or 0)
    return min(end.wall_ms, known_ms) if isinstance(end, AtTime) else journal.last.wall_ms


def _doubts(journal: Journal, begin: Moment, seq: int, base: Base) -> Iterator[str]:
    if journal.partial and base.partial:
        yield f"brokers that did not register since are missing: {journal.partial}"
    if base.view.unsure:
        yield "records are missing before this, and the node did not state its tables since"
    try:
        journal.seq_at(begin)
    except BeforeJournal as error:
        yield str(error)
    else:
        yield from doubts_at(journal, begin, seq, base)


def _step(view: View, record: Record) -> Step:
    event = record.event
    if isinstance(event, NodeStarted | StateRestated):
        return Step(record, all_groups=_groups(view))
    if isinstance(event, GroupEvent):
        group = view.groups.find(*event.group)
        return Step(record, after=_state(group) if group else _gone(*event.group))
    return Step(record)


def _groups(view: View) -> tuple[GroupState, ...]:
    return tuple(_state(group) for group in view.groups.listed() if group.members)


def _state(group: GroupView) -> GroupState:
    unconfirmed = sorted(i for i, member in group.members.items() if not member.known.confirmed)
    return GroupState(
        group.cluster,
        group.broker,
        group.zone,
        group.acting_master,
        group.addrs,
        tuple(unconfirmed),
        len(group.queues),
    )


def _gone(cluster: str, broker: str) -> GroupState:
    return GroupState(cluster, broker, None, False, {}, (), 0)


@dataclass(frozen=True, slots=True)
class TopicHeld:
    """A topic of a group: what clients are told of it, and what the broker said if another."""

    cluster: str
    topic: str
    queues: Shape
    registered: Shape | None


@dataclass(frozen=True, slots=True)
class TopicsHeld:
    """``known`` False: what the node believed then is not, or not all of it."""

    node: str
    known: bool
    topics: tuple[TopicHeld, ...]


def topics_held(
    journal: Journal, broker: str, moment: Moment, *, wanted: Callable[[str], bool]
) -> TopicsHeld:
    """The topics of the groups called ``broker`` at ``moment``, by cluster and name."""
    seq = journal.seq_at(moment)
    base = gone_on(journal, next(journal.bases(seq)), seq, about_broker(broker), None)
    held = (
        TopicHeld(group.cluster, topic, queues, group.registered.get(topic))
        for group in base.view.groups.listed()
        if group.broker == broker and group.members
        for topic, queues in sorted(group.queues.items())
        if wanted(topic)
    )
    return TopicsHeld(journal.node, not base.partial and not base.view.unsure, tuple(held))
