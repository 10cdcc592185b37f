"""What can be wrong with broker groups and their names."""

from collections.abc import Iterable, Iterator

from routebook.audit.compare import MISSING, Kind
from routebook.audit.findings import Finding, Severity, examples
from routebook.audit.survey import Member, Survey, groups_of
from routebook.client.routes import TopicRoute
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.words import counted


def takes_messages(route: TopicRoute, queues: TopicQueues) -> bool:
    """Whether a writer would use these queues."""
    group = route.group(queues.broker)
    return (
        queues.writable
        and queues.write_queues > 0
        and group is not None
        and group.master is not None
    )


def unregistered(survey: Survey) -> Iterator[Finding]:
    """Nodes that know no broker: whoever asks them finds nothing."""
    empty = [
        node
        for node, view in survey.views.items()
        if not any(group.addrs for group in groups_of(view))
    ]
    if not empty:
        return
    remedy = (
        "Start the brokers, and see that their namesrvAddr names all nodes and that they can"
        " connect; a broker registers every 30 seconds. Its log says what went wrong."
    )
    if len(empty) == len(survey.views):
        where = f"says {_listed(empty)}"
        lines = (f"no broker is registered, {where}", "nobody can send or receive anything")
        yield Finding("no-brokers", Severity.ERROR, "all nodes", lines, remedy)
        return
    others = len({member.addr for member in survey.members})
    for node in empty:
        lines = (
            "no broker is registered with it",
            f"{counted(others, 'broker')} with other nodes",
        )
        yield Finding("no-brokers", Severity.ERROR, f"node {node}", lines, remedy)


def masterless(survey: Survey) -> Iterator[Finding]:
    found: dict[tuple[str, str], dict[Address, BrokerGroup]] = {}
    for node, view in survey.views.items():
        for group in groups_of(view):
            if group.addrs and group.master is None:
                found.setdefault((group.cluster or "", group.name), {})[node] = group
    stranded = _stranded(survey) if found else {}
    for (cluster, broker), groups in found.items():
        group = next(iter(groups.values()))
        acting = any(group.acting_master for group in groups.values())
        members = ", ".join(f"id {i} at {addr}" for i, addr in sorted(group.addrs.items()))
        lines = [f"members: {members}", f"says {_listed(groups)}"]
        if acting:
            lines.append("a slave acts as master: it is read from, and takes no messages")
        lost = sorted({topic for node in groups for topic in stranded.get((node, broker), ())})
        if lost:
            count = counted(len(lost), "topic")
            lines.append(f"no broker takes messages for {count}: {', '.join(examples(lost))}")
        yield Finding(
            "no-master",
            Severity.WARNING if acting else Severity.ERROR,
            f"broker {broker} ({cluster})",
            tuple(lines),
            f"Start the master of {broker} (brokerId=0), or restart one slave as"
            " SYNC_MASTER or ASYNC_MASTER with brokerId=0.",
        )


def _stranded(survey: Survey) -> dict[tuple[Address, str], set[str]]:
    """By node and broker the topics there that no broker at all takes messages for."""
    topics: dict[tuple[Address, str], set[str]] = {}
    for node, route in survey.routes:
        if not any(takes_messages(route, queues) for queues in route.queues):
            for queues in route.queues:
                topics.setdefault((node, queues.broker), set()).add(route.topic)
    return topics


def memberless(survey: Survey) -> Iterator[Finding]:
    """Names in a cluster table that nobody stands for."""
    nodes: dict[tuple[str, str], list[Address]] = {}
    for node, view in survey.views.items():
        for cluster, brokers in view.cluster.clusters.items():
            for broker in brokers:
                group = view.cluster.brokers.get(broker)
                if group is None or not group.addrs:
                    nodes.setdefault((cluster, broker), []).append(node)
    for (cluster, broker), told_by in nodes.items():
        yield Finding(
            "no-members",
            Severity.WARNING,
            f"broker {broker} ({cluster})",
            (f"the name is listed without any address, says {_listed(told_by)}",),
            "A registration that was refused left the name behind. Look into the log of the broker;"
            " RocketMQ's NameServer forgets the name when it is restarted.",
        )


