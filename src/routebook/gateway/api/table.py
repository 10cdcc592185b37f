"""All operations of the API."""

from functools import cache
from typing import Any

from starlette.responses import Response

from routebook.gateway.api import (
    admin,
    brokers,
    events,
    history,
    nodes,
    now,
    routes,
    surveys,
    watch,
)
from routebook.gateway.api.openapi import openapi_document
from routebook.gateway.api.operations import Operation, Question
from routebook.gateway.endpoints import Endpoint


@cache
def _document() -> dict[str, Any]:
    return openapi_document(OPERATIONS)


async def openapi(question: Question) -> Response:
    return question.answer(_document())


OPERATIONS: tuple[Operation, ...] = (
    *now.OPERATIONS,
    *routes.OPERATIONS,
    *watch.OPERATIONS,
    *brokers.OPERATIONS,
    *nodes.OPERATIONS,
    *surveys.OPERATIONS,
    *events.OPERATIONS,
    *history.OPERATIONS,
    *admin.OPERATIONS,
    Operation("GET", "/v1/openapi.json", openapi, "This document.", dict[str, Any]),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(operation.endpoint() for operation in OPERATIONS)
