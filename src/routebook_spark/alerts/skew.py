"""Skew: how far the clocks of two nodes may be apart, by registrations both have written down.

The same content of the same broker is sent to all nodes at once, so the times at which two nodes
first saw it tell how their clocks differ; unless one of them had just started, and heard late of
what was there before. Three times that agree, and are most of all, are a measurement. Anything else
only says by how much the clocks could differ at most: a disagreement must last longer than that.
"""

from itertools import starmap
from statistics import median

from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import Fact

_AGREE_MS = 2_000
_FEWEST = 3
_LEAST_MS = 100
_KEPT = 32
_LEASE_MS = 120_000
_BEFORE = 2  # the clock was set


def take(node: Node, fact: Fact) -> None:
    """Remember when ``node`` first saw a content, and whether it may have been there before."""
    if fact.type == "NodeStarted":
        node.started_ms = fact.at_ms
    if fact.content is not None and fact.content not in node.contents:
        late = 0 <= fact.at_ms - node.started_ms <= _LEASE_MS
        node.contents = [*node.contents, fact.content][-_KEPT:]
        node.contents_ms = [*node.contents_ms, fact.at_ms][-_KEPT:]
        node.contents_late = [*node.contents_late, int(late)][-_KEPT:]


def clock_set(node: Node, *, by_ms: int) -> None:
    """The clock of ``node`` is another one from here on."""
    node.off_ms += abs(by_ms)
    node.contents_late = [_BEFORE] * len(node.contents)


def allowance_ms(bucket: BucketState, pair: tuple[str, str]) -> int:
    """How much longer two nodes must disagree for it to be more than their clocks."""
    one, other = (bucket.nodes[name] for name in pair)
    seen = dict(_seen(other))
    both = [(*sight, *seen[content]) for content, sight in _seen(one) if content in seen]
    measured = [ms for ms, sure in starmap(_apart, both) if sure]
    agreeing = max(
        ([ms for ms in measured if low <= ms <= low + _AGREE_MS] for low in measured),
        key=len,
        default=[],
    )
    if len(agreeing) >= _FEWEST and 2 * len(agreeing) > len(measured):
        skew_ms = round(median(agreeing))
        unsure_ms = max(_LEAST_MS, *(abs(ms - skew_ms) for ms in agreeing))
        return abs(skew_ms) + unsure_ms if abs(skew_ms) > _AGREE_MS else 0
    if measured and all(abs(ms) <= _AGREE_MS for ms in measured):
        return 0
    most_ms = max((abs(ms) for ms, _ in starmap(_apart, both)), default=0)
    set_ms = one.off_ms + other.off_ms
    return most_ms + set_ms if set_ms > _AGREE_MS else most_ms


def _seen(node: Node) -> list[tuple[int, tuple[int, int]]]:
    times = zip(node.contents_ms, node.contents_late, strict=True)
    return list(zip(node.contents, times, strict=True))


def _apart(one_ms: int, one_late: int, other_ms: int, other_late: int) -> tuple[int, bool]:
    """By how much, and whether that can only be the clocks."""
    apart_ms = one_ms - other_ms
    if _BEFORE in (one_late, other_late):
        return apart_ms, False
    late = one_late if apart_ms > 0 else other_late
    return apart_ms, abs(apart_ms) <= _AGREE_MS or not late
