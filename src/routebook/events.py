"""The facts a node can record.

Each has the node's revision after it, its cause, and the peer it came from ("" when nobody
asked for it, as with an expiry). Later stages (journal, watchers, metrics) read nothing else.
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
    addrs_before: dict[int, str]
    addrs_after: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUpdated(BrokerEvent):
    """A known broker registered anew with another header: zone, HA address, timeout, filters."""

    before: dict[str, object]
    after: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLeft(BrokerEvent):
    """An address is gone; with the last one of a group its topics are."""

    addrs_before: dict[int, str]
    addrs_after: dict[int, str]
    topics_lost: int


class QueueChange(NamedTuple):
    """One topic on one broker: (read queues, write queues, perm, flags), None for absent."""

    topic: str
    before: tuple[int, int, int, int] | None
    after: tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged(Event):
    """Queues a group has for its topics changed. One event for each slice of a registration."""

    cluster: str
    broker: str
    changes: tuple[QueueChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingsChanged(Event):
    """Static topic mappings announced by a group were set or dropped."""

    cluster: str
    broker: str
    topics_set: tuple[str, ...]
    topics_dropped: tuple[str, ...]


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
