"""Small pieces of sentences about queues and brokers."""

from collections.abc import Iterable, Mapping

from routebook.events import BrokerEvent, Shape
from routebook.words import listed, permission

BUT_MOMENTS = " but for moments"
MASTER = 0
WRITE = 2


def queues(shape: Shape) -> str:
    """``8 read and 8 write queues, permission RW-``."""
    read, write, perm, flags = shape
    flagged = f", flags {flags}" if flags else ""
    return f"{read} read and {write} write queues, permission {permission(perm)}{flagged}"


def short_queues(shape: Shape | None) -> str:
    """``8/8 RW-``, read before write."""
    if shape is None:
        return "none"
    read, write, perm, flags = shape
    return f"{read}/{write} {permission(perm)}{f' flags {flags}' if flags else ''}"


def member(broker_id: int, addr: str) -> str:
    return f"id {broker_id} ({addr})"


def members(addrs: Mapping[int, str]) -> str:
    return listed([member(broker_id, addr) for broker_id, addr in sorted(addrs.items())])


def identity(event: BrokerEvent) -> str:
    """``broker-a (10.0.0.1:10911, id 0, cluster c)``."""
    return f"{event.broker} ({event.addr}, id {event.broker_id}, cluster {event.cluster})"


def joined(parts: Iterable[str], joint: str = "; ") -> str:
    """Those that are not empty."""
    return joint.join(filter(None, parts))


def origin(peer: str) -> str:
    """Whoever it was, as far as it is known."""
    return peer or "an unknown address"
