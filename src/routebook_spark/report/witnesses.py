"""When nodes were witnesses, and when not, and why: from the stretches of their coverage.

A node that slept, was down or lost its records says nothing of that time, neither good nor bad.
Times are by the clock of the node itself.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from routebook_spark.report.facts import Cover, Period, Unwitnessed, instant

BEFORE = "not_yet"  # before all that is known of a node
LATER = "no_later"  # after it
UNSURE = "unsure"  # what it has recorded does not say what was before
REPLACED = "replaced"  # its data folder, by another

STOPS = ("stopped",)
KILLS = ("killed",)
STALLS = ("stalled", "silent", "clock")
LOSSES = ("records_lost", "records_missing", "lost", "missing")


class Witness(NamedTuple):
    """A node in a period: what it knows, and every time it does not, in order."""

    node: str
    known_s: float
    unknown_s: float
    stops: int
    kills: int
    stalls: int
    losses: int
    unwitnessed: list[Unwitnessed]


def witnesses(
    covers: Iterable[Cover], period: Period, *, recorded: Collection[str] = ()
) -> list[Witness]:
    """One for each node that knows anything in the period, or ``recorded`` something, by name."""
    in_order = sorted(covers, key=lambda cover: (cover.node, cover.from_ms, cover.to_ms))
    by_node = {node: list(mine) for node, mine in groupby(in_order, key=lambda each: each.node)}
    found = [
        _witness(node, by_node.get(node, []), period) for node in sorted({*by_node, *recorded})
    ]
    return [each for each in found if each.known_s or each.node in recorded]


def awake(covers: Iterable[Cover], at_ms: int) -> set[str]:
    """The nodes that were witnesses then."""
    return {cover.node for cover in covers if cover.from_ms <= at_ms <= cover.to_ms}


def _witness(node: str, covers: Sequence[Cover], period: Period) -> Witness:
    """``covers`` are in order; they may overlap where a clock was set back."""
    gaps: list[Unwitnessed] = []
    known_ms = 0
    at_ms, last = period.from_ms, None
    for cover in covers:
        until = min(cover.to_ms + 1, period.to_ms)  # its last record is part of it
        since = max(cover.from_ms, period.from_ms)
        if since >= until:
            # What is over by then still says why nothing was known afterwards.
            last = _later(last, cover) if cover.to_ms < period.from_ms else last
            continue
        if since > at_ms:
            gaps.append(Unwitnessed(node, instant(at_ms), instant(since), _why(last, cover)))
        known_ms += max(0, until - max(since, at_ms))
        at_ms = max(at_ms, until)
        last = _later(last, cover)
    if at_ms < period.to_ms:
        why = UNSURE if last is None else last.ends or LATER
        gaps.append(Unwitnessed(node, instant(at_ms), period.to_at, why))
    unknown_ms = period.to_ms - period.from_ms - known_ms
    ended = [c.ends for c in covers if period.from_ms <= c.to_ms < period.to_ms and c.ends]

    def times(causes: Sequence[str]) -> int:
        return sum(end in causes for end in ended)

    return Witness(
        node,
        known_ms / 1000,
        unknown_ms / 1000,
        times(STOPS),
        times(KILLS),
        times(STALLS),
        times(LOSSES),
        gaps,
    )


def _later(one: Cover | None, other: Cover) -> Cover:
    return other if one is None or other.to_ms >= one.to_ms else one


def _why(last: Cover | None, following: Cover) -> str:
    if last is None:
        return BEFORE
    if last.incarnation != following.incarnation:
        return REPLACED
    return last.ends or LATER
