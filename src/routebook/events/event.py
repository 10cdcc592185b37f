"""What all events have in common, and which of them are alike."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import ClassVar, Self


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


class Kind(Enum):
    """Changes raise the revision by one; windows and most of a node carry the one they found."""

    CHANGE = "change"  # of tables or settings; played in order changes give the tables
    REFUSAL = "refusal"  # something was asked and not done, or two claims cannot both be true
    WINDOW = "window"  # counted, and written down now and then
    NODE = "node"  # what a node says of itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: ClassVar[Kind] = Kind.CHANGE
    alarming: ClassVar[bool] = False  # somebody should look at it
    only_topics: ClassVar[bool] = False  # a list of topics, and nothing to say without them

    revision: int
    cause: Cause
    peer: str

    @property
    def type_name(self) -> str:
        """As a journal has it."""
        return type(self).__name__

    @property
    def changes_routes(self) -> bool:
        """Whether clients may be told something else after it."""
        return self.kind is Kind.CHANGE

    def is_about_topic(self, topic: str) -> bool:
        return False

    def is_about_broker(self, broker: str) -> bool:
        return False

    def narrowed(self, topic: str | None) -> Self:
        """What it says of ``topic``, or without topics; all that is not about topics stays."""
        return self

    def with_values(self, told: Callable[[str], str]) -> Self:
        """With the values of key-value pairs as ``told``."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent(Event):
    """Something about the brokers of one name in a cluster."""

    cluster: str
    broker: str

    @property
    def group(self) -> tuple[str, str]:
        return self.cluster, self.broker

    def is_about_broker(self, broker: str) -> bool:
        return self.broker == broker


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent(GroupEvent):
    """Something about one broker process."""

    broker_id: int
    addr: str
    generation: int
