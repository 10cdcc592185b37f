"""Survey: all that a doctor looks at, gathered before the first check is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from routebook.audit.compare import Difference
from routebook.audit.health import Report, Reports, take_reports
from routebook.audit.reach import probe, resolve
from routebook.audit.settle import SETTLE_S, settled
from routebook.audit.view import NodeView, failures_of, take_views
from routebook.client.client import NameServerClient, NodeClient
from routebook.client.errors import NameServerError
from routebook.client.routes import TopicRoute
from routebook.system_topics import is_system_topic
from routebook.wire.address import Address, split_address
from routebook.wire.answers import BrokerGroup, WriteState

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One registered broker process."""

    cluster: str
    broker: str
    broker_id: int
    addr: str

    @property
    def host(self) -> str | None:
        """None when the address is none."""
        try:
            return split_address(self.addr)[0]
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.broker} (id {self.broker_id}, {self.cluster}) at {self.addr}"


@dataclass(frozen=True)  # without slots: what several checks derive is derived once
class Survey:
    """``failures`` are the nodes that could not be asked, and why.

    ``probes`` says of registered addresses why they cannot be reached, None when they can; it is
    empty when nothing was probed. ``hosts`` has the IP addresses of nodes and brokers. ``reports``
    are what nodes say of themselves, ``write_states`` what those that can say of brokers with
    topics that may not be written.
    """

    views: Mapping[Address, NodeView]
    failures: Mapping[Address, str] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    probes: Mapping[str, str | None] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reports: Reports = field(default_factory=dict)
    write_states: Mapping[Address, Mapping[str, WriteState]] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Address, ...]:
        return tuple(sorted((*self.views, *self.failures)))

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all clusters and brokers."""
        return frozenset(
            name
            for view in self.views.values()
            for name in (
                *view.cluster.brokers,
                *view.cluster.clusters,
                *(broker for brokers in view.cluster.clusters.values() for broker in brokers),
            )
        )

    @cached_property
    def members(self) -> dict[Member, tuple[Address, ...]]:
        """Every registered broker process, and the nodes that know it."""
        found: dict[Member, tuple[Address, ...]] = {}
        for node, view in self.views.items():
            for group in groups_of(view):
                for broker_id, addr in group.addrs.items():
                    member = Member(group.cluster or "", group.name, broker_id, addr)
                    found[member] = (*found.get(member, ()), node)
        return dict(sorted(found.items()))

    @cached_property
    def routes(self) -> tuple[tuple[Address, TopicRoute], ...]:
        """The routes of all topics that people made, as each node has them."""
        return tuple(
            (node, route)
            for node, view in self.views.items()
            for topic, route in view.routes.items()
            if not is_system_topic(topic, self.names)
        )


def groups_of(view: NodeView) -> list[BrokerGroup]:
    """All broker groups a node knows.

    The cluster table has one place for a name. When two clusters use it, the other group can be
    seen in routes only. Ids are those of the cluster table where it has the group, since
    routes show an acting master as a master.
    """
    listed = view.cluster.brokers
    hidden: dict[tuple[str, str], BrokerGroup] = {}
    for route in view.routes.values():
        for group in route.brokers:
            known = listed.get(group.name)
            if known is not None and known.cluster != group.cluster:
                hidden.setdefault((group.name, group.cluster or ""), group)
    return [*listed.values(), *hidden.values()]


async def take_survey(
    client: NameServerClient,
    *,
    probing: bool = True,
    settle_s: float = SETTLE_S,
    progress: Progress | None = None,
    rest_s: float = 0.0,
) -> Survey:
    """Ask all nodes and try all addresses they know; raises NoNameServers.

    ``rest_s`` is left to each node between a few hundred questions and the next.
    """
    told = progress or (lambda stage, done, total: None)
    taken = await take_views(client, progress=partial(told, "routes"), rest_s=rest_s)
    found = await settled(client, taken, settle_s=settle_s)
    survey = Survey(
        {node: view for node, view in found.views.items() if isinstance(view, NodeView)},
        failures_of(found.views),
        found.comparison.differences,
    )
    survey = replace(survey, reports=await take_reports(client))
    survey = replace(survey, write_states=await _take_write_states(client, survey))
    addresses = {member.addr for member in survey.members} if probing else set()
    hosts = {node.host for node in survey.nodes} | {m.host for m in survey.members if m.host}
    return replace(
        survey,
        probes=await probe(addresses, progress=partial(told, "addresses")),
        hosts=await resolve(hosts),
    )


async def _take_write_states(
    client: NameServerClient, survey: Survey
) -> dict[Address, dict[str, WriteState]]:
    """Of brokers with topics that may not be written, where a node knows whether that is meant."""
    brokers: dict[Address, set[str]] = {}
    for node, route in survey.routes:
        if isinstance(survey.reports.get(node), Report):
            shut = (queues.broker for queues in route.queues if not queues.writable)
            brokers.setdefault(node, set()).update(shut)

    async def states(node: NodeClient) -> dict[str, WriteState]:
        return {
            broker: await node.restore_write_permission(broker, look_only=True)
            for broker in sorted(brokers.get(node.address, ()))
        }

    found = await client.on_every_node(states)
    return {n: told for n, told in found.items() if not isinstance(told, NameServerError)}
