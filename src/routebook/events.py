"""The facts a node can record.

Each has the node's revision after it, its cause, and the peer it came from ("" when nobody
asked for it, as with an expiry). Later stages (journal, watchers, metrics) read nothing else.

Two kinds. Changes of the tables raise the revision by one; played in order they give the tables.
Notes about the node itself (its start, what it counted) carry the revision they found.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Cause(StrEnum):
    REGISTER = "register"
    UNREGISTER = "unregister"
    CONNECTION_CLOSED = "connection_closed"
    IDLE = "idle"
    EXPIRED = "expired"
    ADMIN = "admin"
    CONFLICT = "conflict"
    REPLACED = "replaced"  # another address took the id
    MOVED = "moved"  # the same address returned under another name or id
    REFUSED = "refused"  # unreadable, incomplete or not allowed
    STALE = "stale"  # overtaken by a newer registration
    RECOVERED = "recovered"  # known from before the node was restarted
    NOT_CONFIRMED = "not_confirmed"  # recovered, and not heard of since
    START = "start"
    STOP = "stop"
    WINDOW = "window"  # counted, and written down at the end of a window
    GUARD = "guard"  # too many brokers fell silent at once to believe it
    JOURNAL = "journal"  # about the journal itself
    STALL = "stall"  # the node was not awake


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    revision: int
    cause: Cause
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent(Event):
    """Something about one broker process."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(BrokerEvent):
    """An address joined its group, or came back on a new connection."""

    ha_addr: str | None
    heartbeat_timeout_ms: int
    acting_master: bool | None
    zone: str | None
    epoch: int
    filter_servers: tuple[str, ...]
    addrs_before: dict[int, str]
    addrs_after: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUpdated(BrokerEvent):
    """A known broker registered anew with another header: zone, HA address, timeout, epoch."""

    before: dict[str, object]
    after: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLeft(BrokerEvent):
    """An address is gone; with the last one of a group its topics are."""

    addrs_before: dict[int, str]
    addrs_after: dict[int, str]
    topics_lost: int


Shape = tuple[int, int, int, int]  # read queues, write queues, perm, flags


class QueueChange(NamedTuple):
    """One topic on one broker, as clients are told; None for absent.

    ``registered`` is what the broker said of it, where that is something else.
    """

    topic: str
    before: Shape | None
    after: Shape | None
    registered: Shape | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged(Event):
    """Queues a group has for its topics changed. One event for each slice of a registration."""

    cluster: str
    broker: str
    changes: tuple[QueueChange, ...]


class StaticMapping(NamedTuple):
    """Which logical queues of a static topic one broker holds: logical id, queue id."""

    topic: str
    bname: str
    total_queues: int
    epoch: int
    scope: str | None
    dirty: bool
    curr_id_map: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingsChanged(Event):
    """Static topic mappings announced by a group. They go with their topic, or their group."""

    cluster: str
    broker: str
    mappings: tuple[StaticMapping, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationCompleted(BrokerEvent):
    """All of a registration is applied and its data version stands."""

    topics: int
    data_version: tuple[int, int, int] | None  # state version, timestamp, counter


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """Something was asked and not done. ``answered_success`` where peers may not be told."""

    request: str
    subject: str
    reason: str
    answered_success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConflict(Event):
    """Two claims to one identity; ``kept`` is believed."""

    cluster: str
    broker: str
    broker_id: int
    kept: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MinBrokerChanged(Event):
    """The smallest id of a group changed; ``recipients`` are to be told so (code 905)."""

    cluster: str
    broker: str
    min_broker_id: int
    min_broker_addr: str
    offline_addr: str | None
    ha_addr: str | None
    recipients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvChanged(Event):
    namespace: str
    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Event):
    before: dict[str, str]
    after: dict[str, str]


