"""What can be wrong with topics that people made.

However many topics a check concerns, it is one finding; drained brokers are one each.
"""

from collections.abc import Callable, Iterator, Mapping

from routebook.audit.checks.brokers import takes_messages
from routebook.audit.findings import Finding, Severity, examples
from routebook.audit.survey import Survey
from routebook.client.routes import TopicRoute
from routebook.wire.address import Address
from routebook.wire.answers import TopicQueues
from routebook.words import counted, permission

SKEW = 2  # times as many queues on one broker as on another

_UNDRAIN = "`routebook undrain BROKER` gives the permission back on all nodes"
_CHANGE_TOPIC = "`mqadmin updateTopic -b ADDRESS -t TOPIC"


def read_only(survey: Survey) -> Iterator[Finding]:
    """No broker takes messages, and not for want of a master, which is a finding of its own."""
    drained = _drained(survey)

    def judged(node: Address, route: TopicRoute) -> str | None:
        shut = _shut(survey, node, route)
        taken = any(_is_taken(survey, drained, node, route.topic, queues) for queues in shut)
        return _told(shut) if taken else None

    yield from _found(
        survey,
        judged,
        check="read-only-topics",
        severity=Severity.ERROR,
        remedy=f"Producers fail. {_UNDRAIN}; {_CHANGE_TOPIC} -p 6` opens one topic on one broker.",
    )


def deliberate_read_only(survey: Survey) -> Iterator[Finding]:
    """No broker takes messages for the topic, and somebody wants it so.

    Its brokers registered it without write permission, or somebody took it from this topic alone.
    """
    drained = _drained(survey)

    def judged(node: Address, route: TopicRoute) -> str | None:
        shut = _shut(survey, node, route)
        taken = any(_is_taken(survey, drained, node, route.topic, queues) for queues in shut)
        return None if taken or not shut else _told(shut)

    yield from _found(
        survey,
        judged,
        check="deliberate-read-only-topics",
        severity=Severity.INFO,
        remedy=f"If nobody wants it so: {_CHANGE_TOPIC} -p 6`.",
    )


def _shut(survey: Survey, node: Address, route: TopicRoute) -> list[TopicQueues]:
    """The queues of a topic that no broker takes messages for; none if one does."""
    if any(takes_messages(route, queues) for queues in route.queues):
        return []
    mastered = [q for q in _offered(route) if _mastered(survey, node, route, q.broker)]
    return mastered if any(q.read_queues or q.write_queues for q in mastered) else []


def _told(shut: list[TopicQueues]) -> str:
    return ", ".join(f"{q.broker} {permission(q.perm)} {q.write_queues} write queues" for q in shut)


def _is_taken(
    survey: Survey,
    drained: Mapping[Address, Mapping[str, int]],
    node: Address,
    topic: str,
    queues: TopicQueues,
) -> bool:
    """Whether a drain took write permission from the topic, as far as anybody knows.

    A drain takes it from all topics of a broker, those it makes for itself among them, so one with
    anything writable was not drained. Routebook's nodes know better what a broker registered, and
    that topics which came after the drain are writable.
    """
    if queues.writable:
        return False  # without write queues, which only its broker can have said
    state = survey.write_states.get(node, {}).get(queues.broker)
    if state is None:
        return queues.broker in drained[node]
    most = len(state.taken) > (state.topics - len(state.kept)) / 2
    return topic in state.taken and (most or queues.broker in drained[node])


