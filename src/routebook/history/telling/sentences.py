"""Each event as a sentence an operator reads at three in the morning.

One function for each type of event, phrases for each cause in ``reasons``. The wording is tested
to the letter: whoever searches a log for it shall find it in the next version too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from routebook.events import (
    BrokerConfirmed,
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    ConfigChanged,
    Event,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    KvChanged,
    MappingsChanged,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    NoiseCounted,
    RecordsLost,
    RegistrationCompleted,
    RequestRefused,
    RouteQueries,
    StateRestated,
    TopicsChanged,
)
from routebook.history.finding.witness import (
    STALL_EDGES_MS,
    ClockJumped,
    NothingRecorded,
    RecordsMissing,
    heard_ms,
    slept,
)
from routebook.history.telling.queue_words import topics_changed
from routebook.history.telling.reasons import why_changed, why_left
from routebook.history.telling.words import (
    BUT_MOMENTS,
    MASTER,
    identity,
    joined,
    member,
    members,
    origin,
    queues,
)
from routebook.journal.pairs import is_length
from routebook.journal.record import UnknownEvent
from routebook.words import counted, listed, span, to_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known around an event; None, or nothing, where it is not."""

    topic: str | None = None  # the one the reader asked about
    holders: tuple[str, ...] = ()  # brokers that have it, after the event
    topics: int | None = None  # of the registration that began with it
    away_ms: int | None = None  # since it was last known; less than 0 when no clock can tell
    timeout_ms: int | None = None
    stand_in: tuple[int, str] | None = None  # the smallest id of a group without a master
    confirmed: tuple[tuple[str, int], ...] = ()  # brokers, and how long after the start
    gone: tuple[str, ...] = ()  # brokers not restated


NOTHING_MORE = Context()


def sentence(event: Event, context: Context = NOTHING_MORE) -> str:
    """One sentence, or a few, with a full stop."""
    tell: Callable[[Any, Context], str] = _SENTENCES[type(event)]
    return tell(event, context)


# -- brokers


def _registered(event: BrokerRegistered, context: Context) -> str:
    came = f"from {origin(event.peer)}{_with_topics(event, context)}"
    was_id = next((i for i, addr in event.addrs_before.items() if addr == event.addr), None)
    if was_id == event.broker_id:
        return f"{identity(event)} registered again over a new connection, {came}."
    if was_id is not None:
        role = "master" if event.broker_id == MASTER else "slave"
        return (
            f"{event.broker}: {event.addr} changed its id from {was_id} to {event.broker_id} and is"
            f" a {role} now, registered {came}."
        )
    if context.away_ms is not None:
        return (
            f"{event.broker} came back after {span(context.away_ms)}: {event.addr},"
            f" id {event.broker_id}, cluster {event.cluster}, registered {came}."
        )
    return f"{identity(event)} registered {came}."


def _with_topics(event: BrokerRegistered, context: Context) -> str:
    if event.broker_id != MASTER:
        return " as a slave"
    return "" if context.topics is None else f" with {counted(context.topics, 'topic')}"


def _updated(event: BrokerUpdated, context: Context) -> str:
    changes = [
        f"{name.replace('_', ' ')} from {_value(event.before.get(name))} to {_value(value)}"
        for name, value in event.after.items()
        if event.before.get(name) != value
    ]
    return f"{identity(event)} changed its {listed(changes)}, registered from {origin(event.peer)}."


