"""The doctor: every check, made on one survey."""

from collections.abc import Callable, Iterable

from routebook.audit.checks import addresses, brokers, nodes, topics
from routebook.audit.findings import Finding, in_order
from routebook.audit.survey import Survey

CHECKS: tuple[Callable[[Survey], Iterable[Finding]], ...] = (
    nodes.silent_nodes,
    nodes.unanswered_topics,
    nodes.single_node,
    nodes.disagreement,
    nodes.shared_hosts,
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
    topics.drained_brokers,
    topics.partly_read_only,
    topics.closed,
    topics.write_only,
    topics.without_queues,
    topics.unread_queues,
    topics.skewed,
    topics.on_one_broker,
)


def diagnose(survey: Survey) -> tuple[Finding, ...]:
    """All findings, the worst first, then by subject."""
    return in_order(finding for check in CHECKS for finding in check(survey))