def drained_brokers(survey: Survey) -> Iterator[Finding]:
    by_broker: dict[str, dict[Address, int]] = {}
    for node, counts in _drained(survey).items():
        for broker, count in counts.items():
            by_broker.setdefault(broker, {})[node] = count
    for broker, nodes in by_broker.items():
        lines = [
            f"{counted(count, 'topic')}, none of them writable there, says {node}"
            for node, count in nodes.items()
        ]
        others = [
            f"not so, says {node}"
            for node, view in survey.views.items()
            if broker in view.cluster.brokers and node not in nodes
        ]
        states = [survey.write_states.get(node, {}).get(broker) for node in nodes]
        meant = all(state is not None and not state.taken for state in states)
        if meant:
            lines.append("the broker registers them so")
        yield Finding(
            "drained-broker",
            Severity.INFO if meant else Severity.WARNING,
            f"broker {broker}",
            (*lines, *others),
            "If nobody wants it so, set its brokerPermission to 6."
            if meant
            else f"If the drain is over, stop the broker; else `routebook undrain {broker}`,"
            " and set its brokerPermission to 6.",
        )


def partly_read_only(survey: Survey) -> Iterator[Finding]:
    """Topics that some brokers take messages for and others do not, drained ones left out."""
    drained = _drained(survey)

    def judged(node: Address, route: TopicRoute) -> str | None:
        if not any(takes_messages(route, queues) for queues in route.queues):
            return None
        shut = [
            f"{q.broker} {permission(q.perm)}"
            for q in _offered(route)
            if not q.writable
            and q.broker not in drained[node]
            and _mastered(survey, node, route, q.broker)
        ]
        return ", ".join(shut) or None

    yield from _found(
        survey,
        judged,
        check="partly-read-only-topics",
        severity=Severity.INFO,
        remedy=f"If nobody wants it so: {_CHANGE_TOPIC} -p 6`.",
    )


def write_only(survey: Survey) -> Iterator[Finding]:
    def judged(_: Address, route: TopicRoute) -> str | None:
        if any(map(_readable, route.queues)):
            return None
        written = [q for q in route.queues if takes_messages(route, q)]
        return ", ".join(f"{q.broker} {permission(q.perm)}" for q in written) or None

    yield from _found(
        survey,
        judged,
        check="write-only-topics",
        severity=Severity.WARNING,
        remedy=f"Messages come in and nobody can read them. {_CHANGE_TOPIC} -p 6`.",
    )


def closed(survey: Survey) -> Iterator[Finding]:
    """Topics nobody may use: what is left when a broker deletes one and nodes are not told."""

    def judged(_: Address, route: TopicRoute) -> str | None:
        if not route.queues or _offered(route):
            return None
        return ", ".join(f"{q.broker} {permission(q.perm)}" for q in route.queues)

    yield from _found(
        survey,
        judged,
        check="closed-topics",
        severity=Severity.INFO,
        remedy="If the topic was deleted on its brokers, `routebook topics delete TOPIC` makes"
        " the nodes forget it.",
    )


def without_queues(survey: Survey) -> Iterator[Finding]:
    def judged(_: Address, route: TopicRoute) -> str | None:
        if route.queues and not _offered(route):
            return None
        if any(queues.read_queues or queues.write_queues for queues in route.queues):
            return None
        return "no queues" + "".join(f" on {q.broker}" for q in route.queues[:1])

    yield from _found(
        survey,
        judged,
        check="topics-without-queues",
        severity=Severity.WARNING,
        remedy=f"Nobody can use them. {_CHANGE_TOPIC} -r 8 -w 8`, or delete the topic.",
    )


def unread_queues(survey: Survey) -> Iterator[Finding]:
    """Queues that are written and not read, of topics that are read otherwise."""

    def judged(_: Address, route: TopicRoute) -> str | None:
        if route.mappings or not any(map(_readable, route.queues)):
            return None
        hidden = [
            f"{q.broker} {q.write_queues} write, {_readable(q)} read"
            for q in route.queues
            if q.writable and q.write_queues > _readable(q)
        ]
        return ", ".join(hidden) or None

    yield from _found(
        survey,
        judged,
        check="unread-queues",
        severity=Severity.ERROR,
        remedy="Messages in queues beyond the read queues reach nobody."
        f" {_CHANGE_TOPIC} -r N -w N` with one number for both.",
    )


