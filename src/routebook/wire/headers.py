"""Ext fields, typed: one header per request that needs more than a name or two.

Numbers and booleans are read as Java reads them. A field the request cannot do without is
demanded here, before anything is changed; the reference logs its absence and goes on.
"""

import re
from dataclasses import dataclass

from routebook.wire.command import Command
from routebook.wire.errors import BadRequest

# Of names and addresses. The longest that RocketMQ itself makes is %RETRY%group_topic, for what a
# group of 255 characters could not consume of a topic of 127.
MAX_NAME = 7 + 255 + 1 + 127
MAX_WIDE_NAME = 127  # of one that is not ASCII, which RocketMQ's brokers do not take
MAX_ECHOED = 4096  # of a name repeated in an answer

_JAVA_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")


def required(request: Command, name: str) -> str:
    """The value of an ext field; raises BadRequest when absent or empty."""
    value = optional(request, name)
    if not value:
        raise BadRequest(f"{name} is missing")
    return value


def optional(request: Command, name: str) -> str | None:
    """The value of an ext field, which may be empty; None when absent."""
    value = request.ext_fields.get(name)
    if value is not None:
        check_name(name, value)
    return value


def check_name(what: str, name: str) -> None:
    """Raise BadRequest for one that is longer than any name needs to be."""
    if len(name) > MAX_WIDE_NAME:
        limit = MAX_NAME if name.isascii() else MAX_WIDE_NAME
        if len(name) > limit:
            raise BadRequest(f"{what} is longer than {limit} characters")


def integer(request: Command, name: str) -> int | None:
    """A Java long, or None when absent."""
    value = request.ext_fields.get(name)
    if value is None:
        return None
    if not _JAVA_INTEGER.match(value) or not -(2**63) <= int(value) < 2**63:
        raise BadRequest(f"{name} must be a whole number, not {value[:40]!r}")
    return int(value)


def boolean(request: Command, name: str) -> bool | None:
    """True only for "true" in any case, None when absent."""
    value = request.ext_fields.get(name)
    return None if value is None else value.lower() == "true"


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Which broker a request of a broker speaks of."""

    cluster: str
    name: str
    broker_id: int
    addr: str

    @classmethod
    def of(cls, request: Command) -> "BrokerIdentity":
        broker_id = integer(request, "brokerId")
        if broker_id is None:
            raise BadRequest("brokerId is missing")
        if broker_id < 0:
            raise BadRequest(f"brokerId must not be negative, not {broker_id}")
        return cls(
            cluster=required(request, "clusterName"),
            name=required(request, "brokerName"),
            broker_id=broker_id,
            addr=required(request, "brokerAddr"),
        )


@dataclass(frozen=True, slots=True)
class RegisterBrokerHeader:
    broker: BrokerIdentity
    ha_server_addr: str | None
    heartbeat_timeout_ms: int | None
    acting_master: bool | None  # None: a broker too old to know the field
    compressed: bool
    body_crc32: int
    zone: str | None

    @classmethod
    def of(cls, request: Command) -> "RegisterBrokerHeader":
        return cls(
            broker=BrokerIdentity.of(request),
            ha_server_addr=optional(request, "haServerAddr"),
            heartbeat_timeout_ms=integer(request, "heartbeatTimeoutMillis"),
            acting_master=boolean(request, "enableActingMaster"),
            compressed=boolean(request, "compressed") or False,
            body_crc32=integer(request, "bodyCrc32") or 0,
            zone=optional(request, "__ZONE_NAME"),
        )
