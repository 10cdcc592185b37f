"""Versions: every route a topic had on one node, from when to when, and why it changed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Cause,
    GroupRestated,
    JournalRecovered,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    RecordsLost,
    Shape,
    StateRestated,
    TopicsChanged,
)
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import MadeUp, Silence, Silences, Silent, apply
from routebook.history.telling.queue_words import what_changed
from routebook.history.telling.silences import silence_phrase
from routebook.history.telling.words import member, short_queues
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.words import listed


class Told(StrEnum):
    """What clients were told of a topic."""

    ROUTE = "route"
    NONE = "none"  # that there is no route
    NOTHING = "down"  # the node did not run
    STALLED = "stalled"  # it ran, and answered nobody
    UNKNOWN = "unknown"  # it may not have run, or its records of this time were lost


@dataclass(frozen=True, slots=True)
class Part:
    """One broker of a route."""

    cluster: str
    broker: str
    addrs: tuple[tuple[int, str], ...]
    queues: Shape

    @property
    def name(self) -> tuple[str, str]:
        return self.cluster, self.broker


@dataclass(frozen=True, slots=True)
class Version:
    """``to_ms`` None: it lasts. ``record`` made it; None for one that was there before.

    ``silence`` is why nothing, or nothing for sure, was told. Where ``told`` is unknown because
    nobody knows what was before the records, ``parts`` is what they tell, and there may be more.
    """

    node: str
    told: Told
    parts: tuple[Part, ...]
    from_ms: int
    from_seq: int
    to_ms: int | None
    record: Record | None
    changes: tuple[str, ...]
    silence: Silence | None = None

    @property
    def cause(self) -> Cause | None:
        return self.record.event.cause if self.record else None

    @property
    def peer(self) -> str:
        return self.record.event.peer if self.record else ""


@dataclass(frozen=True, slots=True)
class Followed:
    """All versions, the last of them as ``view`` has it."""

    versions: tuple[Version, ...]
    view: View

    @property
    def last(self) -> Version | None:
        return self.versions[-1] if self.versions else None

    @property
    def believed(self) -> Version | None:
        """The last version that was told for sure."""
        return next((v for v in reversed(self.versions) if _is_known(v)), None)

    @property
    def origin(self) -> Version | None:
        """The version since which it is as it is last, not counting the time nothing is known of.

        Its ``record`` is None when it was so before.
        """
        origin = self.last
        for version in reversed(self.versions):
            if origin is None or not _is_known(version):
                continue
            if (version.told, version.parts) != (origin.told, origin.parts):
                break
            origin = version
        return origin

    @property
    def since_known(self) -> bool:
        """Whether it was told when it came to be as it is last."""
        origin = self.origin
        return origin is not None and (origin.record is not None or not _is_known(origin))


def follow(
    records: Iterable[Record],
    topic: str,
    *,
    known: View | None = None,
    partial: bool = False,
    silence: Silence | None = None,
) -> Followed:
    """What ``records`` tell of ``topic``; ``known`` is what was known before them.

    ``partial``: there was more before, of which nothing is known. ``silence`` is what follows
    after the last of them, if it is one.
    """
    following = _Following(topic, known or View(), partial=partial)
    for record in records:
        following.take(record)
    if silence is not None and (silence.reason is not Silent.SILENT or following.listed):
        following.fall_silent(silence, None)
    return Followed(tuple(following.versions), following.view)


_NODE_EVENTS = (
    NodeStarted,
    NodeStopped,
    RecordsLost,
    GroupRestated,
    StateRestated,
)


class _Following:
    def __init__(self, topic: str, known: View, *, partial: bool) -> None:
        self._topic = topic
        self._partial = partial
        self._silences = Silences(known.wall_ms if known.seq else None)
        self._down = False
        self.view = narrow_view(known, topic)
        self.versions: list[Version] = []
        if known.seq:
            self._begin(*self._state(), known.wall_ms, None)

    @property
    def listed(self) -> bool:
        return self.view.groups.members() > 0

    def take(self, whole: Record) -> None:
        record = narrow_record(whole, self._topic)
        silence = self._silences.next(record, listed=self.listed)
        apply(self.view, record)
        event = record.event
        if not self.versions:
            told = Told.UNKNOWN if self._partial else Told.NONE
            self._begin(told, (), record.wall_ms, None)
        if isinstance(event, NodeStopped):
            self._down = True
        elif not isinstance(event, JournalRecovered):
            self._down = False  # whatever else there is, a node that runs wrote it
        if isinstance(event, NodeStarted):
            self._partial = self._partial and event.brokers > 0
        elif isinstance(event, StateRestated):
            self._partial = False
        if silence is not None:
            self.fall_silent(silence, record)
        elif isinstance(event, MadeUp):
            return
        if isinstance(event, BrokerLeft) and event.cause is Cause.REPLACED:
            return  # its successor is told of next, and the topics stay
        last = self.versions[-1]
        if silence is None and not self._can_matter(record, last):
            return
        told, parts = self._state()
        if told is not last.told or parts != last.parts:
            told_ms = record.wall_ms
            if silence is not None and isinstance(event, NodeStalled):
                told_ms = silence.until_ms
            self._begin(told, parts, told_ms, record)

    def _can_matter(self, record: Record, last: Version) -> bool:
        """Brokers come and go all the time, and few of them have the topic."""
        event = record.event
        if isinstance(event, TopicsChanged):
            return bool(event.changes)
        if isinstance(event, BrokerRegistered | BrokerLeft):
            key = event.group
            group = self.view.groups.find(*key)
            held = group is not None and self._topic in group.queues
            return held or any(part.name == key for part in last.parts)
        return isinstance(event, _NODE_EVENTS)

    def fall_silent(self, silence: Silence, record: Record | None) -> None:
        """Nothing is known from the beginning of ``silence`` on, whatever came last."""
        if silence.set_back:
            return
        told = _TOLD.get(silence.reason, Told.UNKNOWN)
        since_ms = silence.since_ms
        if record is not None and isinstance(record.event, NodeStalled):
            self._take_back(silence)
        if self.versions:
            last = self.versions[-1]
            if last.told is Told.STALLED and told is Told.STALLED and last.silence is not None:
                heard_ms = last.silence.heard_ms + silence.heard_ms
                went_on = replace(last.silence, until_ms=silence.until_ms, heard_ms=heard_ms)
                self.versions[-1] = replace(last, silence=went_on)
            if last.told in (told, Told.UNKNOWN):
                return
            since_ms = max(since_ms, last.from_ms)
        self._begin(told, (), since_ms, record, silence)

    def _take_back(self, stall: Silence) -> None:
        """What changed in a moment between two pauses, nobody was told before the last one."""
        while len(self.versions) > 1 and (
            stall.since_ms <= self.versions[-1].from_ms <= stall.until_ms
        ):
            self.versions.pop()

    def _state(self) -> tuple[Told, tuple[Part, ...]]:
        if self._down:
            return Told.NOTHING, ()
        if self.view.unsure:
            return Told.UNKNOWN, ()
        parts = tuple(
            Part(entry.cluster, entry.broker, tuple(sorted(entry.addrs.items())), entry.queues)
            for entry in self.view.route(self._topic)
        )
        if self._partial:
            return Told.UNKNOWN, parts
        return (Told.ROUTE if parts else Told.NONE), parts

    def _begin(
        self,
        told: Told,
        parts: tuple[Part, ...],
        from_ms: int,
        record: Record | None,
        silence: Silence | None = None,
    ) -> None:
        before: tuple[Part, ...] = ()
        if self.versions and silence is None and _just_woke(self.versions[-1], from_ms):
            self.versions.pop()
        if self.versions:
            self.versions[-1] = replace(self.versions[-1], to_ms=from_ms)
            before = next((v.parts for v in reversed(self.versions) if _tells(v)), ())
        changes: tuple[str, ...] = ()
        if silence is not None:
            changes = (silence_phrase(silence),)
        elif record is not None and told is Told.UNKNOWN and self.view.unsure:
            changes = ("records were lost",)
        elif record is not None:
            changes = tuple(_changes(before, parts, told))
        seq = self.view.seq
        self.versions.append(
            Version(self.view.node, told, parts, from_ms, seq, None, record, changes, silence)
        )


_TOLD = {Silent.STOPPED: Told.NOTHING, Silent.STALLED: Told.STALLED}


def _is_known(version: Version) -> bool:
    return version.told in (Told.ROUTE, Told.NONE)


def _just_woke(version: Version, now_ms: int) -> bool:
    """Whether it began with the record after a silence, which is taken only now."""
    made_up = version.record is not None and isinstance(version.record.event, MadeUp)
    return made_up and version.silence is None and version.from_ms == now_ms


def _tells(version: Version) -> bool:
    return _is_known(version) or bool(version.parts)


def _changes(before: tuple[Part, ...], after: tuple[Part, ...], told: Told) -> Iterator[str]:
    if told is Told.NOTHING:
        yield "the node was down"
        return
    was, now = {part.name: part for part in before}, {part.name: part for part in after}
    for name in sorted(was.keys() | now.keys()):
        if name not in was:
            yield f"{name[1]} came with {short_queues(now[name].queues)}"
        elif name not in now:
            yield f"{name[1]} went"
        elif was[name] != now[name]:
            yield f"{name[1]}: {', '.join(_part_changes(was[name], now[name]))}"
    if was == now:
        yield "as before"


def _part_changes(before: Part, after: Part) -> Iterator[str]:
    if before.queues != after.queues:
        yield what_changed(before.queues, after.queues)
    came, went = set(after.addrs) - set(before.addrs), set(before.addrs) - set(after.addrs)
    if came:
        yield f"{listed([member(*addr) for addr in sorted(came)])} came"
    if went:
        yield f"{listed([member(*addr) for addr in sorted(went)])} went"
