"""What a reader of journals can know, worked out from the truth and from what he holds of it.

The rules are those of the project: a node that slept, was killed, lost records or whose clock was
set is no witness of that time, nor is one whose records are missing until it states its tables
anew or starts empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from routebook.events import (
    GroupRestated,
    JournalRecovered,
    NodeStarted,
    NodeStopped,
    StateRestated,
)
from world.truth import Life, Span, Written

JUMP_MS = 1000
JUMP_SHARE = 0.001
LEAST_SILENCE_MS = 10_000


@dataclass(slots=True)
class Knowledge:
    """What the records ``held`` of a life can tell; spans of true time, in no order."""

    life: Life
    held: Sequence[Written]
    unknown: list[Span]

    @property
    def from_ms(self) -> float:
        return self.held[0].true_ms

    @property
    def to_ms(self) -> float:
        return self.held[-1].true_ms

    def why_unknown(self, true_ms: float, *, within_ms: float = 0) -> str | None:
        """Why nothing can be known of this moment, or of one about it; None when it can."""
        for span in self.unknown:
            if span.from_ms - within_ms <= true_ms < span.to_ms + within_ms:
                return span.why
        return None

    def surely_unknown(self, true_ms: float, *, within_ms: float = 0) -> str | None:
        """As ``why_unknown``, of moments that are ``within_ms`` inside of such a time."""
        for span in self.unknown:
            if span.from_ms + within_ms <= true_ms < span.to_ms - within_ms:
                return span.why
        return None


def known_of(life: Life, held: Sequence[Written]) -> Knowledge:
    unknown = [*missing(life, held), *_stalls(life, held), *_losses(life), *_between(life, held)]
    return Knowledge(life, held, unknown)


def _stalls(life: Life, held: Sequence[Written]) -> list[Span]:
    return life.stalls


def _losses(life: Life) -> list[Span]:
    return [
        Span(span.from_ms, min(span.to_ms, life.ends_ms), span.why)
        for span in (*life.losses, *life.signs)
    ]


def missing(life: Life, held: Sequence[Written]) -> list[Span]:
    """From the last record before missing ones until the tables are known again."""
    spans = []
    first = held[0].record
    if first.seq > 1:
        spans.append(Span(held[0].true_ms, _known_again(held, 0, life.ends_ms), "begins late"))
    for place, (before, after) in enumerate(pairwise(held), start=1):
        event = after.record.event
        leap = isinstance(event, JournalRecovered) and event.last_seq == before.record.seq
        if after.record.seq != before.record.seq + 1 and not leap:
            until = _known_again(held, place, life.ends_ms)
            spans.append(Span(before.true_ms, until, "records missing"))
    return spans


def _known_again(held: Sequence[Written], place: int, ends_ms: float) -> float:
    groups = 0
    for each in held[place:]:
        event = each.record.event
        groups += isinstance(event, GroupRestated)
        if isinstance(event, StateRestated) and groups >= event.groups:
            return each.true_ms
        if isinstance(event, NodeStarted) and event.brokers == 0:
            return each.true_ms
    return ends_ms


def _between(life: Life, held: Sequence[Written]) -> list[Span]:
    """Between two records of one boot between which the clock was set, or nothing was said."""
    spans = []
    for before, after in pairwise(held):
        last, event = before.record.event, after.record.event
        if isinstance(last, NodeStopped) or isinstance(event, JournalRecovered):
            continue
        if isinstance(event, NodeStarted) and not isinstance(last, JournalRecovered):
            continue
        wall_ms = after.record.wall_ms - before.record.wall_ms
        mono_ms = after.record.mono_ms - before.record.mono_ms
        if abs(wall_ms - mono_ms) > JUMP_MS + JUMP_SHARE * mono_ms:
            spans.append(Span(before.true_ms, after.true_ms, "clock set"))
        listed = bool(life.belief(before.true_ms))
        if listed and wall_ms > max(2 * life.window_ms, LEAST_SILENCE_MS):
            spans.append(Span(before.true_ms, after.true_ms, "silent"))
    return spans
