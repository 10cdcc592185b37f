"""Operations: endpoints of the API with their parameters and the shape of their answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from routebook.client.errors import BadAnswer, Refused, answered
from routebook.gateway.access import Access
from routebook.gateway.api.content import content_answer, encode_document
from routebook.gateway.api.failures import Failure
from routebook.gateway.api.parameters import Given, Parameter, read_parameters
from routebook.gateway.api.told import chosen_node
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.nodes import FollowedNode


@dataclass(frozen=True, slots=True)
class Question:
    """One request, with its parameters read."""

    request: Request
    gateway: Gateway
    given: Given

    @property
    def node(self) -> FollowedNode:
        """The one that is asked, by the parameter of that name; raises Failure."""
        return chosen_node(self.gateway.fleet, self.given["node"])

    def answer(self, document: Any, *, age_ms: int | None = None, status: int = 200) -> Response:
        return content_answer(self.request, encode_document(document), age_ms=age_ms, status=status)


@dataclass(frozen=True, slots=True)
class Operation:
    """``shape`` is the type of what a 200 has, or several; None for a stream.

    ``others`` are further statuses with a document, and its type.
    """

    method: str
    path: str
    handler: Callable[[Question], Awaitable[Response]]
    summary: str
    shape: Any
    parameters: tuple[Parameter, ...] = ()
    access: Access = Access.READ
    others: Mapping[int, Any] | None = None

    def endpoint(self) -> Endpoint:
        return Endpoint(self.method, self.path, self.access, self._answer, self.summary)

    async def _answer(self, request: Request, gateway: Gateway) -> Response:
        if request.method == "HEAD" and self.shape is None:
            return Response(media_type="text/event-stream")  # it would take a place of others
        try:
            given = read_parameters(request, self.parameters)
            return await self.handler(Question(request, gateway, given))
        except Failure as failure:
            return failure.answer()
        except BadAnswer as error:
            return Failure(502, "node_failed", str(error)).answer()
        except Refused as error:
            if not answered(error):
                raise  # it is not ready, or goes away
            return Failure(403, "not_allowed", str(error)).answer()
