"""The doctor: every check, made on one survey."""

from collections.abc import Callable, Iterable

from routebook.audit.checks import addresses, brokers, health, nodes, topics
from routebook.audit.findings import Finding, in_order
from routebook.audit.survey import Survey

CHECKS: tuple[Callable[[Survey], Iterable[Finding]], ...] = (
    nodes.silent_nodes,
    nodes.unanswered_topics,
    nodes.single_node,
    nodes.disagreement,
    nodes.shared_hosts,
    health.guard_holds,
    health.failing_journals,
    health.lost_records,
    health.unconfirmed_brokers,
    health.stalled_nodes,
    health.unwell_nodes,
    health.unknown_health,
    health.relays,
    brokers.unregistered,
    brokers.masterless,
    brokers.memberless,
    brokers.double_identities,
    brokers.names_in_two_clusters,
    brokers.orphaned_queues,
    brokers.topicless,
    brokers.partly_registered,
    addresses.malformed,
    addresses.unreachable,
    addresses.useless_for_others,
    addresses.mixed_networks,
    topics.read_only,
    topics.deliberate_read_only,
    topics.drained_brokers,
    topics.partly_read_only,
    topics.closed,
    topics.write_only,
    topics.without_queues,
    topics.unread_queues,
    topics.skewed,
    topics.on_one_broker,
)


NAMES = (
    "closed-topics",
    "deliberate-read-only-topics",
    "docker-bridge-address",
    "drained-broker",
    "ghost-queues",
    "guard-holds-brokers",
    "health-unknown",
    "journal-failing",
    "link-local-address",
    "loopback-address",
    "malformed-address",
    "mixed-networks",
    "name-in-two-clusters",
    "no-brokers",
    "no-master",
    "no-members",
    "no-topics",
    "node-not-ok",
    "node-on-broker-host",
    "node-stalled",
    "node-unreachable",
    "nodes-disagree",
    "not-on-all-nodes",
    "one-address-two-identities",
    "partly-read-only-topics",
    "read-only-topics",
    "records-lost",
    "relay-asked",
    "single-broker-topics",
    "single-nameserver",
    "skewed-queues",
    "topics-without-queues",
    "unanswered-topics",
    "unconfirmed-brokers",
    "unreachable",
    "unread-queues",
    "unspecified-address",
    "write-only-topics",
)
"""Of all findings there can be, for those who want to ignore some."""


def diagnose(survey: Survey) -> tuple[Finding, ...]:
    """All findings, the worst first, then by subject."""
    return in_order(finding for check in CHECKS for finding in check(survey))
