"""The journals of several nodes compared: one clock, who was a witness when, who said what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from routebook.history.comparing.awareness import Awareness, awareness
from routebook.history.comparing.common_clock import CommonClock, common_clock
from routebook.history.comparing.divergences import Blind, Comparison, Course, compare
from routebook.history.comparing.skew import Skew
from routebook.history.finding.journals import Base, Journal
from routebook.history.finding.line_filter import about_awareness, about_tables, about_topic
from routebook.history.finding.witness import RecordsMissing
from routebook.history.questions import period
from routebook.history.times import AtTime
from routebook.journal.errors import JournalError
from routebook.journal.record import Place, Record

_ALWAYS = 2**62


@dataclass(frozen=True, slots=True)
class ClockTold:
    """How the clock of a node stands to the common one; times are by its own."""

    node: str
    from_ms: int
    to_ms: int
    skew: Skew


@dataclass(frozen=True, slots=True)
class ComparisonAnswer:
    """``clocks`` are all but the one by which times are given. ``blind`` is of the period, by node.

    ``partial`` says of nodes why what they believed before their records is not known.
    ``clocks_known``: of at least two nodes it is known how their clocks stand to each other.
    """

    nodes: tuple[str, ...]
    clocks: tuple[ClockTold, ...]
    comparison: Comparison
    from_ms: int
    to_ms: int
    blind: dict[str, tuple[Blind, ...]]
    partial: dict[str, str]
    clocks_known: bool = True

    @property
    def skews(self) -> dict[str, Skew]:
        """Of each node but the first; that of its longest epoch, where there are several."""
        by_length = sorted(self.clocks, key=lambda clock: clock.to_ms - clock.from_ms)
        return {clock.node: clock.skew for clock in by_length if clock.node != self.nodes[0]}


def comparison_of(
    journals: Sequence[Journal],
    *,
    topic: str | None = None,
    begin: AtTime | None = None,
    end: AtTime | None = None,
) -> ComparisonAnswer:
    """Where the nodes disagreed, in the time that all journals tell of.

    Raises JournalError when two journals are of one node, or of two fleets, or when there is no
    such time.
    """
    nodes = tuple(journal.node for journal in journals)
    if len(set(nodes)) < len(nodes):
        raise JournalError(f"the journals are of one node, {nodes[0]}: there is nothing to compare")
    aware = [_awareness(journal) for journal in journals]
    _refuse_fleets(aware)
    clock = common_clock(aware, [journal.reading for journal in journals])
    spans = [_span(clock, number, each) for number, each in enumerate(aware)]
    told = tuple(_clocks_told(clock, aware))
    partial = {journal.node: journal.partial for journal in journals if journal.partial}
    placed = [number for number, span in enumerate(spans) if span is not None]
    if len(placed) < 2:
        from_ms = max(journal.first.wall_ms for journal in journals)
        to_ms = min(journal.known_ms for journal in journals)
        if from_ms > to_ms:
            raise JournalError(f"there is no time of which {' and '.join(nodes)} both tell")
        nothing = Comparison((), 0, 0, 0)
        return ComparisonAnswer(
            nodes, told, nothing, from_ms, to_ms, {}, partial, clocks_known=False
        )
    from_ms = max(span[0] for span in spans if span)
    to_ms = min(span[1] for span in spans if span)
    if abs(from_ms) == _ALWAYS or to_ms == _ALWAYS:
        own = clock.own(aware[0])
        from_ms, to_ms = max(from_ms, own.from_ms), min(to_ms, own.to_ms)
    from_ms = from_ms if begin is None else max(from_ms, begin.wall_ms)
    to_ms = to_ms if end is None else min(to_ms, end.wall_ms)
    if from_ms > to_ms:
        names = [nodes[number] for number in placed]
        raise JournalError(f"there is no time of which {' and '.join(names)} both tell")
    blind = {nodes[n]: tuple(_blind(clock, n, aware[n])) for n in placed}
    courses = [
        _course(journals[n], aware[n], clock, n, (from_ms, to_ms), topic, blind[nodes[n]])
        for n in placed
    ]
    uncertainties = sorted(
        max(clock.skews[n, e].uncertainty_ms for e in range(len(aware[n].epochs))) for n in placed
    )
    found = compare(
        courses,
        from_ms=from_ms,
        to_ms=to_ms,
        topic=topic,
        uncertainty_ms=sum(uncertainties[-2:]),
    )
    within = {
        node: tuple(b for b in each if b.until_ms > from_ms and b.since_ms < to_ms)
        for node, each in blind.items()
    }
    return ComparisonAnswer(nodes, told, found, from_ms, to_ms, within, partial)


def _awareness(journal: Journal) -> Awareness:
    base = journal.beginning()
    records = journal.records(
        after_seq=base.view.seq, to_seq=journal.last.seq, wanted=about_awareness
    )
    until = Place(journal.last.seq, journal.known_ms)
    return awareness(records, first=journal.first, last=until, known=base.view)


def _refuse_fleets(aware: Sequence[Awareness]) -> None:
    fleets = {each.fleet: each.node for each in aware if each.fleet}
    if len(fleets) > 1:
        (one, here), (other, there), *_ = fleets.items()
        raise JournalError(
            f"{here} is of fleet {one} and {there} of fleet {other}: only nodes of one fleet have"
            " brokers in common"
        )


def _span(clock: CommonClock, number: int, aware: Awareness) -> tuple[int, int] | None:
    """The time a node tells of, by the common clock; None where its own is never known.

    Where it is not known at an end, the node is blind there, and limits nobody.
    """
    begins = [clock.at_ms(number, i, epoch.from_ms) for i, epoch in enumerate(aware.epochs)]
    ends = [clock.at_ms(number, i, epoch.to_ms) for i, epoch in enumerate(aware.epochs)]
    known = [each for each in ends if each is not None]
    if not known:
        return None
    begin_ms = -_ALWAYS if begins[0] is None else begins[0]
    return begin_ms, _ALWAYS if ends[-1] is None else max(known)


def _clocks_told(clock: CommonClock, aware: Sequence[Awareness]) -> Iterator[ClockTold]:
    for number, node in enumerate(aware):
        for index, epoch in enumerate(node.epochs):
            skew = clock.skews[number, index]
            if number or len(node.epochs) > 1:
                yield ClockTold(node.node, epoch.from_ms, epoch.to_ms, skew)


def _blind(clock: CommonClock, number: int, aware: Awareness) -> Iterator[Blind]:
    """Silences, and epochs without a place on the common clock."""
    for stretch in aware.stretches:
        since_ms = clock.at_ms(number, stretch.begins_in, stretch.silence.since_ms)
        until_ms = clock.at_ms(number, stretch.ends_in, stretch.silence.until_ms)
        if since_ms is not None and until_ms is not None and since_ms < until_ms:
            yield Blind(since_ms, until_ms, stretch.silence)
    ends = [clock.at_ms(number, i, epoch.to_ms) for i, epoch in enumerate(aware.epochs)]
    begins = [clock.at_ms(number, i, epoch.from_ms) for i, epoch in enumerate(aware.epochs)]
    since: int | None = -_ALWAYS
    for begin_ms, end_ms in zip(begins, ends, strict=True):
        if begin_ms is None:
            continue
        if since is not None and since < begin_ms:
            yield Blind(since, begin_ms)
        since = end_ms
    if since is not None and ends[-1] is None:
        yield Blind(since, _ALWAYS)


def _course(
    journal: Journal,
    aware: Awareness,
    clock: CommonClock,
    number: int,
    asked_ms: tuple[int, int],
    topic: str | None,
    blind: tuple[Blind, ...],
) -> Course:
    base, to_seq = _begin(journal, aware, clock.skews[number, 0], asked_ms)
    view = base.view
    records = journal.records(
        after_seq=view.seq,
        to_seq=to_seq,
        wanted=about_tables if topic is None else about_topic(topic),
        known_ms=view.wall_ms if view.seq else None,
    )

    def at_ms(record: Record) -> int:
        event = record.event
        wall_ms = event.since_ms if isinstance(event, RecordsMissing) else record.wall_ms
        epoch = aware.epoch_at(record.seq)
        known_ms = clock.at_ms(number, epoch, wall_ms)
        while known_ms is None and epoch:
            # What has no place on the clock is over before whatever has one again.
            epoch -= 1
            known_ms = clock.at_ms(number, epoch, aware.epochs[epoch].to_ms)
        return known_ms or 0

    known = view if view.seq else None
    return Course(journal.node, records, known, base.partial, blind, at_ms)


def _begin(
    journal: Journal, aware: Awareness, skew: Skew, asked_ms: tuple[int, int]
) -> tuple[Base, int]:
    """What to go on from, and up to which record; all there is where the clock was set."""
    if len(aware.epochs) > 1 or skew.offset_ms is None:
        return journal.oldest_known(), journal.last.seq
    asked = period(journal, *(AtTime(each + skew.offset_ms) for each in asked_ms))
    base = next(chain(journal.bases(asked.after_seq), [journal.beginning()]))
    return (journal.oldest_known() if base.partial else base), asked.to_seq
