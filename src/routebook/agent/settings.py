"""BrokerSettings: who a broker is and how its agent speaks for it."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from routebook.wire.address import split_address
from routebook.wire.answers import MASTER_ID, PERM_READ, PERM_WRITE
from routebook.wire.headers import MAX_NAME, BrokerIdentity, RegisterBrokerHeader

SHORTEST_PERIOD_S = 10.0
LONGEST_PERIOD_S = 60.0
MAX_PERMISSION = 7

Announce = Literal["incremental", "single", "full"]
Heartbeat = Literal["off", "query", "light"]

_PERMISSION_TEXTS = {
    "rw": PERM_READ | PERM_WRITE,
    "r": PERM_READ,
    "w": PERM_WRITE,
    "-": 0,
    **{str(number): number for number in range(MAX_PERMISSION + 1)},
}


class BadSettings(ValueError):
    """One sentence about a value an agent cannot work with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Who a broker is, and how its agent speaks for it.

    Raises BadSettings for values no NameServer, or no client after it, could use.

    ``addr`` is where clients reach the broker. ``ha_addr`` is where slaves replicate from: the port
    after that of ``addr`` unless given. ``heartbeat_timeout_ms`` is how long a NameServer lists the
    broker without hearing of it, two minutes unless given; with less than the period between
    registrations, heartbeats must fill the gap.

    ``force`` False: a round first asks whether the node's data version is still the broker's, and
    sends the topics only if not. ``announce`` says how a change of topics reaches nodes that know
    the rest: a registration of the changed topics (``incremental``), REGISTER_TOPIC_IN_NAMESRV for
    each (``single``; servers of 4.9 do not know it and get the former), or everything (``full``).
    Nodes with ``deleteTopicWithBrokerRegistration`` need one of the latter two, and no splitting.
    ``split_topics`` is the most topics one request carries; without it only what exceeds the frame
    limit is split.
    """

    name: str
    addr: str
    cluster: str = "DefaultCluster"
    broker_id: int = MASTER_ID
    ha_addr: str | None = None
    permission: int = PERM_READ | PERM_WRITE
    zone: str | None = None
    acting_master: bool = False
    heartbeat_timeout_ms: int | None = None
    state_version: int = 0
    register_period_s: float = 30.0
    round_timeout_s: float = 24.0
    force: bool = True
    compressed: bool = False
    announce: Announce = "incremental"
    split_topics: int | None = None
    heartbeat: Heartbeat = "off"
    heartbeat_s: float = 1.0

    def __post_init__(self) -> None:
        for key in ("name", "cluster"):
            _check_name(key, getattr(self, key))
        if self.zone is not None:
            _check_name("zone", self.zone)
        _check_address("addr", self.addr)
        if self.ha_addr is not None:
            _check_address("ha_addr", self.ha_addr)
        _check_range("broker_id", self.broker_id, 0, 2**63 - 1)
        _check_range("permission", self.permission, 0, MAX_PERMISSION)
        _check_range("state_version", self.state_version, 0, 2**63 - 1)
        if self.heartbeat_timeout_ms is not None:
            _check_range("heartbeat_timeout_ms", self.heartbeat_timeout_ms, 1, 2**63 - 1)
        if self.split_topics is not None and self.split_topics < 2:
            raise BadSettings(
                "split_topics must be at least 2, since NameServers refuse a first registration"
                f" of a single topic; it is {self.split_topics}"
            )
        for key in ("register_period_s", "round_timeout_s", "heartbeat_s"):
            if not getattr(self, key) > 0:
                raise BadSettings(f"{key} must be more than 0, not {getattr(self, key)}")
        _check_choice("announce", self.announce, get_args(Announce))
        _check_choice("heartbeat", self.heartbeat, get_args(Heartbeat))

    @property
    def period_s(self) -> float:
        """``register_period_s`` within the bounds brokers keep."""
        return min(max(self.register_period_s, SHORTEST_PERIOD_S), LONGEST_PERIOD_S)

    @property
    def identity(self) -> BrokerIdentity:
        """Cluster, name, id and address: what NameServers know a broker by."""
        return BrokerIdentity(self.cluster, self.name, self.broker_id, self.addr)

    @property
    def header(self) -> RegisterBrokerHeader:
        """The fields of a registration, but for the checksum of its body."""
        return RegisterBrokerHeader(
            broker=self.identity,
            ha_server_addr=self.ha_addr or _next_port(self.addr),
            heartbeat_timeout_ms=self.heartbeat_timeout_ms,
            acting_master=self.acting_master,
            compressed=self.compressed,
            body_crc32=0,
            zone=self.zone,
        )


SETTING_NAMES = tuple(field.name for field in fields(BrokerSettings))


def parse_permission(value: str | int) -> int:
    """Of ``rw``, ``r``, ``w``, ``-`` or a number; raises ValueError."""
    if isinstance(value, str):
        found = _PERMISSION_TEXTS.get(value)
    else:
        found = value if 0 <= value <= MAX_PERMISSION else None
    if found is None:
        raise ValueError(f"must be rw, r, w, - or a number from 0 to 7, not {repr(value)[:40]}")
    return found


def _next_port(addr: str) -> str:
    host, _, port = addr.rpartition(":")
    return f"{host}:{min(int(port) + 1, 65535)}"


def _check_name(key: str, value: str) -> None:
    if not value or len(value) > MAX_NAME or not value.isprintable():
        raise BadSettings(f"{key} must be 1 to {MAX_NAME} printable characters, not {value[:80]!r}")


def _check_address(key: str, value: str) -> None:
    try:
        split_address(value)
    except ValueError as error:
        raise BadSettings(f"{key} must be an address: {error}") from error


def _check_range(key: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise BadSettings(f"{key} must be {lowest} to {highest}, not {value}")


def _check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadSettings(f"{key} must be one of {', '.join(choices)}, not {value[:40]!r}")
