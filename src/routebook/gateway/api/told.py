"""What nodes told the gateway, in the shapes of the API."""

from collections.abc import Iterable, Mapping
from math import ceil

from routebook.gateway.api import shapes
from routebook.gateway.api.failures import Failure, not_found
from routebook.gateway.fleet_state import FleetState, NodeState
from routebook.gateway.nodes import Aged, Fleet, FollowedNode, NodeView
from routebook.gateway.readiness import readiness
from routebook.wire.answers import MASTER_ID
from routebook.wire.overview import GroupTold, MemberTold, Silence
from routebook.words import exact, listed

SILENT_MS = 40_000  # brokers give a sign of life every 30 s
MOST_SILENT = 100

CONFIRMED, UNCONFIRMED, HELD = "confirmed", "unconfirmed", "held"

SilentFor = Mapping[tuple[str, str, int], int]


def chosen_node(fleet: Fleet, name: str | None) -> FollowedNode:
    """The node of this name, or the first that lives; raises Failure."""
    node = fleet.find(name)
    if node is None:
        names = listed([node.name for node in fleet.nodes], most=10)
        raise not_found("no_node", f"no node is called {name}; there are {names}")
    return node


def view_of(node: FollowedNode) -> Aged[NodeView]:
    """What it last said; raises Failure."""
    if node.view is not None:
        return node.view
    if node.offers_summary is False:
        raise Failure(
            403, "not_allowed", f"{node.name} is not a Routebook node and tells no summary"
        )
    why = "" if node.trouble is None else f": {node.trouble.what}"
    raise Failure(503, "node_away", f"{node.name} has told nothing yet{why}", retry_after_s=1)


def node_id(node: FollowedNode) -> str | None:
    """Its own id, once it has told it."""
    if node.view is not None:
        return node.view.value.node
    return node.following.node_id or None


def excuse(node: FollowedNode) -> str | None:
    """Why what it says cannot be had; None where it can."""
    if node.view is None or not node.answering:
        return "it has not been asked yet" if node.trouble is None else node.trouble.what
    return None


def silent_for(silences: Iterable[Silence] | None) -> SilentFor:
    return {(each.cluster, each.broker, each.id): each.ms for each in silences or ()}


def group_told(group: GroupTold, silent: SilentFor) -> shapes.Group:
    members = [
        shapes.Member(
            id=member.id,
            role="master" if member.id == MASTER_ID else "slave",
            address=member.addr,
            ha_address=member.ha_addr,
            state=member_state(member),
            heard_ms=silent.get((group.cluster, group.broker, member.id)),
            timeout_ms=member.heartbeat_timeout_ms,
            generation=member.generation,
            epoch=member.epoch,
            peer=member.peer,
        )
        for member in group.members
    ]
    states = {member.state for member in members}
    worst = next((state for state in (HELD, UNCONFIRMED) if state in states), CONFIRMED)
    return shapes.Group(
        cluster=group.cluster,
        broker=group.broker,
        zone=group.zone,
        acting_master=group.acting_master,
        topics=group.topics,
        digest=group.digest or None,
        state=worst,
        members=members,
    )


def member_state(member: MemberTold) -> str:
    if member.held:
        return HELD
    return CONFIRMED if member.confirmed else UNCONFIRMED


def broker_counts(view: NodeView) -> shapes.BrokerCounts:
    condition = view.condition
    return shapes.BrokerCounts(
        confirmed=condition.brokers - condition.unconfirmed - condition.held,
        unconfirmed=condition.unconfirmed,
        held=condition.held,
    )


def node_told(
    node: FollowedNode, state: FleetState, health: Aged[dict[str, object]] | None = None
) -> shapes.Node:
    standing, since_ms = state.nodes[node.name]
    view = None if node.view is None else node.view.value
    version = None if health is None else health.value.get("version")
    uptime_ms = None if health is None else health.value.get("uptime_ms")
    ping_ms = None if node.ping_s is None else round(node.ping_s * 1000, 2)
    down = standing in (NodeState.DOWN, NodeState.UNKNOWN)
    return shapes.Node(
        node=node_id(node),
        address=node.name,
        own=node.own,
        state=standing.value,
        since=exact(since_ms),
        error=excuse(node) if down else None,
        age_ms=None if node.view is None else node.view.age_ms,
        ping_ms=ping_ms,
        version=version if isinstance(version, str) else None,
        boot=None if view is None else view.boot,
        revision=None if view is None else view.rev,
        uptime_ms=uptime_ms if isinstance(uptime_ms, int) else None,
        clock_ahead_ms=None if view is None else view.skew_ms,
        clock_uncertainty_ms=None if view is None or ping_ms is None else ceil(ping_ms) + 1,
        ready=not readiness(node).reasons,
        groups=None if view is None else len(view.groups),
        brokers=None if view is None else broker_counts(view),
        topics=None if view is None else view.condition.topics,
        silent=_silent(view),
    )


def _silent(view: NodeView | None) -> list[tuple[str, str, int, int]]:
    """Members that were not heard of for long, the longest first."""
    if view is None or view.silences is None:
        return []
    long = [each for each in view.silences if each.ms >= SILENT_MS]
    long.sort(key=lambda each: -each.ms)
    return [(each.cluster, each.broker, each.id, each.ms) for each in long[:MOST_SILENT]]
