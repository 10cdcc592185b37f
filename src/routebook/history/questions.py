"""Questions about the past of nodes, and what their journals answer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from routebook.events import JournalRecovered
from routebook.history.finding.journals import NO_END, Base, BeforeJournal, Journal
from routebook.history.finding.line_filter import (
    Wanted,
    about_broker,
    about_node,
    about_tables,
    about_topic,
    any_of,
)
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import (
    ALIVE_SLACK_MS,
    Silence,
    Silences,
    Silent,
    apply,
    longest_pause_ms,
)
from routebook.history.telling.changes import Changes, changes
from routebook.history.telling.explain import Line, explained
from routebook.history.telling.sessions import BrokerHistory, broker_history
from routebook.history.telling.silences import silence_sentence
from routebook.history.telling.timeline import Timeline
from routebook.history.telling.versions import Followed, Told, Version, follow
from routebook.history.times import AtSeq, AtTime, Moment
from routebook.journal.groups import Groups
from routebook.journal.record import Record, place_of
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
    to_ms = end.wall_ms if isinstance(end, AtTime) else journal.known_ms
    to_ms = min(to_ms, journal.known_ms)
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
    """``partial``: brokers and topics that did not change since the journal begins are missing.

    ``told`` is what is known. Where the node may not have been awake that is not much; ``shown`` is
    then the last version that was told for sure, and ``probably`` what clients were told, if it
    can be guessed.
    """

    node: str
    begins_ms: int
    followed: Followed
    partial: bool
    at_ms: int | None = None

    @property
    def told(self) -> Told:
        return self.followed.last.told if self.followed.last else Told.UNKNOWN

    @property
    def silence(self) -> Silence | None:
        """Why it is not known what was told."""
        return self.followed.last.silence if self.followed.last else None

    @property
    def shown(self) -> Version | None:
        """The version with the brokers to show."""
        known_to_be_down = self.told is Told.NOTHING or self.silence is None
        return self.followed.last if known_to_be_down else self.followed.believed

    @property
    def shows_route(self) -> bool:
        """Whether clients were told a route, or may have been."""
        if self.told is Told.STALLED or self.probably is Told.NOTHING:
            return False
        return self.shown is not None and bool(self.shown.parts)

    @property
    def probably(self) -> Told | None:
        silence, believed = self.silence, self.followed.believed
        if silence is None or believed is None or self.at_ms is None or self.partial:
            return None
        slack_ms = ALIVE_SLACK_MS if silence.signs else longest_pause_ms(None)
        if silence.reason not in (Silent.KILLED, Silent.ENDED):
            return None
        if self.at_ms - silence.since_ms <= slack_ms:
            return believed.told
        return Told.NOTHING if silence.signs or silence.reason is Silent.KILLED else None


def route_at(journal: Journal, topic: str, moment: Moment) -> RouteAnswer:
    """What clients were told of ``topic``, and since when."""
    seq = journal.seq_at(moment)
    silence = _silence_at(journal, seq, moment)
    at_ms = moment.wall_ms if isinstance(moment, AtTime) else None
    answers = (
        _route_from(journal, topic, seq, at_ms, base, silence) for base in journal.bases(seq)
    )
    answer = next(answers)
    while not answer.followed.since_known:
        farther = next(answers, None)
        if farther is None:
            break
        answer = farther
    return answer


def _route_from(
    journal: Journal,
    topic: str,
    seq: int,
    at_ms: int | None,
    base: Base,
    silence: Silence | None,
) -> RouteAnswer:
    records = records_after(journal, base, seq, about_topic(topic))
    followed = follow(records, topic, known=base.view, partial=base.partial, silence=silence)
    return RouteAnswer(journal.node, journal.first.wall_ms, followed, base.partial, at_ms)


def records_after(journal: Journal, base: Base, to_seq: int, wanted: Wanted) -> Iterator[Record]:
    """Those after ``base``."""
    seq, known_ms = base.view.seq, base.view.wall_ms if base.view.seq else None
    return journal.records(after_seq=seq, to_seq=to_seq, wanted=wanted, known_ms=known_ms)


LOOK_AHEAD_MS = 15 * 60_000
"""A stall is told of when it is over; one that others join, some minutes later."""


def _silence_at(journal: Journal, seq: int, moment: Moment) -> Silence | None:
    """The silence that ``moment`` is in, of which only records after it tell."""
    if isinstance(moment, AtSeq):
        return None
    at_ms = moment.wall_ms
    if seq == journal.last.seq:
        return _silence_after(journal, at_ms)
    last = journal.last_at(at_ms) or journal.first
    silences = Silences(last.wall_ms)
    unheard: Silence | None = None  # what is heard first after a stall may come before its record
    passed = False

    def near(line: bytes) -> bool:
        nonlocal passed
        passed = passed or place_of(line).wall_ms > at_ms + LOOK_AHEAD_MS
        return passed or about_node(line)

    for record in journal.records(after_seq=seq, to_seq=NO_END, wanted=near, known_ms=last.wall_ms):
        silence = silences.next(record, listed=True)
        if silence is not None and silence.covers(at_ms):
            if silence.reason is not Silent.SILENT:
                return silence
            unheard = unheard or silence
        if passed and not isinstance(record.event, JournalRecovered):
            break
    return unheard


def _silence_after(journal: Journal, at_ms: int) -> Silence | None:
    """Of a moment after the last record."""
    known_ms = journal.known_ms
    slack_ms = 0 if journal.alive_ms is None else ALIVE_SLACK_MS
    if journal.stopped or at_ms <= known_ms + slack_ms:
        return None
    recorded_ms = journal.last.wall_ms if known_ms > journal.last.wall_ms else None
    signs = journal.alive_ms is not None
    return Silence(known_ms, at_ms, Silent.ENDED, recorded_ms=recorded_ms, signs=signs)


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """``changes`` None: what the node believed at one of the moments is not known.

    ``doubts`` are sentences about moments at which the node was no witness: what it believed may
    be known, and what it told is not.
    """

    node: str
    changes: Changes | None
    partial: bool
    doubts: tuple[str, ...] = ()


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
    earlier = gone_on(journal, _base(journal, low, topic), low, wanted, topic)
    base = _base(journal, high, topic)
    if base.view.seq <= earlier.view.seq:
        base = replace(earlier, view=earlier.view.copy())
    later = gone_on(journal, base, high, wanted, topic)
    first, second = (earlier, later) if from_seq <= to_seq else (later, earlier)
    doubts = (*doubts_at(journal, begin, from_seq, first), *doubts_at(journal, end, to_seq, second))
    if earlier.view.unsure or later.view.unsure:
        return ChangesAnswer(journal.node, None, earlier.partial or later.partial, doubts)
    views = [base.view if broker is None else _only(base.view, broker) for base in (earlier, later)]
    before, after = views if from_seq <= to_seq else reversed(views)
    found = changes(before, after, topic=topic)
    return ChangesAnswer(journal.node, found, earlier.partial or later.partial, doubts)


def last_view(journal: Journal) -> View:
    """What the node believed after its last record."""
    seq = journal.last.seq
    return gone_on(journal, _base(journal, seq, None), seq, about_tables, None).view


def doubts_at(journal: Journal, moment: Moment, seq: int, known: Base) -> Iterator[str]:
    """Why what the node told at ``moment`` is not known."""
    silence = _silence_at(journal, seq, moment)
    if silence is None or silence.reason is Silent.STOPPED:
        return
    if silence.reason is not Silent.SILENT or known.view.groups.members() > 0:
        yield f"{moment}: {silence_sentence(silence)}"


def _base(journal: Journal, seq: int, topic: str | None) -> Base:
    base = next(journal.bases(seq))
    return base if topic is None else replace(base, view=narrow_view(base.view, topic))


def gone_on(journal: Journal, base: Base, seq: int, wanted: Wanted, topic: str | None) -> Base:
    """``base`` after the record ``seq``, by the records that are ``wanted``."""
    for record in records_after(journal, base, seq, wanted):
        apply(base.view, record if topic is None else narrow_record(record, topic))
    return base


def _only(view: View, broker: str) -> View:
    groups = {key: group for key, group in view.groups.by_key.items() if group.broker == broker}
    return replace(view, groups=Groups(groups))


def versions_of(journal: Journal, topic: str, asked: Period) -> tuple[Version, ...]:
    """All versions that were valid at some time of the period."""
    base = next(journal.bases(asked.after_seq))
    records = records_after(journal, base, asked.to_seq, about_topic(topic))
    followed = follow(records, topic, known=base.view, partial=base.partial)
    return tuple(v for v in followed.versions if v.to_ms is None or v.to_ms > asked.from_ms)


def sessions_of(journal: Journal, broker: str, asked: Period) -> BrokerHistory:
    """All sessions that lasted at some time of the period."""
    base = next(journal.bases(asked.after_seq))
    records = records_after(journal, base, asked.to_seq, about_broker(broker))
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
    for record in records_after(journal, base, asked.to_seq, wanted):
        for timeline in timelines:
            timeline.take(record)
    broker, topic = (
        tuple(line for line in explained(timeline.happenings) if line.seq > asked.after_seq)
        for timeline in timelines
    )
    return Explanation(broker, topic)
