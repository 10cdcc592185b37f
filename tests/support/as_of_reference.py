"""What nodes knew at times, found by replaying their records one by one."""

import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from routebook.events import (
    Event,
    JournalRecovered,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    RecordsLost,
)
from routebook.history.finding.witness import ClockJumped, MadeUp, NothingRecorded, watched
from routebook.journal.record import Record
from routebook.journal.view import RouteEntry, View

Asked = tuple[str, int]  # topic, wall ms


class Known(NamedTuple):
    """``told`` as ``routebook history`` has it; the route by cluster and broker."""

    told: str
    seq: int | None
    route: tuple[tuple[Any, ...], ...]


def sampled(
    by_node: Mapping[str, Sequence[Record]], topics: Sequence[str], *, count: int, seed: int
) -> list[Asked]:
    """Topics and times: of records, just before and after them, anywhere, and beyond the ends."""
    rng = random.Random(seed)
    records = [record for each in by_node.values() for record in each]
    first, last = (end(record.wall_ms for record in records) for end in (min, max))
    asked: set[Asked] = set()
    while len(asked) < count:
        near = rng.choice(records).wall_ms + rng.choice([-1, 0, 0, 1])
        anywhere = rng.randint(first - 60_000, last + 60_000)
        asked.add((rng.choice(topics), rng.choice([near, near, anywhere])))
    return sorted(asked)


def known_at(records: Sequence[Record], asked: Iterable[Asked]) -> dict[Asked, Known]:
    """What one node knew."""
    places: dict[int, list[Asked]] = {}
    found: dict[Asked, Known] = {}
    # The last of all records that are not after a time: later ones are later by any clock.
    least, suffix = records[-1].wall_ms, []
    for record in reversed(records):
        least = min(least, record.wall_ms)
        suffix.append(least)
    suffix.reverse()
    for pair in asked:
        place = bisect_right(suffix, pair[1]) - 1
        if place < 0:
            found[pair] = Known("unknown", None, ())
        else:
            places.setdefault(place, []).append(pair)
    view, down, breaks = View(), False, _breaks(records)
    for place, record in enumerate(records):
        view.apply(record)
        if isinstance(record.event, NodeStopped | JournalRecovered):
            down = True
        elif isinstance(record.event, NodeStarted):
            down = False
        if place in places:
            following = _next_mark(records[place:])
            after = records[place + 1] if place + 1 < len(records) else None
            ended = after is None and not down
            for topic, at_ms in places[place]:
                route = tuple(_entry(view, entry) for entry in view.route(topic))
                told = _told(view, down, following, record.wall_ms, at_ms)
                if told is None and ended and at_ms > record.wall_ms:
                    told = "probably"
                if told is None and after is not None:
                    told = _asleep(view, record, after, breaks.get(after.seq), at_ms)
                told = told or ("route" if route else "none")
                known = route if told in ("route", "probably") else ()
                found[topic, at_ms] = Known(told, record.seq, known)
        if _is_hole(records[place : place + 2]):
            view.lose_track()
    return found


def _breaks(records: Sequence[Record]) -> dict[int, MadeUp]:
    """What must have happened before records, by the times of all of them."""
    found: dict[int, MadeUp] = {}
    made_up: MadeUp | None = None
    for each in watched(records):
        if isinstance(each.event, MadeUp):
            made_up = each.event
        elif made_up is not None:
            found[each.seq], made_up = made_up, None
    return found


def _asleep(
    view: View, last: Record, after: Record, made_up: MadeUp | None, at_ms: int
) -> str | None:
    """Whether the node was no witness at a time between two records that follow each other."""
    if isinstance(after.event, NodeStalled):
        return "unknown" if at_ms > max(after.event.from_ms, last.wall_ms) else None
    if at_ms <= last.wall_ms:
        return None
    if isinstance(made_up, NothingRecorded):
        listed = any(group.members for group in view.groups.listed())
        return "unknown" if listed else None
    jumped = isinstance(made_up, ClockJumped) and not made_up.explained
    return "unknown" if jumped else None


def _next_mark(records: Sequence[Record]) -> tuple[int, Event | None] | None:
    """The next record about the node or its journal, and how many come before it.

    The first of ``records`` is the one before; the event is None where records are missing.
    """
    marks = NodeStarted | NodeStopped | JournalRecovered | RecordsLost
    for place, pair in enumerate(pairwise(records)):
        if _is_hole(pair):
            return place, None
        if isinstance(pair[1].event, marks):
            return place, pair[1].event
    return None


def _is_hole(pair: Sequence[Record]) -> bool:
    """Whether records are missing between these; after a kill numbers leap."""
    if len(pair) < 2 or pair[1].seq == pair[0].seq + 1:
        return False
    event = pair[1].event
    return not isinstance(event, JournalRecovered) or event.last_seq != pair[0].seq


def _told(
    view: View,
    down: bool,
    following: tuple[int, Event | None] | None,
    last_ms: int,
    at_ms: int,
) -> str | None:
    """``last_ms`` is the time of the last record at ``at_ms``: up to it all is known."""
    if down:
        return "down"
    if view.unsure:
        return "unknown"
    match following:
        case (0, JournalRecovered(alive_ms=alive_ms)) if at_ms > max(last_ms, alive_ms or 0):
            return "probably"
        case (0, None) if at_ms > last_ms:
            return "unknown"
        case (_, RecordsLost(since_ms=since_ms)) if since_ms <= at_ms:
            return "unknown"
    return None


def _entry(view: View, entry: RouteEntry) -> tuple[Any, ...]:
    members = view.groups.by_key[entry.cluster, entry.broker].members.values()
    return (
        entry.cluster,
        entry.broker,
        entry.queues,
        entry.registered,
        dict(sorted(entry.addrs.items())),
        sorted(member.addr for member in members if not member.confirmed),
    )
