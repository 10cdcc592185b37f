"""How everything is, in a sentence."""

import msgspec
from starlette.responses import Response

from routebook.gateway.api import shapes
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.api.told import broker_counts
from routebook.words import exact


async def now(question: Question) -> Response:
    state = question.gateway.state
    sentence, largest = state.sentence, state.largest()
    view = None if largest is None else largest[1]
    ages = [node.view.age_ms for node, _ in state.up() if node.view is not None]
    document = shapes.Now(
        state=sentence.state.value,
        text=sentence.text,
        since=exact(sentence.since_ms),
        reasons=[
            shapes.Reason(reason.severity.value, reason.text, reason.see)
            for reason in sentence.reasons
        ],
        nodes=shapes.NodeCount(up=len(state.up()), known=len(state.nodes)),
        groups=None if view is None else len(view.groups),
        brokers=None if view is None else broker_counts(view),
        topics=None if view is None else view.condition.topics,
        incidents=[msgspec.convert(event, shapes.EventTold) for event in state.incidents],
        age_ms=max(ages, default=None),
    )
    return question.answer(document, age_ms=document.age_ms)


OPERATIONS = (Operation("GET", "/v1/now", now, "How everything is, in a sentence.", shapes.Now),)
