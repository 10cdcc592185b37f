"""What NameServers say, as values: a topic's route, the clusters, a topic list."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from routebook.client.relayed import Relayed
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, ClusterBody, RouteBody, TopicQueues
from routebook.wire.registration import MappingInfo


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Which brokers hold a topic. Brokers and queues are sorted by broker name.

    ``order_conf`` is the text of an ordered topic, ``broker:count;broker:count``. ``mappings`` is
    filled for static topics only: broker name to what it holds of the logical queues.
    ``node`` is who said so, ``relayed`` how old it is where that is a relay; neither counts when
    routes are compared.
    """

    topic: str
    brokers: tuple[BrokerGroup, ...] = ()
    queues: tuple[TopicQueues, ...] = ()
    order_conf: str | None = None
    filter_servers: Mapping[str, list[str]] = field(default_factory=dict)
    mappings: Mapping[str, MappingInfo] = field(default_factory=dict)
    node: Address | None = field(default=None, compare=False)
    relayed: Relayed | None = field(default=None, compare=False)

    def group(self, broker: str) -> BrokerGroup | None:
        """The broker group of that name, or None."""
        return next((group for group in self.brokers if group.name == broker), None)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All broker groups a node knows, and which cluster each name is in."""

    brokers: Mapping[str, BrokerGroup]
    clusters: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SystemTopics:
    """Cluster and broker names, which are topics too, and the address of some broker."""

    topics: tuple[str, ...]
    broker_addr: str | None


def route_of(
    topic: str, body: RouteBody, node: Address | None = None, relayed: Relayed | None = None
) -> TopicRoute:
    return TopicRoute(
        topic,
        brokers=tuple(
            sorted(body.brokers or (), key=lambda group: (group.name, group.cluster or ""))
        ),
        queues=tuple(sorted(body.queues or (), key=lambda queues: queues.broker)),
        order_conf=body.order_conf,
        filter_servers=body.filter_servers or {},
        mappings=body.mappings or {},
        node=node,
        relayed=relayed,
    )


def cluster_view_of(body: ClusterBody) -> ClusterView:
    return ClusterView(
        brokers=dict(sorted((body.brokers or {}).items())),
        clusters={
            cluster: tuple(sorted(names))
            for cluster, names in sorted((body.clusters or {}).items())
        },
    )
