"""Health: what nodes say of themselves. Only Routebook's own can, and its relays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from routebook.client.client import NameServerClient, NodeClient
from routebook.client.errors import BadAnswer, NameServerError
from routebook.wire.address import Address


class Held(msgspec.Struct, frozen=True):
    """A broker whose time is up and that is believed all the same."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    silent_ms: int


class Guard(msgspec.Struct, frozen=True):
    """Wall times; ``silent`` of ``live`` brokers, more than ``limit``, are why somebody is held.

    Of thousands that are held, ``held`` are the first; a node that tells no number tells all.
    """

    held: tuple[Held, ...] = ()
    held_in_all: int = 0
    since_ms: int = 0
    until_ms: int = 0
    silent: int = 0
    live: int = 0
    limit: int = 0
    window_ms: int = 0

    @property
    def number_held(self) -> int:
        return max(len(self.held), self.held_in_all)


class Journal(msgspec.Struct, frozen=True):
    """None throughout: the node keeps no journal."""

    last_seq: int | None = None
    synced_seq: int | None = None
    lost: int | None = None
    last_error: str | None = None
    failing: bool | None = None


class LastStall(msgspec.Struct, frozen=True):
    """Wall times between which the node listened to nobody, but for moments."""

    from_ms: int
    to_ms: int
    longest_ms: int = 0
    clock_ms: int = 0


class Stalls(msgspec.Struct, frozen=True):
    """Since the start; ``paused_ms`` counts pauses too short to be told as well."""

    count: int = 0
    paused_ms: int = 0
    last: LastStall | None = None


class Tasks(msgspec.Struct, frozen=True):
    """What goes on in the background: ``failing`` are those that do now, and why."""

    failing: dict[str, str] = {}
    errors: int = 0
    last_error: str | None = None


class HeldFor(msgspec.Struct, frozen=True):
    """What a node holds for a peer, in all and for what: tables, and what passes through."""

    peer: str
    bytes: int
    kinds: dict[str, int] = {}


class Memory(msgspec.Struct, frozen=True):
    """Bytes. ``kinds`` is what they are held for; 0 throughout: the node does not count.

    ``pressed``: the process is so large that nothing more is taken in.
    """

    limit: int = 0
    resident: int = 0
    tables: int = 0
    tables_limit: int = 0
    pressed: bool = False
    kinds: dict[str, int] = {}
    peers: tuple[HeldFor, ...] = ()


class Health(msgspec.Struct, frozen=True):
    node: str
    version: str
    uptime_ms: int
    brokers: int
    unconfirmed: int
    topics: int
    ok: bool
    journal: Journal = Journal()
    guard: Guard = Guard()
    stalls: Stalls = Stalls()
    tasks: Tasks = Tasks()
    memory: Memory = Memory()


class RelayHealth(msgspec.Struct, frozen=True):
    """``outage_ms`` is how long no NameServer has answered it, None while one does.

    ``oldest_ms`` is the age of the oldest of its ``answers``, None without any.
    """

    version: str
    uptime_ms: int
    ok: bool
    topics: int
    answers: int
    nameservers: tuple[str, ...] = ()
    outage_ms: int | None = None
    oldest_ms: int | None = None
    last_error: str | None = None
    forgotten_for_room: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """``document`` is all that the node said."""

    health: Health
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RelayReport:
    """What a relay said: it is no node."""

    health: RelayHealth
    document: Mapping[str, Any]


Reports = Mapping[Address, Report | RelayReport | NameServerError]


async def take_reports(client: NameServerClient) -> Reports:
    """What every node says of itself; raises NoNameServers."""

    async def report(node: NodeClient) -> Report | RelayReport:
        document = await node.health()
        try:
            if document.get("relay") is True:
                return RelayReport(msgspec.convert(document, RelayHealth), document)
            return Report(msgspec.convert(document, Health), document)
        except msgspec.ValidationError as error:
            raise BadAnswer(node.address, f"the health report is wrong: {error}") from error

    return await client.on_every_node(report)
