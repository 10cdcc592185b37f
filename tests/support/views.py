"""Views of NameServers made by hand, with defaults for all that a test does not care about."""

from collections.abc import Iterable, Mapping

from routebook.audit.compare import compare
from routebook.audit.survey import Survey
from routebook.audit.view import NodeView
from routebook.client.routes import ClusterView, TopicRoute
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues

N1 = Address("192.168.1.1", 9876)
N2 = Address("192.168.1.2", 9876)
N3 = Address("192.168.1.3", 9876)


def group(
    name: str = "broker-a",
    addrs: Mapping[int, str] | None = None,
    *,
    cluster: str = "c1",
    acting_master: bool = False,
) -> BrokerGroup:
    """A master at an address made from the last letter of the name, unless ``addrs`` are given."""
    made = {0: f"192.168.2.{ord(name[-1])}:10911"}
    return BrokerGroup(name, cluster, dict(made if addrs is None else addrs), acting_master)


def queues(
    broker: str = "broker-a",
    read: int = 8,
    write: int = 8,
    *,
    perm: int = 6,
    sys_flag: int = 0,
) -> TopicQueues:
    return TopicQueues(broker, read, write, perm, sys_flag)


def view(
    node: Address = N1,
    groups: Iterable[BrokerGroup] = (),
    topics: Mapping[str, Iterable[TopicQueues]] | None = None,
    *,
    clusters: Mapping[str, tuple[str, ...]] | None = None,
    routes: Iterable[TopicRoute] = (),
    errors: Mapping[str, str] | None = None,
    whole: bool = True,
) -> NodeView:
    """What ``node`` says when ``groups`` hold ``topics``; ``routes`` are told as they are."""
    known = tuple(groups)
    listed: dict[str, tuple[str, ...]] = {}
    for one in known:
        listed[one.cluster or ""] = (*listed.get(one.cluster or "", ()), one.name)
    told = {topic: route(topic, held, known) for topic, held in (topics or {}).items()}
    brokers: dict[str, BrokerGroup] = {}
    for one in known:
        brokers.setdefault(one.name, one)
    return NodeView(
        node,
        ClusterView(brokers, listed if clusters is None else clusters),
        {**told, **{one.topic: one for one in routes}},
        taken_at_ms=0,
        errors=errors or {},
        whole=whole,
    )


def route(topic: str, held: Iterable[TopicQueues], groups: Iterable[BrokerGroup]) -> TopicRoute:
    listed = tuple(sorted(held, key=lambda one: one.broker))
    holders = {one.broker for one in listed}
    return TopicRoute(topic, tuple(one for one in groups if one.name in holders), listed)


def survey(
    *views: NodeView,
    failures: Mapping[Address, str] | None = None,
    probes: Mapping[str, str | None] | None = None,
    hosts: Mapping[str, frozenset[str]] | None = None,
) -> Survey:
    """Of ``views``, compared. The hosts of nodes are their own IP addresses unless given."""
    by_node = {one.node: one for one in views}
    return Survey(
        by_node,
        failures or {},
        compare(by_node).differences,
        probes=probes or {},
        hosts={node.host: frozenset({node.host}) for node in by_node} if hosts is None else hosts,
    )