def double_identities(survey: Survey) -> Iterator[Finding]:
    by_addr: dict[str, dict[Member, tuple[Address, ...]]] = {}
    for member, told_by in survey.members.items():
        by_addr.setdefault(member.addr, {})[member] = told_by
    for addr, members in by_addr.items():
        if len(members) > 1:
            yield Finding(
                "one-address-two-identities",
                Severity.ERROR,
                f"address {addr}",
                examples([f"{m}, says {_listed(told_by)}" for m, told_by in members.items()]),
                "If the broker was renamed or changed its role, the older entry is a ghost that"
                " RocketMQ's NameServer keeps until it is restarted. If there are two brokers, give"
                " each its own brokerIP1 or listenPort.",
            )


def names_in_two_clusters(survey: Survey) -> Iterator[Finding]:
    clusters: dict[str, dict[str, list[Address]]] = {}
    for node, view in survey.views.items():
        listed = {(broker, c) for c, brokers in view.cluster.clusters.items() for broker in brokers}
        listed |= {(group.name, group.cluster or "") for group in groups_of(view)}
        for broker, cluster in sorted(listed):
            clusters.setdefault(broker, {}).setdefault(cluster, []).append(node)
    for broker, found in clusters.items():
        if len(found) > 1:
            addresses = [str(m) for m in survey.members if m.broker == broker]
            yield Finding(
                "name-in-two-clusters",
                Severity.ERROR,
                f"broker {broker}",
                (
                    *(f"in {cluster}, says {_listed(nodes)}" for cluster, nodes in found.items()),
                    *examples(addresses),
                ),
                "Give the broker of one cluster another brokerName and restart it. Clients cannot"
                " tell the two apart, and RocketMQ's NameServer makes one group of them.",
            )


def orphaned_queues(survey: Survey) -> Iterator[Finding]:
    """Queues on brokers that the same route gives no address for."""
    topics: dict[str, set[str]] = {}
    nodes: dict[str, set[Address]] = {}
    for node, view in survey.views.items():
        for route in view.routes.values():
            for queues in route.queues:
                if route.group(queues.broker) is None:
                    topics.setdefault(queues.broker, set()).add(route.topic)
                    nodes.setdefault(queues.broker, set()).add(node)
    for broker, held in topics.items():
        yield Finding(
            "ghost-queues",
            Severity.ERROR,
            f"broker {broker}",
            (
                f"{counted(len(held), 'topic')} with queues on a broker without address:"
                f" {', '.join(examples(sorted(held)))}",
                f"says {_listed(sorted(nodes[broker]))}",
            ),
            "Consumers are assigned queues they cannot read. Start the broker again, or forget"
            " the topic there: `routebook topics delete TOPIC`, and let the other brokers register"
            " it anew; restarting the NameServer does it for all.",
        )


def topicless(survey: Survey) -> Iterator[Finding]:
    """Brokers that no topic leads to."""
    nodes: dict[str, list[Address]] = {}
    for node, view in survey.views.items():
        if view.errors:
            continue  # it may be in one of those
        used = {queues.broker for route in view.routes.values() for queues in route.queues}
        for broker, group in view.cluster.brokers.items():
            if group.addrs and broker not in used:
                nodes.setdefault(broker, []).append(node)
    for broker, told_by in nodes.items():
        members = [str(member) for member in survey.members if member.broker == broker]
        yield Finding(
            "no-topics",
            Severity.WARNING,
            f"broker {broker}",
            (*examples(members), f"no topic has queues on it, says {_listed(told_by)}"),
            "Every RocketMQ broker registers topics of its own. Look into its log for a topic file"
            " it could not load; if the process is gone, this is a ghost.",
        )


def partly_registered(survey: Survey) -> Iterator[Finding]:
    for difference in survey.differences:
        if difference.kind is not Kind.BROKER_MISSING:
            continue
        broker = difference.broker
        lines = [f"{node} says {text}" for node, text in difference.says.items()]
        lines.append(f"{counted(len(difference.topics), 'topic')} affected")
        addresses = {member.addr for member in survey.members if member.broker == broker}
        if addresses and all(survey.probes.get(addr) for addr in addresses):
            lines.append("no address of it takes a connection: it looks like a ghost")
        absent = [node for node, text in difference.says.items() if text == MISSING]
        yield Finding(
            "not-on-all-nodes",
            Severity.WARNING,
            f"broker {broker}",
            tuple(lines),
            f"If the broker runs, add {_listed(absent)} to its namesrvAddr and see whether it can"
            " connect there. If it does not, it leaves when its deadline passes; restart"
            " a NameServer that keeps it.",
        )


def _listed(nodes: Iterable[Address]) -> str:
    return ", ".join(str(node) for node in nodes)