def skewed(survey: Survey) -> Iterator[Finding]:
    def judged(_: Address, route: TopicRoute) -> str | None:
        counts = {q.broker: q.write_queues for q in _offered(route) if q.write_queues > 0}
        if route.mappings or not counts or max(counts.values()) <= SKEW * min(counts.values()):
            return None
        return ", ".join(f"{broker} {count}" for broker, count in sorted(counts.items()))

    yield from _found(
        survey,
        judged,
        check="skewed-queues",
        severity=Severity.WARNING,
        remedy="Brokers get messages in proportion to their queues."
        f" {_CHANGE_TOPIC} -r N -w N` with the same number on each; -c CLUSTER does all at once.",
    )


def on_one_broker(survey: Survey) -> Iterator[Finding]:
    def judged(_: Address, route: TopicRoute) -> str | None:
        brokers = {queues.broker for queues in _offered(route)}
        if len(brokers) != 1 or route.mappings:
            return None
        (broker,) = brokers
        group = route.group(broker)
        slaves = 0 if group is None else len(group.addrs) - (group.master is not None)
        return f"{broker} with {counted(slaves, 'slave')}"

    yield from _found(
        survey,
        judged,
        check="single-broker-topics",
        severity=Severity.INFO,
        remedy="While that broker is away nothing can be sent. `mqadmin updateTopic -c CLUSTER -t"
        " TOPIC` makes the topic on every broker of the cluster.",
    )


def _found(
    survey: Survey,
    judged: Callable[[Address, TopicRoute], str | None],
    *,
    check: str,
    severity: Severity,
    remedy: str,
) -> Iterator[Finding]:
    """One finding of all topics ``judged`` has something to say of."""
    hits: dict[str, dict[Address, str]] = {}
    known: dict[str, int] = {}
    for node, route in survey.routes:
        known[route.topic] = known.get(route.topic, 0) + 1
        if (text := judged(node, route)) is not None:
            hits.setdefault(route.topic, {})[node] = text
    if not hits:
        return
    lines = []
    for topic, by_node in sorted(hits.items()):
        everywhere = len(by_node) == known[topic]
        nodes = "" if everywhere else f", says only {', '.join(map(str, by_node))}"
        lines.append(f"{topic}: {next(iter(by_node.values()))}{nodes}")
    subject = f"topic {next(iter(hits))}" if len(hits) == 1 else f"{len(hits)} topics"
    yield Finding(check, severity, subject, examples(lines), remedy)


def _drained(survey: Survey) -> dict[Address, dict[str, int]]:
    """For each node the brokers none of whose topics is writable, and how many people made.

    Topics that brokers make for themselves count where they are writable: a drain takes them too.
    """
    topics: dict[Address, dict[str, int]] = {node: {} for node in survey.views}
    writable = {
        node: {q.broker for route in view.routes.values() for q in route.queues if q.writable}
        for node, view in survey.views.items()
    }
    for node, route in survey.routes:
        for queues in _offered(route):
            if _mastered(survey, node, route, queues.broker):
                topics[node][queues.broker] = topics[node].get(queues.broker, 0) + 1
    return {
        node: {
            broker: count
            for broker, count in sorted(counts.items())
            if broker not in writable[node]
        }
        for node, counts in topics.items()
    }


def _mastered(survey: Survey, node: Address, route: TopicRoute, broker: str) -> bool:
    """Routes show an acting master as a master; the cluster table does not."""
    group = survey.views[node].cluster.brokers.get(broker, route.group(broker))
    return group is not None and group.master is not None


def _offered(route: TopicRoute) -> list[TopicQueues]:
    """Queues that may be used at all; a deleted topic may stay listed without permissions."""
    return [queues for queues in route.queues if queues.readable or queues.writable]


def _readable(queues: TopicQueues) -> int:
    return queues.read_queues if queues.readable else 0
