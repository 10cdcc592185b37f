"""What became of the queues of topics, in words."""

from routebook.events import Cause, QueueChange, Shape, TopicsChanged
from routebook.history.telling.reasons import why_changed
from routebook.history.telling.words import WRITE, member, queues, short_queues
from routebook.words import counted, listed, permission, span


def topics_changed(
    event: TopicsChanged,
    *,
    topic: str | None = None,
    away_ms: int | None = None,
    stand_in: tuple[int, str] | None = None,
) -> str:
    """One sentence for each way in which topics changed; only of ``topic``, if given."""
    changes = [change for change in event.changes if topic in (None, change.topic)]
    why = why_changed(event.cause, event.peer)
    told = [
        *_write_taken(event, [c for c in changes if _write_bit(c) == -1], stand_in, why),
        *_write_given(event, [c for c in changes if _write_bit(c) == 1], why),
        *_added(event, [c for c in changes if c.before is None and c.after], away_ms, why),
        *_removed(event, [c for c in changes if c.after is None], why),
        *_reshaped(event, [c for c in changes if c.before and c.after and not _write_bit(c)], why),
    ]
    return " ".join(told) or f"nothing changed for clients of {event.broker}, {why}."


def _write_bit(change: QueueChange) -> int:
    """Whether the permission to write, and nothing else, was given (1) or taken (-1)."""
    before, after = change.before, change.after
    if before is None or after is None or _without_write(before) != _without_write(after):
        return 0
    return (after[2] & WRITE and 1) - (before[2] & WRITE and 1)


def _without_write(shape: Shape) -> Shape:
    read, write, perm, flags = shape
    return read, write, perm & ~WRITE, flags


def _write_taken(
    event: TopicsChanged, changes: list[QueueChange], stand_in: tuple[int, str] | None, why: str
) -> list[str]:
    if not changes:
        return []
    if stand_in is not None and event.cause is not Cause.ADMIN:
        return [
            f"slave {member(*stand_in)} now serves reads only: {_names(changes)} on {event.broker}"
            f" cannot be written, {why}."
        ]
    return [f"permission to write was taken away {why} from {_names(changes)} on {event.broker}."]


def _write_given(event: TopicsChanged, changes: list[QueueChange], why: str) -> list[str]:
    if not changes:
        return []
    return [f"permission to write was given back {why} to {_names(changes)} on {event.broker}."]


def _added(
    event: TopicsChanged, changes: list[QueueChange], away_ms: int | None, why: str
) -> list[str]:
    if not changes:
        return []
    shapes = {change.after for change in changes if change.after}
    with_ = f" with {queues(shapes.pop())}" if len(shapes) == 1 else ""
    back = "appeared"
    if away_ms is not None:
        back = f"came back after {span(away_ms)}" if away_ms >= 0 else "came back"
    return [f"{_names(changes)} {back} on {event.broker}{with_}, {why}."]


def _removed(event: TopicsChanged, changes: list[QueueChange], why: str) -> list[str]:
    if not changes:
        return []
    was = "was" if len(changes) == 1 else "were"
    return [f"{_names(changes)} {was} removed from {event.broker} {why}."]


def _reshaped(event: TopicsChanged, changes: list[QueueChange], why: str) -> list[str]:
    ways: dict[tuple[Shape | None, Shape | None], list[QueueChange]] = {}
    for change in changes:
        ways.setdefault((change.before, change.after), []).append(change)
    return [
        f"{_names(alike)} changed on {event.broker} from {short_queues(before)} to"
        f" {short_queues(after)}, {why}."
        for (before, after), alike in ways.items()
    ]


def _names(changes: list[QueueChange]) -> str:
    """``orders``, or ``120 topics (orders, payments, audit and 117 more)``."""
    names = [change.topic for change in changes]
    return names[0] if len(names) == 1 else f"{counted(len(names), 'topic')} ({listed(names)})"


def what_changed(before: Shape | None, after: Shape | None) -> str:
    """``permission RW- to R--, read queues 8 to 4``."""
    if before is None or after is None:
        return "came" if before is None else "went"
    parts = [
        (f"read queues {before[0]} to {after[0]}", before[0] != after[0]),
        (f"write queues {before[1]} to {after[1]}", before[1] != after[1]),
        (f"permission {permission(before[2])} to {permission(after[2])}", before[2] != after[2]),
        (f"flags {before[3]} to {after[3]}", before[3] != after[3]),
    ]
    return ", ".join(text for text, differs in parts if differs)
