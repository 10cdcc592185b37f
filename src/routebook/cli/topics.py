"""``routebook topics``: the topics NameServers know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click
from rich.console import RenderableType

from routebook.audit.view import take_view
from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.completion import complete_brokers, complete_clusters, complete_topics
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import NotDone, confirm, heard, results_of, show_results, yes_option
from routebook.cli.output import Output, json_option, output_options
from routebook.cli.route import known_topics
from routebook.cli.subcommands import refuse_options
from routebook.client import (
    Address,
    NameServerClient,
    NodeClient,
    TopicQueues,
    TopicRoute,
)
from routebook.documents.routes import route_document
from routebook.documents.suggestions import known_names
from routebook.plain import word
from routebook.system_topics import is_system_topic

PERMISSIONS = {"r": 4, "w": 2, "rw": 6}


@dataclass(frozen=True, slots=True)
class Listing:
    """``routes`` None: not asked for. A topic that went away meanwhile has none."""

    node: Address | None
    topics: tuple[str, ...]
    routes: Mapping[str, TopicRoute] | None = field(default=None)


@click.group(invoke_without_command=True)
@click.option("--cluster", metavar="NAME", shell_complete=complete_clusters, help="Of one cluster.")
@click.option("--system", is_flag=True, help="Cluster and broker names, which are topics too.")
@click.option(
    "--no-system",
    "only_own",
    is_flag=True,
    help="Without RocketMQ's own: names of clusters and brokers, retry and dead-letter topics, ...",
)
@click.option("--unit", is_flag=True, help="With the unit flag.")
@click.option("--unit-sub", is_flag=True, help="With the unit subscription flag.")
@click.option("--unit-sub-ununit", is_flag=True, help="With the second flag and not the first.")
@click.option("--routes", is_flag=True, help="Also brokers and queues of each.")
@output_options
@asking_options
@click.pass_context
def topics(
    ctx: click.Context,
    /,
    asking: Asking,
    output: Output,
    cluster: str | None,
    only_own: bool,
    routes: bool,
    **flags: bool,
) -> None:
    """List topics, one a line; add or delete one on every node."""
    if ctx.invoked_subcommand is not None:
        refuse_options(ctx, ctx.invoked_subcommand)
        return
    kinds = [name for name, given in flags.items() if given]
    if len(kinds) + (cluster is not None) > 1:
        raise click.UsageError("give one of --cluster, --system, --unit and --unit-sub…, not two")
    if only_own and flags["system"]:
        raise click.UsageError("--system shows what --no-system hides")

    async def listed(client: NameServerClient) -> Listing:
        if cluster is not None:
            names = await _of_cluster(client, cluster)
        else:
            names = await _of_kind(client, kinds[0] if kinds else None)
        if only_own:
            view = await client.cluster_view()
            own = {*view.clusters, *view.brokers}
            names = tuple(name for name in names if not is_system_topic(name, own))
        if not routes or client.chosen is None:
            return Listing(client.chosen, names)
        taken = await take_view(await client.on(client.chosen), topics=names)
        return Listing(taken.node, names, taken.routes)

    output.show(lambda: asking.run(listed), table=_table, data=_document)


async def _of_kind(client: NameServerClient, kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return await client.topics()
    if kind == "system":
        return (await client.system_topics()).topics
    if kind == "unit":
        return await client.unit_topics()
    if kind == "unit_sub":
        return await client.unit_sub_topics()
    return await client.unit_sub_ununit_topics()


async def _of_cluster(client: NameServerClient, cluster: str) -> tuple[str, ...]:
    names = await client.topics_of_cluster(cluster)
    if not names:
        clusters = (await client.cluster_view()).clusters
        if cluster not in clusters:
            known = known_names(cluster, clusters, client.chosen)
            raise Negative(f"no cluster is named {cluster}; {known}")
    return names


def _table(listing: Listing) -> RenderableType:
    if listing.routes is None:
        return "\n".join(word(topic) for topic in listing.topics)
    return table_of(
        _COLUMNS, (_Listed(topic, listing.routes.get(topic)) for topic in listing.topics)
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """A topic with its route; queues are counted where they can be used."""

    topic: str
    route: TopicRoute | None

    @property
    def brokers(self) -> str | None:
        return (
            None if self.route is None else ", ".join(queues.broker for queues in self.route.queues)
        )

    @property
    def read(self) -> int | None:
        return (
            None
            if self.route is None
            else sum(q.read_queues for q in self.route.queues if q.readable)
        )

    @property
    def write(self) -> int | None:
        return (
            None
            if self.route is None
            else sum(q.write_queues for q in self.route.queues if q.writable)
        )


_COLUMNS = (
    Column[_Listed](None, "topic", lambda listed: listed.topic),
    Column[_Listed](None, "brokers", lambda listed: listed.brokers, kind=Kind.PROSE),
    Column[_Listed](None, "read", lambda listed: listed.read, kind=Kind.NUMBER),
    Column[_Listed](None, "write", lambda listed: listed.write, kind=Kind.NUMBER),
)
"""JSON has the whole route of each."""


def _document(listing: Listing) -> dict[str, Any]:
    document: dict[str, Any] = {
        "node": None if listing.node is None else str(listing.node),
        "topics": list(listing.topics),
    }
    if listing.routes is not None:
        document["routes"] = [
            route_document(listing.routes[topic])
            for topic in listing.topics
            if topic in listing.routes
        ]
    return document


@topics.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-b",
    "--broker",
    "brokers",
    multiple=True,
    required=True,
    metavar="NAME",
    shell_complete=complete_brokers,
    help="Where it is; may be given again.",
)
@click.option("--read", type=click.IntRange(0, 65_535), default=8, show_default=True)
@click.option("--write", type=click.IntRange(0, 65_535), default=8, show_default=True)
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), default="rw", show_default=True)
@json_option
@asking_options
def add(
    asking: Asking,
    topic: str,
    brokers: tuple[str, ...],
    read: int,
    write: int,
    perm: str,
    as_json: bool,
) -> None:
    """Tell every node that brokers hold TOPIC.

    It concerns routes only: the topic must exist on the brokers, or be created there on first use.
    """
    names = sorted(set(brokers))
    queues = [
        TopicQueues(name, read_queues=read, write_queues=write, perm=PERMISSIONS[perm])
        for name in names
    ]

    async def added(node: NodeClient) -> list[str]:
        # A node says success to brokers it does not know, and may have added some of the others.
        known = (await node.cluster_view()).brokers
        unknown = [name for name in names if name not in known]
        if not unknown:
            await node.register_topic(topic, queues)
        return unknown

    def said(unknown: list[str]) -> str:
        if unknown:
            raise NotDone(f"no broker named {' or '.join(unknown)} is registered here")
        return "added"

    results = asking.run(lambda client: client.on_every_node(added))
    about = {"topic": topic, "brokers": names, "read": read, "write": write, "perm": perm}
    show_results(results_of(results, said), about, as_json=as_json)


@topics.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--cluster", metavar="NAME", shell_complete=complete_clusters, help="In one cluster only."
)
@yes_option
@json_option
@asking_options
def delete(asking: Asking, topic: str, cluster: str | None, yes: bool, as_json: bool) -> None:
    """Make every node forget the routes of TOPIC.

    Messages stay on the brokers. A broker that still has the topic may announce it again.
    """
    routes = asking.run(lambda client: client.on_every_node(lambda n: n.find_route(topic)))
    held = {node: _holders(route, cluster) for node, route in heard(routes).items()}
    if not any(held.values()):
        where = "" if cluster is None else f" in the cluster {cluster}"
        known = asking.run(partial(known_topics, topic))
        raise Negative(f"there is no topic {topic}{where}; {known}")
    brokers = sorted(set().union(*held.values()))
    confirm(
        f"Clients will no longer find {topic} on {', '.join(brokers)}. Messages stay where they"
        " are.",
        f"Delete its routes from {len(routes)} nodes?",
        yes=yes,
    )

    async def deleted(node: NodeClient) -> set[str]:
        await node.delete_topic(topic, cluster=cluster)
        return held.get(node.address, set())

    results = asking.run(lambda client: client.on_every_node(deleted))
    show_results(
        results_of(results, lambda held: "deleted" if held else "had no such topic"),
        {"topic": topic, "cluster": cluster},
        as_json=as_json,
    )


def _holders(route: TopicRoute | None, cluster: str | None) -> set[str]:
    if route is None:
        return set()
    return {group.name for group in route.brokers if cluster is None or group.cluster == cluster}
