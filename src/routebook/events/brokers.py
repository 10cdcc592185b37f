"""Broker processes: that they come and go, and how they are doing."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from routebook.events.event import BrokerEvent, Event, GroupEvent, Kind


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationCompleted(BrokerEvent):
    """All of a registration is applied and its data version stands."""

    topics: int
    data_version: tuple[int, int, int] | None  # state version, timestamp, counter


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfirmed(BrokerEvent):
    """A recovered broker was heard of again, ``after_ms`` from the node's start."""

    after_ms: int

    @property
    def changes_routes(self) -> bool:
        return False  # it was believed all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatGaps(BrokerEvent):
    """Times between signs of life of a broker in one window, oldest first."""

    kind: ClassVar[Kind] = Kind.WINDOW

    window_ms: int
    gaps_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConflict(GroupEvent):
    """Two claims to one identity; ``kept`` is believed."""

    kind: ClassVar[Kind] = Kind.REFUSAL
    alarming: ClassVar[bool] = True

    broker_id: int
    kept: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MinBrokerChanged(GroupEvent):
    """The smallest id of a group changed; ``recipients`` are to be told so (code 905)."""

    min_broker_id: int
    min_broker_addr: str
    offline_addr: str | None
    ha_addr: str | None
    recipients: tuple[str, ...]


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

    kind: ClassVar[Kind] = Kind.NODE
    alarming: ClassVar[bool] = True

    suspects: tuple[Suspect, ...]
    silent: int
    live: int
    limit: int
    window_ms: int
    hold_ms: int

    def is_about_broker(self, broker: str) -> bool:
        return any(suspect.broker == broker for suspect in self.suspects)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReleased(Event):
    """``reason``: deadline, evidence (most of them came back, so the rest are gone), or admin.

    ``returned`` were heard of again, ``left`` said goodbye, ``dropped`` were let go.
    """

    kind: ClassVar[Kind] = Kind.NODE
    alarming: ClassVar[bool] = True

    reason: str
    returned: int
    left: int
    dropped: int
