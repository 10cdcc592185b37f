"""Absences: why a topic that is asked for has no route, as far as this node remembers."""

from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from routebook.events import BrokerLeft, Cause, Event, TopicsChanged

MAX_DEPARTURES = 64  # each is looked at for a topic that is not there
MAX_TOPICS = 300_000  # of all departures together
MAX_DELETED = 10_000

_BECAUSE = {
    Cause.UNREGISTER: "it unregistered",
    Cause.CONNECTION_CLOSED: "its connection was closed",
    Cause.IDLE: "its connection was idle for too long",
    Cause.EXPIRED: "it was not heard of in time",
    Cause.NOT_CONFIRMED: "it was not heard of after this node was restarted",
    Cause.MOVED: "its address registered under another name",
    Cause.GUARD: "it stayed silent until the mass-loss guard let it go",
}


@dataclass(frozen=True, slots=True)
class _Departure:
    broker: str
    addr: str
    cause: Cause
    wall_ms: int
    topics: Collection[str]


class Absences:
    def __init__(self, started_wall_ms: int, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._started_wall_ms = started_wall_ms
        self._departures: deque[_Departure] = deque(maxlen=MAX_DEPARTURES)
        self._topics = 0
        self._deleted: OrderedDict[str, tuple[int, str, str]] = OrderedDict()

    def note(self, event: Event, wall_ms: int, topics: Collection[str]) -> None:
        """Remember what ``event`` took away; ``topics`` are those of a group that left.

        They are kept, not copied: a group that left does not change.
        """
        if isinstance(event, BrokerLeft):
            if not event.addrs_after and topics:
                self._note_departure(event, wall_ms, topics)
        elif isinstance(event, TopicsChanged):
            for change in event.changes:
                if change.after is None:
                    self._deleted[change.topic] = (wall_ms, event.broker, event.peer)
                    self._deleted.move_to_end(change.topic)
            while len(self._deleted) > MAX_DELETED:
                self._deleted.popitem(last=False)

    def reason(self, topic: str) -> str:
        """A sentence for whoever asked for ``topic``."""
        departure = next((d for d in reversed(self._departures) if topic in d.topics), None)
        deleted = self._deleted.get(topic)
        if deleted is not None and (departure is None or departure.wall_ms <= deleted[0]):
            wall_ms, broker, peer = deleted
            return f"deleted from {broker} at {_time(wall_ms)} by {peer or 'the broker'}"
        if departure is None:
            return f"not seen by this node since it started at {_time(self._started_wall_ms)}"
        because = _BECAUSE.get(departure.cause, departure.cause.value)
        return (
            f"known, but no live broker has it: the last one, {departure.broker}"
            f" ({departure.addr}), left at {_time(departure.wall_ms)}, {because}"
        )

    def _note_departure(self, event: BrokerLeft, wall_ms: int, topics: Collection[str]) -> None:
        if len(self._departures) == MAX_DEPARTURES:
            self._topics -= len(self._departures.popleft().topics)
        self._departures.append(_Departure(event.broker, event.addr, event.cause, wall_ms, topics))
        self._topics += len(topics)
        while self._topics > self._max_topics and self._departures:
            self._topics -= len(self._departures.popleft().topics)


def _time(wall_ms: int) -> str:
    text = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
