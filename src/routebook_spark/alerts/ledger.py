"""Ledger: which alerts are open, each raised once and resolved once.

A condition is told by ``hold`` each time it is seen and by ``release`` when it is over. What it is
about is its subject; whoever sees it, a node or two that disagree, is its ground. The first ground
raises the alert, and the last one that is released resolves it. Alerts are told at the end of a
trigger, so that they name all nodes that saw the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from pyspark.sql.types import MapType

from routebook_spark.schemas import LONG, STRING, STRINGS, struct

RAISED = "raised"
RESOLVED = "resolved"


class Kind(StrEnum):
    FLAPPING = "flapping"
    LATE_HEARTBEATS = "late_heartbeats"
    DIVERGENCE = "divergence"
    MASS_LOSS = "mass_loss"
    REGISTRATION_SIZE = "registration_size"
    UNKNOWN_TOPICS = "unknown_topics"
    RECORDS_LOST = "records_lost"
    NODE_KILLED = "node_killed"
    NODE_STALLED = "node_stalled"
    NODE_SILENT = "node_silent"
    CLOCK_AHEAD = "clock_ahead"
    NODE_ID_TWICE = "node_id_twice"


SEVERITY = {
    Kind.FLAPPING: "warning",
    Kind.LATE_HEARTBEATS: "warning",
    Kind.DIVERGENCE: "critical",
    Kind.MASS_LOSS: "critical",
    Kind.REGISTRATION_SIZE: "warning",
    Kind.UNKNOWN_TOPICS: "warning",
    Kind.RECORDS_LOST: "warning",
    Kind.NODE_KILLED: "critical",
    Kind.NODE_STALLED: "warning",
    Kind.NODE_SILENT: "critical",
    Kind.CLOCK_AHEAD: "warning",
    Kind.NODE_ID_TWICE: "critical",
}


class Subject(NamedTuple):
    """What an alert is about; ``node`` where it is about one, else its grounds are nodes."""

    kind: Kind
    node: str | None = None
    cluster: str | None = None
    broker: str | None = None
    broker_id: int | None = None
    topic: str | None = None


class Alert(NamedTuple):
    """One row; ``resolved_ms`` is null while it is raised."""

    id: str
    state: str
    kind: str
    severity: str
    fleet: str
    nodes: list[str]
    cluster: str | None
    broker: str | None
    broker_id: int | None
    topic: str | None
    began_ms: int
    raised_ms: int
    resolved_ms: int | None
    sentence: str
    evidence: dict[str, str]


ALERT = struct(
    id=STRING,
    state=STRING,
    kind=STRING,
    severity=STRING,
    fleet=STRING,
    nodes=STRINGS,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    topic=STRING,
    began_ms=LONG,
    raised_ms=LONG,
    resolved_ms=LONG,
    sentence=STRING,
    evidence=MapType(STRING, STRING),
)


@dataclass(slots=True)
class Hold:
    """One ground of an open alert: names of nodes with a blank between them, or another word."""

    kind: str
    node: str | None
    cluster: str | None
    broker: str | None
    broker_id: int | None
    topic: str | None
    ground: str
    began_ms: int  # of the alert
    raised_ms: int
    seen_ms: int  # the last time
    over: bool

    @property
    def subject(self) -> Subject:
        return Subject(
            Kind(self.kind), self.node, self.cluster, self.broker, self.broker_id, self.topic
        )


Telling = Callable[[list[str]], str]
"""The sentence, when the nodes are known."""


class _Raised(NamedTuple):
    telling: Telling
    evidence: Mapping[str, object]


class Ledger:
    """Of one fleet."""

    def __init__(self, holds: Iterable[Hold] = (), *, fleet: str) -> None:
        self._fleet = fleet
        self._open: dict[Subject, dict[str, Hold]] = {}
        for hold in holds:
            self._open.setdefault(hold.subject, {})[hold.ground] = hold
        self._raised: dict[Subject, _Raised] = {}  # and not yet told
        self._told: list[Alert] = []

    def holds(self) -> Iterator[Hold]:
        """All there are; those that are over are kept with the others of their alert."""
        for grounds in self._open.values():
            yield from grounds.values()

    def held(self, kind: Kind) -> list[tuple[Subject, Hold]]:
        """Grounds of open alerts of a kind that are not over."""
        return [
            (subject, hold)
            for subject, grounds in self._open.items()
            if subject.kind is kind
            for hold in grounds.values()
            if not hold.over
        ]

    def held_for(self, subject: Subject) -> bool:
        """Whether there is an open alert about ``subject``."""
        return subject in self._open

    def find(self, subject: Subject, ground: str) -> Hold | None:
        """The ground, if it is not over."""
        hold = self._open.get(subject, {}).get(ground)
        return None if hold is None or hold.over else hold

    def hold(
        self,
        subject: Subject,
        ground: str,
        *,
        since_ms: int,
        at_ms: int,
        telling: Telling,
        evidence: Mapping[str, object],
    ) -> None:
        grounds = self._open.setdefault(subject, {})
        if not grounds:
            self._raised[subject] = _Raised(telling, evidence)
        hold = grounds.get(ground)
        if hold is None:
            first = next(iter(grounds.values()), None)
            # A clock that was set back meanwhile showed later times before than it does now.
            mine = min(since_ms, at_ms), at_ms
            began_ms, raised_ms = (first.began_ms, first.raised_ms) if first else mine
            # The store takes plain texts only.
            plain = (subject.kind.value, *subject[1:])
            hold = Hold(*plain, ground, began_ms, raised_ms, at_ms, over=False)
            grounds[ground] = hold
        hold.seen_ms, hold.over = max(hold.seen_ms, at_ms), False

    def release(self, subject: Subject, ground: str, *, at_ms: int, sentence: str) -> None:
        """Nothing happens unless it is held."""
        hold = self.find(subject, ground)
        if hold is None:
            return
        hold.over = True
        grounds = self._open[subject]
        if all(other.over for other in grounds.values()):
            self._tell_raised(subject)
            resolved_ms = max(at_ms, hold.raised_ms)
            self._told.append(self._alert(subject, grounds, resolved_ms, sentence, {}))
            del self._open[subject]

    def take(self) -> list[Alert]:
        """What has been raised and resolved since this was last asked."""
        for subject in list(self._raised):
            self._tell_raised(subject)
        told, self._told = self._told, []
        return told

    def _tell_raised(self, subject: Subject) -> None:
        raised = self._raised.pop(subject, None)
        if raised is not None:
            grounds = self._open[subject]
            sentence = raised.telling(_nodes(subject, grounds))
            self._told.append(self._alert(subject, grounds, None, sentence, raised.evidence))

    def _alert(
        self,
        subject: Subject,
        grounds: Mapping[str, Hold],
        resolved_ms: int | None,
        sentence: str,
        evidence: Mapping[str, object],
    ) -> Alert:
        first = next(iter(grounds.values()))
        return Alert(
            id=alert_id(self._fleet, subject, first.began_ms),
            state=RAISED if resolved_ms is None else RESOLVED,
            kind=subject.kind.value,
            severity=SEVERITY[subject.kind],
            fleet=self._fleet,
            nodes=_nodes(subject, grounds),
            cluster=subject.cluster,
            broker=subject.broker,
            broker_id=subject.broker_id,
            topic=subject.topic,
            began_ms=first.began_ms,
            raised_ms=first.raised_ms,
            resolved_ms=resolved_ms,
            sentence=sentence,
            evidence={name: str(value) for name, value in evidence.items()},
        )


def alert_id(fleet: str, subject: Subject, began_ms: int) -> str:
    """The same whenever, and however often, the same is found."""
    parts = ["" if part is None else str(part) for part in (fleet, *subject, began_ms)]
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _nodes(subject: Subject, grounds: Mapping[str, Hold]) -> list[str]:
    if subject.node is not None:
        return [subject.node]
    return sorted({node for ground in grounds for node in ground.split(" ")})
