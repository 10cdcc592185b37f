"""Changes: write permission of a broker taken and given back, held brokers let go.

Nodes write down who asked: the name of the token, and where it came from.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.responses import Response

from routebook.audit.write_permission import change_permission
from routebook.client.errors import NameServerError, what
from routebook.client.node import Answer
from routebook.client.requests import Requests
from routebook.documents.suggestions import close_names
from routebook.gateway.access import ADMIN_NAME, Access
from routebook.gateway.api import shapes
from routebook.gateway.api.failures import bad_parameter, not_found
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.parameters import name_parameter
from routebook.gateway.api.told import node_id
from routebook.gateway.nodes import FollowedNode
from routebook.wire.command import Command
from routebook.wire.overview import ON_BEHALF_OF
from routebook.words import counted

logger = logging.getLogger(__name__)


class OnBehalf(Requests):
    """The calls for a node, made for somebody else. Only its own gateway is believed that."""

    def __init__(self, node: FollowedNode, peer: str) -> None:
        self._node = node
        self._peer = peer

    async def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        if self._node.own:
            fields = {**request.ext_fields, ON_BEHALF_OF: self._peer}
            request = msgspec.structs.replace(request, ext_fields=fields)
        return await self._node.ask(request, timeout_s=timeout_s)


async def _on_every_node(
    question: Question, change: Callable[[FollowedNode, Requests], Awaitable[object]]
) -> None:
    """``change`` made on every node at the same time, for whoever asks."""
    await _check_body(question)
    client = question.request.client
    peer = f"{ADMIN_NAME}@{client.host}:{client.port}" if client else ADMIN_NAME
    logger.warning("%s asks for %s", peer, question.request.scope["path"])
    await asyncio.gather(
        *(change(node, OnBehalf(node, peer)) for node in question.gateway.fleet.nodes)
    )


async def _check_body(question: Question) -> None:
    if (await question.request.body()).strip() not in (b"", b"{}"):
        raise bad_parameter("the body is empty, or {}")


async def drain(question: Question) -> Response:
    return await _permission(question, wanted=False)


async def undrain(question: Question) -> Response:
    return await _permission(question, wanted=True)


async def _permission(question: Question, *, wanted: bool) -> Response:
    broker = question.given.name("broker")
    fleet = question.gateway.fleet
    known = {g.broker for node in fleet.nodes if node.view for g in node.view.value.groups.values()}
    if broker not in known:
        close = close_names(broker, known) or "GET /v1/brokers lists those there are"
        raise not_found("no_broker", f"no node knows a broker named {broker}; {close}")
    found: dict[str, shapes.DrainedNode] = {}

    async def change(node: FollowedNode, calls: Requests) -> None:
        try:
            done = await change_permission(calls, broker, wanted=wanted)
        except NameServerError as error:
            why = what(error)
            found[node.name] = shapes.DrainedNode(
                node_id(node), node.name, None, None, [], why, why
            )
            return
        told = "given back to" if wanted else "taken from"
        of = "" if done.changed == done.topics else f"{done.changed} of "
        text = f"write permission {told} {of}{counted(done.topics, 'topic')}"
        found[node.name] = shapes.DrainedNode(
            node_id(node), node.name, done.topics, done.changed, list(done.kept), None, text
        )

    await _on_every_node(question, change)
    nodes = [found[node.name] for node in fleet.nodes]
    done = all(node.error is None for node in nodes)
    document = shapes.Drained(broker, "writable" if wanted else "drained", done, nodes)
    return question.answer(document, status=200 if done else 502)


async def release(question: Question) -> Response:
    found: dict[str, shapes.ReleasedNode] = {}

    async def change(node: FollowedNode, calls: Requests) -> None:
        try:
            dropped = await calls.release_guard()
        except NameServerError as error:
            why = what(error)
            found[node.name] = shapes.ReleasedNode(node_id(node), node.name, None, why, why)
            return
        text = f"let go {counted(dropped, 'broker')}" if dropped else "held nobody"
        found[node.name] = shapes.ReleasedNode(node_id(node), node.name, dropped, None, text)

    await _on_every_node(question, change)
    nodes = [found[node.name] for node in question.gateway.fleet.nodes]
    done = all(node.error is None for node in nodes)
    return question.answer(shapes.Released(done, nodes), status=200 if done else 502)


_BROKER = name_parameter("broker", "The name of a broker group.", in_path=True)

OPERATIONS = (
    Operation(
        "POST",
        "/v1/drain/{broker}",
        drain,
        "Take write permission from all topics of a broker, on every node.",
        shapes.Drained,
        (_BROKER,),
        Access.ADMIN,
        {502: shapes.Drained},
    ),
    Operation(
        "POST",
        "/v1/undrain/{broker}",
        undrain,
        "Give write permission back to the topics of a broker it was taken from, on every node.",
        shapes.Drained,
        (_BROKER,),
        Access.ADMIN,
        {502: shapes.Drained},
    ),
    Operation(
        "POST",
        "/v1/guard/release",
        release,
        "Let held brokers go, on every node.",
        shapes.Released,
        (),
        Access.ADMIN,
        {502: shapes.Released},
    ),
)
