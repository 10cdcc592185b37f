"""Reports: what nodes say of their own health. Only Routebook's own can."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, answered, what
from routebook.cli.outcomes import heard
from routebook.client import Address, BadAnswer, NameServerError, NodeClient, Refused
from routebook.history.times import span
from routebook.wire.codes import ResponseCode

FOREIGN = "not a Routebook node"


class Held(msgspec.Struct, frozen=True):
    """A broker whose time is up and that is believed all the same."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    silent_ms: int


class Guard(msgspec.Struct, frozen=True):
    """Wall times; ``silent`` of ``live`` brokers, more than ``limit``, are why somebody is held."""

    held: tuple[Held, ...] = ()
    since_ms: int = 0
    until_ms: int = 0
    silent: int = 0
    live: int = 0
    limit: int = 0
    window_ms: int = 0

    @property
    def why(self) -> str:
        return (
            f"{self.silent} of {self.live} brokers silent within {span(self.window_ms)},"
            f" more than {self.limit}"
        )


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


@dataclass(frozen=True, slots=True)
class Report:
    """``document`` is all that the node said."""

    health: Health
    document: Mapping[str, Any]


Reports = Mapping[Address, Report | NameServerError]


def take_reports(asking: Asking) -> Reports:
    """What every node says; raises CannotAsk when no node can be asked."""

    async def report(node: NodeClient) -> Report:
        document = await node.health()
        try:
            return Report(msgspec.convert(document, Health), document)
        except msgspec.ValidationError as error:
            raise BadAnswer(node.address, f"the health report is wrong: {error}") from error

    reports = asking.run(lambda client: client.on_every_node(report))
    if not any(isinstance(r, Report) or answered(r) for r in reports.values()):
        heard(reports)
    return reports


def is_foreign(result: object) -> bool:
    """Whether this is how a NameServer answers that knows nothing of Routebook's requests."""
    return isinstance(result, Refused) and result.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def excuse(error: NameServerError) -> str:
    """Why there is no report."""
    return FOREIGN if is_foreign(error) else what(error)


def reports_of_ours(reports: Reports) -> Reports:
    """Without nodes that are not Routebook's; raises Negative when that leaves none."""
    ours = {node: found for node, found in reports.items() if not is_foreign(found)}
    if not ours:
        raise Negative(f"{', '.join(map(str, reports))}: {FOREIGN}")
    return ours