def _value(value: object) -> str:
    if value is None or value in ((), []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _left(event: BrokerLeft, context: Context) -> str:
    alone = not event.addrs_after and event.broker_id == MASTER
    whom = event.broker if alone else f"{event.broker} {member(event.broker_id, event.addr)}"
    because = why_left(event.cause)
    if event.cause is Cause.EXPIRED and context.timeout_ms is not None:
        because += f" of {span(context.timeout_ms)}"
    return f"{joined((f'{whom} left: {because}', _left_behind(event, context)))}."


def _left_behind(event: BrokerLeft, context: Context) -> str:
    if event.addrs_after:
        return f"still there: {members(event.addrs_after)}"
    if event.cause is Cause.REPLACED:
        return ""
    if context.topic is None:
        return f"it had {counted(event.topics_lost, 'topic')}"
    if context.holders:
        return f"{context.topic} is still on {listed(context.holders)}"
    return f"{context.topic} is on no other broker, so there is no route"


def _completed(event: RegistrationCompleted, context: Context) -> str:
    return (
        f"the registration of {identity(event)} from {origin(event.peer)} with"
        f" {counted(event.topics, 'topic')} is complete."
    )


def _confirmed(event: BrokerConfirmed, context: Context) -> str:
    return (
        f"{identity(event)}, recovered from the journal, was heard of again {span(event.after_ms)}"
        " after the start."
    )


def _heartbeats(event: HeartbeatGaps, context: Context) -> str:
    longest = max(event.gaps_ms, default=0)
    if context.timeout_ms is not None:
        return (
            f"{identity(event)} was silent for {span(longest)}, and leaves after"
            f" {span(context.timeout_ms)}."
        )
    signs = counted(len(event.gaps_ms), "sign")
    return (
        f"{identity(event)} gave {signs} of life in {span(event.window_ms)}, at most"
        f" {span(longest)} apart."
    )


def _conflict(event: BrokerConflict, context: Context) -> str:
    return (
        f"conflict: {event.kept} and {event.other} both claim id {event.broker_id} of"
        f" {event.broker} in cluster {event.cluster}; {event.kept} is believed: {event.reason}."
    )


def _refused(event: RequestRefused, context: Context) -> str:
    about = f" for {event.subject}" if event.subject else ""
    told = ", although it was told of success" if event.answered_success else ""
    return (
        f"{event.request}{about} was refused to {origin(event.peer)}{told}:"
        f" {event.reason.rstrip('.')}."
    )


def _min_broker(event: MinBrokerChanged, context: Context) -> str:
    role = "master" if event.min_broker_id == MASTER else "slave"
    offline = f", since {event.offline_addr} is gone" if event.offline_addr else ""
    return (
        f"{role} {member(event.min_broker_id, event.min_broker_addr)} now has the smallest id of"
        f" {event.broker}{offline}."
    )


# -- topics


def _topics(event: TopicsChanged, context: Context) -> str:
    return topics_changed(
        event, topic=context.topic, away_ms=context.away_ms, stand_in=context.stand_in
    )


def _mappings(event: MappingsChanged, context: Context) -> str:
    names = sorted({mapping.topic for mapping in event.mappings})
    return (
        f"{event.broker} announced which logical queues it holds of {listed(names)},"
        f" {why_changed(event.cause, event.peer)}."
    )


def _queries(event: RouteQueries, context: Context) -> str:
    known = sum(count.known for count in event.topics)
    unknown = sum(count.unknown for count in event.topics)
    not_ready = sum(count.not_ready for count in event.topics)
    asked = known + unknown + not_ready + event.others
    what = context.topic or "a route"
    others = f", {event.others} were about other topics" if event.others else ""
    return (
        f"within {span(event.window_ms)} {what} was asked for {counted(asked, 'time')}:"
        f" {known} were answered, {unknown} told that there is no route, {not_ready} that the node"
        f" is not ready{others}."
    )


# -- settings


def _kv(event: KvChanged, context: Context) -> str:
    what = f"key {event.key} of namespace {event.namespace}"
    if event.after is None:
        done = "was deleted"
    elif event.before is None:
        done = f"was set to {_quoted(event.after)}"
    else:
        done = f"was changed from {_quoted(event.before)} to {_quoted(event.after)}"
    return f"{what} {done} {why_changed(event.cause, event.peer)}."


def _quoted(value: str) -> str:
    return value if is_length(value) else f'"{value}"'


def _config(event: ConfigChanged, context: Context) -> str:
    changes = [
        f"{name} from {event.before.get(name, 'nothing')} to {event.after.get(name, 'nothing')}"
        for name in sorted({*event.before, *event.after})
        if event.before.get(name) != event.after.get(name)
    ]
    return f"settings were changed {why_changed(event.cause, event.peer)}: {'; '.join(changes)}."


# -- the node


def _started(event: NodeStarted, context: Context) -> str:
    if not event.brokers:
        what = f"Routebook {event.version} at {event.address}"
        return f"node started ({what}), with no brokers recovered."
    confirmed = [f"{broker} confirmed {span(ms)} later" for broker, ms in context.confirmed]
    return (
        joined(
            (
                f"node restarted, {counted(event.brokers, 'broker')} recovered from the journal",
                *confirmed,
            ),
            ", ",
        )
        + "."
    )


def _stopped(event: NodeStopped, context: Context) -> str:
    return (
        f"node stopped in order, with {counted(event.brokers, 'broker')} and"
        f" {counted(event.topics, 'topic')}."
    )


def _stalled(event: NodeStalled, context: Context) -> str:
    if not slept(event):
        way = "forward" if event.clock_ms > 0 else "back"
        return (
            f"the clock of the node was set {way} by {span(abs(event.clock_ms))}, from"
            f" {to_second(event.from_ms)} to {to_second(event.to_ms)}; the node listened all the"
            " time."
        )
    clock = ""
    if event.clock_ms:
        way = "forward" if event.clock_ms > 0 else "back"
        clock = f" Its clock was set {way} by {span(abs(event.clock_ms))} meanwhile."
    broken = heard_ms(event) > STALL_EDGES_MS
    but, much = (BUT_MOMENTS, "little") if broken else ("", "nothing")
    return (
        f"the node listened to nobody from {to_second(event.from_ms)} to"
        f" {to_second(event.to_ms)}{but}, for {span(event.longest_ms)} at a time: it saw and"
        f" answered {much}.{clock}"
    )


def _recovered(event: JournalRecovered, context: Context) -> str:
    torn = (
        f" A record of {counted(event.torn_bytes, 'byte')} was cut short and dropped."
        if event.torn_bytes
        else ""
    )
    return (
        f"the journal had not been closed in order: its last record is number {event.last_seq},"
        f" and what came after it is lost.{torn}"
    )


def _lost(event: RecordsLost, context: Context) -> str:
    were = "record was" if event.count == 1 else "records were"
    lost = f"{event.count} {were} lost since {to_second(event.since_ms)}"
    if not event.flooded:
        return f"{lost}: the disk did not take them in time."
    many = "all" if event.flooded == event.count else f"{event.flooded} of them"
    return f"{lost}: {many} came from peers that changed more than a journal takes of them."


def _missing(event: RecordsMissing, context: Context) -> str:
    return f"{counted(event.count, 'record')} missing from the journal."


def _nothing(event: NothingRecorded, context: Context) -> str:
    return f"nothing had been recorded since {to_second(event.since_ms)}."


def _jumped(event: ClockJumped, context: Context) -> str:
    way = "forward" if event.clock_ms > 0 else "back"
    return f"the clock of the node was set {way} by {span(abs(event.clock_ms))}."


def _group_restated(event: GroupRestated, context: Context) -> str:
    if context.topic is not None:
        held = [change.after for change in event.queues if change.topic == context.topic]
        there = queues(held[0]) if held and held[0] else "none"
        return f"{context.topic} on {event.broker} as it stood after records were lost: {there}."
    addrs = {fact.broker_id: fact.addr for fact in event.members}
    return (
        f"{event.broker} of cluster {event.cluster} as it stood after records were lost:"
        f" {joined((members(addrs), counted(len(event.queues), 'topic')), ', ')}."
    )


def _state_restated(event: StateRestated, context: Context) -> str:
    told = f"the tables were written down anew: {counted(event.groups, 'broker group')}"
    if context.gone:
        return f"{told}; {listed(context.gone)} left unseen while records were lost."
    return f"{told}."


def _guard_engaged(event: GuardEngaged, context: Context) -> str:
    names = list(dict.fromkeys(suspect.broker for suspect in event.suspects))
    return (
        f"guard: {event.silent} of {counted(event.live, 'broker')} fell silent within"
        f" {span(event.window_ms)}, more than the {event.limit} that may be let go; believed for"
        f" {span(event.hold_ms)} more although their time is up: {listed(names)}."
    )


_RELEASED = {
    "deadline": "its time was up",
    "evidence": "it had become clear who was there and who was not",
    "admin": "an administrator said so",
}


def _guard_released(event: GuardReleased, context: Context) -> str:
    why = _RELEASED.get(event.reason, event.reason)
    by = f" at {event.peer}" if event.peer else ""
    return (
        f"guard released because {why}{by}: {counted(event.returned, 'broker')} came back,"
        f" {event.left} left, {event.dropped} dropped."
    )


def _noise(event: NoiseCounted, context: Context) -> str:
    kinds = [
        words
        for count, words in (
            (event.refused, counted(event.refused, "refusal")),
            (event.conflicts, counted(event.conflicts, "conflict")),
            (event.windows, f"{counted(event.windows, 'record')} of heartbeats and queries"),
        )
        if count
    ]
    loudest = [f"{noise.records} from {noise.peer}" for noise in event.peers]
    return (
        f"too many to write each of them down since {to_second(event.since_ms)}:"
        f" {joined(kinds, ', ') or counted(event.count, 'record')}"
        f"{f'; {listed(loudest)}' if loudest else ''}."
    )


def _unknown(event: UnknownEvent, context: Context) -> str:
    return f"{event.type} was recorded, which only a newer Routebook can explain."


_SENTENCES: dict[type[Event], Callable[[Any, Context], str]] = {
    BrokerRegistered: _registered,
    BrokerUpdated: _updated,
    BrokerLeft: _left,
    RegistrationCompleted: _completed,
    BrokerConfirmed: _confirmed,
    HeartbeatGaps: _heartbeats,
    BrokerConflict: _conflict,
    RequestRefused: _refused,
    MinBrokerChanged: _min_broker,
    TopicsChanged: _topics,
    MappingsChanged: _mappings,
    RouteQueries: _queries,
    KvChanged: _kv,
    ConfigChanged: _config,
    NodeStarted: _started,
    NodeStopped: _stopped,
    NodeStalled: _stalled,
    JournalRecovered: _recovered,
    RecordsLost: _lost,
    NoiseCounted: _noise,
    RecordsMissing: _missing,
    NothingRecorded: _nothing,
    ClockJumped: _jumped,
    GroupRestated: _group_restated,
    StateRestated: _state_restated,
    GuardEngaged: _guard_engaged,
    GuardReleased: _guard_released,
    UnknownEvent: _unknown,
}
