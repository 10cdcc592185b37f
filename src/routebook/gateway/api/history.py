"""Questions about the past, put to the worker that reads journals."""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any

from starlette.responses import Response

from routebook.gateway.api import history_shapes as shapes
from routebook.gateway.api.content import content_answer, takes_gzip
from routebook.gateway.api.failures import Failure, bad_parameter, not_found
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.parameters import (
    CONTAINS,
    CURSOR,
    LIMIT,
    NODE,
    Parameter,
    flag,
    moment,
    moment_text,
    name_parameter,
    number,
)
from routebook.gateway.nodes import FollowedNode
from routebook.gateway.worker.frames import Job
from routebook.history.times import AtSeq, AtTime
from routebook.journal.locate import USUAL
from routebook.words import listed

MOST_NODES = 10
LINES = 50

NODES = name_parameter(
    "node",
    "Whose history, by id or address; without it of those whose journal is here, or of all.",
    most=MOST_NODES,
)
FROM = moment("from", "From this moment; default the beginning.")
TO = moment("to", "Up to this moment; default the end.")
TOPIC = name_parameter("topic", "The name of a topic.", required=True)
BROKER = name_parameter("broker", "The name of a broker group.", required=True)


class Whose(Enum):
    """Whose history is asked for where nobody is named."""

    ONE = auto()
    OWN = auto()
    ALL = auto()


async def answered(
    question: Question, name: str, parameters: dict[str, Any], whose: Whose = Whose.OWN
) -> Response:
    """What the worker says to the question called ``name``; raises Failure."""
    gateway = question.gateway
    nodes = _nodes(question, whose)
    own = next((node for node in nodes if node.own and gateway.options.data_dir), None)
    job = Job(
        question=name,
        parameters=parameters,
        journal="" if own is None else str(Path(gateway.options.data_dir) / USUAL),
        own="" if own is None else own.name,
        nodes=tuple(node.name for node in nodes if node is not own),
        dialing=gateway.fleet.dialing,
        gzip=takes_gzip(question.request),
    )
    answer = await gateway.history.do(job)
    outcome = answer.outcome
    if outcome.failed:
        raise Failure(outcome.status, outcome.failed, outcome.text)
    return content_answer(question.request, answer.body, etag=outcome.etag, packed=outcome.packed)


def _nodes(question: Question, whose: Whose) -> list[FollowedNode]:
    fleet, named = question.gateway.fleet, question.given["node"]
    named = (named,) if isinstance(named, str) else named or ()
    if not named:
        own = [node for node in fleet.nodes if node.own]
        if whose is Whose.ONE:
            return own[:1] or [node for node in [fleet.find(None)] if node is not None]
        return list(fleet.nodes) if whose is Whose.ALL or not own else own
    found = {name: fleet.find(name) for name in named}
    unknown = [name for name, node in found.items() if node is None]
    if unknown:
        names = listed([node.name for node in fleet.nodes], most=10)
        raise not_found("no_node", f"no node is called {unknown[0]}; there are {names}")
    return [node for node in found.values() if node is not None]


def _told(question: Question, *names: str) -> dict[str, Any]:
    """Parameters as the worker reads them."""
    values = {name: question.given[name] for name in names}
    return {
        name: moment_text(value) if isinstance(value, AtTime | AtSeq) else value
        for name, value in values.items()
    }


def _asking(
    name: str, *parameters: str, whose: Whose = Whose.OWN
) -> Callable[[Question], Awaitable[Response]]:
    async def ask(question: Question) -> Response:
        return await answered(question, name, _told(question, *parameters), whose)

    return ask


async def route_at(question: Question) -> Response:
    """For a question that has the topic in its path."""
    return await answered(question, "route", _told(question, "topic", "at"))


async def compare(question: Question) -> Response:
    if any(isinstance(question.given[name], AtSeq) for name in ("from", "to")):
        raise bad_parameter("nodes have sequence numbers of their own: give times")
    return await answered(question, "compare", _told(question, "from", "to", "topic"), Whose.ALL)


def _operation(
    path: str,
    handler: Callable[[Question], Awaitable[Response]],
    summary: str,
    shape: Any,
    *parameters: Parameter,
    node: Parameter = NODES,
) -> Operation:
    return Operation("GET", f"/v1/history{path}", handler, summary, shape, (*parameters, node))


OPERATIONS = (
    _operation("", _asking("span"), "From when to when there is history.", shapes.HistorySpan),
    _operation(
        "/route",
        _asking("route", "topic", "at"),
        "The route of a topic as clients were told it at a moment.",
        shapes.RouteHistory,
        TOPIC,
        moment("at", "The moment.", default="now"),
    ),
    _operation(
        "/diff",
        _asking("diff", "from", "to", "topic", "broker"),
        "What was different at a later moment.",
        shapes.Diff,
        moment("from", "The first moment.", required=True),
        moment("to", "The second one.", default="now"),
        name_parameter("topic", "Only what concerns this topic."),
        name_parameter("broker", "Only what concerns brokers of this name."),
    ),
    _operation(
        "/topic",
        _asking("topic", "topic", "from", "to"),
        "All versions of the route of a topic.",
        shapes.TopicHistory,
        TOPIC,
        FROM,
        TO,
    ),
    _operation(
        "/demand",
        _asking("demand", "topic", "from", "to"),
        "How often clients asked for a topic.",
        shapes.Demand,
        TOPIC,
        FROM,
        TO,
    ),
    _operation(
        "/broker",
        _asking("broker", "broker", "from", "to"),
        "The sessions of brokers, conflicts and refused requests.",
        shapes.BrokerHistory,
        BROKER,
        FROM,
        TO,
    ),
    _operation(
        "/heartbeats",
        _asking("heartbeats", "broker", "from", "to"),
        "Times between signs of life of brokers.",
        shapes.HeartbeatHistory,
        BROKER,
        FROM,
        TO,
    ),
    _operation(
        "/explain",
        _asking("explain", "name", "from", "to", "limit", "only_topic"),
        "What happened to a topic or broker, in sentences.",
        shapes.Explanation,
        name_parameter("name", "The name of a topic or broker.", required=True),
        FROM,
        TO,
        number("limit", "The last lines only.", least=1, most=1000, default=LINES),
        flag("only_topic", "A topic, though a broker is called so."),
    ),
    _operation(
        "/compare",
        compare,
        "When nodes told clients different things.",
        shapes.Comparison,
        FROM,
        TO,
        name_parameter("topic", "Only this topic."),
    ),
    _operation(
        "/topics",
        _asking("topics", "broker", "at", "cluster", "q", "limit", "cursor", whose=Whose.ONE),
        "The topics of a broker group at a moment.",
        shapes.TopicsHeld,
        BROKER,
        moment("at", "The moment.", default="now"),
        name_parameter("cluster", "Only of this cluster."),
        CONTAINS,
        LIMIT,
        CURSOR,
        node=NODE,
    ),
    _operation(
        "/window",
        _asking("window", "from", "to", "topology", whose=Whose.ONE),
        "All groups of a node at a moment, and what became of them.",
        shapes.Window,
        moment("from", "The beginning.", required=True),
        moment("to", "The end.", default="now"),
        flag("topology", "With the groups at the beginning.", default=True),
        node=NODE,
    ),
)
