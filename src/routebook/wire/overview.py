"""What a node tells of itself at a glance: its groups (19009) and its counts (19008)."""

from typing import Any

import msgspec

from routebook.wire.errors import BadBody

ON_BEHALF_OF = "routebookPeer"
"""An ext field in which a node's own gateway says who asks; from anybody else it means nothing."""


class MemberTold(msgspec.Struct, frozen=True):
    """One broker of a group. ``held``: it is silent, and the guard has it stay."""

    id: int
    addr: str
    ha_addr: str | None
    generation: int
    epoch: int
    heartbeat_timeout_ms: int
    confirmed: bool
    held: bool
    peer: str


class GroupTold(msgspec.Struct, frozen=True):
    """One group, as it was at revision ``rev`` or later.

    ``digest`` stands for all that clients are told of it, and is the same on every node; "" while
    it is being worked out.
    """

    cluster: str
    broker: str
    zone: str | None
    acting_master: bool
    topics: int
    digest: str
    rev: int
    members: tuple[MemberTold, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.cluster, self.broker


class Silence(msgspec.Struct, frozen=True, array_like=True):
    """How long a member has not been heard of."""

    cluster: str
    broker: str
    id: int
    ms: int


class Condition(msgspec.Struct, frozen=True):
    """Whether a node serves, and what stands against it."""

    waiting_for_service: bool
    draining: bool
    journal_failing: bool
    memory_pressed: bool
    held: int
    brokers: int
    unconfirmed: int
    topics: int
    routes: int


class SummaryTold(msgspec.Struct, frozen=True):
    """``full``: these are all groups; else those that changed, and whose that are ``gone``.

    ``silences`` are there if they were asked for.
    """

    node: str
    boot: str
    rev: int
    wall_ms: int
    full: bool
    condition: Condition
    groups: tuple[GroupTold, ...]
    gone: tuple[tuple[str, str], ...] = ()
    silences: tuple[Silence, ...] | None = None


_SUMMARY = msgspec.json.Decoder(SummaryTold)
_STATISTICS = msgspec.json.Decoder(dict[str, Any])


def decode_summary(body: bytes) -> SummaryTold:
    """Raises BadBody."""
    try:
        return _SUMMARY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not a summary: {error}") from error


def decode_statistics(body: bytes) -> dict[str, Any]:
    """Raises BadBody."""
    try:
        return _STATISTICS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not a set of counts: {error}") from error
