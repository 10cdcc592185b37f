"""Questions about the past of nodes, and what their journals answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from routebook.events import JournalRecovered, RecordsLost
from routebook.history.changes import Changes, changes
from routebook.history.diverge import Comparison, Course, compare
from routebook.history.explain import Line, explained
from routebook.history.journals import Base, BeforeJournal, Journal
from routebook.history.narrow import narrow_record, narrow_view
from routebook.history.needles import (
    Wanted,
    about_broker,
    about_registrations,
    about_tables,
    about_topic,
    any_of,
)
from routebook.history.sessions import BrokerHistory, broker_history
from routebook.history.silences import RecordsMissing, Silence, Silent
from routebook.history.skew import NO_SKEW, Registrations, Skew, estimate, registrations
from routebook.history.timeline import Timeline
from routebook.history.times import AtSeq, AtTime, Moment
from routebook.history.versions import Followed, Version, follow
from routebook.journal.errors import JournalError
from routebook.journal.groups import Groups
from routebook.journal.view import View


@dataclass(frozen=True, slots=True)
class Period:
    """Records after ``after_seq`` up to ``to_seq``; times are those of its ends."""

    after_seq: int
    to_seq: int
    from_ms: int
    to_ms: int


def period(journal: Journal, begin: Moment | None, end: Moment | None) -> Period:
    """From the beginning of the journal, or to its end, where none is given.

    Raises BeforeJournal only when all of the period is before the journal.
    """
    to_seq = journal.last.seq if end is None else journal.seq_at(end)
    to_ms = end.wall_ms if isinstance(end, AtTime) else journal.last.wall_ms
    to_ms = min(to_ms, journal.last.wall_ms)
    if begin is None:
        return Period(journal.first.seq - 1, to_seq, journal.first.wall_ms, to_ms)
    try:
        after_seq = journal.seq_at(begin)
    except BeforeJournal:
        after_seq = journal.first.seq - 1
    from_ms = begin.wall_ms if isinstance(begin, AtTime) else journal.first.wall_ms
    return Period(after_seq, to_seq, from_ms, to_ms)


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """``partial``: brokers and topics that did not change since the journal begins are missing."""

    node: str
    begins_ms: int
    followed: Followed
    partial: bool


def route_at(journal: Journal, topic: str, moment: Moment) -> RouteAnswer:
    """What clients were told of ``topic``, and since when."""
    seq = journal.seq_at(moment)
    silence = _silence_at(journal, seq, moment)
    answers = (_route_from(journal, topic, seq, base, silence) for base in journal.bases(seq))
    answer = next(answers)
    while not answer.followed.since_known:
        farther = next(answers, None)
        if farther is None:
            break
        answer = farther
    return answer


def _route_from(
    journal: Journal, topic: str, seq: int, base: Base, silence: Silence | None
) -> RouteAnswer:
    records = journal.records(after_seq=base.view.seq, to_seq=seq, wanted=about_topic(topic))
    followed = follow(records, topic, known=base.view, partial=base.partial, silence=silence)
    return RouteAnswer(journal.node, journal.first.wall_ms, followed, base.partial)


def _silence_at(journal: Journal, seq: int, moment: Moment) -> Silence | None:
    """The silence that had begun by ``moment``, of which only the record after it tells."""
    if isinstance(moment, AtSeq) or seq == journal.last.seq:
        return None
    following = journal.after(seq)
    match following.event if following else None:
        case JournalRecovered():
            last = journal.last_at(moment.wall_ms) or journal.first
            silence = Silence(last.wall_ms, moment.wall_ms, Silent.KILLED)
        case RecordsLost() as lost:
            silence = Silence(lost.since_ms, moment.wall_ms, Silent.LOST, lost.count)
        case RecordsMissing() as missing:
            silence = Silence(missing.since_ms, moment.wall_ms, Silent.MISSING, missing.count)
        case _:
            return None
    return silence if silence.since_ms <= moment.wall_ms else None


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    node: str
    changes: Changes
    partial: bool


def changes_between(
    journal: Journal,
    begin: Moment,
    end: Moment,
    *,
    topic: str | None = None,
    broker: str | None = None,
) -> ChangesAnswer:
    """What was different at ``end`` from what it was at ``begin``."""
    from_seq, to_seq = journal.seq_at(begin), journal.seq_at(end)
    low, high = sorted((from_seq, to_seq))
    wanted: Wanted = about_tables if broker is None else about_broker(broker)
    if topic is not None:
        wanted = about_topic(topic)
    earlier = _gone_on(journal, _base(journal, low, topic), low, wanted, topic)
    base = _base(journal, high, topic)
    if base.view.seq <= earlier.view.seq:
        base = replace(earlier, view=earlier.view.copy())
    later = _gone_on(journal, base, high, wanted, topic)
    views = [base.view if broker is None else _only(base.view, broker) for base in (earlier, later)]
    before, after = views if from_seq <= to_seq else reversed(views)
    found = changes(before, after, topic=topic)
    return ChangesAnswer(journal.node, found, earlier.partial or later.partial)


def _base(journal: Journal, seq: int, topic: str | None) -> Base:
    base = next(journal.bases(seq))
    return base if topic is None else replace(base, view=narrow_view(base.view, topic))


def _gone_on(journal: Journal, base: Base, seq: int, wanted: Wanted, topic: str | None) -> Base:
    for record in journal.records(after_seq=base.view.seq, to_seq=seq, wanted=wanted):
        base.view.apply(record if topic is None else narrow_record(record, topic))
    return base


def _only(view: View, broker: str) -> View:
    groups = {key: group for key, group in view.groups.by_key.items() if group.broker == broker}
    return replace(view, groups=Groups(groups))


def versions_of(journal: Journal, topic: str, asked: Period) -> tuple[Version, ...]:
    """All versions that were valid at some time of the period."""
    base = next(journal.bases(asked.after_seq))
    records = journal.records(
        after_seq=base.view.seq, to_seq=asked.to_seq, wanted=about_topic(topic)
    )
    followed = follow(records, topic, known=base.view, partial=base.partial)
    return tuple(v for v in followed.versions if v.to_ms is None or v.to_ms > asked.from_ms)


def sessions_of(journal: Journal, broker: str, asked: Period) -> BrokerHistory:
    """All sessions that lasted at some time of the period."""
    base = next(journal.bases(asked.after_seq))
    records = journal.records(
        after_seq=base.view.seq, to_seq=asked.to_seq, wanted=about_broker(broker)
    )
    found = broker_history(records, broker, known=_only(base.view, broker), until_ms=asked.to_ms)
    return replace(
        found,
        sessions=tuple(
            s for s in found.sessions if s.ended_ms is None or s.ended_ms >= asked.from_ms
        ),
        conflicts=tuple(r for r in found.conflicts if r.seq > asked.after_seq),
        refusals=tuple(r for r in found.refusals if r.seq > asked.after_seq),
        silences=tuple(s for s in found.silences if s.until_ms >= asked.from_ms),
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened to a broker, and to the topic of the same name."""

    broker: tuple[Line, ...]
    topic: tuple[Line, ...]


