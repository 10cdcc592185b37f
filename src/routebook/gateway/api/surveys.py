"""Where nodes differ, and what is wrong: looks that take their time, shared by all who want one."""

from time import time_ns
from typing import Any

import msgspec
from starlette.responses import Response

from routebook.gateway.api import shapes
from routebook.gateway.api.content import content_answer
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.surveys import Looking, Seen
from routebook.words import exact

RETRY_AFTER_S = 2


async def differences(question: Question) -> Response:
    """While all digests are the same nobody has to be asked."""
    state = question.gateway.state
    up = state.up()
    digests = [group.digest for _, view in up for group in view.groups.values()]
    if len(up) == len(state.nodes) and not state.differing and "" not in digests:
        ages = [node.view.age_ms for node, _ in up if node.view is not None]
        age_ms = max(ages, default=0)
        document = shapes.Differences(
            state="done",
            age_ms=age_ms,
            at=exact(time_ns() // 1_000_000 - age_ms),
            nodes=[node.name for node, _ in up],
            topics=max((view.condition.topics for _, view in up), default=None),
            complete=True,
            differences=[],
            failures={},
            unanswered={},
        )
        return question.answer(document, age_ms=age_ms)
    return _shown(question, await question.gateway.surveys.see("differences"))


async def doctor(question: Question) -> Response:
    return _shown(question, await question.gateway.surveys.see("doctor"))


def _shown(question: Question, seen: Seen | Looking) -> Response:
    if isinstance(seen, Seen):
        document: dict[str, Any] = msgspec.json.decode(seen.answered.body)
        return question.answer(
            {"state": "done", "age_ms": seen.age_ms, **document}, age_ms=seen.age_ms
        )
    progress = seen.progress
    body = msgspec.json.encode(
        shapes.Looking(
            state="looking",
            since=exact(seen.since_ms),
            stage=None if progress is None else progress.stage,
            done=0 if progress is None else progress.done,
            total=0 if progress is None else progress.total,
        )
    )
    answer = content_answer(question.request, body, status=202)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


OPERATIONS = (
    Operation(
        "GET",
        "/v1/differences",
        differences,
        "Where nodes differ, topic by topic.",
        shapes.Differences,
        others={202: shapes.Looking},
    ),
    Operation(
        "GET",
        "/v1/doctor",
        doctor,
        "What is wrong, with evidence and remedy.",
        shapes.Diagnosis,
        others={202: shapes.Looking},
    ),
)
