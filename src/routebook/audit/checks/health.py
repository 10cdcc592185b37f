"""What nodes say is wrong with themselves. Only Routebook's own can tell."""

from collections.abc import Iterator

from routebook.audit.findings import Finding, Severity, examples
from routebook.audit.health import Health, LastStall, RelayReport, Report
from routebook.audit.survey import Survey
from routebook.client.errors import NameServerError, NodeError, is_foreign
from routebook.wire.address import Address
from routebook.words import counted, span, to_second

LATELY_MS = 3_600_000


def guard_holds(survey: Survey) -> Iterator[Finding]:
    """Brokers that are in the routes although nobody hears of them."""
    for node, health in _reported(survey):
        guard = health.guard
        if not guard.held:
            continue
        held = sorted(guard.held, key=lambda one: (one.broker, one.broker_id))
        lines = [
            f"{one.broker} (id {one.broker_id}, {one.cluster}) at {one.addr}: silent for"
            f" {span(one.silent_ms)}"
            for one in held
        ]
        yield Finding(
            "guard-holds-brokers",
            Severity.ERROR,
            f"node {node}",
            (
                f"{guard.number_held} of {counted(health.brokers, 'broker')} are silent"
                f" past their time and still in its routes, until {to_second(guard.until_ms)}",
                *examples(lines),
            ),
            f"Most likely {node} is cut off from its brokers: look at the network between them."
            " `routebook guard` shows whom it holds; if they are really gone, `routebook guard"
            " release` lets them go.",
        )


def failing_journals(survey: Survey) -> Iterator[Finding]:
    for node, health in _reported(survey):
        journal = health.journal
        if journal.failing:
            yield Finding(
                "journal-failing",
                Severity.ERROR,
                f"node {node}",
                (
                    f"it cannot write its journal: {journal.last_error or 'no reason given'}",
                    f"{counted(journal.lost or 0, 'record')} lost so far",
                ),
                "It serves on, and remembers nothing: after a restart its routes are old or"
                " missing. Make room on the disk of its data folder, or mend it.",
            )


def lost_records(survey: Survey) -> Iterator[Finding]:
    for node, health in _reported(survey):
        if health.journal.lost and not health.journal.failing:
            yield Finding(
                "records-lost",
                Severity.WARNING,
                f"node {node}",
                (
                    f"{counted(health.journal.lost, 'record')} lost since it started; its journal"
                    " can be written again",
                ),
                "Its history has a gap. Look into its log for when and why; a faster disk, or a"
                " larger queue, helps against the next one.",
            )


def unconfirmed_brokers(survey: Survey) -> Iterator[Finding]:
    for node, health in _reported(survey):
        if health.unconfirmed:
            yield Finding(
                "unconfirmed-brokers",
                Severity.WARNING,
                f"node {node}",
                (
                    f"{health.unconfirmed} of {counted(health.brokers, 'broker')} are known from"
                    " before its restart only, and have not been heard of since",
                    f"it started {span(health.uptime_ms)} ago",
                ),
                "Brokers confirm themselves within 30 seconds; one that does not is dropped when"
                " its time is up. See whether they run and can connect to the node.",
            )


def stalled_nodes(survey: Survey) -> Iterator[Finding]:
    """Worth a warning while it is new: then what the node says may have suffered."""
    for node, health in _reported(survey):
        stalls = health.stalls
        if not stalls.count or stalls.last is None:
            continue
        view = survey.views.get(node)
        lately = view is None or view.taken_at_ms - stalls.last.to_ms < LATELY_MS
        yield Finding(
            "node-stalled",
            Severity.WARNING if lately else Severity.INFO,
            f"node {node}",
            (
                f"{counted(stalls.count, 'time')} since it started,"
                f" {span(health.uptime_ms)} ago, it listened to nobody",
                f"last {_stall(stalls.last)}",
            ),
            "Meanwhile clients had to ask another node, and nothing it says of that time is"
            " certain. Look for a suspended machine, swapping, a stalled disk or too little CPU.",
        )


def unwell_nodes(survey: Survey) -> Iterator[Finding]:
    """Not ok for a reason that no other check knows."""
    for node, health in _reported(survey):
        if not health.ok and not health.guard.held and not health.journal.failing:
            yield Finding(
                "node-not-ok",
                Severity.WARNING,
                f"node {node}",
                ("it says that it is not ok",),
                "`routebook health --json` shows all that it says of itself.",
            )


def unknown_health(survey: Survey) -> Iterator[Finding]:
    """Nodes that should be able to tell, and did not."""
    for node, found in survey.reports.items():
        silent = isinstance(found, NameServerError) and not is_foreign(found)
        if silent and node in survey.views:
            yield Finding(
                "health-unknown",
                Severity.WARNING,
                f"node {node}",
                (found.what if isinstance(found, NodeError) else str(found),),
                "It answers what brokers and clients ask, and not how it is. Ask again; if it"
                " stays so, look into its log.",
            )


def relays(survey: Survey) -> Iterator[Finding]:
    """A relay says what NameServers said, some time ago."""
    for node, found in survey.reports.items():
        if not isinstance(found, RelayReport):
            continue
        health = found.health
        lines = ["it is a relay, not a NameServer: what it says comes from its cache"]
        if health.oldest_ms is not None:
            lines.append(f"its oldest answer is {span(health.oldest_ms)} old")
        if health.outage_ms is not None:
            lines.append(f"no NameServer has answered it for {span(health.outage_ms)}")
        nameservers = ";".join(health.nameservers)
        yield Finding(
            "relay-asked",
            Severity.INFO if health.outage_ms is None else Severity.ERROR,
            f"node {node}",
            tuple(lines),
            "What it says may be the past. Ask the NameServers themselves"
            + (f": -n '{nameservers}'" if nameservers else "."),
        )


def _reported(survey: Survey) -> Iterator[tuple[Address, Health]]:
    for node, found in survey.reports.items():
        if isinstance(found, Report):
            yield node, found.health


def _stall(last: LastStall) -> str:
    began = to_second(last.from_ms)
    if not last.longest_ms:
        return f"its clock was set by {span(abs(last.clock_ms))}, at {began}"
    return f"from {began} for {span(max(last.to_ms - last.from_ms, last.longest_ms))}"
