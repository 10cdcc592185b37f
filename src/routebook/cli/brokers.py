"""``routebook brokers`` and ``routebook clusters``: who is registered."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import RenderableType

from routebook.audit.view import take_view
from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.completion import complete_brokers
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options
from routebook.client import Address, BrokerGroup, ClusterView, NameServerClient
from routebook.documents.routes import MEMBERS, Member, members_of
from routebook.documents.suggestions import known_names


@dataclass(frozen=True, slots=True)
class Seen:
    """``topics`` counts them by the name of the broker or cluster; None: not asked for."""

    node: Address | None
    groups: tuple[BrokerGroup, ...]
    view: ClusterView
    topics: Mapping[str, int] | None


@click.command()
@click.argument("name", required=False, shell_complete=complete_brokers)
@click.option("--topics", is_flag=True, help="Also count the topics of each.")
@output_options
@asking_options
def brokers(asking: Asking, output: Output, name: str | None, topics: bool) -> None:
    """Show broker groups, their addresses and roles; all of them, or NAME.

    Exit code 1 when there is no broker of that name.
    """

    async def seen(client: NameServerClient) -> Seen:
        view = await client.cluster_view()
        groups = tuple(group for group in _groups(view) if name in (None, group.name))
        if name is not None and not groups:
            known = known_names(name, view.brokers, client.chosen)
            raise Negative(f"no broker is named {name}; {known}")
        if not topics or client.chosen is None:
            return Seen(client.chosen, groups, view, None)
        taken = await take_view(await client.on(client.chosen))
        held = Counter(q.broker for route in taken.routes.values() for q in route.queues)
        return Seen(client.chosen, groups, view, held)

    output.show(lambda: asking.run(seen), table=_brokers_table, data=_brokers_document)


def _groups(view: ClusterView) -> list[BrokerGroup]:
    """By cluster and name.

    A name in two clusters is there twice, once without addresses: the answer has room for one.
    """
    listed = {
        (cluster, name): BrokerGroup(name, cluster)
        for cluster, names in view.clusters.items()
        for name in names
    }
    for group in view.brokers.values():
        listed[group.cluster or "", group.name] = group
    return [group for _, group in sorted(listed.items())]


def _topics_column(seen: Seen, name: Callable[[Any], str]) -> Column[Any]:
    """How many topics there are; a table has it when it was asked for."""
    topics = seen.topics
    return Column(
        "topics",
        None if topics is None else "topics",
        lambda row: None if topics is None else topics.get(name(row), 0),
        kind=Kind.NUMBER,
    )


def _broker_columns(seen: Seen) -> Sequence[Column[Member]]:
    return *MEMBERS, _topics_column(seen, lambda member: member.group.name)


def _brokers_table(seen: Seen) -> RenderableType:
    return table_of(_broker_columns(seen), members_of(seen.groups))


def _brokers_document(seen: Seen) -> dict[str, Any]:
    return {
        "node": None if seen.node is None else str(seen.node),
        "brokers": documents_of(_broker_columns(seen), map(Member, seen.groups)),
    }


@click.command()
@click.option("--topics", is_flag=True, help="Also count the topics of each.")
@output_options
@asking_options
def clusters(asking: Asking, output: Output, topics: bool) -> None:
    """Show clusters: how many brokers, and which groups have no master."""

    async def seen(client: NameServerClient) -> Seen:
        view = await client.cluster_view()
        held = None
        if topics:
            held = {c: len(await client.topics_of_cluster(c)) for c in view.clusters}
        return Seen(client.chosen, tuple(_groups(view)), view, held)

    output.show(lambda: asking.run(seen), table=_clusters_table, data=_clusters_document)


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    groups: tuple[BrokerGroup, ...]

    @property
    def masters(self) -> int:
        return sum(group.master is not None for group in self.groups)

    @property
    def slaves(self) -> int:
        return sum(len(group.addrs) for group in self.groups) - self.masters

    @property
    def without_master(self) -> list[str]:
        return [group.name for group in self.groups if group.master is None]


def _cluster_columns(seen: Seen) -> Sequence[Column[Cluster]]:
    return (
        Column("cluster", "cluster", lambda cluster: cluster.name),
        Column("brokers", None, lambda cluster: [group.name for group in cluster.groups]),
        Column(None, "groups", lambda cluster: len(cluster.groups), kind=Kind.NUMBER),
        Column("masters", "masters", lambda cluster: cluster.masters, kind=Kind.NUMBER),
        Column("slaves", "slaves", lambda cluster: cluster.slaves, kind=Kind.NUMBER),
        _topics_column(seen, lambda cluster: cluster.name),
        Column(
            "without_master",
            "without master",
            lambda cluster: cluster.without_master,
            shown=lambda names: ", ".join(names) or None,
            kind=Kind.PROSE,
        ),
    )


def _clusters(seen: Seen) -> list[Cluster]:
    return [
        Cluster(name, tuple(group for group in seen.groups if group.cluster == name))
        for name in sorted(seen.view.clusters)
    ]


def _clusters_table(seen: Seen) -> RenderableType:
    return table_of(_cluster_columns(seen), _clusters(seen))


def _clusters_document(seen: Seen) -> dict[str, Any]:
    return {
        "node": None if seen.node is None else str(seen.node),
        "clusters": documents_of(_cluster_columns(seen), _clusters(seen)),
    }
