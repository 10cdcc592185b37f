"""Timelines: what happened to one broker, or to one topic, with what is known around it.

What belongs together stands together: a registration with the topics it brought, the slices of a
change, a restart with the brokers confirmed after it. What happened to the node is told where it
concerned the broker or topic, that is while the node knew it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    ConfigChanged,
    Event,
    GroupEvent,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    KvChanged,
    MappingsChanged,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    QueryCount,
    QueueChange,
    RecordsLost,
    RegistrationCompleted,
    RequestRefused,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.heartbeats import is_near_miss
from routebook.history.finding.clocks import Runs, Stamp, elapsed_ms
from routebook.history.finding.narrow import narrow_record, narrow_view
from routebook.history.finding.witness import Silence, Silences, apply
from routebook.history.telling.sentences import NOTHING_MORE, Context
from routebook.history.telling.words import MASTER
from routebook.journal.groups import GroupView, Key
from routebook.journal.record import Record, UnknownEvent
from routebook.journal.view import View

"""A gap between heartbeats of this share of the timeout was nearly the end."""

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing to tell, at the time of ``record``: ``silence`` if given, else its event."""

    record: Record
    context: Context = NOTHING_MORE
    silence: Silence | None = None


def broker_timeline(
    records: Iterable[Record], broker: str, *, known: View | None = None
) -> list[Happening]:
    """What happened to the brokers of this name; ``known`` is what was known before."""
    return _told(Timeline(broker, None, known or View()), records)


def topic_timeline(
    records: Iterable[Record], topic: str, *, known: View | None = None
) -> list[Happening]:
    """What happened to ``topic``; ``known`` is what was known before."""
    return _told(Timeline(topic, topic, known or View()), records)


def _told(timeline: "Timeline", records: Iterable[Record]) -> list[Happening]:
    for record in records:
        timeline.take(record)
    return timeline.happenings


