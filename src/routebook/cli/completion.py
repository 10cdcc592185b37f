"""Names for the shell to complete, asked of the nodes that the words typed so far name.

Only nodes given by -n or NAMESRV_ADDR are asked, for half a second at most: a shell that waits for
an address service at every key is worse than no completion.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

import click

from routebook.cli.nameservers import asking_of
from routebook.client import FixedAddresses, NameServerClient

DEADLINE_S = 0.5

# A completed name becomes part of a command line unquoted, and anybody may register any name.
_HARMLESS = re.compile(r"[A-Za-z0-9_%.][A-Za-z0-9_%.@+-]*")

Ask = Callable[[NameServerClient], Awaitable[Iterable[str]]]


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda client: client.topics())


def complete_brokers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def brokers(client: NameServerClient) -> Iterable[str]:
        return (await client.cluster_view()).brokers

    return _names(ctx, incomplete, brokers)


def complete_clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def clusters(client: NameServerClient) -> Iterable[str]:
        return (await client.cluster_view()).clusters

    return _names(ctx, incomplete, clusters)


def _names(ctx: click.Context, incomplete: str, ask: Ask) -> list[str]:
    """Harmless names that start with ``incomplete``; none when anything goes wrong."""

    async def in_time(client: NameServerClient) -> Iterable[str]:
        async with asyncio.timeout(DEADLINE_S):
            return await ask(client)

    try:
        asking = asking_of(ctx.params, timeout_s=DEADLINE_S)
        if not isinstance(asking.source, FixedAddresses):
            return []
        try:
            names = asking.run(in_time)
        finally:
            asking.close()
    except (click.ClickException, TimeoutError):
        return []
    return [n for n in sorted(names) if n.startswith(incomplete) and _HARMLESS.fullmatch(n)]
