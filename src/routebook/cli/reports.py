"""Reports: what nodes say of their own health, and what to say of those that say nothing."""

from routebook.audit import health
from routebook.audit.health import (
    Guard,
    Held,
    RelayReport,
    Report,
    Reports,
)
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking
from routebook.cli.node_results import heard
from routebook.client import Address, NameServerError
from routebook.client.errors import answered, is_foreign, what
from routebook.documents.guard import why_held

__all__ = [
    "FOREIGN",
    "RELAY",
    "Guard",
    "Held",
    "RelayReport",
    "Report",
    "Reports",
    "excuse",
    "is_ours",
    "reports_of_ours",
    "take_reports",
    "why_held",
]

FOREIGN = "not a Routebook node"
RELAY = "a relay, not a node"


def take_reports(asking: Asking) -> Reports:
    """What every node says; raises CannotAsk when no node can be asked."""
    reports = asking.run(health.take_reports)
    if not any(not isinstance(r, NameServerError) or answered(r) for r in reports.values()):
        heard(reports)
    return reports


def excuse(found: NameServerError | RelayReport) -> str:
    """Why there is no report of a node."""
    if isinstance(found, RelayReport):
        return RELAY
    return FOREIGN if is_foreign(found) else what(found)


def is_ours(found: object) -> bool:
    """Whether it is, or should be, a Routebook node."""
    return not is_foreign(found) and not isinstance(found, RelayReport)


def reports_of_ours(reports: Reports) -> dict[Address, Report | NameServerError]:
    """Without nodes that are not Routebook's; raises Negative when that leaves none."""
    ours = {n: found for n, found in reports.items() if not isinstance(found, RelayReport)}
    ours = {node: found for node, found in ours.items() if is_ours(found)}
    if not ours:
        names = (
            f"{node}: {RELAY if isinstance(found, RelayReport) else FOREIGN}"
            for node, found in reports.items()
        )
        raise Negative(
            f"{'; '.join(names)}; only Routebook's nodes tell how they are, and `routebook doctor`"
            " looks at NameServers of any kind"
        )
    return ours
