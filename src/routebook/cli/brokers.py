"""``routebook brokers`` and ``routebook clusters``: who is registered."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from rich.console import RenderableType

from routebook.audit.view import take_view
from routebook.cli.completion import complete_brokers
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options, table_of
from routebook.cli.route import group_document, role
from routebook.client import Address, BrokerGroup, ClusterView, NameServerClient


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
            known = ", ".join(view.brokers) or "none"
            raise Negative(f"no broker is named {name}; registered at {client.chosen}: {known}")
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


def _brokers_table(seen: Seen) -> RenderableType:
    counted = [] if seen.topics is None else ["topics"]
    return table_of(
        ["cluster", "broker", "id", "role", "address", "acting master", "zone", *counted],
        (
            (
                group.cluster,
                group.name,
                *member,
                "enabled" if group.acting_master else None,
                group.zone,
                *([] if seen.topics is None else [seen.topics.get(group.name, 0)]),
            )
            for group in seen.groups
            for member in _members(group)
        ),
        right=["id", "topics"],
    )


def _members(group: BrokerGroup) -> list[tuple[object, object, object]]:
    """Id, role and address of each."""
    members: list[tuple[object, object, object]] = [
        (broker_id, role(broker_id), address) for broker_id, address in sorted(group.addrs.items())
    ]
    return members or [(None, None, None)]


def _brokers_document(seen: Seen) -> dict[str, Any]:
    return {
        "node": None if seen.node is None else str(seen.node),
        "brokers": [
            {
                **group_document(group),
                "topics": None if seen.topics is None else seen.topics.get(group.name, 0),
            }
            for group in seen.groups
        ],
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


def _clusters_table(seen: Seen) -> RenderableType:
    counted = [] if seen.topics is None else ["topics"]
    numbers = ["groups", "masters", "slaves", *counted]
    return table_of(
        ["cluster", *numbers, "without master"],
        (
            (
                cluster["cluster"],
                len(cluster["brokers"]),
                cluster["masters"],
                cluster["slaves"],
                *([] if seen.topics is None else [cluster["topics"]]),
                ", ".join(cluster["without_master"]) or None,
            )
            for cluster in _clusters_document(seen)["clusters"]
        ),
        right=numbers,
    )


def _clusters_document(seen: Seen) -> dict[str, Any]:
    return {
        "node": None if seen.node is None else str(seen.node),
        "clusters": [_cluster_document(cluster, seen) for cluster in sorted(seen.view.clusters)],
    }


def _cluster_document(cluster: str, seen: Seen) -> dict[str, Any]:
    groups = [group for group in seen.groups if group.cluster == cluster]
    masters = [group for group in groups if group.master is not None]
    return {
        "cluster": cluster,
        "brokers": [group.name for group in groups],
        "masters": len(masters),
        "slaves": sum(len(group.addrs) for group in groups) - len(masters),
        "without_master": [group.name for group in groups if group.master is None],
        "topics": None if seen.topics is None else seen.topics[cluster],
    }
