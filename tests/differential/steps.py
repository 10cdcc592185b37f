"""What a sequence is made of: requests and closed connections, as values.

Names contain ``@``, which stands for the marker of the sequence they are used in: each
sequence lives among names of its own, so one server process can serve thousands of them.
"""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Via:
    """How a request travels."""

    connection: int = 0
    version: int = 513
    binary: bool = False
    oneway: bool = False
    signed: bool = False  # with ACL fields, numbers as numbers, and members nobody knows

    def __str__(self) -> str:
        words = [f"c{self.connection}", f"v{self.version}"]
        words += ["binary"] * self.binary + ["oneway"] * self.oneway + ["signed"] * self.signed
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A DataVersion; without a timestamp the member is left out of the text."""

    counter: int = 0
    state_version: int = 0
    timestamp: int | None = 0


@dataclass(frozen=True, slots=True)
class Queues:
    read: int = 8
    write: int = 8
    perm: int = 6
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class Mapping:
    """Logical queues of a static topic; ``broker`` is the name the mapping itself gives."""

    topic: str
    broker: str
    queues: tuple[tuple[int, int], ...]
    epoch: int = 1_700_000_000_123
    total: int = 4


class Form(Enum):
    """The shape of a registration's body."""

    JSON = "json"
    OLD = "before 3.0.11"
    COMPRESSED = "compressed"
    UNLABELLED = "compressed, labelled as not"
    CUT = "compressed, mapping section missing"
    NOTHING = "no body"
    NULL_TABLE = "topicConfigTable null"


class Spelling(Enum):
    """How JSON of a body is written."""

    STRICT = "strict"
    STRINGS = "numbers as strings"
    FLOATS = "numbers as floats"
    SINGLE_QUOTES = "single quotes"
    TRAILING_COMMAS = "trailing commas"
    SPACES = "spaces"
    REFERENCE = "$ref"
    UNKNOWN_MEMBERS = "unknown members"
    BARE_NAMES = "bare names"
    DOUBLE_COMMAS = "double commas"
    COMMENT = "comment"


class Crc(Enum):
    ABSENT = "absent"
    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Register:
    """REGISTER_BROKER. ``cluster`` and ``broker_id`` None: the ext field is missing.

    Without name or address a Java server is damaged for good (a null in a set of names, an
    address that can never be removed), so these are always there.
    """

    via: Via
    cluster: str | None
    name: str
    broker_id: int | None
    addr: str
    topics: tuple[tuple[str, Queues], ...] = ()
    stamp: Stamp | None = Stamp()
    ha: str | None = "ha"
    acting_master: bool | None = None
    zone: str | None = None
    heartbeat_ms: int | str | None = None
    mappings: tuple[Mapping, ...] = ()
    filters: tuple[str, ...] | None = ()
    form: Form = Form.JSON
    spelling: Spelling = Spelling.STRICT
    crc: Crc = Crc.ABSENT


@dataclass(frozen=True, slots=True)
class Unregister:
    via: Via
    cluster: str | None
    name: str | None
    broker_id: int | None
    addr: str | None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    via: Via
    cluster: str | None
    name: str
    addr: str | None


@dataclass(frozen=True, slots=True)
class QueryVersion:
    """QUERY_DATA_VERSION; ``stamp`` None sends no body."""

    via: Via
    cluster: str | None
    name: str
    broker_id: int
    addr: str | None
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class Close:
    connection: int


@dataclass(frozen=True, slots=True)
class PutKv:
    via: Via
    namespace: str | None
    key: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class GetKv:
    via: Via
    namespace: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class DeleteKv:
    via: Via
    namespace: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class ListKv:
    via: Via
    namespace: str | None


@dataclass(frozen=True, slots=True)
class SetWritable:
    """WIPE_WRITE_PERM_OF_BROKER or ADD_WRITE_PERM_OF_BROKER."""

    via: Via
    name: str | None
    writable: bool


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    via: Via
    topic: str | None
    cluster: str | None


@dataclass(frozen=True, slots=True)
class RegisterTopic:
    via: Via
    topic: str | None
    queues: tuple[tuple[str, Queues], ...] | None


@dataclass(frozen=True, slots=True)
class GetRoute:
    via: Via
    topic: str | None
    standard_only: bool | None = None
    zone_mode: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class GetClusterInfo:
    via: Via


class Listing(Enum):
    """Requests for lists of topics, by code."""

    ALL = 206
    SYSTEM = 304
    UNIT = 311
    UNIT_SUB = 312
    UNIT_SUB_UNUNIT = 313


@dataclass(frozen=True, slots=True)
class GetTopics:
    via: Via
    listing: Listing


@dataclass(frozen=True, slots=True)
class GetTopicsOfCluster:
    via: Via
    cluster: str | None


@dataclass(frozen=True, slots=True)
class GetMembers:
    """GET_BROKER_MEMBER_GROUP."""

    via: Via
    cluster: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A code no NameServer knows."""

    via: Via
    code: int


Asked = (
    Register
    | Unregister
    | Heartbeat
    | QueryVersion
    | PutKv
    | GetKv
    | DeleteKv
    | ListKv
    | SetWritable
    | DeleteTopic
    | RegisterTopic
    | GetRoute
    | GetClusterInfo
    | GetTopics
    | GetTopicsOfCluster
    | GetMembers
    | Unknown
)
Step = Asked | Close


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of both servers that change while they run."""

    support_acting_master: bool = False
    order_message_enable: bool = False
    delete_topic_with_broker_registration: bool = False
    return_order_topic_config_to_broker: bool = True
    enable_topic_list: bool = True
    enable_all_topic_list: bool = True


@dataclass(frozen=True, slots=True)
class Sequence:
    steps: tuple[Step, ...]
    profile: Profile = Profile()


def named(value: Value, marker: str) -> Value:
    """``value`` with the marker in every name."""
    return _named(value, marker)  # type: ignore[return-value]


def _named(value: object, marker: str) -> object:
    if isinstance(value, str):
        return value.replace("@", marker)
    if isinstance(value, tuple):
        return tuple(_named(item, marker) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _named(getattr(value, field.name), marker)
            for field in dataclasses.fields(value)
        }
        return type(value)(**fields)
    return value


def sentence(step: Step) -> str:
    """One line for people: what differs from the defaults."""
    words = []
    for field in dataclasses.fields(step):
        value = getattr(step, field.name)
        if isinstance(value, Via):
            words.append(f"[{value}]")
        elif value != field.default:
            words.append(f"{field.name}={_word(value)}")
    return f"{type(step).__name__} {' '.join(words)}"


def _word(value: object) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Queues):
        return f"{value.read}/{value.write} perm {value.perm} flags {value.sys_flag}"
    if isinstance(value, Stamp):
        return f"v({value.counter},{value.state_version},{value.timestamp})"
    if isinstance(value, tuple):
        return "(" + ", ".join(_word(item) for item in value) + ")"
    return repr(value)