# -- what happened to the node, not to its tables


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """``brokers`` and ``topics`` are how many it begins with, recovered from before.

    ``fleet`` is the set of NameServers it belongs to, ``incarnation`` the life of its data folder;
    both "" where the node did not say.
    """

    version: str
    address: str
    brokers: int
    topics: int
    fleet: str = ""
    incarnation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """In order; a node that was killed leaves none."""

    brokers: int
    topics: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStalled(Event):
    """The node listened to nobody from ``from_ms`` to ``to_ms``, wall time, but for moments.

    ``longest_ms`` is the longest pause in it. ``clock_ms`` is how far the wall clock moved against
    the monotonic one meanwhile: 0 for a process that was stopped, more for a machine that was
    suspended or whose clock was set forward, less where it was set back.
    """

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

    last_seq: int
    torn_bytes: int
    alive_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost(Event):
    """The disk could not keep up, or not be written; ``since_ms`` is wall time.

    ``flooded`` of them were more than their peer may have written.
    """

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

    since_ms: int
    count: int
    refused: int
    conflicts: int
    windows: int
    peers: tuple[PeerNoise, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestated(Event):
    """All there is to know of one broker group, after records were lost.

    Groups that are not restated before ``StateRestated`` are gone. One of many topics is told in
    parts: the second and later ones are ``continued`` and hold only more queues.
    """

    cluster: str
    broker: str
    acting_master: bool
    zone: str | None
    members: tuple["MemberFact", ...]
    queues: tuple[QueueChange, ...]  # before None
    mappings: tuple[StaticMapping, ...]
    continued: bool = False


class MemberFact(NamedTuple):
    """What is known of one broker process.

    ``generation``, ``data_version`` and ``confirmed`` are of the node; the rest the broker says.
    """

    broker_id: int
    addr: str
    ha_addr: str | None
    heartbeat_timeout_ms: int
    generation: int
    epoch: int
    data_version: tuple[int, int, int] | None  # of its last complete registration
    filter_servers: tuple[str, ...]
    confirmed: bool = True  # False: recovered, and not heard of since

    def said(self) -> "MemberFact":
        """What the broker says, and nothing of the node's own."""
        return self._replace(generation=0, data_version=None, confirmed=True)

    def details(self, *, acting_master: bool, zone: str | None) -> dict[str, object]:
        """What may change in a registration of the same process, as ``BrokerUpdated`` tells it."""
        return {
            "ha_addr": self.ha_addr,
            "heartbeat_timeout_ms": self.heartbeat_timeout_ms,
            "acting_master": acting_master,
            "zone": zone,
            "filter_servers": self.filter_servers,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRestated(Event):
    """Every group has been restated: from here on the records tell the tables again.

    ``groups`` is how many were, without those that left meanwhile; fewer since records were last
    lost are no restatement. ``generation`` is the last one given away, ``kv`` all key-value pairs
    by namespace.
    """

    groups: int
    kv: dict[str, dict[str, str]]
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfirmed(BrokerEvent):
    """A recovered broker was heard of again, ``after_ms`` from the node's start."""

    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatGaps(BrokerEvent):
    """Times between signs of life of a broker in one window, oldest first."""

    window_ms: int
    gaps_ms: tuple[int, ...]


class QueryCount(NamedTuple):
    """How often a topic was asked for: answered, not known, and while the node was not ready."""

    topic: str
    known: int
    unknown: int
    not_ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteQueries(Event):
    """Route queries of one window. ``others`` are those of topics too many to list."""

    window_ms: int
    topics: tuple[QueryCount, ...]
    others: int


class Suspect(NamedTuple):
    """A broker whose time is up, and which is believed all the same."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    silent_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEngaged(Event):
    """Brokers that would have expired are believed for ``hold_ms`` more.

    ``silent`` of ``live`` brokers are held already, or their time runs out within one window of
    ``window_ms``; up to ``limit`` of them could have been let go.
    """

    suspects: tuple[Suspect, ...]
    silent: int
    live: int
    limit: int
    window_ms: int
    hold_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReleased(Event):
    """``reason``: deadline, evidence (most of them came back, so the rest are gone), or admin.

    ``returned`` were heard of again, ``left`` said goodbye, ``dropped`` were let go.
    """

    reason: str
    returned: int
    left: int
    dropped: int
