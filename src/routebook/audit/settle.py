"""Telling lasting differences from changes under way.

Nodes are asked one after another, so a broker that comes or goes meanwhile is seen by some of
them only. What differs is asked for once more after a pause; what still differs then counts.
"""

import asyncio
from dataclasses import dataclass

from routebook.audit.compare import Comparison, compare
from routebook.audit.view import NodeView, Views, take_views
from routebook.client.client import NameServerClient
from routebook.client.errors import NameServerError

SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Settled:
    """The views brought up to date, and what lastingly differs between them."""

    views: Views
    comparison: Comparison


async def settled(client: NameServerClient, views: Views, *, settle_s: float = SETTLE_S) -> Settled:
    """Compare ``views``; with ``settle_s`` above 0 keep only what differs for that long."""
    first = compare(views)
    if settle_s <= 0 or not first.differences:
        return Settled(views, first)
    await asyncio.sleep(settle_s)
    topics = first.topics
    newer = await take_views(client, topics=topics)
    merged = {node: _newest(views[node], newer.get(node), topics) for node in views}
    return Settled(merged, first.confirmed_by(compare(merged)))


def _newest(
    before: NodeView | NameServerError,
    after: NodeView | NameServerError | None,
    topics: frozenset[str],
) -> NodeView | NameServerError:
    if isinstance(before, NodeView) and isinstance(after, NodeView):
        return before.updated(after, topics)
    # A node that fails once is one that could not be asked, whichever time it was.
    return before if after is None or isinstance(before, NameServerError) else after