def explanation(journal: Journal, name: str, asked: Period) -> Explanation:
    base = next(journal.bases(asked.after_seq))
    timelines = [Timeline(name, None, base.view), Timeline(name, name, base.view)]
    wanted = any_of(about_broker(name), about_topic(name))
    for record in journal.records(after_seq=base.view.seq, to_seq=asked.to_seq, wanted=wanted):
        for timeline in timelines:
            timeline.take(record)
    broker, topic = (
        tuple(line for line in explained(timeline.happenings) if line.seq > asked.after_seq)
        for timeline in timelines
    )
    return Explanation(broker, topic)


@dataclass(frozen=True, slots=True)
class ComparisonAnswer:
    """``skews`` are those of all nodes but the first, by whose clock times are given."""

    nodes: tuple[str, ...]
    skews: dict[str, Skew]
    comparison: Comparison
    from_ms: int
    to_ms: int


def comparison_of(
    journals: Sequence[Journal],
    *,
    topic: str | None = None,
    begin: AtTime | None = None,
    end: AtTime | None = None,
) -> ComparisonAnswer:
    """Where the nodes disagreed, in the time that all journals tell of.

    Raises JournalError when two journals are of one node, or when there is no such time.
    """
    nodes = tuple(journal.node for journal in journals)
    if len(set(nodes)) < len(nodes):
        raise JournalError(f"the journals are of one node, {nodes[0]}: there is nothing to compare")
    seen = [_registrations(journal, period(journal, begin, end)) for journal in journals]
    skews = [NO_SKEW, *(estimate(seen[0], each) for each in seen[1:])]
    from_ms = max(
        j.first.wall_ms - (s.offset_ms or 0) for j, s in zip(journals, skews, strict=True)
    )
    to_ms = min(j.last.wall_ms - (s.offset_ms or 0) for j, s in zip(journals, skews, strict=True))
    from_ms = from_ms if begin is None else max(from_ms, begin.wall_ms)
    to_ms = to_ms if end is None else min(to_ms, end.wall_ms)
    if from_ms > to_ms:
        raise JournalError(f"there is no time of which {' and '.join(nodes)} both tell")
    courses = []
    for journal, skew in zip(journals, skews, strict=True):
        course, known_ms = _course(journal, skew, from_ms, to_ms, topic)
        courses.append(course)
        from_ms = max(from_ms, known_ms)
    found = compare(courses, from_ms=from_ms, to_ms=to_ms, topic=topic)
    others = dict(zip(nodes[1:], skews[1:], strict=True))
    return ComparisonAnswer(nodes, others, found, from_ms, to_ms)


def _registrations(journal: Journal, asked: Period) -> Registrations:
    return registrations(
        journal.records(after_seq=asked.after_seq, to_seq=asked.to_seq, wanted=about_registrations)
    )


def _course(
    journal: Journal, skew: Skew, from_ms: int, to_ms: int, topic: str | None
) -> tuple[Course, int]:
    """Also since when all is known that the node knew."""
    asked = period(
        journal, AtTime(from_ms + (skew.offset_ms or 0)), AtTime(to_ms + (skew.offset_ms or 0))
    )
    base = next(journal.bases(asked.after_seq))
    known_ms = 0
    if base.partial:
        base = journal.oldest_known()
        known_ms = base.view.wall_ms - (skew.offset_ms or 0)
    records = journal.records(
        after_seq=base.view.seq,
        to_seq=asked.to_seq,
        wanted=about_tables if topic is None else about_topic(topic),
    )
    known = base.view if base.view.seq else None
    return Course(journal.node, records, known, skew), known_ms
