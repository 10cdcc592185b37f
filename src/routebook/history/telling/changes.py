"""Changes: what is different between two views, a line for a broker whatever number of topics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from routebook.events import QueueChange
from routebook.history.telling.queue_words import what_changed
from routebook.history.telling.words import member, members
from routebook.journal.difference import Difference
from routebook.journal.groups import GroupView, Key
from routebook.journal.view import View
from routebook.words import listed


class Change(StrEnum):
    CAME = "came"
    WENT = "went"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class AlikeTopics:
    """Topics of one broker that changed in the same way."""

    what: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """``details`` are phrases about its members; ``queues`` is empty unless it only changed."""

    cluster: str
    broker: str
    change: Change
    details: tuple[str, ...]
    topics: int
    queues: tuple[AlikeTopics, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """``came`` and ``went`` are topics that no broker had before, or has after."""

    brokers: tuple[BrokerChange, ...]
    came: tuple[str, ...]
    went: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.brokers or self.came or self.went)


def changes(before: View, after: View, *, topic: str | None = None) -> Changes:
    """What is different; of ``topic`` alone, if given."""
    found = before.diff(after)
    queues: dict[Key, list[QueueChange]] = {}
    for cluster, broker, change in found.queues:
        if topic in (None, change.topic) and change.before != change.after:
            queues.setdefault((cluster, broker), []).append(change)
    keys = {(group.cluster, group.broker) for group in found.groups} | queues.keys()
    keys |= {(each.cluster, each.broker) for each in found.members}
    brokers = (
        _broker_change(before, after, key, queues.get(key, []), found)
        for key in sorted(keys)
        if topic is None or _holds(before, key, topic) or _holds(after, key, topic)
    )
    topics_before, topics_after = before.topics(), after.topics()
    return Changes(
        tuple(brokers),
        tuple(sorted(t for t in topics_after - topics_before if topic in (None, t))),
        tuple(sorted(t for t in topics_before - topics_after if topic in (None, t))),
    )


def _holds(view: View, key: Key, topic: str) -> bool:
    group = view.groups.find(*key)
    return group is not None and topic in group.queues


def _broker_change(
    before: View, after: View, key: Key, queues: list[QueueChange], found: Difference
) -> BrokerChange:
    was, now = _alive(before.groups.find(*key)), _alive(after.groups.find(*key))
    if was is None or now is None:
        change, group = (Change.CAME, now) if was is None else (Change.WENT, was)
        details = (members(group.addrs),) if group else ()
        return BrokerChange(*key, change, details, len(queues), ())
    return BrokerChange(
        *key, Change.CHANGED, tuple(_details(key, found)), len(queues), tuple(_alike(queues))
    )


def _alive(group: GroupView | None) -> GroupView | None:
    return group if group is not None and group.members else None


def _details(key: Key, found: Difference) -> Iterator[str]:
    for group in found.groups:
        if (group.cluster, group.broker) == key and group.before and group.after:
            yield from _fields(group.before._asdict(), group.after._asdict())
    for each in found.members:
        if (each.cluster, each.broker) != key:
            continue
        if each.before is None and each.after is not None:
            yield f"{member(each.broker_id, each.after.addr)} came"
        elif each.after is None and each.before is not None:
            yield f"{member(each.broker_id, each.before.addr)} went"
        elif each.before is not None and each.after is not None:
            told = ", ".join(_fields(each.before._asdict(), each.after._asdict()))
            yield f"id {each.broker_id}: {told}"


def _fields(before: dict[str, object], after: dict[str, object]) -> Iterator[str]:
    for name, value in after.items():
        if before[name] != value:
            yield f"{name.replace('_', ' ')} {_shown(before[name])} to {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return listed([str(item) for item in value]) or "none"
    return "none" if value is None else str(value)


def _alike(queues: Iterable[QueueChange]) -> Iterator[AlikeTopics]:
    ways: dict[str, list[str]] = {}
    for change in queues:
        ways.setdefault(what_changed(change.before, change.after), []).append(change.topic)
    for what, topics in sorted(ways.items()):
        yield AlikeTopics(what, tuple(topics))
