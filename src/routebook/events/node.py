"""What happened to the node and its journal, not to its tables."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from routebook.events.event import Event, GroupEvent, Kind
from routebook.events.topics import QueueChange, StaticMapping, of_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """``brokers`` and ``topics`` are how many it begins with, recovered from before.

    ``fleet`` is the set of NameServers it belongs to, ``incarnation`` the life of its data folder;
    both "" where the node did not say.
    """

    kind: ClassVar[Kind] = Kind.NODE

    version: str
    address: str
    brokers: int
    topics: int
    fleet: str = ""
    incarnation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """In order; a node that was killed leaves none."""

    kind: ClassVar[Kind] = Kind.NODE

    brokers: int
    topics: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStalled(Event):
    """The node listened to nobody from ``from_ms`` to ``to_ms``, wall time, but for moments.

    ``longest_ms`` is the longest pause in it. ``clock_ms`` is how far the wall clock moved against
    the monotonic one meanwhile: 0 for a process that was stopped, more for a machine that was
    suspended or whose clock was set forward, less where it was set back.
    """

    kind: ClassVar[Kind] = Kind.NODE
    alarming: ClassVar[bool] = True

    from_ms: int
    to_ms: int
    longest_ms: int
    clock_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecovered(Event):
    """The journal was not closed in order. What came after ``last_seq``, if anything, is lost.

    The next sequence number leaves room for all that could have been written. ``alive_ms`` is the
    last wall time at which the node is known to have answered with nothing recorded after
    ``last_seq``; None when nobody knows.
    """

    kind: ClassVar[Kind] = Kind.NODE

    last_seq: int
    torn_bytes: int
    alive_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost(Event):
    """The disk could not keep up, or not be written; ``since_ms`` is wall time.

    ``flooded`` of them were more than their peer may have written.
    """

    kind: ClassVar[Kind] = Kind.NODE

    count: int
    since_ms: int
    flooded: int = 0


class PeerNoise(NamedTuple):
    """How many records of one peer address were counted and not written."""

    peer: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseCounted(Event):
    """Records that say little came faster than they are written; ``since_ms`` is wall time.

    ``refused`` requests, ``conflicts`` and ``windows`` (heartbeat gaps, route queries) are in no
    record of their own, ``count`` in all. ``peers`` are the addresses most of them came from.
    """

    kind: ClassVar[Kind] = Kind.NODE
    alarming: ClassVar[bool] = True

    since_ms: int
    count: int
    refused: int
    conflicts: int
    windows: int
    peers: tuple[PeerNoise, ...]


class MemberFact(NamedTuple):
    """One broker process of a group."""

    broker_id: int
    addr: str
    ha_addr: str | None
    heartbeat_timeout_ms: int
    generation: int
    epoch: int
    data_version: tuple[int, int, int] | None
    filter_servers: tuple[str, ...]
    confirmed: bool = True  # False: recovered, and not heard of since


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestated(GroupEvent):
    """All there is to know of one broker group, after records were lost.

    Groups that are not restated before ``StateRestated`` are gone. One of many topics is told in
    parts: the second and later ones are ``continued`` and hold only more queues.
    """

    kind: ClassVar[Kind] = Kind.NODE

    acting_master: bool
    zone: str | None
    members: tuple[MemberFact, ...]
    queues: tuple[QueueChange, ...]  # before None
    mappings: tuple[StaticMapping, ...]
    continued: bool = False

    def is_about_topic(self, topic: str) -> bool:
        return bool(of_topic(topic, self.queues) or of_topic(topic, self.mappings))

    def narrowed(self, topic: str | None) -> Self:
        """Never empty: only all groups together are the end of doubt."""
        return replace(
            self,
            queues=of_topic(topic, self.queues),
            mappings=of_topic(topic, self.mappings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRestated(Event):
    """Every group has been restated: from here on the records tell the tables again.

    ``groups`` is how many were, without those that left meanwhile; fewer since records were last
    lost are no restatement. ``generation`` is the last one given away, ``kv`` all key-value pairs
    by namespace.
    """

    kind: ClassVar[Kind] = Kind.NODE

    groups: int
    kv: dict[str, dict[str, str]]
    generation: int = 0

    def with_values(self, told: Callable[[str], str]) -> Self:
        kv = {
            namespace: {key: told(value) for key, value in table.items()}
            for namespace, table in self.kv.items()
        }
        return replace(self, kv=kv)
