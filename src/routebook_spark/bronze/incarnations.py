"""Journals of one name told apart, where manifests do not say of which incarnation they are.

Two segments that begin at one number at different times, or end at one with different hashes, are
of two journals; one that follows another by its hash is of the same. Of two journals the one that
comes later is named by when it began.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from routebook_spark.bronze.segments import UNSAID, Segment


def told_apart(found: Iterable[Segment], known: Iterable[Segment]) -> list[Segment]:
    """``found``, with incarnations for those that say none and are of another journal."""
    placed = list(known)
    apart = []
    for each in sorted(found, key=lambda one: (one.sealed_at_ms, one.path)):
        alike = [other for other in placed if _alike(each, other)]
        whole = each if each.incarnation else replace(each, incarnation=_life_of(each, alike))
        placed.append(whole)
        apart.append(whole)
    return apart


def _alike(one: Segment, other: Segment) -> bool:
    unsaid = not other.incarnation or other.incarnation.startswith(UNSAID)
    return unsaid and (one.fleet, one.node) == (other.fleet, other.node)


def _life_of(segment: Segment, others: Sequence[Segment]) -> str:
    for life in _linked(segment, others):
        return life
    strange = {
        one.incarnation
        for one in others
        if (one.first_seq == segment.first_seq and one.first_wall_ms != segment.first_wall_ms)
        or (one.last_seq == segment.last_seq and one.last_hash != segment.last_hash)
    }
    fitting = sorted({"", *(one.incarnation for one in others)} - strange)
    return fitting[0] if fitting else f"{UNSAID}{segment.first_wall_ms}"


def _linked(segment: Segment, others: Sequence[Segment]) -> Iterator[str]:
    for one in others:
        follows = one.last_seq + 1 == segment.first_seq and one.last_hash == segment.first_hash
        leads = segment.last_seq + 1 == one.first_seq and segment.last_hash == one.first_hash
        if follows or leads or segment.sha256 == one.sha256:
            yield one.incarnation
