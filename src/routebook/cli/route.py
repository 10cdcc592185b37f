"""``routebook route``: which brokers hold a topic."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import table_of
from routebook.cli.completion import complete_topics
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import check_answered
from routebook.cli.output import Output, output_options
from routebook.client import (
    Address,
    NameServerClient,
    NameServerError,
    TopicNotFound,
    TopicRoute,
)
from routebook.client.errors import what
from routebook.documents.routes import (
    MAPPINGS,
    QUEUES,
    ROUTE_MEMBERS,
    members_of,
    route_document,
    static_queues,
)
from routebook.documents.suggestions import close_names
from routebook.plain import one_line, word
from routebook.words import span

Routes = Mapping[Address, TopicRoute | NameServerError]


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--all-nodes", is_flag=True, help="Ask every node, not one.")
@output_options
@asking_options
def route(asking: Asking, output: Output, topic: str, all_nodes: bool) -> None:
    """Show which brokers hold TOPIC: addresses, queues, permissions.

    Exit code 1 when there is no route for it.
    """
    asking.tells_age = True
    if all_nodes:
        routes = output.show(
            lambda: asking.run(lambda client: client.on_every_node(lambda n: n.route(topic))),
            table=lambda routes: Group(*_views(topic, routes)),
            data=lambda routes: {"topic": topic, "nodes": _answers(routes)},
        )
        check_answered(routes, refusal=f"no route for {topic}")
        return

    async def found(client: NameServerClient) -> TopicRoute:
        try:
            return await client.route(topic)
        except TopicNotFound as error:
            raise Negative(
                f"{_absent(topic, error)}; {await known_topics(topic, client)}"
            ) from error

    output.show(
        lambda: asking.run(found),
        table=lambda route: Group(
            *route_tables(route, _teller(route.node, route)), *_doubts([route])
        ),
        data=route_document,
    )


def _absent(topic: str, error: TopicNotFound) -> str:
    remark = one_line(error.remark or "nothing more")
    return f'no route for {topic}: {error.address} says "{remark}"'


async def known_topics(topic: str, client: NameServerClient) -> str:
    """Which topic may have been meant, or how to see those there are."""
    try:
        close = close_names(topic, await client.topics())
    except NameServerError:
        close = ""  # a node may keep its list to itself
    return close or "`routebook topics` lists those there are"


def _teller(node: Address | None, route: TopicRoute) -> str:
    """Who says so; and of a relay, how long ago a NameServer did."""
    told = route.relayed
    if told is None:
        return str(node)
    stale = ", stale" if told.stale else ""
    return f"{node} (a relay; {span(told.age_ms)} old{stale})"


def _doubts(routes: Iterable[TopicRoute]) -> Iterator[RenderableType]:
    for route in routes:
        if route.relayed is not None and route.relayed.doubt is not None:
            yield Text(f"\n{route.node}: {one_line(route.relayed.doubt)}", style="bold yellow")


def route_tables(route: TopicRoute, nodes: str) -> Iterator[RenderableType]:
    yield Text(f"{word(route.topic)} at {nodes}\n", style="bold")
    yield table_of(ROUTE_MEMBERS, members_of(group for group in route.brokers if group.addrs))
    yield Text()
    yield table_of(QUEUES, route.queues)
    if route.mappings:
        yield Text()
        yield table_of(MAPPINGS, static_queues(route))
    if route.order_conf is not None:
        yield Text(f"\norder configuration: {word(route.order_conf)}")


def _views(topic: str, routes: Routes) -> Iterator[RenderableType]:
    """Nodes that say the same stand together."""
    distinct: list[tuple[TopicRoute, list[str]]] = []
    for node, route in routes.items():
        if isinstance(route, NameServerError):
            continue
        nodes = next((nodes for seen, nodes in distinct if seen == route), None)
        if nodes is None:
            distinct.append((route, [_teller(node, route)]))
        else:
            nodes.append(_teller(node, route))
    for number, (route, nodes) in enumerate(distinct):
        if number:
            yield Text()
        yield from route_tables(route, ", ".join(nodes))
    yield from _doubts(r for r in routes.values() if not isinstance(r, NameServerError))
    failures = {n: r for n, r in routes.items() if isinstance(r, NameServerError)}
    if distinct and failures:
        yield Text()
    for node, error in failures.items():
        said = "no route" if isinstance(error, TopicNotFound) else what(error)
        yield Text(f"{word(topic)} at {node}: {said}", style="bold red")


def _answers(routes: Routes) -> list[dict[str, Any]]:
    return [
        {"node": str(node), "route": None, "error": what(route)}
        if isinstance(route, NameServerError)
        else {"node": str(node), "route": route_document(route), "error": None}
        for node, route in routes.items()
    ]
