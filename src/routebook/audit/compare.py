"""Where the views of several NameServers differ.

Differences are told so that a person can read them: what a broker's absence or a changed
address does to ten thousand routes is one difference that counts the topics, and topics that
differ in the same way are one difference together. Views equal in everything cost one
comparison for each topic.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from routebook.audit.view import NodeView, Views, failures_of
from routebook.client.routes import TopicRoute
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.words import permission

MISSING = "missing"

Says = dict[Address, str]


class Kind(StrEnum):
    """What differs. The first three are of brokers, the others of topics."""

    BROKER_MISSING = "broker-missing"
    CLUSTER = "cluster"
    MEMBERS = "members"
    TOPIC_MISSING = "topic-missing"
    QUEUES_MISSING = "queues-missing"
    PERMISSION = "permission"
    QUEUE_COUNT = "queue-count"
    SYSTEM_FLAG = "system-flag"
    ROUTE_MEMBERS = "route-members"
    ORDER_CONFIG = "order-config"
    STATIC_MAPPING = "static-mapping"
    FILTER_SERVERS = "filter-servers"


BROKER_KINDS = frozenset({Kind.BROKER_MISSING, Kind.CLUSTER, Kind.MEMBERS})


@dataclass(frozen=True, slots=True)
class Difference:
    """What every node compared says of one thing.

    ``broker`` is the broker name it is about, None when it is about topics as such. ``topics``
    are all topics it shows in, sorted; a broker may differ and no topic with it.
    """

    kind: Kind
    broker: str | None
    topics: tuple[str, ...]
    says: Mapping[Address, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``failures`` are the nodes that could not be asked, and why.

    ``unanswered`` has, for each node, the topics it would not tell, and why. Both leave
    the comparison incomplete.
    """

    nodes: tuple[Address, ...]
    topic_count: int
    differences: tuple[Difference, ...] = ()
    failures: Mapping[Address, str] = field(default_factory=dict)
    unanswered: Mapping[Address, Mapping[str, str]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.failures and not self.unanswered

    @property
    def topics(self) -> frozenset[str]:
        """All topics that some difference shows in."""
        return frozenset(topic for d in self.differences for topic in d.topics)

    def confirmed_by(self, later: "Comparison") -> "Comparison":
        """``later``, with only those of its differences that were there before."""
        seen = {_trace(d, topic) for d in self.differences for topic in _topics_or_none(d)}
        kept: list[Difference] = []
        for difference in later.differences:
            if difference.kind in BROKER_KINDS:
                if _trace(difference, None) in seen:
                    kept.append(difference)
                continue
            topics = tuple(t for t in difference.topics if _trace(difference, t) in seen)
            if topics:
                kept.append(replace(difference, topics=topics))
        return replace(later, differences=tuple(kept))


def compare(outcomes: Views) -> Comparison:
    """Compare what the nodes say; of nodes that could not be asked only that is known."""
    views = {node: view for node, view in outcomes.items() if isinstance(view, NodeView)}
    topics = sorted({topic for view in views.values() for topic in view.routes})
    found = _Found()
    if len(views) > 1:
        _compare_brokers(views, found)
        for topic in topics:
            asked = {n: v.routes.get(topic) for n, v in views.items() if topic not in v.errors}
            first, *others = asked.values() or (None,)
            if any(route != first for route in others):
                _compare_topic(topic, asked, views, found)
    return Comparison(
        nodes=tuple(views),
        topic_count=len(topics),
        differences=found.differences(),
        failures=failures_of(outcomes),
        unanswered={node: view.errors for node, view in views.items() if view.errors},
    )


class _Found:
    """Differences as they are found; those that say the same are one."""

    def __init__(self) -> None:
        self._brokers: dict[tuple[Kind, str], tuple[Says, list[str]]] = {}
        self._topics: dict[tuple[object, ...], tuple[Kind, str | None, Says, list[str]]] = {}

    def add_broker(self, kind: Kind, broker: str, says: Says) -> None:
        self._brokers[kind, broker] = (says, [])

    def explains(self, kind: Kind, broker: str, topic: str) -> bool:
        """Whether the broker differs in that way; the topic is counted if it does."""
        difference = self._brokers.get((kind, broker))
        if difference is None:
            return False
        if topic not in difference[1][-1:]:
            difference[1].append(topic)
        return True

    def add_topic(self, kind: Kind, broker: str | None, topic: str, *, says: Says) -> None:
        key = (kind, broker, *says.items())
        self._topics.setdefault(key, (kind, broker, says, []))[-1].append(topic)

    def differences(self) -> tuple[Difference, ...]:
        order = list(Kind)
        brokers = [
            Difference(kind, broker, tuple(topics), says)
            for (kind, broker), (says, topics) in self._brokers.items()
        ]
        topics = [
            Difference(kind, broker, tuple(topics), says)
            for kind, broker, says, topics in self._topics.values()
        ]
        return tuple(
            sorted(brokers + topics, key=lambda d: (order.index(d.kind), d.broker or "", d.topics))
        )


# -- brokers


def _compare_brokers(views: Mapping[Address, NodeView], found: _Found) -> None:
    known = {node: _clusters_by_broker(view) for node, view in views.items()}
    names = sorted({name for clusters in known.values() for name in clusters})
    if not all(view.whole for view in views.values()):
        held = {q.broker for v in views.values() for r in v.routes.values() for q in r.queues}
        names = [name for name in names if name in held]
    for name in names:
        groups = {node: view.cluster.brokers.get(name) for node, view in views.items()}
        if not all(name in clusters for clusters in known.values()):
            says = {
                node: _group_text(groups[node]) if name in known[node] else MISSING
                for node in views
            }
            found.add_broker(Kind.BROKER_MISSING, name, says)
            groups = {node: group for node, group in groups.items() if name in known[node]}
        clusters = {node: ", ".join(known[node][name]) for node in groups}
        if _differ(clusters.values()):
            found.add_broker(Kind.CLUSTER, name, _for_all(views, clusters))
        members = {node: _group_text(group) for node, group in groups.items()}
        if _differ(members.values()):
            found.add_broker(Kind.MEMBERS, name, _for_all(views, members))


def _clusters_by_broker(view: NodeView) -> dict[str, list[str]]:
    clusters: dict[str, list[str]] = {name: [] for name in view.cluster.brokers}
    for cluster, names in view.cluster.clusters.items():
        for name in names:
            clusters.setdefault(name, []).append(cluster)
    return clusters


# -- topics


def _compare_topic(
    topic: str,
    routes: Mapping[Address, TopicRoute | None],
    views: Mapping[Address, NodeView],
    found: _Found,
) -> None:
    present = {node: route for node, route in routes.items() if route is not None}
    queues = {node: _queues_by_broker(route) for node, route in present.items()}
    brokers = sorted({broker for by_broker in queues.values() for broker in by_broker})
    _compare_presence(topic, brokers, routes, queues, views, found)
    for broker in brokers:
        held = {node: by[broker] for node, by in queues.items() if broker in by}
        for kind, text in _QUEUE_TEXTS.items():
            texts = {node: text(entries) for node, entries in held.items()}
            if _differ(texts.values()):
                found.add_topic(kind, broker, topic, says=_for_all(routes, texts))
        groups = {node: _groups_text(present[node], broker) for node in held}
        if _differ(groups.values()):
            causes = (Kind.CLUSTER, Kind.MEMBERS)
            explained = [found.explains(kind, broker, topic) for kind in causes]
            if not any(explained):
                found.add_topic(Kind.ROUTE_MEMBERS, broker, topic, says=_for_all(routes, groups))
    for kind, route_text in _ROUTE_TEXTS.items():
        texts = {node: route_text(route) for node, route in present.items()}
        if _differ(texts.values()):
            found.add_topic(kind, None, topic, says=_for_all(routes, texts))


def _compare_presence(
    topic: str,
    brokers: Collection[str],
    routes: Mapping[Address, TopicRoute | None],
    queues: Mapping[Address, Mapping[str, object]],
    views: Mapping[Address, NodeView],
    found: _Found,
) -> None:
    """Which nodes lack the topic, or some broker in its route, and not for want of the broker."""
    lacking: set[Address] = set()  # the topic
    for broker in brokers:
        lacking_queues = False
        for node, route in routes.items():
            if broker in queues.get(node, ()):
                continue
            if not _knows(views[node], broker) and found.explains(
                Kind.BROKER_MISSING, broker, topic
            ):
                continue
            if route is None:
                lacking.add(node)
            else:
                lacking_queues = True
        if lacking_queues:
            says = {n: "present" if broker in queues.get(n, ()) else MISSING for n in routes}
            found.add_topic(Kind.QUEUES_MISSING, broker, topic, says=says)
    if not brokers:  # routes without queues, here and not there
        lacking = {node for node, route in routes.items() if route is None}
    if lacking:
        says = {n: MISSING if n not in queues else _holders(queues[n]) for n in routes}
        found.add_topic(Kind.TOPIC_MISSING, None, topic, says=says)


def _knows(view: NodeView, broker: str) -> bool:
    return broker in view.cluster.brokers or any(
        broker in names for names in view.cluster.clusters.values()
    )


def _queues_by_broker(route: TopicRoute) -> dict[str, tuple[TopicQueues, ...]]:
    """A name may have two entries, one for each of two clusters."""
    found: dict[str, tuple[TopicQueues, ...]] = {}
    for queues in route.queues:
        found[queues.broker] = (*found.get(queues.broker, ()), queues)
    return found


# -- what a node says, in words


def _each(text: Callable[[TopicQueues], str]) -> Callable[[Iterable[TopicQueues]], str]:
    return lambda entries: " and ".join(sorted(map(text, entries)))


_QUEUE_TEXTS: Mapping[Kind, Callable[[Iterable[TopicQueues]], str]] = {
    Kind.PERMISSION: _each(lambda q: f"{permission(q.perm)} ({q.perm})"),
    Kind.QUEUE_COUNT: _each(lambda q: f"{q.read_queues} read, {q.write_queues} write"),
    Kind.SYSTEM_FLAG: _each(lambda q: str(q.sys_flag)),
}


def _mappings_text(route: TopicRoute) -> str:
    return (
        "; ".join(
            f"{name}: epoch {info.epoch}, of {info.total_queues} queues "
            + ",".join(f"{logical}={own}" for logical, own in sorted(info.curr_id_map.items()))
            for name, info in sorted(route.mappings.items())
        )
        or "none"
    )


def _filters_text(route: TopicRoute) -> str:
    return (
        "; ".join(
            f"{addr}: {', '.join(sorted(servers))}"
            for addr, servers in sorted(route.filter_servers.items())
        )
        or "none"
    )


_ROUTE_TEXTS: Mapping[Kind, Callable[[TopicRoute], str]] = {
    Kind.ORDER_CONFIG: lambda route: "none" if route.order_conf is None else repr(route.order_conf),
    Kind.STATIC_MAPPING: _mappings_text,
    Kind.FILTER_SERVERS: _filters_text,
}


def _group_text(group: BrokerGroup | None) -> str:
    if group is None:
        return "no members"
    members = ", ".join(f"{broker_id}={addr}" for broker_id, addr in sorted(group.addrs.items()))
    zone = f", zone {group.zone}" if group.zone else ""
    return (members or "no members") + (", acting master" if group.acting_master else "") + zone


def _groups_text(route: TopicRoute, broker: str) -> str:
    groups = [group for group in route.brokers if group.name == broker]
    return " and ".join(f"{g.cluster}: {_group_text(g)}" for g in groups) or "no members"


def _holders(queues: Mapping[str, object]) -> str:
    return "on " + ", ".join(sorted(queues)) if queues else "without queues"


def _for_all(nodes: Iterable[Address], texts: Says) -> Says:
    return {node: texts.get(node, MISSING) for node in nodes}


def _differ(texts: Collection[str]) -> bool:
    return len(set(texts)) > 1


# -- what two comparisons have in common


def _topics_or_none(difference: Difference) -> Iterable[str | None]:
    return (None,) if difference.kind in BROKER_KINDS else difference.topics


def _trace(difference: Difference, topic: str | None) -> tuple[Kind, str | None, str | None]:
    return (difference.kind, difference.broker, topic)