class Timeline:
    """Told record after record of one node. ``topic`` is None when ``name`` is a broker's."""

    def __init__(self, name: str, topic: str | None, known: View) -> None:
        self._name = name
        self._topic = topic
        self._view = narrow_view(known, topic)
        self._known = self._holders()
        self._silences = Silences(known.wall_ms if known.seq else None)
        self._runs = Runs()
        self.happenings: list[Happening] = []
        self._started: int | None = None  # where the last start is told
        self._gone: dict[Key, Stamp] = {}  # groups that had the topic
        self._left: dict[tuple[Key, str], Stamp] = {}  # members, by address
        self._registering: dict[tuple[Key, str], int] = {}  # where their registration is told
        self._fresh: set[Key] = set()  # groups whose first registration is not complete
        self._slices: tuple[Key, int] | None = None  # where the last slice is told
        self._doubted: dict[Key, dict[int, str]] = {}  # as known when records were lost
        self._guarded = False

    def take(self, whole: Record) -> None:
        record = whole if self._topic is None else narrow_record(whole, self._topic)
        before = self._known
        silence = self._silences.next(record, listed=bool(before))
        stamp = self._runs.stamp(record)
        timeout_ms = self._timeout_ms(record)
        if self._topic is None:
            apply(self._view, narrow_record(whole, None))
        else:
            apply(self._view, record)
        after = self._known = self._holders() if self._can_matter(record) else before
        if silence is not None and before and not isinstance(record.event, NodeStalled):
            self.happenings.append(Happening(record, silence=silence))
        self._tell_of(record, before, after, stamp, timeout_ms)
        if not self._doubted:  # else it may be told again before the doubt ends
            for key in before.keys() - after.keys():
                self._note_gone(key, before[key], stamp)
        if isinstance(record.event, BrokerLeft):
            self._left[record.event.group, record.event.addr] = stamp

    def _can_matter(self, record: Record) -> bool:
        """Whether the groups this is about may be others after it."""
        event = record.event
        if isinstance(event, BrokerLeft | BrokerRegistered | TopicsChanged | BrokerConfirmed):
            group = self._view.groups.find(*event.group)
            return event.group in self._known or (group is not None and self._holds(group))
        return isinstance(event, NodeStarted | GroupRestated | StateRestated)

    def _holders(self) -> dict[Key, dict[int, str]]:
        """The groups this is about, as the node knows them now."""
        return {
            group.key: group.addrs
            for group in self._view.groups.by_key.values()
            if group.members and self._holds(group)
        }

    def _holds(self, group: GroupView) -> bool:
        return group.broker == self._name if self._topic is None else self._topic in group.queues

    def _is_named(self, event: Event) -> bool:
        if self._topic is None:
            return event.is_about_broker(self._name)
        return event.is_about_topic(self._topic)

    def _timeout_ms(self, record: Record) -> int | None:
        event = record.event
        if not isinstance(event, BrokerLeft | HeartbeatGaps):
            return None
        group = self._view.groups.find(*event.group)
        member = group.members.get(event.broker_id) if group else None
        return member.known.heartbeat_timeout_ms if member else None

    def _tell_of(
        self,
        record: Record,
        before: dict[Key, dict[int, str]],
        after: dict[Key, dict[int, str]],
        stamp: Stamp,
        timeout_ms: int | None,
    ) -> None:
        event = record.event
        match event:
            case NodeStarted():
                self._started = len(self.happenings) if before else None
                if before:
                    self._tell(record)
            case RecordsLost():
                self._doubted = self._doubted or before
            case StateRestated():
                if not self._view.unsure:
                    self._end_doubt(record, after, stamp)
            case GuardEngaged():
                if any((s.cluster, s.broker) in before for s in event.suspects):
                    self._guarded = True
                    self._tell(record)
            case GuardReleased():
                if self._guarded:
                    self._guarded = False
                    self._tell(record)
            case NodeStopped() | NodeStalled() | ConfigChanged() | UnknownEvent():
                if before:
                    self._tell(record)
            case RequestRefused():
                if self._is_named(event):
                    self._tell(record)
            case RouteQueries():
                self._count_queries(record, event)
            case KvChanged():
                if (event.namespace, event.key) == (ORDER_NAMESPACE, self._topic):
                    self._tell(record)
            case TopicsChanged():
                if self._topic is not None or event.broker == self._name:
                    self._change_topics(record, event, stamp)
            case GroupRestated():
                self._restate(record, event)
            case GroupEvent():
                named = self._topic is None and event.broker == self._name
                if named or event.group in before or event.group in after:
                    self._tell_of_broker(record, after, stamp, timeout_ms)

    def _tell_of_broker(
        self,
        record: Record,
        after: dict[Key, dict[int, str]],
        stamp: Stamp,
        timeout_ms: int | None,
    ) -> None:
        event = record.event
        match event:
            case BrokerRegistered():
                key = event.group
                left = self._left.pop((key, event.addr), None)
                self._registering[key, event.addr] = len(self.happenings)
                if not event.addrs_before:
                    self._fresh.add(key)
                self._tell(record, Context(away_ms=_since(left, stamp)))
            case RegistrationCompleted():
                self._complete(event)
            case BrokerLeft():
                self._fresh.discard(event.group)
                self._registering.pop((event.group, event.addr), None)
                holders = tuple(broker for _, broker in sorted(after))
                self._tell(
                    record, Context(topic=self._topic, holders=holders, timeout_ms=timeout_ms)
                )
            case BrokerConfirmed():
                self._confirm(record, event)
            case HeartbeatGaps():
                if not self._topic and is_worth_telling(event, timeout_ms):
                    self._tell(record, Context(timeout_ms=timeout_ms))
            case _:
                if is_worth_telling(event):
                    self._tell(record)

    def _tell(self, record: Record, context: Context = NOTHING_MORE) -> None:
        self.happenings.append(Happening(record, context))

    def _complete(self, event: RegistrationCompleted) -> None:
        key = event.group
        self._fresh.discard(key)
        self._slices = None
        told = self._registering.pop((key, event.addr), None)
        if told is not None:
            self._add_context(told, topics=event.topics)

    def _confirm(self, record: Record, event: BrokerConfirmed) -> None:
        if self._started is None:
            self._tell(record)
            return
        confirmed = self.happenings[self._started].context.confirmed
        self._add_context(self._started, confirmed=(*confirmed, (_who(event), event.after_ms)))

    def _add_context(self, place: int, **more: object) -> None:
        told = self.happenings[place]
        self.happenings[place] = replace(told, context=replace(told.context, **more))  # type: ignore[arg-type]

    def _change_topics(self, record: Record, event: TopicsChanged, stamp: Stamp) -> None:
        event = event.for_clients()
        changes, key = event.changes, event.group
        if not changes or (self._topic is None and key in self._fresh):
            return  # the registration says how many there are
        record = replace(record, event=event)
        if self._slices is not None and self._slices[0] == key and event.cause is Cause.REGISTER:
            self._add_slice(self._slices[1], changes)
            return
        came = any(change.before is None for change in changes)
        gone = self._gone.pop(key, None) if came and self._topic is not None else None
        self._slices = (key, len(self.happenings)) if event.cause is Cause.REGISTER else None
        self._tell(
            record,
            Context(topic=self._topic, away_ms=_since(gone, stamp), stand_in=self._stand_in(key)),
        )
        if self._topic is not None and any(change.after is None for change in changes):
            self._gone[key] = stamp

    def _add_slice(self, place: int, changes: tuple[QueueChange, ...]) -> None:
        told = self.happenings[place]
        event = told.record.event
        assert isinstance(event, TopicsChanged)
        joined = replace(event, changes=event.changes + changes)
        self.happenings[place] = replace(told, record=replace(told.record, event=joined))

    def _stand_in(self, key: Key) -> tuple[int, str] | None:
        group = self._view.groups.find(*key)
        addrs = group.addrs if group else {}
        return next(iter(addrs.items())) if addrs and MASTER not in addrs else None

    def _restate(self, record: Record, event: GroupRestated) -> None:
        if self._topic is not None:
            if event.queues:
                self._tell(record, Context(topic=self._topic))
            return
        if event.broker != self._name:
            return
        last = self.happenings[-1].record if self.happenings else None
        if event.continued and last is not None and isinstance(last.event, GroupRestated):
            whole = replace(last.event, queues=last.event.queues + event.queues)
            self.happenings[-1] = Happening(replace(last, event=whole))
        else:
            self._tell(record)

    def _end_doubt(self, record: Record, after: dict[Key, dict[int, str]], stamp: Stamp) -> None:
        gone = sorted(self._doubted.keys() - after.keys())
        for key in gone:
            self._note_gone(key, self._doubted[key], stamp)
        self._doubted = {}
        if gone:
            self._tell(record, Context(gone=tuple(broker for _, broker in gone)))

    def _note_gone(self, key: Key, addrs: dict[int, str], stamp: Stamp) -> None:
        self._gone[key] = stamp
        self._left |= {(key, addr): stamp for addr in addrs.values()}

    def _count_queries(self, record: Record, event: RouteQueries) -> None:
        """Tell of queries for the topic that found nothing; windows in a row are one."""
        if self._topic is None or not event.topics:
            return
        count, window_ms = event.topics[0], event.window_ms
        if not count.unknown + count.not_ready:
            return
        last = self.happenings[-1].record.event if self.happenings else None
        if isinstance(last, RouteQueries):
            count = QueryCount(
                count.topic, *map(sum, zip(last.topics[0][1:], count[1:], strict=True))
            )
            window_ms += last.window_ms
            self.happenings.pop()
        event = replace(event, topics=(count,), window_ms=window_ms)
        self._tell(replace(record, event=event), Context(topic=self._topic))


def is_worth_telling(event: Event, timeout_ms: int | None = None) -> bool:
    """Whether it says something, and others do not say it."""
    match event:
        case HeartbeatGaps(gaps_ms=gaps_ms):
            return is_near_miss(max(gaps_ms, default=0), timeout_ms)
        case TopicsChanged():
            return bool(event.for_clients().changes)
        case MappingsChanged(mappings=mappings):
            return bool(mappings)
        case MinBrokerChanged():
            return event.min_broker_id != MASTER  # else its registration says so
        case RegistrationCompleted():
            return False  # the registration it ends has its topics
        case GroupRestated():
            return not event.continued
    return True


def _since(earlier: Stamp | None, now: Stamp) -> int | None:
    return None if earlier is None else elapsed_ms(earlier, now)


def _who(event: BrokerConfirmed) -> str:
    return event.broker if event.broker_id == MASTER else f"{event.broker} id {event.broker_id}"
