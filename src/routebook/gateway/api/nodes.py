"""The nodes of a gateway, whether they say the same, and whom their guards hold."""

import asyncio
from time import time_ns
from typing import Any

import msgspec
from starlette.responses import Response

from routebook.audit.health import Guard
from routebook.client.errors import NameServerError, is_foreign
from routebook.documents.guard import why_held
from routebook.gateway.api import shapes
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.pages import page_of
from routebook.gateway.api.parameters import CURSOR, LIMIT, flag
from routebook.gateway.api.told import node_id, node_told
from routebook.gateway.fleet_state import FleetState, Key, agreement
from routebook.gateway.nodes import Aged, FollowedNode
from routebook.words import counted, exact, listed

HEALTH_EVERY_S = 10.0


async def health_of(node: FollowedNode) -> Aged[dict[str, Any]] | None:
    """What it says of itself, at most every ten seconds; None where it does not."""
    try:
        return await node.shared("health for long", node.health, every_s=HEALTH_EVERY_S)
    except NameServerError:
        return None


async def nodes(question: Question) -> Response:
    gateway, given = question.gateway, question.given
    state = gateway.state
    health = await asyncio.gather(*(_health_if_up(node) for node in gateway.fleet.nodes))
    keys = sorted({key for _, view in state.up() for key in view.groups})
    if given["differing"]:
        keys = [key for key in keys if key in state.differing]
    page = page_of(keys, lambda key: key, limit=given["limit"], cursor=given.of("cursor", str))
    ages = [node.view.age_ms for node, _ in state.up() if node.view is not None]
    document = shapes.NodeList(
        agree=None if len(state.up()) < 2 else not state.differing,
        text=nodes_text(state),
        nodes=[
            node_told(node, state, found)
            for node, found in zip(gateway.fleet.nodes, health, strict=True)
        ],
        total=page.total,
        next=page.next,
        groups=[_digests(state, key) for key in page.rows],
        converged=[
            shapes.Converged(
                cluster=passed.key[0],
                broker=passed.key[1],
                from_=exact(passed.from_ms),
                to=exact(passed.to_ms),
                lasted_ms=passed.to_ms - passed.from_ms,
            )
            for passed in state.converged
        ],
        age_ms=max(ages, default=None),
    )
    return question.answer(document, age_ms=document.age_ms)


async def _health_if_up(node: FollowedNode) -> Aged[dict[str, Any]] | None:
    return await health_of(node) if node.answering and node.offers_summary else None


def nodes_text(state: FleetState) -> str:
    up = len(state.up())
    answer = f"{up} of {counted(len(state.nodes), 'node')} {'answers' if up == 1 else 'answer'}."
    if up < 2:
        return answer
    if not state.differing:
        return f"{answer} They say the same."
    names = listed(sorted(broker for _, broker in state.differing))
    return f"{answer} They differ in {names} since {exact(min(state.differing.values()))}."


def _digests(state: FleetState, key: Key) -> shapes.GroupDigests:
    up = state.up()
    groups = {node.name: view.groups.get(key) for node, view in up}
    since_ms = state.differing.get(key)
    return shapes.GroupDigests(
        cluster=key[0],
        broker=key[1],
        agree=agreement(list(groups.values())),
        since=None if since_ms is None else exact(since_ms),
        digests={
            name: None if group is None else group.digest or None for name, group in groups.items()
        },
    )


async def guard(question: Question) -> Response:
    """Only of nodes that hold somebody more is asked than they said."""
    found = await asyncio.gather(*map(_guard_of, question.gateway.fleet.nodes))
    known = [each.holding for each in found if each.holding is not None]
    document = shapes.Guards(holding=any(known) if known else None, nodes=list(found))
    ages = [each.age_ms for each in found if each.age_ms is not None]
    return question.answer(document, age_ms=max(ages, default=None))


async def _guard_of(node: FollowedNode) -> shapes.GuardOfNode:
    try:
        health = await node.health_now()
        held = msgspec.convert(health.value.get("guard") or {}, Guard)
    except NameServerError as error:
        why = "it is not a Routebook node, and has no guard" if is_foreign(error) else str(error)
        return _unguarded(node, why)
    except msgspec.ValidationError as error:
        return _unguarded(node, f"what it says of its guard cannot be read: {error}")
    holding = bool(held.held)
    skew_ms = 0 if node.view is None else node.view.value.skew_ms
    now_ms = time_ns() // 1_000_000 + skew_ms  # by the clock of the node
    return shapes.GuardOfNode(
        node=node_id(node),
        address=node.name,
        age_ms=health.age_ms,
        error=None,
        holding=holding,
        since=exact(held.since_ms) if holding else None,
        until=exact(held.until_ms) if holding else None,
        left_ms=max(0, held.until_ms - now_ms) if holding else None,
        why=why_held(held) if holding else None,
        held_in_all=held.number_held,
        held=[
            shapes.HeldBroker(each.cluster, each.broker, each.broker_id, each.addr, each.silent_ms)
            for each in held.held
        ],
    )


def _unguarded(node: FollowedNode, why: str) -> shapes.GuardOfNode:
    return shapes.GuardOfNode(
        node_id(node), node.name, None, why, None, None, None, None, None, None, []
    )


OPERATIONS = (
    Operation(
        "GET",
        "/v1/nodes",
        nodes,
        "The nodes, and whether they say the same of each group.",
        shapes.NodeList,
        (LIMIT, CURSOR, flag("differing", "Only groups of which nodes say different things.")),
    ),
    Operation(
        "GET",
        "/v1/guard",
        guard,
        "Brokers that nodes believe in although they fell silent.",
        shapes.Guards,
    ),
)
