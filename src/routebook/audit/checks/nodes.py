"""What can be wrong with the NameServers themselves."""

from collections.abc import Iterator

from routebook.audit.compare import Kind
from routebook.audit.findings import Finding, Severity, examples
from routebook.audit.health import RelayReport
from routebook.audit.survey import Survey
from routebook.words import counted


def silent_nodes(survey: Survey) -> Iterator[Finding]:
    for node, reason in survey.failures.items():
        yield Finding(
            "node-unreachable",
            Severity.ERROR,
            f"node {node}",
            (reason,),
            f"Start the NameServer on {node}, or take it out of namesrvAddr of brokers and clients:"
            " each of them loses time on it.",
        )


def unanswered_topics(survey: Survey) -> Iterator[Finding]:
    for node, view in survey.views.items():
        if view.errors:
            lines = [f"{topic}: {reason}" for topic, reason in sorted(view.errors.items())]
            yield Finding(
                "unanswered-topics",
                Severity.WARNING,
                f"node {node}",
                (f"no route for {counted(len(lines), 'topic')}", *examples(lines)),
                f"Look into the log of {node}; what is said below leaves these topics out.",
            )


def single_node(survey: Survey) -> Iterator[Finding]:
    """Relays do not count, and may know of more than one."""
    reports = survey.reports
    nameservers = [n for n in survey.nodes if not isinstance(reports.get(n), RelayReport)]
    if len(nameservers) == 1:
        (node,) = nameservers
        yield Finding(
            "single-nameserver",
            Severity.INFO,
            f"node {node}",
            ("it is the only NameServer; without it no client finds a topic it has not used yet",),
            "Run a second one on another machine and list both in namesrvAddr of brokers and"
            " clients. NameServers need no configuration to share.",
        )


def disagreement(survey: Survey) -> Iterator[Finding]:
    """Brokers missing on a node are a finding of their own."""
    found = [d for d in survey.differences if d.kind is not Kind.BROKER_MISSING]
    if not found:
        return
    lines = [
        f"{d.kind} {d.broker or d.topics[0]}: "
        + ", ".join(f"{node} says {text}" for node, text in d.says.items())
        for d in found
    ]
    topics = len({topic for d in found for topic in d.topics})
    yield Finding(
        "nodes-disagree",
        Severity.WARNING,
        "all nodes",
        (f"{counted(topics, 'topic')} affected", *examples(lines)),
        "`routebook compare` shows every difference. Commands that change topics or permissions"
        " must be sent to all nodes; a broker corrects them with its next changed registration.",
    )


def shared_hosts(survey: Survey) -> Iterator[Finding]:
    brokers: dict[str, list[str]] = {}
    for member in survey.members:
        for ip in sorted(survey.hosts.get(member.host or "", ())):
            brokers.setdefault(ip, []).append(str(member))
    for node in survey.nodes:
        shared = [
            line for ip in sorted(survey.hosts.get(node.host, ())) for line in brokers.get(ip, ())
        ]
        if shared:
            yield Finding(
                "node-on-broker-host",
                Severity.WARNING,
                f"node {node}",
                examples([f"same host as {line}" for line in dict.fromkeys(shared)]),
                "Move the NameServer to a machine of its own: one machine lost should not take"
                " the broker and a way to find the others with it.",
            )
